//! The run: sample groups, score, credit, pack, learn, publish, record, evaluate, checkpoint. Read it top to bottom.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use hone_arena::rewards::TOTAL;
use hone_engine::{Cpu, EngineError, LearnerSettings, NativeLearner};
use hone_trace::rundir::{RunDir, RunDirError, RunReader};
use hone_trace::{Advantage, Group, LearnFault, Loss as _, NoSignal, Seed};
use serde_json::json;

use crate::ahead::{Ages, Gathered, Source};
use crate::budget::Budget;
use crate::checkpoint::{self, Keeper, State};
use crate::credit::{self, BadCredit, Weights};
use crate::evaluate::{Evaluation, evaluate};
use crate::faults::Faults;
use crate::ledger::{Ledger, Scheme};
use crate::loss::{BadLoss, Objective};
use crate::pack::{self, PackError};
use crate::penalty::{self, KL};
use crate::plan::Plan;
use crate::recipe::{Recipe, RecipeError};
use crate::setup::{Setup, SetupError};
use crate::update::{Learned, learn};

/// Why a run stopped.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Credit(#[from] BadCredit),
    #[error(transparent)]
    Loss(#[from] BadLoss),
    #[error(transparent)]
    Pack(#[from] PackError),
    #[error(transparent)]
    Learn(#[from] LearnFault),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Run(#[from] RunDirError),
    #[error("checkpoint {}: {what}; delete that directory to go on from the one before it", path.display())]
    Checkpoint { path: PathBuf, what: String },
    #[error(
        "nothing was learned in {steps} steps in a row, at last because {why}\neverything is recorded in {}; put it right and go \
         on with `--resume {}` (train.patience sets how long is waited)",
        run.display(), run.display()
    )]
    Stuck { steps: u32, why: String, run: PathBuf },
}

/// What a run is told about as it goes.
pub trait Watch {
    /// Once, before anything else, when a run goes on: the steps that are done.
    fn resumed(&mut self, _steps: &[Ledger]) {}
    /// What the run turns to: "sampling", "learning", "evaluating".
    fn doing(&mut self, _step: u64, _what: &'static str) {}
    /// The step's episodes, before the step learns from them.
    fn sampled(&mut self, _step: u64, _groups: &[Group]) {}
    fn evaluated(&mut self, _step: u64, _evaluation: &Evaluation) {}
    fn stepped(&mut self, _ledger: &Ledger) {}
    /// Asked before every step: whether the run ends here, with everything recorded and a checkpoint to go on from.
    fn stop(&self) -> bool {
        false
    }
}

/// What a run came to.
#[derive(Debug)]
pub struct Report {
    pub before: Evaluation,
    pub after: Evaluation,
    /// The ledger of every step, in order.
    pub steps: Vec<Ledger>,
    pub seconds: f64,
}

/// Trains the setup's policy by the recipe and records everything in `directory`.
pub async fn train(
    setup: &Setup,
    recipe: &Recipe,
    directory: &Path,
    watch: &mut dyn Watch,
) -> Result<Report, TrainError> {
    let recorded = recipe.to_toml()?;
    Trainer::new(setup, recipe, None, || RunDir::create(directory, &recorded))?.run(watch).await
}

/// Goes on with a run from its newest checkpoint, as if it had not been stopped. `recipe` is the one it recorded.
pub async fn resume(
    setup: &Setup,
    recipe: &Recipe,
    directory: &Path,
    watch: &mut dyn Watch,
) -> Result<Report, TrainError> {
    let (mut run, recovered) = RunDir::resume(directory)?;
    let found = checkpoint::newest(directory)?;
    let (step, position) = found.as_ref().map(|(_, state)| (state.step, state.position)).unwrap_or_default();
    let superseded = run.rewind(position)?;
    run.event(&json!({"event": "resumed", "step": step, "superseded": superseded, "dropped": recovered.dropped}))?;
    let trainer = Trainer::new(setup, recipe, found, || Ok(run))?;
    watch.resumed(&trainer.steps);
    trainer.run(watch).await
}

/// The recipe a run recorded.
pub fn recorded_recipe(directory: &Path) -> Result<Recipe, TrainError> {
    Ok(Recipe::parse(&RunReader::open(directory)?.recipe()?, &[])?)
}

/// A run in progress.
struct Trainer<'a> {
    setup: &'a Setup,
    recipe: &'a Recipe,
    run: RunDir,
    learner: NativeLearner,
    credit: credit::Schedule,
    objective: Objective,
    plan: Plan<'a>,
    source: Source,
    ages: Ages,
    keeper: Keeper,
    state: State,
    steps: Vec<Ledger>,
}

