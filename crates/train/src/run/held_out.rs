//! Held-out tasks during a run: evaluations, and their controls and baselines.

use super::{TrainError, Trainer, Watch};
use crate::evaluate::overlap::Overlap;
use crate::evaluate::{self, Controls, Evaluation, Kind, Measured, baselines, count};
use crate::events::{ControlEvent, Event};
use crate::faults::Broke;

impl Trainer<'_> {
    /// Evaluates the policy being served on the held-out tasks, greedily and sampled.
    pub(super) async fn evaluate(&mut self, step: u64, watch: &mut dyn Watch) -> Result<Measured, TrainError> {
        watch.doing(step, "evaluating");
        let greedy = self.evaluate_once(step, Kind::Greedy).await?;
        let measured = Measured { greedy, sampled: self.evaluate_once(step, Kind::Sampled).await? };
        watch.evaluated(step, &measured);
        Ok(measured)
    }

    async fn evaluate_once(&mut self, step: u64, kind: Kind) -> Result<Evaluation, TrainError> {
        let (setup, recipe) = (self.setup, self.recipe);
        let traces = evaluate::play(setup, recipe, setup.engine.sampler(), kind.decoding(recipe)).await;
        let result = count(&traces, &recipe.eval.success).evaluation;
        let broke = Broke::nearly_all(traces.iter()).filter(|_| step == 0);
        let numbers = self.run.traces(&traces)?;
        let traces = [numbers.start, numbers.end];
        self.run.event(&Event::Eval { step, kind, result: Some(result.clone()), traces })?;
        match broke {
            // Without a baseline there is nothing to compare with.
            Some(broke) => Err(TrainError::Broken { broke }),
            None => Ok(result),
        }
    }

    /// Measures that need no policy: overlap of the held-out tasks with training, and the scripted baselines.
    pub(super) async fn floors(&mut self, watch: &mut dyn Watch) -> Result<(), TrainError> {
        let (setup, recipe) = (self.setup, self.recipe);
        watch.doing(0, "playing the baselines");
        let overlap = Overlap::of(&setup.tasks, recipe.eval.tasks_of(&setup.held_out));
        self.run.event(&Event::Overlap { result: overlap })?;
        for played in baselines::measure(setup, recipe).await {
            self.run.event(&Event::Baseline { result: Some(played.floor()), played })?;
        }
        Ok(())
    }

    /// Controls: the starting policy again, and sharpened to the final policy's entropy.
    pub(super) async fn controls(&mut self, step: u64, watch: &mut dyn Watch) -> Result<(), TrainError> {
        let (Some(before), Some(after)) = (&self.state.before, &self.state.after) else { return Ok(()) };
        watch.doing(step, "playing the controls");
        let (setup, recipe) = (self.setup, self.recipe);
        let Some(start) = evaluate::start(setup, self.run.path()).await? else {
            let why = "the initial checkpoint is missing";
            self.run.event(&Event::Control(ControlEvent::skipped(step, why)))?;
            return Ok(());
        };
        Controls { setup, recipe, start, run: &mut self.run, step }.play(before, after).await?;
        Ok(())
    }
}
