//! The warm start: imitation of the oracle or of recorded traces, with the learner and the packing of reinforcement learning.
//!
//! Small models learn to copy ids from the context last, so repeated random sequences are mixed in at first
//! (`copying`), and fade out.

use std::path::{Path, PathBuf};

use hone_trace::rundir::RunDir;
use hone_trace::{Learner, LossStats, OptimizerStep, Rng, Seed, Trace};
use serde_json::Value;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::checkpoint::{self, Checkpointer, State};
use crate::evaluate::evaluate;
use crate::events::Event;
use crate::loss::{LossRecipe, Objective, Reduction};
use crate::material::Material;
use crate::oracle::Shown;
use crate::pack::{self, Credited, Packing, Place, Sequence};
use crate::plan::{Draw, Plan, PlanRecipe};
use crate::recipe::Recipe;
use crate::run::TrainError;
use crate::schedule::Schedule;
use crate::setup::Setup;

/// Statistics of one step of imitation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SftStep {
    pub step: u64,
    /// Mean cross-entropy of the weighted tokens.
    pub loss: f64,
    pub grad_norm: Option<f64>,
    pub tokens: usize,
    /// Success on the held-out tasks just before this step, if `sft.stop_at` had them played.
    pub held_out: Option<f64>,
}

/// Imitates for `recipe.sft.steps` steps, or until `sft.stop_at` is reached; calls `watch` for each. The engine then
/// serves the resulting policy.
pub async fn sft(setup: &Setup, recipe: &Recipe, mut watch: impl FnMut(SftStep)) -> Result<(), TrainError> {
    let learner = setup.engine.learner(&recipe.train.learner()).await?;
    let (material, plan) = (Material::open(setup, recipe)?, PlanRecipe::default());
    let mut imitation = Imitation::new(setup, recipe, &material, &plan, learner, State::default())?;
    while imitation.has_next().await? {
        watch(imitation.step().await?);
    }
    Ok(())
}

/// Like [`sft`], recorded in `directory` with checkpoints. Continues an existing run there.
pub async fn sft_recorded(
    setup: &Setup,
    recipe: &Recipe,
    directory: &Path,
    mut watch: impl FnMut(SftStep),
) -> Result<(), TrainError> {
    let (mut run, found) = open_run(recipe, directory)?;
    let mut learner = setup.engine.learner(&recipe.train.learner()).await?;
    if let Some((dir, state)) = &found {
        learner.restore(dir, state.version).await?;
    }
    let state = found.map(|(_, state)| state).unwrap_or_default();
    let mut checkpointer = Checkpointer::new(&recipe.checkpoint, &setup.model_dir, None);
    let (material, plan) = (Material::open(setup, recipe)?, PlanRecipe::default());
    let mut imitation = Imitation::new(setup, recipe, &material, &plan, learner, state)?;
    while imitation.has_next().await? {
        let seen = imitation.step().await?;
        run.metrics(&record(&seen))?;
        if checkpointer.is_due(&imitation.state, recipe.sft.steps) {
            checkpointer.write(&mut run, &mut *imitation.learner, &mut imitation.state).await?;
        }
        watch(seen);
    }
    Ok(())
}

/// The run in the directory at its newest checkpoint, or a new one.
fn open_run(recipe: &Recipe, directory: &Path) -> Result<(RunDir, Option<(PathBuf, State)>), TrainError> {
    if !directory.join("recipe.toml").exists() {
        let run = RunDir::create(directory, &recipe.to_toml()?)?;
        checkpoint::note_version(&run)?;
        return Ok((run, None));
    }
    let (mut run, _) = RunDir::resume(directory)?;
    let found = checkpoint::newest(directory)?;
    // Nothing is truncated before the checkpoint is verified.
    if let Some((path, _)) = &found {
        checkpoint::verify(path, directory)?;
    }
    let superseded = run.rewind(found.as_ref().map(|(_, state)| state.position).unwrap_or_default())?;
    let step = found.as_ref().map(|(_, state)| state.step);
    run.event(&Event::Resumed { step, superseded, dropped: None })?;
    Ok((run, found))
}

