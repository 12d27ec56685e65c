//! The run: sample groups, score, credit, pack, learn, publish, record, evaluate, checkpoint; controls at the end. Read it
//! top to bottom.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use hone_arena::rewards::TOTAL;
use hone_engine::{Cpu, EngineError, LearnerSettings, Model, NativeLearner};
use hone_trace::rundir::{RunDir, RunDirError, RunReader};
use hone_trace::{Advantage, Group, LearnFault, Loss as _, NoSignal, Seed};
use serde_json::json;

use crate::ahead::{Ages, Gathered, Source};
use crate::budget::Budget;
use crate::checkpoint::{self, Keeper, State};
use crate::credit::{self, BadCredit, Weights};
use crate::drift::{self, Bound, KL_TO_START, kl_to_start};
use crate::evaluate::overlap::Overlap;
use crate::evaluate::{self, Controls, Evaluation, Kind, Measured, baselines, count};
use crate::faults::Faults;
use crate::ledger::{Ledger, Scheme};
use crate::loss::{BadLoss, Objective};
use crate::pack::{self, PackError, Sequence};
use crate::penalty::{self, KL};
use crate::plan::Plan;
use crate::recipe::{Recipe, RecipeError};
use crate::setup::{Setup, SetupError};
use crate::update::{Learned, Pace, learn};

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
    fn evaluated(&mut self, _step: u64, _measured: &Measured) {}
    fn stepped(&mut self, _ledger: &Ledger) {}
    /// Asked before every step: whether the run ends here, with everything recorded and a checkpoint to go on from.
    fn stop(&self) -> bool {
        false
    }
}

