//! The training loop. Read it top to bottom; `Trainer::step` is its core.
//!
//! One step, with π the policy that is trained, q the policy that sampled and f the reference:
//!
//! 1. **sample** (rollouts): `train.group_size` episodes τ ~ q of each of `train.groups` tasks; every token comes with
//!    log q.
//! 2. **score**: the reward R(τ) by the rubric, minus the KL penalty β Σ KL(q, f) over the episode's tokens if the
//!    recipe puts it into the reward (by the k3 estimator of log(q / f), unless the recipe names another).
//! 3. **credit**: the advantage A(τ) from R(τ) and its siblings' rewards; GRPO's is (R − mean) / deviation. A group
//!    without variance has no signal.
//! 4. **pack** the sampled tokens that have an advantage. The reduction gives token t its weight w in the objective,
//!    over the whole optimizer step: 1 / tokens for a token mean.
//! 5. **learn**: θ ← θ − AdamW(∇ Σ w ℓ(ρ, A)) with the importance ratio ρ = exp(log π − log π_old), π_old the policy
//!    that sampled (or with an off-policy correction the learner before this batch). The clipped loss is
//!    ℓ = −min(ρA, clip(ρ, 1−ε, 1+ε)A). At the first update of a synchronous run ρ is 1, and its gradient is −A ∇log π.
//! 6. **record** traces, events and metrics; then evaluate and write a checkpoint when due.
//!
//! Every stage returns its result and its [`Metrics`]; the step's ledger is all of them merged.

mod bounded;
mod error;
mod extend;
mod guarded;
mod held_out;
mod open;
mod stops;
mod watch;

use std::path::Path;
use std::time::Instant;

use hone_trace::rundir::{RunDir, RunReader};
use hone_trace::{Advantage, Group, Learner, Trace};

use crate::ahead::{SampledGroups, Source, StalenessTracker};
use crate::checkpoint::{self, Checkpointer, State};
use crate::credit;
use crate::drift::Bound;
use crate::events::Event;
use crate::faults::Faults;
use crate::ledger::{self, Account, Ledger, Metrics, Scheme, Timing, names};
use crate::loss::Objective;
use crate::pack;
use crate::penalty;
use crate::plan::Plan;
use crate::recipe::Recipe;
use crate::setup::Setup;
use crate::update::{Learned, Pace, learn};

pub use error::TrainError;
pub use extend::extended_recipe;
pub use open::check;
pub use watch::{Warning, Watch};

/// Trains the setup's policy by the recipe and records everything in `directory`: [`crate::report::RunReport`] reads it.
pub async fn train(setup: &Setup, recipe: &Recipe, directory: &Path, watch: &mut dyn Watch) -> Result<(), TrainError> {
    let recorded = recipe.to_toml()?;
    let create = || {
        let run = RunDir::create(directory, &recorded)?;
        checkpoint::note_version(&run)?;
        Ok(run)
    };
    let trainer = Trainer::new(setup, recipe, None, create).await?;
    trainer.run(watch).await
}

/// Resumes a run from its newest checkpoint, as if it had not been stopped. `recipe` is the recorded one.
pub async fn resume(setup: &Setup, recipe: &Recipe, directory: &Path, watch: &mut dyn Watch) -> Result<(), TrainError> {
    let (mut run, recovered) = RunDir::resume(directory)?;
    let found = checkpoint::newest(directory)?;
    if let Some((_, state)) = &found {
        extend::unchanged(directory, state)?;
    }
    let (step, position) = found.as_ref().map(|(_, state)| (state.step, state.position)).unwrap_or_default();
    let unverified = found.as_ref().map(|(path, _)| checkpoint::verify(path, directory)).transpose()?.flatten();
    let superseded = run.rewind(position)?;
    run.event(&Event::Resumed { step: Some(step), superseded, dropped: Some(recovered.dropped) })?;
    extend::record(&mut run, recipe, step)?;
    let before = found.as_ref().and_then(|(_, state)| state.before.clone());
    let trainer = Trainer::new(setup, recipe, found, || Ok(run)).await?;
    let records = RunReader::open(directory)?.metrics()?.records;
    watch.resumed(&records.iter().filter_map(Ledger::from_map).collect::<Vec<_>>());
    if let Some(before) = &before {
        watch.started(before);
    }
    if let Some(what) = unverified {
        watch.warned(step, &Warning::Checkpoint(what));
    }
    trainer.run(watch).await
}