fn record(seen: &SftStep) -> serde_json::Map<String, Value> {
    let metrics = [
        ("step", Value::from(seen.step)),
        ("sft/loss", seen.loss.into()),
        ("policy/grad_norm", seen.grad_norm.into()),
        ("trainer/trained_tokens", seen.tokens.into()),
    ];
    let held_out = seen.held_out.map(|success| ("sft/held_out_success", success.into()));
    metrics.into_iter().chain(held_out).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Imitation in progress.
struct Imitation<'a> {
    setup: &'a Setup,
    recipe: &'a Recipe,
    material: &'a Material<'a>,
    learner: Box<dyn Learner>,
    loss: Objective,
    schedule: Schedule,
    plan: Plan<'a>,
    rollouts: hone_arena::rollout::Rollouts,
    state: State,
    /// Latest held-out success, until a step reports it.
    held_out: Option<f64>,
}

impl<'a> Imitation<'a> {
    fn new(
        setup: &'a Setup,
        recipe: &'a Recipe,
        material: &'a Material<'a>,
        plan: &'a PlanRecipe,
        learner: Box<dyn Learner>,
        state: State,
    ) -> Result<Self, TrainError> {
        let sft = &recipe.sft;
        Ok(Self {
            setup,
            recipe,
            material,
            learner,
            loss: LossRecipe::named("cross_entropy").build()?,
            schedule: Schedule {
                peak: sft.learning_rate,
                warmup: sft.warmup,
                // One past the last: the last step trains too.
                total: sft.steps + 1,
                decay: sft.decay,
                floor: 0.0,
            },
            plan: Plan::new(
                plan,
                Seed::root(recipe.seed).with("sft order").value(),
                &material.tasks,
                state.plan.clone(),
            ),
            rollouts: setup.rollouts(recipe, setup.engine.sampler(), 1.0),
            state,
            held_out: None,
        })
    }

    /// True when there is a step to do: not all are done, and success on the held-out tasks is still under `sft.stop_at`.
    /// Gives the same answer again after a resume.
    async fn has_next(&mut self) -> Result<bool, TrainError> {
        let (sft, step) = (&self.recipe.sft, self.state.step);
        if step >= sft.steps {
            return Ok(false);
        }
        let asked = step > 0 && step.is_multiple_of(sft.check_every.max(1));
        let Some(enough) = sft.stop_at.filter(|_| asked) else { return Ok(true) };
        self.held_out = evaluate(self.setup, self.recipe, self.setup.engine.sampler()).await.success;
        Ok(self.held_out.is_none_or(|success| success < enough))
    }

    async fn step(&mut self) -> Result<SftStep, TrainError> {
        let step = self.state.step + 1;
        let sequences = self.sequences(step).await?;
        let packing = Packing {
            temperature: 1.0,
            budget: self.recipe.train.batch_tokens,
            share: self.learner.abilities().shared_prefixes,
        };
        let mut stats = LossStats::default();
        for batch in pack::to_learn(&sequences, Reduction::TokenMean, &packing) {
            stats += self.learner.accumulate(&batch, &self.loss).await?.loss;
        }
        let max_grad_norm = Some(self.recipe.train.max_grad_norm);
        let rate = OptimizerStep { learning_rate: self.schedule.at(step), max_grad_norm, publish: true };
        let report = self.learner.step(rate).await?;
        (self.state.step, self.state.plan) = (step, self.plan.state.clone());
        let tokens = sequences.iter().map(|credited| credited.sequence.ids.len()).sum();
        let held_out = self.held_out.take();
        Ok(SftStep { step, loss: stats.loss, grad_norm: report.grad_norm, tokens, held_out })
    }

