//! Conditions that stop a run: weights that are not finite, and too many steps without learning.

use super::{TrainError, Trainer};
use crate::faults::Faults;
use crate::update::Learned;

impl Trainer<'_> {
    /// Stops a run whose weights are no longer finite, before they are saved.
    pub(super) async fn finite(&mut self, step: u64) -> Result<(), TrainError> {
        match self.learner.not_finite().await? {
            None => Ok(()),
            Some(what) => Err(TrainError::Diverged {
                step,
                what,
                newest: self.checkpointer.newest(),
                run: self.run.path().into(),
            }),
        }
    }

    /// Stops a run that has learned nothing for too long, unless that is due to the policy.
    pub(super) fn patience(&mut self, faults: &Faults, learned: &Learned) -> Result<(), TrainError> {
        let Some(why) = faults.nothing_learned(learned) else {
            self.state.idle = 0;
            return Ok(());
        };
        self.state.idle += 1;
        if self.state.idle < self.recipe.train.patience {
            return Ok(());
        }
        Err(TrainError::Stuck { steps: self.state.idle, why, run: self.run.path().into() })
    }
}
