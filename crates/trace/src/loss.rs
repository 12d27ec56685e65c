//! Loss interface: a pure function from logprobs to d loss / d logprob.

use std::ops::Range;

use crate::batch::{Batch, LossStats, Target};

/// One objective. Pure; one small file each.
pub trait Loss: Send + Sync {
    /// Writes d loss / d logprob of every target into `out`.
    fn grad(&self, tokens: &TokenBatch<'_>, out: &mut [f64]) -> LossStats;

    /// True when the learner must compute the reference policy's logprobs.
    fn needs_reference(&self) -> bool {
        false
    }

    /// Entropy bonus: coefficient x weight of the target x its entropy is subtracted from the loss. `grad` includes it
    /// in the loss it reports; the learner adds its gradient, which does not pass through the logprobs.
    fn entropy_coefficient(&self) -> f64 {
        0.0
    }
}

/// Inputs of a loss, one value per target. In f64: a batch has thousands of targets, not millions, and the
/// golden vectors hold to 1e-9.
#[derive(Debug, Clone, Copy)]
pub struct TokenBatch<'a> {
    /// Logprobs of the learner now.
    pub logp: &'a [f64],
    /// Old logprobs: the sampler's (behaviour policy), or the learner's own from before the first update if a correction is
    /// set and the two may differ.
    pub old: &'a [f64],
    /// Logprobs of the sampler, under the trained policy's distribution.
    pub sampler: &'a [f64],
    /// Logprobs the tokens were actually drawn with, see [`crate::Target::behaviour`].
    pub behaviour: &'a [f64],
    /// Logprobs of the reference policy, when the loss asked for them.
    pub reference: Option<&'a [f64]>,
    pub advantage: &'a [f64],
    /// Share of each target in the optimizer step's objective. A loss multiplies by these and divides by nothing.
    pub weight: &'a [f64],
    /// Entropy of the distribution each target was drawn from, if the learner reports it.
    pub entropy: Option<&'a [f64]>,
    /// Bounds of each sequence.
    pub sequences: &'a [Range<usize>],
}

/// Inputs of a loss, owned: a batch beside the learner's results for it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TokenColumns {
    logp: Vec<f64>,
    old: Vec<f64>,
    sampler: Vec<f64>,
    behaviour: Vec<f64>,
    reference: Option<Vec<f64>>,
    advantage: Vec<f64>,
    weight: Vec<f64>,
    entropy: Option<Vec<f64>>,
    sequences: Vec<Range<usize>>,
}

impl TokenColumns {
    /// One logprob, entropy and reference logprob per target, in order. A target without an old logprob has the ratio 1.
    pub fn new(batch: &Batch, logprobs: &[f32], entropies: Option<&[f32]>, reference: Option<Vec<f64>>) -> Self {
        let wide = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
        let column = |value: fn(&Target) -> f32| batch.targets.iter().map(|t| f64::from(value(t))).collect::<Vec<_>>();
        let logp = wide(logprobs);
        Self {
            old: batch.targets.iter().zip(&logp).map(|(target, &now)| target.old.map_or(now, f64::from)).collect(),
            logp,
            sampler: column(|target| target.sampler),
            behaviour: column(|target| target.behaviour),
            reference,
            advantage: column(|target| target.advantage),
            weight: column(|target| target.weight),
            entropy: entropies.map(wide),
            sequences: batch.sequences.clone(),
        }
    }

    pub fn view(&self) -> TokenBatch<'_> {
        TokenBatch {
            logp: &self.logp,
            old: &self.old,
            sampler: &self.sampler,
            behaviour: &self.behaviour,
            reference: self.reference.as_deref(),
            advantage: &self.advantage,
            weight: &self.weight,
            entropy: self.entropy.as_deref(),
            sequences: &self.sequences,
        }
    }
}
