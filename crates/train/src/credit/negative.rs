//! Rejection-weighted imitation: negative advantages count less than positive ones.
//!
//! A failed episode of a nearly right policy consists mostly of right tokens and one wrong one from a long tail.
//! Pushing all of it down contributes most of the gradient's noise and little of its signal. But advantages then no
//! longer sum to 0: with a weight of 0.03 their mean on binary rewards is near +0.4, and the update is that of
//! rejection sampling followed by imitation, with a small push away from the rest. It sharpens as much as it teaches;
//! it is not GRPO.

use hone_trace::{Advantage, Credit, Group};

/// Another estimator's advantages, those under 0 times `weight`.
pub(super) struct Negative {
    pub(super) inner: Box<dyn Credit>,
    pub(super) weight: f64,
}

impl Negative {
    fn weigh(&self, advantage: &mut Advantage) {
        let weigh = |value: &mut f64| {
            if *value < 0.0 {
                *value *= self.weight;
            }
        };
        match advantage {
            Advantage::None { .. } => {}
            Advantage::Whole { value } => weigh(value),
            Advantage::PerTurn { values } => values.iter_mut().for_each(weigh),
            Advantage::Spans { value, spans } => {
                weigh(value);
                for span in spans {
                    weigh(&mut span.value);
                }
            }
        }
    }
}

impl Credit for Negative {
    fn credit(&self, groups: &[Group]) -> Vec<Vec<Advantage>> {
        let mut advantages = self.inner.credit(groups);
        advantages.iter_mut().flatten().for_each(|advantage| self.weigh(advantage));
        advantages
    }
}
