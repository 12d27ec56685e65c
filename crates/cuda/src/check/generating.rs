//! Generation benchmark: prompts of 256 random tokens, 128 new ones, compared with the memory bandwidth limit.

use std::time::Instant;

use half::bf16;
use serde_json::{Value, json};

use crate::error::Result;
use crate::generate::{Generator, Request, Room, Settings};
use crate::gpu::Gpu;
use crate::model::{Batch, Model};
use crate::random::Random;
use crate::shape::Shape;

/// Memory bandwidth of an H200 from its data sheet, in GB/s.
const BANDWIDTH: f64 = 4800.0;
const PROMPT: usize = 256;
const NEW: usize = 128;

pub(super) fn small(gpu: &Gpu) -> Result<Value> {
    run(gpu, Shape::qwen3_06b(), &[1, 64, 256])
}

pub(super) fn large(gpu: &Gpu) -> Result<Value> {
    run(gpu, Shape::qwen3_4b(), &[1, 64])
}

fn run(gpu: &Gpu, shape: Shape, batches: &[usize]) -> Result<Value> {
    let model = Model::random(gpu, shape, PROMPT + NEW, 1)?;
    let mut all = serde_json::Map::new();
    for &rows in batches {
        all.insert(format!("batch {rows}"), batch(gpu, &model, rows)?);
    }
    Ok(Value::Object(all))
}

fn batch(gpu: &Gpu, model: &Model<bf16>, rows: usize) -> Result<Value> {
    let shape = *model.shape();
    let length = PROMPT + NEW;
    let pages = rows * length.div_ceil(crate::decode::PAGE);
    let mut generator = Generator::new(gpu, &shape, Room { rows, length, new_tokens: NEW, pages })?;
    let mut random = Random(3);
    let requests: Vec<Request> = (0..rows)
        .map(|i| Request {
            prompt: (0..PROMPT).map(|_| random.below(shape.vocab) as u32).collect(),
            settings: Settings { seed: i as u64, new_tokens: NEW, ..Settings::default() },
        })
        .collect();
    let mut sampled = generator.generate(model, &requests)?;
    let (mut whole, mut prefill) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        gpu.wait()?;
        let clock = Instant::now();
        let steps = generator.prefill(model, &requests)?;
        gpu.wait()?;
        prefill.push(clock.elapsed().as_secs_f64());
        generator.decode(model, rows, steps)?;
        sampled = generator.read(rows)?;
        whole.push(clock.elapsed().as_secs_f64());
    }
    let median = |mut x: Vec<f64>| {
        x.sort_by(f64::total_cmp);
        x[x.len() / 2]
    };
    let (whole, prefill) = (median(whole), median(prefill));
    let step = (whole - prefill) / (NEW - 1) as f64;
    // Every weight once (the embedding as the head), and keys and values of the mean length.
    let cached = rows * (PROMPT + NEW / 2) * shape.layers * 4 * shape.heads.kv * shape.heads.dim;
    let limit = (2 * model.layout().len + cached) as f64 / BANDWIDTH / 1e9;
    let profile = gpu.profile(|| generator.step(model, rows))?;
    let profile: Vec<Value> = profile.iter().map(|t| json!([t.kernel, t.launches, t.ms])).collect();
    Ok(json!({
        "tokens_per_s": (rows * NEW) as f64 / whole,
        "ms": whole * 1e3,
        "prefill_ms": prefill * 1e3,
        "step_ms": step * 1e3,
        "decode_tokens_per_s": rows as f64 / step,
        "limit_step_ms": limit * 1e3,
        "share_of_bandwidth_limit": limit / step,
        "sampler and learner": difference(gpu, model, &requests, &sampled)?,
        "kernels of one step (name, launches, ms)": profile,
    }))
}

/// Difference between log-probabilities of the sampler and of the training path: mean and maximum magnitude.
fn difference(
    gpu: &Gpu,
    model: &Model<bf16>,
    requests: &[Request],
    sampled: &[crate::generate::Sampled],
) -> Result<Value> {
    let count = requests.len().min(32);
    let whole: Vec<Vec<u32>> =
        requests[..count].iter().zip(sampled).map(|(r, s)| [&r.prompt[..], &s.tokens].concat()).collect();
    let scores = model.score(&Batch::packed(gpu, &whole, model.shape().vocab)?)?.logprob.read()?;
    let (mut sum, mut largest, mut tokens) = (0f64, 0f64, 0usize);
    for (row, s) in sampled[..count].iter().enumerate() {
        let from = row * (PROMPT + NEW) + PROMPT - 1;
        for (mine, theirs) in s.logprobs.iter().zip(&scores[from..]) {
            let off = f64::from((mine - theirs).abs());
            (sum, largest, tokens) = (sum + off, largest.max(off), tokens + 1);
        }
    }
    Ok(json!({"tokens": tokens, "mean_difference": sum / tokens as f64, "largest_difference": largest}))
}