/// What a run came to.
#[derive(Debug)]
pub struct Report {
    /// `None` where it was stopped before its first evaluation.
    pub before: Option<Measured>,
    /// The newest evaluation after a step. `None` where it was stopped before one: the start is not the end.
    pub after: Option<Measured>,
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
    /// How far from the start each step may go, where another run says.
    bound: Option<Bound>,
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
        let reference = reference(setup, recipe, &objective)?;
        let learner = learner(setup, recipe, reference.clone(), found.as_ref())?;
        let components: Vec<_> = setup.rubric.weights().collect();
        let weights = weights(setup, recipe);
        let credit = credit::Schedule::new(&recipe.credit, recipe.train.steps, weights, &components)?;
        let at = found.as_ref().map(|(_, state)| state.step);
        let state = found.map(|(_, state)| state).unwrap_or_default();
        let plan = Plan::new(&recipe.plan, recipe.seed, &setup.tasks, state.plan.clone());
        if let Some(name) = plan.unknown_shares().first() {
            return Err(RecipeError::new(format!("plan.share.{name}: no task is of that environment")).into());
        }
        let limits = recipe.train.kl_within.as_deref().map(drift::limits).transpose()?;
        let mut run = open()?;
        let bound = match limits {
            None => None,
            Some(limits) => {
                let (before, settings) = (run.path().join("before-step"), learner_settings(recipe)?);
                Some(Bound { limits, before, reference, settings })
            }
        };
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
        Ok(Self { setup, recipe, run, learner, credit, objective, plan, source, ages, keeper, state, steps, bound })
    }

    async fn run(mut self, watch: &mut dyn Watch) -> Result<Report, TrainError> {
        let (recipe, started) = (self.recipe, Instant::now());
        let seconds = self.state.seconds;
        let scheme = Scheme::of(&self.setup.rubric, recipe);
        if self.state.before.is_none() {
            // The beginning is a checkpoint too: what the run starts from need not stay anywhere else.
            self.checkpoint()?;
            self.floors(watch).await?;
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
            let before = self.before_step()?;
            let learned = match temperature {
                None => Learned::default(),
                Some(temperature) => self.learn(step, sequences, temperature, &mut ledger).await?,
            };
            self.drift(step, before, &batch.groups, &mut ledger)?;
            self.ages.mark(self.learner.policy().current().version.step);
            ledger.timing(sampled_s, clock.elapsed().as_secs_f64(), recipe.overlap.staleness > 0);
            ledger.set("timing/save_checkpoints", self.keeper.cost());

            self.record(&ledger, &batch.groups, &learned)?;
            watch.stepped(&ledger);
            self.steps.push(ledger);
            self.state.step = step;
            if step == recipe.train.steps || (recipe.eval.every > 0 && step.is_multiple_of(recipe.eval.every)) {
                let measured = self.evaluate(step, watch).await?;
                self.keeper.judge(&mut self.state, step, measured.headline(&recipe.eval));
                self.state.after = Some(measured);
            }
            if step == recipe.train.steps && recipe.eval.controls {
                self.controls(step, watch).await?;
            }
            self.state.seconds = seconds + started.elapsed().as_secs_f64();
            if self.keeper.is_due(&self.state, recipe.train.steps) {
                self.checkpoint()?;
            }
        }
        if !self.keeper.has(self.state.step) {
            self.checkpoint()?;
        }
        if let Some(bound) = &self.bound {
            bound.clear();
        }
        self.run.sync()?;
        let State { before, after, seconds, .. } = self.state;
        Ok(Report { before, after, steps: self.steps, seconds })
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

    async fn learn(
        &mut self,
        step: u64,
        sequences: Vec<Sequence>,
        temperature: f32,
        ledger: &mut Ledger,
    ) -> Result<Learned, TrainError> {
        let pace = Pace { step, factor: self.state.kl_factor.unwrap_or(1.0) };
        let (learner, objective) = (&mut self.learner, &mut self.objective);
        learn(learner, objective, self.recipe, pace, sequences, temperature, ledger).await
    }

    /// The policy's version, and everything else saved to go back to where a step may have to be taken back.
    fn before_step(&self) -> Result<u64, TrainError> {
        if let Some(bound) = &self.bound {
            bound.save(&self.learner)?;
        }
        Ok(self.learner.policy().current().version.step)
    }

    /// How far the step went from the start, where somebody wants to know; takes it back where that is too far.
    fn drift(&mut self, step: u64, before: u64, groups: &[Group], ledger: &mut Ledger) -> Result<(), TrainError> {
        let train = &self.recipe.train;
        if !train.kl_to_start && self.bound.is_none() {
            return Ok(());
        }
        let Some(mut kl) = kl_to_start(&mut self.learner, groups, train.batch_tokens)? else { return Ok(()) };
        if let Some(bound) = &self.bound {
            let too_far = bound.exceeds(step, kl);
            if too_far {
                self.learner = bound.restored(&self.learner, before)?;
                ledger.undone();
                kl = kl_to_start(&mut self.learner, groups, train.batch_tokens)?.unwrap_or(kl);
            }
            self.state.kl_factor = Some(Bound::paced(self.state.kl_factor.unwrap_or(1.0), too_far));
            ledger.set("policy/kl_rejected", f64::from(u8::from(too_far)));
        }
        ledger.set(KL_TO_START, kl);
        Ok(())
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

    /// The held-out tasks, greedily and sampled.
    async fn evaluate(&mut self, step: u64, watch: &mut dyn Watch) -> Result<Measured, TrainError> {
        watch.doing(step, "evaluating");
        let greedy = self.evaluate_once(step, Kind::Greedy).await?;
        let measured = Measured { greedy, sampled: self.evaluate_once(step, Kind::Sampled).await? };
        watch.evaluated(step, &measured);
        Ok(measured)
    }

    async fn evaluate_once(&mut self, step: u64, kind: Kind) -> Result<Evaluation, TrainError> {
        let (setup, recipe) = (self.setup, self.recipe);
        let traces = evaluate::play(setup, recipe, Arc::clone(&setup.sampler), kind.decoding(recipe)).await;
        let result = count(&traces, &recipe.eval.success).evaluation;
        let numbers = self.run.traces(&traces)?;
        let numbers = [numbers.start, numbers.end];
        let event = json!({"event": "eval", "step": step, "kind": kind, "result": result, "traces": numbers});
        self.run.event(&event)?;
        Ok(result)
    }

    /// What needs no policy: how much of the held-out tasks is trained on, and what scripted policies make of them.
    async fn floors(&mut self, watch: &mut dyn Watch) -> Result<(), TrainError> {
        let (setup, recipe) = (self.setup, self.recipe);
        watch.doing(0, "playing the baselines");
        let overlap = Overlap::of(&setup.tasks, &setup.held_out[..recipe.eval.tasks]);
        self.run.event(&json!({"event": "overlap", "result": overlap}))?;
        for played in baselines::measure(setup, recipe).await {
            self.run.event(&json!({"event": "baseline", "result": played.floor(), "played": played}))?;
        }
        Ok(())
    }

    /// The start beside the end: again, and as sure as the end.
    async fn controls(&mut self, step: u64, watch: &mut dyn Watch) -> Result<(), TrainError> {
        let (Some(before), Some(after)) = (&self.state.before, &self.state.after) else { return Ok(()) };
        watch.doing(step, "playing the controls");
        let (setup, recipe) = (self.setup, self.recipe);
        let Some(start) = evaluate::start(setup, self.run.path())? else {
            let why = "the checkpoint of the start is gone";
            self.run.event(&json!({"event": "control", "step": step, "kind": "sharpened", "skipped": why}))?;
            return Ok(());
        };
        Controls { setup, recipe, start, run: &mut self.run, step }.play(before, after).await?;
        Ok(())
    }
}

/// The policy that something compares with, where something does: the one the run began with, unless the recipe names
/// another. Asked before a checkpoint is loaded over the setup's policy.
fn reference(setup: &Setup, recipe: &Recipe, objective: &Objective) -> Result<Option<Model>, TrainError> {
    let train = &recipe.train;
    let drifts = train.kl_to_start || train.kl_within.is_some();
    let current = setup.policy.current();
    Ok(match &recipe.policy.reference {
        _ if !(drifts || objective.needs_reference() || recipe.kl_reward.is_some()) => None,
        Some(dir) => Some(Model::load(dir, Arc::clone(&current.model.device))?),
        // The base of an adapter is its own reference.
        None if current.adapter.is_some() => None,
        None => Some(current.model),
    })
}

fn learner_settings(recipe: &Recipe) -> Result<LearnerSettings, TrainError> {
    let cpu = match recipe.overlap {
        ref overlap if overlap.staleness > 0 && overlap.learner_threads > 0 => {
            Some(Arc::new(Cpu::new(overlap.learner_threads)?))
        }
        _ => None,
    };
    Ok(LearnerSettings {
        adamw: recipe.train.adamw,
        recompute: recipe.train.recompute,
        memory_limit: recipe.train.activation_limit(),
        device: cpu,
    })
}

/// A learner of the setup's policy, new or from a checkpoint.
fn learner(
    setup: &Setup,
    recipe: &Recipe,
    mut reference: Option<Model>,
    found: Option<&(PathBuf, State)>,
) -> Result<NativeLearner, TrainError> {
    let settings = learner_settings(recipe)?;
    let policy = Arc::clone(&setup.policy);
    if let (Some(reference), Some(cpu)) = (&mut reference, &settings.device) {
        reference.device = Arc::clone(cpu);
    }
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