    /// Sequences of a step: whole episodes, and copying exercises while they are still mixed in.
    async fn sequences(&mut self, step: u64) -> Result<Vec<Credited>, TrainError> {
        let sft = &self.recipe.sft;
        let mut rng = Seed::root(self.recipe.seed).with("sft").at(step).rng();
        let copying = sft.copying * (1.0 - step as f64 / (sft.steps as f64 * sft.copying_until)).max(0.0);
        let of_all = step as f64 / sft.steps as f64;
        let shown = if of_all <= sft.solutions_until { Shown::Solution } else { Shown::Demonstration };
        let vocab = self.setup.engine.vocabulary() as u32;
        let (mut sequences, mut draws) = (Vec::with_capacity(sft.batch), Vec::new());
        for group in 0..sft.batch {
            if rng.unit() < copying {
                sequences.push(repeated(group, vocab, &mut rng));
            } else {
                draws.extend(self.plan.draw(1).into_iter().map(|draw| (group, draw)));
            }
        }
        sequences.extend(self.episodes(&draws, shown).await?);
        // In the order they were drawn, regardless of which was played first.
        sequences.sort_by_key(|credited| credited.sequence.group);
        Ok(sequences)
    }

    /// Episodes of the draws. They are played on all cores if the runtime has more than one thread: a GPU learns from a
    /// batch in less time than one core takes to play it.
    async fn episodes(&self, draws: &[(usize, Draw)], shown: Shown) -> Result<Vec<Credited>, TrainError> {
        let weight = self.recipe.sft.context_weight as f32;
        let Self { setup, material, rollouts, plan, .. } = self;
        let one = async |(group, draw): (usize, Draw)| -> Result<Credited, TrainError> {
            let trace = material.episode(setup, rollouts, plan, draw, shown).await?;
            Ok(imitated(group, &trace, weight))
        };
        let handle = Handle::try_current().ok().filter(|h| h.runtime_flavor() == RuntimeFlavor::MultiThread);
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(draws.len());
        let (Some(handle), 2..) = (handle, threads) else {
            let mut played = Vec::with_capacity(draws.len());
            for &draw in draws {
                played.push(one(draw).await?);
            }
            return Ok(played);
        };
        let share = |part: &[(usize, Draw)]| -> Result<Vec<Credited>, TrainError> {
            part.iter().map(|&draw| handle.block_on(one(draw))).collect()
        };
        tokio::task::block_in_place(|| {
            std::thread::scope(|scope| {
                let parts: Vec<_> =
                    draws.chunks(draws.len().div_ceil(threads)).map(|part| scope.spawn(|| share(part))).collect();
                let mut played = Vec::with_capacity(draws.len());
                for part in parts {
                    played.extend(part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
                }
                Ok(played)
            })
        })
    }
}

/// A trace to imitate: the agent's tokens at weight 1, the others at `context_weight`.
fn imitated(group: usize, trace: &Trace, context_weight: f32) -> Credited {
    let ids: Vec<u32> = trace.tokens().collect();
    let mut weights = vec![context_weight; ids.len()];
    for (at, node) in trace.sampled() {
        weights[at..at + node.tokens().len()].fill(1.0);
    }
    sequence(group, ids, &weights)
}

/// A random run of ids, repeated: only copying predicts the second half.
fn repeated(group: usize, vocab: u32, rng: &mut Rng) -> Credited {
    let length = 8 + rng.below(56);
    let run: Vec<u32> = (0..length).map(|_| rng.below(vocab as usize) as u32).collect();
    let times = 2 + rng.below(3);
    let ids = run.repeat(times);
    let mut weights = vec![0.0; ids.len()];
    weights[length..].fill(1.0);
    sequence(group, ids, &weights)
}

/// Tokens with their weights, in the advantages' place. Nobody sampled them, so no ratio is taken against a sampler.
fn sequence(group: usize, ids: Vec<u32>, weights: &[f32]) -> Credited {
    let weighted = || weights.iter().copied().enumerate().skip(1).filter(|(_, weight)| *weight > 0.0);
    let place = |(position, _)| Place { position, sampler: 0.0, behaviour: 0.0, old: None };
    let advantages = weighted().map(|(_, weight)| weight).collect();
    Credited { sequence: Sequence { group, trace: 0, ids, places: weighted().map(place).collect() }, advantages }
}
