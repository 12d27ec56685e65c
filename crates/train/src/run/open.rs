//! A run before its first step: everything that may refuse the recipe, then the directory.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hone_trace::rundir::{RunDir, RunDirError, RunReader};
use hone_trace::{Abilities, LearnerSpec, Loss as _, Reference};

use super::{TrainError, Trainer};
use crate::ahead::{Source, StalenessTracker};
use crate::budget::Budget;
use crate::checkpoint::{Checkpointer, State};
use crate::credit;
use crate::drift::{self, Bound};
use crate::ledger::Scheme;
use crate::loss::Objective;
use crate::plan::Plan;
use crate::recipe::{Recipe, RecipeError};
use crate::setup::Setup;

impl<'a> Trainer<'a> {
    /// Opens the run after all checks of the recipe.
    pub(super) async fn new(
        setup: &'a Setup,
        recipe: &'a Recipe,
        found: Option<(PathBuf, State)>,
        open: impl FnOnce() -> Result<RunDir, RunDirError>,
    ) -> Result<Self, TrainError> {
        let objective = recipe.loss.build()?;
        Budget::of(setup, recipe).check()?;
        let spec = learner_spec(recipe, &objective);
        let mut learner = setup.engine.learner(&spec).await?;
        able(learner.abilities(), &spec, &objective)?;
        if let Some((dir, state)) = &found {
            learner.restore(dir, state.version).await?;
        }
        let credit = credit::Schedule::of_recipe(recipe, &setup.rubric)?;
        let at = found.as_ref().map(|(_, state)| state.step);
        let mut state = found.map(|(_, state)| state).unwrap_or_default();
        let plan = Plan::new(&recipe.plan, recipe.seed, &setup.tasks, state.plan.clone());
        recipe.plan.check_tasks(&setup.tasks)?;
        let limits = limits(recipe)?;
        let mut run = open()?;
        state.recipe = Some(RunReader::open(run.path())?.recipe()?);
        let bound = limits.map(|limits| Bound { limits, before: run.path().join("before-step") });
        if let Some(best) = state.best {
            run.mark_best(best.step)?;
        }
        let rollouts = setup.rollouts(recipe, setup.engine.sampler(), recipe.sampling.temperature);
        let mut source = Source::new(rollouts, recipe.train.group_size);
        source.restart(&plan, &state.ahead);
        let mut staleness = StalenessTracker::default();
        staleness.mark(learner.version().step);
        let mut checkpoints = recipe.checkpoint.clone();
        checkpoints.keep_last = recipe.guard.kept(checkpoints.keep_last);
        let checkpointer = Checkpointer::new(&checkpoints, &setup.model_dir, at);
        let scheme = Scheme::of(&setup.rubric, recipe);
        Ok(Self {
            setup,
            recipe,
            run,
            learner,
            credit,
            scheme,
            objective,
            plan,
            source,
            staleness,
            checkpointer,
            state,
            bound,
        })
    }
}

/// Refuses a recipe that names what its tasks or other runs do not have. A dry run opens no run and asks this.
pub fn check(setup: &Setup, recipe: &Recipe) -> Result<(), TrainError> {
    recipe.plan.check_tasks(&setup.tasks)?;
    limits(recipe).map(drop)
}

/// KL of the run that bounds this one.
fn limits(recipe: &Recipe) -> Result<Option<BTreeMap<u64, f64>>, TrainError> {
    recipe.train.kl_within.as_deref().map(drift::limits).transpose()
}

/// Learner for the recipe. If anything needs a reference policy, it is the one the run began with, unless the recipe
/// names another.
fn learner_spec(recipe: &Recipe, objective: &Objective) -> LearnerSpec {
    let train = &recipe.train;
    let drifts = train.kl_to_start || train.kl_within.is_some();
    let compares = drifts || objective.needs_reference() || recipe.kl_reward.is_some();
    let named = recipe.policy.reference.clone().map_or(Reference::Start, Reference::Model);
    let overlap = &recipe.overlap;
    LearnerSpec {
        reference: compares.then_some(named),
        threads: (overlap.staleness > 0 && overlap.learner_threads > 0).then_some(overlap.learner_threads),
        ..train.learner()
    }
}

/// Refuses recipes that need abilities the engine's learner does not have.
fn able(abilities: Abilities, spec: &LearnerSpec, objective: &Objective) -> Result<(), RecipeError> {
    let lacks = |what: &str, fix: &str| Err(RecipeError::new(format!("this engine's learner {what}; {fix}")));
    if spec.reference.is_some() && !abilities.reference {
        return lacks(
            "scores no reference policy",
            "leave out loss.kl, kl_reward, train.kl_to_start and train.kl_within, or train on another engine",
        );
    }
    if objective.needs_entropies() && !abilities.entropies {
        return lacks(
            "knows no entropies",
            "leave out loss.top_entropy and loss.entropy_bonus, or train on another engine",
        );
    }
    Ok(())
}
