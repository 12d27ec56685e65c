//! KL divergence of a step from the start: measured, and bounded by another run's if the recipe says so.

use hone_trace::Group;

use super::{TrainError, Trainer};
use crate::drift::{Bound, kl_to_start};
use crate::ledger::{Metrics, names};

/// KL divergence of a step from the start.
#[derive(Debug, Default)]
pub(super) struct Drift {
    /// The step moved too far and was undone.
    pub(super) taken_back: bool,
    pub(super) metrics: Metrics,
}

impl Trainer<'_> {
    /// Policy version before a step; the learner remembers its state if the step may have to be undone.
    pub(super) async fn before_step(&mut self) -> Result<u64, TrainError> {
        if let Some(bound) = &self.bound {
            bound.remember(&mut *self.learner).await?;
        }
        Ok(self.learner.version().step)
    }

    /// Measures the step's distance from the start, if needed; undoes the step if it is too far.
    pub(super) async fn drift(&mut self, step: u64, before: u64, groups: &[Group]) -> Result<Drift, TrainError> {
        let (train, mut drift) = (&self.recipe.train, Drift::default());
        if !train.kl_to_start && self.bound.is_none() {
            return Ok(drift);
        }
        let learner = &mut *self.learner;
        let Some(mut kl) = kl_to_start(learner, groups, train.batch_tokens).await? else { return Ok(drift) };
        if let Some(bound) = &self.bound {
            drift.taken_back = bound.exceeds(step, kl);
            if drift.taken_back {
                learner.undo(&bound.before, before).await?;
                kl = kl_to_start(learner, groups, train.batch_tokens).await?.unwrap_or(kl);
            }
            self.state.kl_factor = Some(Bound::paced(self.state.kl_factor.unwrap_or(1.0), drift.taken_back));
            drift.metrics.set(names::POLICY_KL_REJECTED, f64::from(u8::from(drift.taken_back)));
        }
        drift.metrics.set(names::POLICY_KL_TO_START, kl);
        Ok(drift)
    }
}
