//! Benchmark of whole training steps on random tokens: forward, head, backward, clipping, AdamW.

use std::time::Instant;

use half::bf16;
use serde_json::{Value, json};

use crate::adamw::AdamW;
use crate::buffer::Buffer;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::random::Random;
use crate::step::{Batch, Keep, Shape, Trainer};

/// Number of timed steps, after two of warm-up.
const TIMED: usize = 6;
/// Dense bf16 rate of an H100 or H200 from its data sheet, in TFLOP/s: the reference for MFU.
const PEAK: f64 = 989.0;

struct Case {
    label: &'static str,
    shape: Shape,
    sequences: usize,
    length: usize,
    /// Number of tokens whose logits exist at a time.
    chunk: usize,
    keep: Keep,
    /// 8-bit moments.
    packed: bool,
}

fn small_case() -> Case {
    let label = "Qwen3-0.6B, 8 x 2048 tokens";
    let keep = Keep { rotated: true, ..Keep::default() };
    Case { label, shape: Shape::qwen3_06b(), sequences: 8, length: 2048, chunk: 2048, keep, packed: false }
}

pub(super) fn small(gpu: &Gpu) -> Result<Value> {
    run(gpu, &small_case())
}

/// The small step with other choices of kept activations and logit chunks: rate and memory only.
pub(super) fn variants(gpu: &Gpu) -> Result<Value> {
    let mut all = serde_json::Map::new();
    for (rotated, normed, chunk) in
        [(false, false, 2048), (true, false, 2048), (true, true, 2048), (true, false, 1024), (true, true, 4096)]
    {
        let keep = Keep { rotated, normed, ..Keep::default() };
        let result = run(gpu, &Case { chunk, keep, ..small_case() })?;
        let name = format!("rotated {rotated}, normed {normed}, chunk {chunk}");
        all.insert(name, json!({"ms": result["all_ms"], "peak_gb": result["peak_gb"]}));
    }
    Ok(Value::Object(all))
}

pub(super) fn large(gpu: &Gpu) -> Result<Value> {
    let (label, shape) = ("Qwen3-4B, 4 x 2048 tokens", Shape::qwen3_4b());
    // The gates and ups of 28 of the 36 layers are kept, which fits 60 GB.
    let keep = Keep { gate_up: 28, ..Keep::default() };
    run(gpu, &Case { label, shape, sequences: 4, length: 2048, chunk: 1024, keep, packed: true })
}

/// Times and results of the steps of one case.
#[derive(Default)]
struct Log {
    seconds: Vec<f64>,
    forward_backward_ms: Vec<f32>,
    update_ms: Vec<f32>,
    losses: Vec<f64>,
    norms: Vec<f32>,
    first: Option<f64>,
}

fn settings(step: i32) -> AdamW {
    AdamW { lr: 3e-4, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.0, step }
}

fn run(gpu: &Gpu, case: &Case) -> Result<Value> {
    let start = Instant::now();
    let make = if case.packed { Trainer::<bf16>::random_packed } else { Trainer::<bf16>::random };
    let mut trainer = make(gpu, case.shape, case.length, 1)?;
    trainer.model_mut().chunk = case.chunk;
    trainer.keep = case.keep;
    let mut random = Random(1);
    let mut sequence = || (0..case.length).map(|_| random.below(case.shape.vocab) as u32).collect::<Vec<u32>>();
    let sequences: Vec<Vec<u32>> = (0..case.sequences).map(|_| sequence()).collect();
    let batch = Batch::packed(gpu, &sequences, case.shape.vocab)?;
    let tokens = batch.tokens();
    let slopes = Buffer::from_slice(gpu, &vec![-1.0 / tokens as f32; tokens])?;
    gpu.reset_peak()?;
    let mut log = Log::default();
    for number in 1..=TIMED as i32 + 2 {
        one(gpu, &mut trainer, &batch, &slopes, number, &mut log)?;
        log.first.get_or_insert_with(|| start.elapsed().as_secs_f64());
    }
    let peak = gpu.peak()?;
    let profile = gpu.profile(|| {
        trainer.zero_grad()?;
        trainer.forward_backward(&batch, slopes.view()).map(drop)?;
        trainer.update(AdamW { lr: 0.0, ..settings(TIMED as i32 + 3) }, Some(1.0)).map(drop)
    })?;
    let profile: Vec<Value> = profile.iter().map(|t| json!([t.kernel, t.launches, t.ms])).collect();

    let mut sorted = log.seconds[2..].to_vec();
    sorted.sort_by(f64::total_cmp);
    let seconds = sorted[sorted.len() / 2];
    let state = if case.packed { "8-bit moments" } else { "f32 master weights and moments" };
    let flops = flops(case, trainer.model().layout().len as f64);
    Ok(json!({
        "what": format!("{}, bf16, AdamW with {}, head in chunks of {}, kept {:?}", case.label, state, case.chunk, case.keep),
        "tokens_per_s": tokens as f64 / seconds,
        "ms": seconds * 1e3,
        "all_ms": log.seconds.iter().map(|t| t * 1e3).collect::<Vec<_>>(),
        "forward_backward_ms": log.forward_backward_ms,
        "update_ms": log.update_ms,
        "tflop_per_s": flops / seconds / 1e12,
        "mfu": flops / seconds / 1e12 / PEAK,
        "peak_gb": peak as f64 / 1e9,
        "first_step_s": log.first,
        "losses": log.losses,
        "gradient_norms": log.norms,
        "kernels (name, launches, ms)": profile,
    }))
}

fn one(
    gpu: &Gpu,
    trainer: &mut Trainer<bf16>,
    batch: &Batch,
    slopes: &Buffer<f32>,
    step: i32,
    log: &mut Log,
) -> Result<()> {
    gpu.wait()?;
    let clock = Instant::now();
    let from = gpu.mark()?;
    trainer.zero_grad()?;
    let scores = trainer.forward_backward(batch, slopes.view())?;
    let middle = gpu.mark()?;
    let norm = trainer.update(settings(step), Some(1.0))?;
    let to = gpu.mark()?;
    gpu.wait()?;
    log.seconds.push(clock.elapsed().as_secs_f64());
    log.forward_backward_ms.push(Gpu::milliseconds(&from, &middle)?);
    log.update_ms.push(Gpu::milliseconds(&middle, &to)?);
    let total: f64 = scores.logprob.read()?.iter().map(|&x| f64::from(x)).sum();
    log.losses.push(-total / batch.tokens() as f64);
    log.norms.push(norm.read()?);
    Ok(())
}

/// Operations a step must do: 6 per parameter and token, and attention over visible pairs (2 products forward, 5 back).
fn flops(case: &Case, parameters: f64) -> f64 {
    let (count, length) = (case.sequences as f64, case.length as f64);
    let pairs = count * length * (length + 1.0) / 2.0;
    let Shape { heads, layers, .. } = case.shape;
    6.0 * parameters * count * length + 14.0 * pairs * (heads.q * heads.dim * layers) as f64
}
