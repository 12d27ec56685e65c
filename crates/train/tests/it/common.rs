//! Traces, groups and token batches to test with.

use std::ops::Range;
use std::sync::Arc;

use hone_trace::{
    Digest, Group, Loss, LossStats, Node, Outcome, PolicyVersion, Reward, Sampled, SamplingParams, TokenBatch, ToolSet,
    Trace, TraceBuilder, TraceHead,
};
use serde_json::Value;

/// Values recorded from TRL.
pub(crate) fn recorded(path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(hone_testdata::committed(path)).unwrap()).unwrap()
}

/// A turn of a made-up trace: sampled ids, then what the environment answered.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub sampled: Vec<u32>,
    pub answer: Vec<u32>,
}

pub(crate) fn trace(prompt: &[u32], turns: &[Turn], rewards: Vec<Reward>) -> Trace {
    let head = TraceHead {
        task: "t".into(),
        env: "e".into(),
        replica: 0,
        seed: 0,
        tools: Arc::new(ToolSet::none()),
        sampling: SamplingParams::default(),
    };
    let mut builder = TraceBuilder::new(head, prompt.to_vec());
    for (index, turn) in turns.iter().enumerate() {
        let version = PolicyVersion { run: "r".into(), step: 0, weights: Digest::of(b"w") };
        let logprobs = turn.sampled.iter().map(|id| -0.01 * (*id as f32 + index as f32)).collect();
        builder.push(Node::sampled(turn.sampled.clone(), Sampled::by(version, logprobs)).unwrap());
        builder.push(Node::observation(turn.answer.clone()));
    }
    let mut trace = builder.finish(Outcome::Finished);
    trace.rewards = rewards;
    trace
}

/// A trace of one short turn that earned this, or was not scored.
pub(crate) fn earned(reward: Option<f64>) -> Trace {
    let turn = Turn { sampled: vec![1, 2], answer: vec![] };
    let reward = reward.map_or_else(|| Reward::unscored("r", "down"), |value| Reward::scored("r", value, ""));
    trace(&[7], &[turn], vec![reward])
}

pub(crate) fn group(rewards: &[Option<f64>]) -> Group {
    Group::new(rewards.iter().map(|reward| earned(*reward)).collect())
}

/// Owned columns of a token batch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns {
    pub logp: Vec<f64>,
    pub old: Vec<f64>,
    pub sampler: Vec<f64>,
    pub reference: Vec<f64>,
    pub advantage: Vec<f64>,
    pub weight: Vec<f64>,
    pub entropy: Vec<f64>,
    pub sequences: Vec<Range<usize>>,
}

impl Columns {
    pub(crate) fn view(&self) -> TokenBatch<'_> {
        TokenBatch {
            logp: &self.logp,
            old: &self.old,
            sampler: &self.sampler,
            behaviour: &self.sampler,
            reference: Some(&self.reference),
            advantage: &self.advantage,
            weight: &self.weight,
            entropy: Some(&self.entropy),
            sequences: &self.sequences,
        }
    }

    pub(crate) fn grad(&self, loss: &dyn Loss) -> (LossStats, Vec<f64>) {
        // Whatever was in the buffer must not matter.
        let mut out = vec![f64::NAN; self.logp.len()];
        let stats = loss.grad(&self.view(), &mut out);
        (stats, out)
    }

    /// The sequences of `range`, as a separate batch.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        let sequences = &self.sequences[range];
        let start = sequences.first().map_or(0, |sequence| sequence.start);
        let end = sequences.last().map_or(0, |sequence| sequence.end);
        let cut = |values: &[f64]| values[start..end].to_vec();
        Self {
            logp: cut(&self.logp),
            old: cut(&self.old),
            sampler: cut(&self.sampler),
            reference: cut(&self.reference),
            advantage: cut(&self.advantage),
            weight: cut(&self.weight),
            entropy: cut(&self.entropy),
            sequences: sequences.iter().map(|sequence| sequence.start - start..sequence.end - start).collect(),
        }
    }
}

pub(crate) fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * (1.0 + a.abs().max(b.abs()))
}