impl<'a> Trainer<'a> {
    /// Opens the run when nothing is left that may refuse the recipe.
    fn new(
        setup: &'a Setup,
        recipe: &'a Recipe,
        found: Option<(PathBuf, State)>,
        open: impl FnOnce() -> Result<RunDir, RunDirError>,
    ) -> Result<Self, TrainError> {
        let objective = recipe.loss.build()?;
        Budget::of(setup, recipe).check()?;
        let learner = learner(setup, recipe, &objective, found.as_ref())?;
        let components: Vec<_> = setup.rubric.weights().collect();
        let weights = weights(setup, recipe);
        let credit = credit::Schedule::new(&recipe.credit, recipe.train.steps, weights, &components)?;
        let at = found.as_ref().map(|(_, state)| state.step);
        let state = found.map(|(_, state)| state).unwrap_or_default();
        let plan = Plan::new(&recipe.plan, recipe.seed, &setup.tasks, state.plan.clone());
        if let Some(name) = plan.unknown_shares().first() {
            return Err(RecipeError::new(format!("plan.share.{name}: no task is of that environment")).into());
        }
        let mut run = open()?;
        if let Some(best) = state.best {
            run.mark_best(best.step)?;
        }
        let rollouts = setup.rollouts(recipe, Arc::clone(&setup.sampler), recipe.sampling.temperature);
        let mut source = Source::new(rollouts, recipe.train.group_size);
        source.restart(&plan, &state.ahead);
        let mut ages = Ages::default();
        ages.mark(learner.policy().current().version.step);
        let records = RunReader::open(run.path())?.metrics()?.records;
        let steps = records.iter().filter_map(Ledger::from_map).collect();
        let keeper = Keeper::new(&recipe.checkpoint, &setup.model_dir, at);
        Ok(Self { setup, recipe, run, learner, credit, objective, plan, source, ages, keeper, state, steps })
    }

    async fn run(mut self, watch: &mut dyn Watch) -> Result<Report, TrainError> {
        let (recipe, started) = (self.recipe, Instant::now());
        let seconds = self.state.seconds;
        let scheme = Scheme::of(&self.setup.rubric, recipe);
        if self.state.before.is_none() {
            // The beginning is a checkpoint too: what the run starts from need not stay anywhere else.
            self.checkpoint()?;
            self.state.before = Some(self.evaluate(0, watch).await?);
        }
        for step in self.state.step + 1..=recipe.train.steps {
            if watch.stop() {
                break;
            }
            let clock = Instant::now();
            watch.doing(step, "sampling");
            let mut batch = self.sample(step).await;
            let sampled_s = clock.elapsed().as_secs_f64();
            watch.sampled(step, &batch.groups);

            let paid = self.charge(&mut batch)?;
            let advantages = self.advantages(&batch, step);
            let mut ledger = Ledger::of(step, &batch.groups, &advantages, &scheme);
            watch.doing(step, "learning");
            self.account(&batch, paid, &mut ledger);
            let (sequences, temperature) = pack::sequences(&batch.groups, &advantages)?;
            let learned = match temperature {
                None => Learned::default(),
                Some(temperature) => {
                    let (learner, objective) = (&mut self.learner, &mut self.objective);
                    learn(learner, objective, recipe, step, sequences, temperature, &mut ledger).await?
                }
            };
            self.ages.mark(self.learner.policy().current().version.step);
            ledger.timing(sampled_s, clock.elapsed().as_secs_f64(), recipe.overlap.staleness > 0);
            ledger.set("timing/save_checkpoints", self.keeper.cost());

            self.record(&ledger, &batch.groups, &learned)?;
            watch.stepped(&ledger);
            self.steps.push(ledger);
            self.state.step = step;
            if step == recipe.train.steps || (recipe.eval.every > 0 && step.is_multiple_of(recipe.eval.every)) {
                let evaluation = self.evaluate(step, watch).await?;
                self.keeper.judge(&mut self.state, step, &evaluation);
                self.state.after = Some(evaluation);
            }
            self.state.seconds = seconds + started.elapsed().as_secs_f64();
            if self.keeper.is_due(&self.state, recipe.train.steps) {
                self.checkpoint()?;
            }
        }
        if !self.keeper.has(self.state.step) {
            self.checkpoint()?;
        }
        self.run.sync()?;
        let before = self.state.before.unwrap_or_default();
        let after = self.state.after.unwrap_or_else(|| before.clone());
        Ok(Report { before, after, steps: self.steps, seconds: self.state.seconds })
    }

