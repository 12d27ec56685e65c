//! Demonstrations for imitation: the oracle's episodes, or successful traces of an earlier run.

use std::borrow::Cow;
use std::path::Path;

use hone_arena::rollout::Rollouts;
use hone_trace::rundir::RunReader;
use hone_trace::{Task, Trace};

use crate::oracle::{self, Shown};
use crate::plan::{Draw, Plan};
use crate::recipe::{Recipe, RecipeError};
use crate::run::TrainError;
use crate::setup::Setup;

/// Episodes worth imitating.
#[derive(Debug)]
pub(crate) struct Material<'a> {
    /// Tasks to draw from: the world's, or one entry per recorded trace.
    pub tasks: Cow<'a, [Task]>,
    recorded: Vec<Trace>,
}

impl<'a> Material<'a> {
    pub(crate) fn open(setup: &'a Setup, recipe: &Recipe) -> Result<Self, TrainError> {
        let Some(run) = &recipe.sft.traces else {
            return Ok(Self { tasks: Cow::Borrowed(&setup.tasks), recorded: Vec::new() });
        };
        let recorded = good_traces(run, recipe)?;
        let vocab = setup.engine.vocabulary() as u32;
        let too_large = recorded.iter().flat_map(Trace::tokens).find(|id| *id >= vocab);
        if let Some(id) = too_large {
            let what = format!(
                "sft.traces: id {id} of {} is not in the policy's vocabulary of {vocab}; the traces were \
                                sampled with another tokenizer",
                run.display()
            );
            return Err(RecipeError::new(what).into());
        }
        let entry = |(number, trace): (usize, &Trace)| Task::new(number.to_string(), trace.env.clone(), "");
        Ok(Self { tasks: Cow::Owned(recorded.iter().enumerate().map(entry).collect()), recorded })
    }

    /// The episode of a draw from [`Material::tasks`].
    pub(crate) async fn episode(
        &self,
        setup: &Setup,
        rollouts: &Rollouts,
        plan: &Plan<'_>,
        draw: Draw,
        shown: Shown,
    ) -> Result<Cow<'_, Trace>, TrainError> {
        match self.recorded.get(draw.task) {
            Some(trace) => Ok(Cow::Borrowed(trace)),
            None => Ok(Cow::Owned(oracle::demonstrator(setup, rollouts, plan.task(draw), shown).await?)),
        }
    }
}

/// Rejection sampling: the traces of a run with a sufficient reward.
fn good_traces(run: &Path, recipe: &Recipe) -> Result<Vec<Trace>, TrainError> {
    let (component, least) = (&recipe.eval.success, recipe.sft.at_least);
    let mut good = Vec::new();
    let traces = RunReader::open(run)?.traces()?;
    for trace in traces.iter() {
        let trace = trace?;
        if trace.reward(component).is_some_and(|value| value >= least) {
            good.push(trace);
        }
    }
    if good.is_empty() {
        let what = format!(
            "sft.traces: none of the {} traces of {} has {component} of at least {least}; set sft.at_least or eval.success",
            traces.len(),
            run.display()
        );
        return Err(RecipeError::new(what).into());
    }
    Ok(good)
}
