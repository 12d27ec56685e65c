//! Guard in a run: its findings are reported, recorded, and undone if the recipe asks for that.

use hone_trace::rundir::RunReader;

use super::{TrainError, Trainer, Warning, Watch};
use crate::checkpoint;
use crate::events::{Event, GuardEvent};
use crate::guard::{BatchSize, Fall, Measure};
use crate::ledger::Ledger;

impl Trainer<'_> {
    /// Examines the step that was just recorded.
    pub(super) async fn guard(&mut self, ledger: &Ledger, watch: &mut dyn Watch) -> Result<(), TrainError> {
        let recipe = self.recipe;
        let size = BatchSize { groups: recipe.train.groups, group_size: recipe.train.group_size };
        let seen = self.state.guard.look(recipe.guard, ledger, &recipe.eval.success, size);
        let Some(fall) = seen else { return Ok(()) };
        let back_to = if recipe.guard.rollback { self.go_back(&fall).await? } else { None };
        if back_to.is_none() {
            self.state.guard.went_on(fall.first);
        }
        let rate_factor = self.state.guard.factor();
        let event = GuardEvent {
            step: ledger.step,
            measure: fall.measure,
            before: fall.before,
            after: fall.after,
            normal: fall.normal,
            steps: fall.steps,
            why: fall.why,
            advice: advice(recipe.train.rate(), back_to, rate_factor),
            back_to,
            rate_factor,
        };
        watch.warned(ledger.step, &Warning::Guard(event.sentence(&recipe.eval.success)));
        self.run.event(&Event::Guard(event))?;
        Ok(())
    }

    /// Restores the weights and the optimizer of the newest checkpoint written before the update to blame. Returns its
    /// step; `None` if there is none.
    async fn go_back(&mut self, fall: &Fall) -> Result<Option<u64>, TrainError> {
        // The episodes of step n are played by the policy of step n - 1: that update is the one to undo.
        let good = fall.first.saturating_sub(2);
        let kept = RunReader::open(self.run.path())?.checkpoints()?;
        let Some((step, path)) = kept.into_iter().rev().find(|(step, _)| *step <= good) else { return Ok(None) };
        let version = checkpoint::state_of(&path)?.version;
        self.learner.restore(&path, version).await?;
        self.state.guard.went_back(fall.first);
        self.staleness.mark(self.learner.version().step);
        Ok(Some(step))
    }
}

fn advice(rate: f64, back_to: Option<u64>, factor: f64) -> String {
    match back_to {
        Some(step) => format!(
            "the run continues from the checkpoint of step {step} with train.learning_rate = {:e} (times {factor})",
            rate * factor
        ),
        None => format!(
            "stop (ctrl-c) and start again with train.learning_rate = {:e} or a larger train.groups; guard.rollback = true goes \
             back by itself",
            rate / 2.0
        ),
    }
}

impl GuardEvent {
    /// Sentence for the log.
    pub fn sentence(&self, success: &str) -> String {
        // One step is a value, several have an average.
        let of = |value: f64, steps: u64| match steps {
            0 | 1 => format!("{value:.2}"),
            steps => format!("an average of {value:.2} over {steps} steps"),
        };
        let what = match self.measure {
            Measure::Success => success,
            Measure::SolvedTasks => "the share of tasks solved at least once",
        };
        format!(
            "{what} dropped sharply at step {}, from {} to {}: {}. {}",
            self.step,
            of(self.before, self.normal),
            of(self.after, self.steps),
            self.why,
            self.advice
        )
    }
}
