//! The run: sample groups, score, credit, pack, learn, publish, record, evaluate. Read it top to bottom.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hone_arena::rewards::TOTAL;
use hone_engine::optim::Schedule;
use hone_engine::{LearnerSettings, NativeLearner};
use hone_trace::rundir::{RunDir, RunDirError};
use hone_trace::{Group, LearnFault, Learner as _, OptimizerStep, Rng, Seed, Task};
use serde_json::json;

use crate::catalogue::UnknownName;
use crate::credit::{self, Weights};
use crate::evaluate::{Evaluation, evaluate};
use crate::ledger::{Ledger, Pass, Scheme};
use crate::loss::{BadLoss, Objective};
use crate::pack::{self, PackError, Packing, Sequence};
use crate::recipe::{Recipe, RecipeError};
use crate::setup::{Setup, SetupError};

/// Why a run stopped.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Credit(#[from] UnknownName),
    #[error(transparent)]
    Loss(#[from] BadLoss),
    #[error(transparent)]
    Pack(#[from] PackError),
    #[error(transparent)]
    Learn(#[from] LearnFault),
    #[error(transparent)]
    Run(#[from] RunDirError),
}

/// What a run is told about as it goes.
pub trait Watch {
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
    let started = Instant::now();
    let mut run = RunDir::create(directory, &recipe.to_toml()?)?;
    let credit = credit::named(&recipe.credit, Weights::only(TOTAL))?;
    let objective = recipe.loss.build()?;
    let settings = LearnerSettings { adamw: recipe.train.adamw, ..LearnerSettings::default() };
    let mut learner = NativeLearner::new(Arc::clone(&setup.policy), None, settings);
    let rollouts = setup.rollouts(recipe, Arc::clone(&setup.sampler), recipe.sampling.temperature);

    let before = checked(setup, recipe, &mut run, 0, watch).await?;
    let mut after = before.clone();
    let mut steps = Vec::new();
    let scheme = Scheme::of(&setup.rubric, &recipe.eval.success);
    for step in 1..=recipe.train.steps {
        if watch.stop() {
            break;
        }
        let clock = Instant::now();
        watch.doing(step, "sampling");
        let tasks = drawn(&setup.tasks, recipe, step);
        let seed = Seed::root(recipe.seed).with("rollout").at(step);
        let groups = rollouts.groups(&tasks, recipe.train.group_size, seed).await;
        let sampled_s = clock.elapsed().as_secs_f64();
        watch.sampled(step, &groups);

        let advantages = credit.credit(&groups);
        let mut ledger = Ledger::of(step, &groups, &advantages, &scheme);
        watch.doing(step, "learning");
        let (sequences, temperature) = pack::sequences(&groups, &advantages)?;
        if let Some(temperature) = temperature {
            learn(&mut learner, recipe, step, &objective, sequences, temperature, &mut ledger).await?;
        }
        ledger.timing(sampled_s, clock.elapsed().as_secs_f64());

        record(&mut run, &ledger, &groups)?;
        watch.stepped(&ledger);
        steps.push(ledger);
        if step == recipe.train.steps || (recipe.eval.every > 0 && step % recipe.eval.every == 0) {
            after = checked(setup, recipe, &mut run, step, watch).await?;
        }
    }
    run.checkpoint(steps.len() as u64, |dir| learner.save(dir).map_err(std::io::Error::other))?;
    run.sync()?;
    Ok(Report { before, after, steps, seconds: started.elapsed().as_secs_f64() })
}

/// The tasks of a step: the set is gone through in an order of its own for every pass.
fn drawn<'a>(tasks: &'a [Task], recipe: &Recipe, step: u64) -> Vec<&'a Task> {
    let groups = recipe.train.groups as u64;
    let first = (step - 1) * groups;
    let place = |number: u64| {
        let (pass, at) = (number / tasks.len() as u64, number % tasks.len() as u64);
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        let mut rng: Rng = Seed::root(recipe.seed).with("order").at(pass).rng();
        rng.shuffle(&mut order);
        &tasks[order[at as usize]]
    };
    (first..first + groups).map(place).collect()
}

/// One or several optimizer steps on the sequences of one rollout batch.
async fn learn(
    learner: &mut NativeLearner,
    recipe: &Recipe,
    step: u64,
    objective: &Objective,
    mut sequences: Vec<Sequence>,
    temperature: f32,
    ledger: &mut Ledger,
) -> Result<(), TrainError> {
    // The engine's sampler and learner agree bit for bit, so the sampler's logprob is what the learner would have said
    // when the batch was first seen: no extra pass is needed to know it.
    for place in sequences.iter_mut().flat_map(|sequence| &mut sequence.places) {
        place.old = Some(place.sampler);
    }
    let train = &recipe.train;
    let schedule = Schedule {
        peak: train.learning_rate,
        warmup: train.warmup,
        total: train.steps,
        decay: train.decay,
        floor: 0.0,
    };
    let packing = Packing { reduction: objective.reduction, temperature, budget: train.batch_tokens, share: true };
    let size = if train.mini_batch == 0 { sequences.len() } else { train.mini_batch };
    for epoch in 0..train.epochs_per_batch {
        Seed::root(recipe.seed).with("mini batches").at(step).at(u64::from(epoch)).rng().shuffle(&mut sequences);
        for part in sequences.chunks(size.max(1)) {
            let mut pass = Pass::of(part);
            for batch in pack::pack(part, &packing) {
                let stats = learner.accumulate(&batch, objective).await?;
                pass.add(&batch, &stats);
            }
            let rate = OptimizerStep { learning_rate: schedule.at(step), max_grad_norm: Some(train.max_grad_norm) };
            let report = learner.step(rate).await?;
            ledger.learned(&pass, &report, schedule.at(step));
        }
    }
    Ok(())
}

async fn checked(
    setup: &Setup,
    recipe: &Recipe,
    run: &mut RunDir,
    step: u64,
    watch: &mut dyn Watch,
) -> Result<Evaluation, TrainError> {
    watch.doing(step, "evaluating");
    let (evaluation, traces) = evaluate(setup, recipe).await?;
    let numbers = run.traces(&traces)?;
    let numbers = [numbers.start, numbers.end];
    run.event(&json!({"event": "eval", "step": step, "result": evaluation, "traces": numbers}))?;
    watch.evaluated(step, &evaluation);
    Ok(evaluation)
}

/// Every trace of the step, those excluded from their groups included.
fn record(run: &mut RunDir, ledger: &Ledger, groups: &[Group]) -> Result<(), TrainError> {
    let excluded = |group: &Group| group.excluded().iter().map(|(trace, _)| trace.clone()).collect::<Vec<_>>();
    let traces: Vec<_> = groups.iter().flat_map(|group| [group.traces().to_vec(), excluded(group)].concat()).collect();
    let numbers = run.traces(&traces)?;
    run.event(&json!({"event": "step", "step": ledger.step, "traces": [numbers.start, numbers.end]}))?;
    for batch in ledger.batches() {
        run.event(batch)?;
    }
    run.metrics(&ledger.to_map())?;
    Ok(())
}
