//! Packed batches for a learner: token sequences laid out as a forest, with prefix sharing (a shared prefix is stored
//! once).

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Packed batch with prefix sharing. Nodes are in depth-first order, a parent before its children; a token attends to
/// its own node up to itself and to its chain of ancestors. A batch without shared prefixes is a forest of roots.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    pub nodes: Vec<BatchNode>,
    /// Tokens whose logprobs count, sequence after sequence.
    pub targets: Vec<Target>,
    /// Bounds of each sequence in `targets`; every target belongs to exactly one sequence.
    pub sequences: Vec<Range<usize>>,
    /// Temperature the targets were sampled at: logits are divided by it.
    pub temperature: f32,
}

/// Run of tokens shared by all its descendants.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BatchNode {
    pub parent: Option<usize>,
    pub tokens: Vec<u32>,
}

/// Token to score, with everything known about it. Its context is everything before it on its node's chain.
///
/// Two sequences that sampled the same tokens after the same context share the node, and each has its own target there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    pub node: usize,
    /// Position in the node's tokens. Position 0 follows the parent's last token.
    pub offset: usize,
    /// The sampler's logprob under the trained policy's distribution.
    pub sampler: f32,
    /// Logprob under the distribution the token was actually drawn from: `sampler`, unless top-k, top-p, min-p or a
    /// gate narrowed it. Only an off-policy correction (importance sampling) reads it.
    pub behaviour: f32,
    /// Old logprob: the sampler's (behaviour policy), or the learner's own from before the first update if a correction
    /// is set and the two may differ. `None` in imitation, where nothing is compared and the importance ratio is 1.
    pub old: Option<f32>,
    pub advantage: f32,
    /// Weight of this token in the optimizer step's objective. It implements the loss reduction and is fixed once all
    /// sequences of the step are known, so that splitting them into micro-batches changes nothing.
    pub weight: f32,
}

impl Batch {
    /// Checks the layout: parents first, targets inside their nodes and preceded by a token, sequences that cover
    /// the targets in order.
    pub fn check(&self) -> Result<(), String> {
        if !(self.temperature.is_finite() && self.temperature > 0.0) {
            return Err(format!("the temperature of a trained batch must be over 0, found {}", self.temperature));
        }
        for (index, node) in self.nodes.iter().enumerate() {
            if node.tokens.is_empty() {
                return Err(format!("node {index} is empty"));
            }
            if node.parent.is_some_and(|parent| parent >= index) {
                return Err(format!("node {index} comes before its parent"));
            }
        }
        for (index, target) in self.targets.iter().enumerate() {
            let Some(node) = self.nodes.get(target.node) else {
                return Err(format!("target {index} is in node {} of {}", target.node, self.nodes.len()));
            };
            if target.offset >= node.tokens.len() {
                return Err(format!("target {index} is at {} of {} tokens", target.offset, node.tokens.len()));
            }
            if target.offset == 0 && node.parent.is_none() {
                return Err(format!("target {index} is the first token of its sequence: nothing predicts it"));
            }
            if !(target.advantage.is_finite() && target.weight.is_finite()) {
                return Err(format!("target {index} has advantage {} and weight {}", target.advantage, target.weight));
            }
        }
        let mut end = 0;
        for sequence in &self.sequences {
            if sequence.start != end || sequence.end < sequence.start {
                return Err(format!("sequence {sequence:?} does not follow on target {end}"));
            }
            end = sequence.end;
        }
        if end == self.targets.len() {
            Ok(())
        } else {
            Err(format!("the sequences cover {end} of {} targets", self.targets.len()))
        }
    }

    /// Tokens the learner computes, shared ones once.
    pub fn packed_tokens(&self) -> usize {
        self.nodes.iter().map(|node| node.tokens.len()).sum()
    }
}

/// Sums of a loss over its targets, so that the micro-batches of one optimizer step add up.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LossStats {
    pub loss: f64,
    /// Targets with an advantage whose gradient the clip set to zero.
    pub clipped: u64,
    /// Targets that an off-policy correction or a mask excluded from the surrogate.
    pub masked: u64,
    /// Targets whose advantage reached the gradient: it is not zero, and neither clip nor mask removed it.
    pub trained: u64,
    /// Sum over targets of the KL estimate. `None` for a loss without a KL.
    pub kl: Option<f64>,
    pub targets: u64,
}

impl std::ops::AddAssign for LossStats {
    fn add_assign(&mut self, other: Self) {
        self.loss += other.loss;
        self.clipped += other.clipped;
        self.masked += other.masked;
        self.trained += other.trained;
        self.kl = match (self.kl, other.kl) {
            (Some(sum), Some(more)) => Some(sum + more),
            (one, other) => one.or(other),
        };
        self.targets += other.targets;
    }
}
