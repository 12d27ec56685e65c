//! The seam to an objective: a pure function from logprobs to d loss / d logprob.

use std::ops::Range;

use crate::batch::LossStats;

/// One objective. Pure; one small file each.
pub trait Loss: Send + Sync {
    /// Writes d loss / d logprob of every target into `out`.
    fn grad(&self, tokens: &TokenBatch<'_>, out: &mut [f64]) -> LossStats;

    /// Whether the learner must compute the reference policy's logprobs.
    fn needs_reference(&self) -> bool {
        false
    }

    /// How much of the entropy is taken off the loss: coefficient x weight of the target x its entropy. `grad` counts it
    /// in the loss it reports; its gradient is the learner's to add, since it does not pass through the logprobs.
    fn entropy_coefficient(&self) -> f64 {
        0.0
    }
}

/// What a loss may look at, one value per target. In f64: a batch has thousands of targets, not millions, and the
/// golden vectors hold to 1e-9.
#[derive(Debug, Clone, Copy)]
pub struct TokenBatch<'a> {
    /// The learner's logprobs now.
    pub logp: &'a [f64],
    /// The learner's logprobs when the batch was first seen.
    pub old: &'a [f64],
    /// The sampler's logprobs.
    pub sampler: &'a [f64],
    /// The logprobs the tokens were really drawn with, see [`crate::Target::behaviour`].
    pub behaviour: &'a [f64],
    /// The reference policy's logprobs, when the loss asked for them.
    pub reference: Option<&'a [f64]>,
    pub advantage: &'a [f64],
    /// Each target's share of the optimizer step's objective. A loss multiplies by these and divides by nothing.
    pub weight: &'a [f64],
    pub entropy: &'a [f64],
    /// Bounds of each sequence.
    pub sequences: &'a [Range<usize>],
}