    fn checkpoint(&mut self) -> Result<(), TrainError> {
        self.state.plan = self.plan.state.clone();
        self.state.ahead = self.source.ahead();
        self.keeper.write(&mut self.run, &self.learner, &mut self.state)
    }

    /// The groups of a step. In an asynchronous run those of the next steps are started too.
    async fn sample(&mut self, step: u64) -> Gathered {
        let recipe = self.recipe;
        let groups = recipe.train.groups;
        if recipe.overlap.staleness > 0 {
            let steps = (recipe.overlap.staleness + 1).min(recipe.train.steps + 1 - step);
            self.source.fill(&mut self.plan, groups * steps as usize);
        }
        let credit = self.credit.at(step);
        let tells = |group: &Group| {
            let advantages = credit.credit(std::slice::from_ref(group));
            advantages.iter().flatten().any(|advantage| !matches!(advantage, Advantage::None { .. }))
        };
        self.source.gather(&mut self.plan, &recipe.plan, groups, &recipe.eval.success, tells).await
    }

    /// The KL in the reward, where the recipe has one.
    fn charge(&mut self, batch: &mut Gathered) -> Result<Option<penalty::Paid>, TrainError> {
        let Some(settings) = &self.recipe.kl_reward else { return Ok(None) };
        let coefficient = self.state.kl_coefficient.unwrap_or(settings.coefficient);
        let budget = self.recipe.train.batch_tokens;
        let groups = &mut batch.groups[..batch.kept];
        let paid = penalty::charge(&mut self.learner, groups, settings, coefficient, budget)?;
        if settings.target.is_some() {
            self.state.kl_coefficient = Some(settings.adapted(coefficient, paid.mean_kl, paid.episodes));
        }
        Ok(Some(paid))
    }

    /// What every trace is worth. Those of groups that were left out are worth nothing to learn from.
    fn advantages(&self, batch: &Gathered, step: u64) -> Vec<Vec<Advantage>> {
        let (kept, left_out) = batch.groups.split_at(batch.kept);
        let mut advantages = self.credit.at(step).credit(kept);
        if self.recipe.overlong_filter {
            credit::mask_overlong(kept, &mut advantages);
        }
        if let Some(placebo) = self.recipe.placebo {
            placebo.treat(&mut advantages, Seed::root(self.recipe.seed).with("placebo").at(step));
        }
        let nothing = Advantage::None { why: NoSignal::ZeroVariance };
        advantages.extend(left_out.iter().map(|group| vec![nothing.clone(); group.traces().len()]));
        advantages
    }

    /// What the plan, the KL and sampling ahead have to say in the ledger.
    fn account(&self, batch: &Gathered, paid: Option<penalty::Paid>, ledger: &mut Ledger) {
        ledger.set("plan/left_out_groups", (batch.groups.len() - batch.kept) as f64);
        ledger.set("plan/rounds", f64::from(batch.rounds));
        ledger.set("plan/unfilled_groups", batch.unfilled as f64);
        if self.recipe.plan.curriculum.is_some() {
            ledger.set("plan/passed_over_tasks", self.plan.state.passed_over as f64);
        }
        if let Some(paid) = paid {
            ledger.set("loss/avg_kl", paid.mean_kl);
            ledger.set("loss/avg_kl_max", paid.max_kl);
            let settings = self.recipe.kl_reward.map_or(0.0, |settings| settings.coefficient);
            ledger.set("reward/kl_coefficient", self.state.kl_coefficient.unwrap_or(settings));
        }
        self.ages.count(&batch.groups, ledger);
    }

