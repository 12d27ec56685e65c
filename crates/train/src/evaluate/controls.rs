//! Controls: the starting policy, played again beside the trained one, for gains to be measured against.
//!
//! - **again**: the start with another evaluation seed. Any difference from the first evaluation is luck.
//! - **sharpened**: the start at the temperature at which it is as confident, per token, as the end. Its gain is what
//!   confidence is worth without learning anything.
//!
//! A third control, the placebo, is a separate training run ([`crate::placebo`]).
//!
//! Beside them, two probes of the trained policy: its tools in reverse order, and under each other's names. A policy that
//! reads its tools does as well.

use std::path::Path;
use std::sync::Arc;

use hone_arena::perturb::Perturbation;
use hone_trace::rundir::{RunDir, RunReader};
use hone_trace::{Sampler, Seed, Trace};
use serde::{Deserialize, Serialize};

use super::count::Evaluation;
use super::sharpen::Search;
use super::{Decoding, Measured, count, play};
use crate::events::{ControlEvent, ControlPart, Event};
use crate::recipe::Recipe;
use crate::run::TrainError;
use crate::setup::Setup;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlKind {
    Again,
    Sharpened,
    Placebo,
}

impl ControlKind {
    pub fn words(self) -> &'static str {
        match self {
            Self::Again => "the start, other seed",
            Self::Sharpened => "the start, sharpened",
            Self::Placebo => "the placebo",
        }
    }
}

/// A control, recounted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Control {
    pub kind: ControlKind,
    /// The placebo's kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placebo: Option<crate::placebo::Placebo>,
    #[serde(flatten)]
    pub result: Evaluation,
}

/// Outcome of the search for the sharpened start.
#[derive(Debug, Clone, PartialEq)]
pub enum Sharpening {
    Found,
    /// Reason why there is none.
    Skipped(String),
}

/// The policy as the run began, from its first checkpoint. `None` if that is gone.
pub async fn start(setup: &Setup, run: &Path) -> Result<Option<Arc<dyn Sampler>>, TrainError> {
    let Some((_, dir)) = RunReader::open(run)?.checkpoints()?.into_iter().find(|(step, _)| *step == 0) else {
        return Ok(None);
    };
    Ok(Some(setup.engine.sampler_of(&dir).await?))
}

/// Plays the controls of a finished run and records them.
pub struct Controls<'a> {
    pub setup: &'a Setup,
    pub recipe: &'a Recipe,
    pub start: Arc<dyn Sampler>,
    pub run: &'a mut RunDir,
    pub step: u64,
}

impl std::fmt::Debug for Controls<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controls").field("step", &self.step).finish_non_exhaustive()
    }
}

impl Controls<'_> {
    pub async fn play(&mut self, before: &Measured, after: &Measured) -> Result<Sharpening, TrainError> {
        let sampled = Decoding::sampled(self.recipe);
        let seed = Seed::root(sampled.seed).with("again").value();
        let traces = self.played(Decoding { seed, ..sampled }).await;
        self.record(ControlPart::Again, &traces)?;
        let sharpening = self.sharpen(sampled, &before.sampled, &after.sampled).await?;
        if let Sharpening::Skipped(why) = &sharpening {
            self.run.event(&Event::Control(ControlEvent::skipped(self.step, why)))?;
        }
        for how in Perturbation::ALL {
            let greedy = Decoding::greedy(&self.recipe.eval);
            let end = self.setup.engine.sampler();
            let traces = play(self.setup, self.recipe, end, Decoding { tools: Some(how), ..greedy }).await;
            self.record(how.into(), &traces)?;
        }
        Ok(sharpening)
    }

    async fn sharpen(
        &mut self,
        sampled: Decoding,
        before: &Evaluation,
        after: &Evaluation,
    ) -> Result<Sharpening, TrainError> {
        let (Some(start), Some(end)) = (before.entropy, after.entropy) else {
            return Ok(Sharpening::Skipped("nothing was sampled, so there is no entropy to match".into()));
        };
        let Some(mut search) = Search::new(f64::from(sampled.temperature), start, end) else {
            let why = format!("the entropy did not fall ({start:.4} to {end:.4} nats a token)");
            return Ok(Sharpening::Skipped(why));
        };
        let mut probes = Vec::new();
        while let Some(temperature) = search.next() {
            let traces = self.played(Decoding { temperature: temperature as f32, ..sampled }).await;
            let result = count(&traces, &self.recipe.eval.success).evaluation;
            let Some(entropy) = result.entropy else { break };
            search.tried(temperature, entropy);
            let numbers = self.record(ControlPart::Probe, &traces)?;
            probes.push((numbers, result));
        }
        let Some((numbers, result)) = search.nearest().and_then(|nearest| probes.get(nearest)) else {
            return Ok(Sharpening::Skipped("no episode of the start could be played".into()));
        };
        let wanted = Some(search.target());
        let found = ControlEvent::played(self.step, ControlPart::Sharpened, result.clone(), *numbers);
        self.run.event(&Event::Control(ControlEvent { entropy_wanted: wanted, ..found }))?;
        Ok(Sharpening::Found)
    }

    async fn played(&self, decoding: Decoding) -> Vec<Trace> {
        play(self.setup, self.recipe, Arc::clone(&self.start), decoding).await
    }

    fn record(&mut self, part: ControlPart, traces: &[Trace]) -> Result<[u64; 2], TrainError> {
        let numbers = self.run.traces(traces)?;
        let numbers = [numbers.start, numbers.end];
        let result = count(traces, &self.recipe.eval.success).evaluation;
        self.run.event(&Event::Control(ControlEvent::played(self.step, part, result, numbers)))?;
        Ok(numbers)
    }
}