/// Recipe recorded by a run, in order to continue it: a key that this version does not know is refused. To read a run,
/// see [`Recipe::recorded`].
pub fn recorded_recipe(directory: &Path) -> Result<Recipe, TrainError> {
    Ok(Recipe::parse(&RunReader::open(directory)?.recipe()?, &[])?)
}

/// A run in progress.
struct Trainer<'a> {
    setup: &'a Setup,
    recipe: &'a Recipe,
    run: RunDir,
    learner: Box<dyn Learner>,
    credit: credit::Schedule,
    scheme: Scheme,
    objective: Objective,
    plan: Plan<'a>,
    source: Source,
    staleness: StalenessTracker,
    checkpointer: Checkpointer,
    state: State,
    /// Bound on each step's KL from the start, if another run sets one.
    bound: Option<Bound>,
}

impl Trainer<'_> {
    async fn run(mut self, watch: &mut dyn Watch) -> Result<(), TrainError> {
        let (recipe, started) = (self.recipe, Instant::now());
        let seconds = self.state.seconds;
        if self.state.before.is_none() {
            self.notices(watch, None)?;
            self.finite(0).await?;
            // The start is a checkpoint too, so the initial policy need not be kept anywhere else.
            self.checkpoint().await?;
            self.floors(watch).await?;
            self.state.before = Some(self.evaluate(0, watch).await?);
        }
        for step in self.state.step + 1..=recipe.train.steps {
            if watch.stop() {
                break;
            }
            self.step(step, watch).await?;
            self.state.step = step;
            if recipe.evaluates_after(step) {
                let measured = self.evaluate(step, watch).await?;
                // A step that taught nothing writes no checkpoint, so it cannot be the best one.
                if self.state.idle == 0 {
                    self.checkpointer.judge(&mut self.state, step, measured.headline(&recipe.eval));
                }
                self.state.after = Some(measured);
            }
            if step == recipe.train.steps && recipe.eval.controls {
                self.controls(step, watch).await?;
            }
            self.state.seconds = seconds + started.elapsed().as_secs_f64();
            // On an idle step the newest checkpoint is as good, and none is pruned for it.
            if self.state.idle == 0 && self.checkpointer.is_due(&self.state, recipe.train.steps) {
                self.checkpoint().await?;
            }
        }
        if self.state.idle == 0 && !self.checkpointer.has(self.state.step) {
            self.checkpoint().await?;
        }
        if let Some(bound) = &self.bound {
            bound.clear();
        }
        Ok(self.run.sync()?)
    }

    /// One step: sample, score, credit, pack, learn, record.
    async fn step(&mut self, step: u64, watch: &mut dyn Watch) -> Result<(), TrainError> {
        let clock = Instant::now();
        watch.doing(step, "sampling");
        let sampled = self.sample(step).await;
        let generate = clock.elapsed().as_secs_f64();
        watch.sampled(step, &sampled.groups);
        let (sampled, penalty) = self.penalised(sampled).await?;
        let advantages = self.credit(&sampled, step);
        let groups = &sampled.groups;

        watch.doing(step, "learning");
        let staleness = self.staleness.metrics(groups);
        let (sequences, temperature) = pack::credited(groups, &advantages)?;
        let before = self.before_step().await?;
        let learned = match temperature {
            None => Learned::default(),
            Some(temperature) => {
                let factor = self.state.kl_factor.unwrap_or(1.0) * self.state.guard.factor();
                let pace = Pace { step, factor };
                learn(&mut *self.learner, &self.objective, self.recipe, pace, sequences, temperature).await?
            }
        };
        let drift = self.drift(step, before, groups).await?;
        self.staleness.mark(self.learner.version().step);

        let account = Account::of(groups, &advantages);
        let visits = learned.visits();
        let tokens = if drift.taken_back { account.undone(visits) } else { account.settled(visits) };
        let timing = Timing {
            generate,
            step: clock.elapsed().as_secs_f64(),
            ahead: self.recipe.overlap.staleness > 0,
            checkpoint: self.checkpointer.cost(),
        };
        let credited = ledger::credited(groups, &advantages, &self.scheme);
        let stages = [
            sampled.metrics(),
            self.curriculum(),
            penalty,
            staleness,
            credited,
            learned.metrics(),
            drift.metrics,
            tokens,
        ];
        let ledger = Ledger::of(step, stages.into_iter().chain([timing.metrics(account.sampled())]));
        let traces = learned.lessons.recorded(groups, &advantages, drift.taken_back);
        self.record(&ledger, groups, &traces, &learned)?;
        let faults = Faults::of(groups);
        if let Some(broke) = faults.broke() {
            watch.broke(step, &broke);
        }
        if learned.optimized.iter().any(|optimized| optimized.report.skipped.is_none()) {
            self.finite(step).await?;
        }
        self.patience(&faults, &learned)?;
        watch.stepped(&ledger);
        self.notices(watch, Some(&ledger))?;
        self.guard(&ledger, watch).await
    }

    /// Records the watchers' notices.
    fn notices(&mut self, watch: &mut dyn Watch, ledger: Option<&Ledger>) -> Result<(), TrainError> {
        watch.notices(ledger).iter().try_for_each(|event| Ok(self.run.event(event)?))
    }

    async fn checkpoint(&mut self) -> Result<(), TrainError> {
        self.state.plan = self.plan.state.clone();
        self.state.ahead = self.source.ahead();
        self.checkpointer.write(&mut self.run, &mut *self.learner, &mut self.state).await
    }

    /// Groups of a step. An asynchronous run also starts those of the next steps.
    async fn sample(&mut self, step: u64) -> SampledGroups {
        let recipe = self.recipe;
        let groups = recipe.train.groups;
        if recipe.overlap.staleness > 0 {
            let steps = (recipe.overlap.staleness + 1).min(recipe.train.steps + 1 - step);
            self.source.fill(&mut self.plan, groups * steps as usize);
        }
        let reasons = |group: &Group| self.credit.without_signal(recipe, group, step);
        self.source.gather(&mut self.plan, &recipe.plan, groups, &recipe.eval.success, reasons).await
    }

    /// The groups with the KL penalty among their rewards, if the recipe has one.
    async fn penalised(&mut self, mut sampled: SampledGroups) -> Result<(SampledGroups, Metrics), TrainError> {
        let Some(settings) = &self.recipe.kl_reward else { return Ok((sampled, Metrics::default())) };
        let coefficient = self.state.kl_coefficient.unwrap_or(settings.coefficient);
        let budget = self.recipe.train.batch_tokens;
        let groups = &mut sampled.groups[..sampled.kept];
        let penalty = penalty::apply(&mut *self.learner, groups, settings, coefficient, budget).await?;
        if settings.target.is_some() {
            self.state.kl_coefficient = Some(settings.adapted(coefficient, penalty.mean_kl, penalty.episodes));
        }
        Ok((sampled, penalty.metrics(self.state.kl_coefficient.unwrap_or(settings.coefficient))))
    }

    /// Advantages of every trace; for excluded groups, the reasons why they have none.
    fn credit(&self, sampled: &SampledGroups, step: u64) -> Vec<Vec<Advantage>> {
        let mut advantages = self.credit.advantages(self.recipe, &sampled.groups[..sampled.kept], step);
        advantages.extend(sampled.left_out.iter().cloned());
        advantages
    }

    fn curriculum(&self) -> Metrics {
        let mut metrics = Metrics::default();
        if self.recipe.plan.curriculum.is_some() {
            metrics.set(names::PLAN_PASSED_OVER_TASKS, self.plan.state.passed_over as f64);
        }
        metrics
    }

    /// Records every trace of the step, including excluded and broken ones, the events and the metrics.
    fn record(
        &mut self,
        ledger: &Ledger,
        groups: &[Group],
        traces: &[Trace],
        learned: &Learned,
    ) -> Result<(), TrainError> {
        let (step, numbers) = (ledger.step, self.run.traces(traces)?);
        self.run.event(&Event::Step { step, traces: [numbers.start, numbers.end] })?;
        for (batch, optimized) in learned.optimized.iter().enumerate() {
            self.run.event(&Event::OptimizerStep(optimized.event(step, batch, groups)))?;
        }
        self.run.metrics(&ledger.to_map())?;
        if let Some(event) = Faults::of(groups).event(step, learned) {
            self.run.event(&event)?;
        }
        Ok(())
    }
}