    /// Every trace of the step, those left out and excluded included; what broke; the books.
    fn record(&mut self, ledger: &Ledger, groups: &[Group], learned: &Learned) -> Result<(), TrainError> {
        let excluded = |group: &Group| group.excluded().iter().map(|(trace, _)| trace.clone()).collect::<Vec<_>>();
        let traces: Vec<_> =
            groups.iter().flat_map(|group| [group.traces().to_vec(), excluded(group)].concat()).collect();
        let numbers = self.run.traces(&traces)?;
        self.run.event(&json!({"event": "step", "step": ledger.step, "traces": [numbers.start, numbers.end]}))?;
        for batch in ledger.batches() {
            self.run.event(batch)?;
        }
        self.run.metrics(&ledger.to_map())?;
        let faults = Faults::of(groups);
        if let Some(event) = faults.event(ledger.step, learned) {
            self.run.event(&event)?;
        }
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

    async fn evaluate(&mut self, step: u64, watch: &mut dyn Watch) -> Result<Evaluation, TrainError> {
        watch.doing(step, "evaluating");
        let (evaluation, traces) = evaluate(self.setup, self.recipe).await?;
        let numbers = self.run.traces(&traces)?;
        let numbers = [numbers.start, numbers.end];
        self.run.event(&json!({"event": "eval", "step": step, "result": evaluation, "traces": numbers}))?;
        watch.evaluated(step, &evaluation);
        Ok(evaluation)
    }
}

/// A learner of the setup's policy, new or from a checkpoint, with a reference where something compares with one.
fn learner(
    setup: &Setup,
    recipe: &Recipe,
    objective: &Objective,
    found: Option<&(PathBuf, State)>,
) -> Result<NativeLearner, TrainError> {
    let cpu = match recipe.overlap {
        ref overlap if overlap.staleness > 0 && overlap.learner_threads > 0 => {
            Some(Arc::new(Cpu::new(overlap.learner_threads)?))
        }
        _ => None,
    };
    let policy = Arc::clone(&setup.policy);
    let current = policy.current();
    let compares = objective.needs_reference() || recipe.kl_reward.is_some();
    let mut reference = match &recipe.policy.reference {
        _ if !compares => None,
        Some(dir) => Some(hone_engine::Model::load(dir, Arc::clone(&current.model.cpu))?),
        // The base of an adapter is its own reference.
        None if current.adapter.is_some() => None,
        None => Some(current.model.clone()),
    };
    if let (Some(reference), Some(cpu)) = (&mut reference, &cpu) {
        reference.cpu = Arc::clone(cpu);
    }
    let settings = LearnerSettings {
        adamw: recipe.train.adamw,
        recompute: recipe.train.recompute,
        memory_limit: recipe.train.activation_limit(),
        cpu,
    };
    let Some((dir, state)) = found else { return Ok(NativeLearner::new(policy, reference, settings)) };
    let learner = NativeLearner::resume(policy, reference, settings, dir)?;
    learner.renumber(state.version);
    Ok(learner)
}

/// What credit is given for: the rubric's total with its gates and products, or every component by itself where the
/// estimator normalises them one by one; and the KL, where it is paid.
fn weights(setup: &Setup, recipe: &Recipe) -> Weights {
    let mut components: Vec<(String, f64)> = if recipe.credit.name == "gdpo" {
        let weighted = setup.rubric.weights().filter(|(_, weight)| *weight > 0.0);
        weighted.map(|(name, weight)| (name.to_owned(), weight)).collect()
    } else {
        vec![(TOTAL.to_owned(), 1.0)]
    };
    if recipe.kl_reward.is_some() {
        components.push((KL.to_owned(), 1.0));
    }
    Weights::new(components)
}
