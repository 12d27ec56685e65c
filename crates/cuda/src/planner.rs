//! Memory planner: which parts of a training step fit a GPU, and how. Pure arithmetic, checked against measured peaks.

use crate::decode::PAGE;
use crate::error::{CudaError, Result};
use crate::model::Keep;
use crate::shape::{Layout, Shape};

/// Bytes beside the buffers that are counted: context, kernels, cuBLASLt's workspace, fragmentation.
const RESERVE: u64 = 1 << 30;

/// The training job to plan for, and its device.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub shape: Shape,
    /// Longest sequence.
    pub context: usize,
    /// Sequences of one optimizer step.
    pub batch: usize,
    /// Concurrently sampled sequences; their KV cache coexists with the training state.
    pub rollouts: usize,
    /// Bytes of the GPU.
    pub memory: u64,
}

/// Breakdown of memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    pub weights: u64,
    pub gradient: u64,
    pub optimizer: u64,
    pub activations: u64,
    /// Logits of one chunk, or a layer's backward: whichever is larger; they do not exist at one time.
    pub working: u64,
    pub cache: u64,
}

impl Bytes {
    pub fn total(&self) -> u64 {
        self.weights + self.gradient + self.optimizer + self.activations + self.working + self.cache
    }
}

/// A way to run the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Sequences that go through the model together.
    pub micro_batch: usize,
    /// Pages of the KV cache, for all rollouts at full length.
    pub pages: usize,
    pub keep: Keep,
    /// 8-bit moments instead of f32 state.
    pub compact: bool,
    /// Tokens whose logits exist at one time.
    pub chunk: usize,
    pub bytes: Bytes,
}

/// Bytes of one choice.
pub fn bytes(task: &Task, micro_batch: usize, keep: Keep, compact: bool, chunk: usize) -> Bytes {
    let Shape { layers, dim, heads, ffn, vocab, .. } = task.shape;
    let parameters = Layout::new(&task.shape).len as u64;
    let tokens = (micro_batch * task.context) as u64;
    let wide = |elements: usize| 2 * elements as u64;
    let always = wide(2 * dim + heads.qkv() + heads.q * heads.dim) + 4 * (heads.q + 2) as u64;
    let rotated = if keep.rotated { wide((heads.q + heads.kv) * heads.dim) } else { 0 };
    let normed = if keep.normed { wide(2 * dim) } else { 0 };
    let gate_up = wide(2 * ffn) * keep.gate_up.min(layers) as u64;
    let logits = chunk.min(tokens as usize) as u64 * vocab.next_multiple_of(8) as u64 * 6 + tokens * wide(3 * dim);
    // Gates and ups and their gradient, the activation and its gradient, and four rows of the residual.
    let backward = tokens * wide(6 * ffn + 4 * dim);
    Bytes {
        weights: 2 * parameters,
        gradient: 4 * parameters,
        optimizer: if compact { 4 * parameters + parameters / 32 } else { 12 * parameters },
        activations: tokens * ((always + rotated + normed) * layers as u64 + gate_up),
        working: logits.max(backward),
        cache: page_bytes(&task.shape) * pages(task) as u64,
    }
}

/// Bytes of one page of keys and values over all layers.
pub fn page_bytes(shape: &Shape) -> u64 {
    (shape.layers * 2 * PAGE * shape.heads.kv * shape.heads.dim * 2) as u64
}

fn pages(task: &Task) -> usize {
    task.rollouts * task.context.div_ceil(PAGE)
}

/// Choices for one micro-batch size, fastest first: recomputation costs time, 8-bit moments cost precision.
fn choices(layers: usize) -> Vec<(Keep, bool, usize)> {
    let keeps = [(true, true, layers), (true, false, layers), (false, false, layers)];
    let fewer = (0..4).map(|quarter| (false, false, layers * quarter / 4)).rev();
    let keeps: Vec<Keep> =
        keeps.into_iter().chain(fewer).map(|(rotated, normed, gate_up)| Keep { rotated, normed, gate_up }).collect();
    let with = |compact: bool, chunk: usize| keeps.iter().map(move |&keep| (keep, compact, chunk)).collect::<Vec<_>>();
    [with(false, 2048), with(false, 512), with(true, 2048), with(true, 512)].concat()
}

/// The fastest way that fits: the largest micro-batch for which something fits, then the first choice that does.
pub fn plan(task: &Task) -> Result<Plan> {
    let room = task.memory.saturating_sub(RESERVE);
    let mut sizes: Vec<usize> = (0..usize::BITS).map(|i| task.batch >> i).take_while(|&b| b > 0).collect();
    sizes.dedup();
    for &micro_batch in &sizes {
        for (keep, compact, chunk) in choices(task.shape.layers) {
            let bytes = bytes(task, micro_batch, keep, compact, chunk);
            // A smaller micro-batch costs less than 8-bit moments' precision, unless the model itself needs them.
            if bytes.total() <= room && (!compact || micro_batch == sizes[sizes.len() - 1] || !fits_full(task, room)) {
                return Ok(Plan { micro_batch, pages: pages(task), keep, compact, chunk, bytes });
            }
        }
    }
    Err(refusal(task, room))
}

/// f32 state fits with a micro-batch of one and everything computed again.
fn fits_full(task: &Task, room: u64) -> bool {
    let keep = Keep { rotated: false, normed: false, gate_up: 0 };
    bytes(task, 1, keep, false, 512).total() <= room
}

/// Error with the smallest change that fits.
fn refusal(task: &Task, room: u64) -> CudaError {
    let least = |task: &Task| bytes(task, 1, Keep { rotated: false, normed: false, gate_up: 0 }, true, 512);
    let need = least(task);
    let fits = |task: &Task| least(task).total() <= room;
    let gb = |b: u64| format!("{:.1} GB", b as f64 / 1e9);
    let rollouts = (0..task.rollouts).rev().find(|&rollouts| fits(&Task { rollouts, ..*task }));
    let context = (1..task.context / 256).rev().map(|k| k * 256).find(|&context| fits(&Task { context, ..*task }));
    let fix = match (rollouts, context) {
        (Some(n), Some(c)) if n > 0 => format!("{n} concurrent rollouts, or a context of {c}"),
        (_, Some(c)) => format!("a context of {c}"),
        (Some(n), None) => format!("{n} concurrent rollouts"),
        (None, None) => "a smaller model, LoRA, or a larger GPU".into(),
    };
    let parts = format!(
        "weights {}, gradient {}, optimizer {}, activations {}, working {}, KV cache {}",
        gb(need.weights),
        gb(need.gradient),
        gb(need.optimizer),
        gb(need.activations),
        gb(need.working),
        gb(need.cache)
    );
    CudaError::NoPlan { need: gb(need.total()), room: gb(room), parts, fix }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(shape: Shape, context: usize, batch: usize, rollouts: usize, gb: u64) -> Task {
        Task { shape, context, batch, rollouts, memory: gb * 1_000_000_000 }
    }

    #[test]
    fn estimates_are_within_a_percent_of_measured_peaks() {
        let full = Keep::default();
        for (shape, batch, measured) in [(Shape::qwen3_06b(), 8, 25.918), (Shape::qwen3_4b(), 4, 95.008)] {
            let total = bytes(&task(shape, 2048, batch, 0, 0), batch, full, false, 2048).total() as f64 / 1e9;
            assert!((total / measured - 1.0).abs() < 0.01, "{total} estimated, {measured} measured");
        }
    }

    #[test]
    fn plans_fit_and_a_larger_gpu_never_does_worse() {
        for shape in [Shape::qwen3_06b(), Shape::qwen3_4b()] {
            let mut before: Option<Plan> = None;
            for gb in (16..=200).step_by(4) {
                let task = task(shape, 2048, 8, 16, gb);
                let Ok(plan) = plan(&task) else {
                    assert!(before.is_none(), "{gb} GB does not do what less did");
                    continue;
                };
                assert!(plan.bytes.total() + RESERVE <= task.memory);
                if let Some(b) = before.filter(|b| b.compact == plan.compact) {
                    assert!(plan.micro_batch >= b.micro_batch, "{gb} GB: {plan:?} after {b:?}");
                }
                assert!(
                    before.is_none_or(|b| b.compact || !plan.compact),
                    "{gb} GB takes 8-bit moments after f32 ones"
                );
                before = Some(plan);
            }
            assert!(before.is_some_and(|p| p.micro_batch == 8 && !p.compact && p.keep.normed));
        }
    }

    #[test]
    fn the_small_model_on_24_gb_and_the_large_on_60() {
        let small = plan(&task(Shape::qwen3_06b(), 2048, 8, 8, 24)).unwrap();
        assert!(!small.compact && small.micro_batch >= 2, "{small:?}");
        let large = plan(&task(Shape::qwen3_4b(), 2048, 4, 0, 60)).unwrap();
        assert!(large.compact && large.micro_batch == 4, "{large:?}");
    }

    #[test]
    fn what_does_not_fit_is_refused_with_a_change_that_does() {
        let number = |text: &str, after: &str| -> Option<usize> {
            let rest = text.split_once(after)?.1;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        let asked = task(Shape::qwen3_4b(), 32_768, 8, 64, 48);
        let text = plan(&asked).unwrap_err().to_string();
        assert!(text.contains("KV cache"), "{text}");
        let context = number(&text, "fix: a context of ").unwrap();
        assert!(plan(&Task { context, ..asked }).is_ok());
        assert!(plan(&Task { context: context + 256, ..asked }).is_err());
        let crowd = task(Shape::qwen3_06b(), 8192, 1, 512, 48);
        let rollouts = number(&plan(&crowd).unwrap_err().to_string(), "fix: ").unwrap();
        assert!(plan(&Task { rollouts, ..crowd }).is_ok());
        assert!(plan(&Task { rollouts: rollouts + 1, ..crowd }).is_err());
        let hopeless = plan(&task(Shape::qwen3_4b(), 2048, 1, 0, 24)).unwrap_err().to_string();
        assert!(hopeless.contains("LoRA"), "{hopeless}");
    }
}
