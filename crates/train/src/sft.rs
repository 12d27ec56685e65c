//! The warm start: imitation of the oracle or of recorded traces, with the learner and the packing of reinforcement learning.
//!
//! Copying ids out of context is what small models learn last, so repeated random sequences are mixed in at first
//! (`copying`), and fade out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hone_engine::optim::Schedule;
use hone_engine::{LearnerSettings, NativeLearner};
use hone_trace::rundir::RunDir;
use hone_trace::{Learner as _, LossStats, OptimizerStep, Rng, Seed, Trace};
use serde_json::{Value, json};

use crate::checkpoint::{self, Keeper, State};
use crate::evaluate::evaluate;
use crate::loss::{LossRecipe, Objective, Reduction};
use crate::material::Material;
use crate::oracle::Shown;
use crate::pack::{Packing, Place, Sequence, pack};
use crate::plan::{Plan, PlanRecipe};
use crate::recipe::Recipe;
use crate::run::TrainError;
use crate::setup::Setup;

/// What one step of imitation saw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SftStep {
    pub step: u64,
    /// Mean cross-entropy of the weighted tokens.
    pub loss: f64,
    pub grad_norm: Option<f64>,
    pub tokens: usize,
}

/// Imitates for `recipe.sft.steps` steps, or until that is enough; `watch` is told of each. Returns the learner, whose
/// policy is the setup's.
pub async fn sft(setup: &Setup, recipe: &Recipe, mut watch: impl FnMut(SftStep)) -> Result<NativeLearner, TrainError> {
    let learner = NativeLearner::new(Arc::clone(&setup.policy), None, settings(recipe));
    let (material, plan) = (Material::open(setup, recipe)?, PlanRecipe::default());
    let mut imitation = Imitation::new(setup, recipe, &material, &plan, learner, State::default())?;
    while imitation.goes_on().await? {
        watch(imitation.step().await?);
    }
    Ok(imitation.learner)
}

/// As [`sft`], recorded in `directory` with checkpoints. Goes on with the run that is there, if one is.
pub async fn sft_recorded(
    setup: &Setup,
    recipe: &Recipe,
    directory: &Path,
    mut watch: impl FnMut(SftStep),
) -> Result<NativeLearner, TrainError> {
    let (mut run, found) = open_run(recipe, directory)?;
    let policy = Arc::clone(&setup.policy);
    let (learner, state) = match found {
        None => (NativeLearner::new(policy, None, settings(recipe)), State::default()),
        Some((dir, state)) => (NativeLearner::resume(policy, None, settings(recipe), &dir)?, state),
    };
    let mut keeper = Keeper::new(&recipe.checkpoint, &setup.model_dir, None);
    let (material, plan) = (Material::open(setup, recipe)?, PlanRecipe::default());
    let mut imitation = Imitation::new(setup, recipe, &material, &plan, learner, state)?;
    while imitation.goes_on().await? {
        let seen = imitation.step().await?;
        run.metrics(&record(&seen))?;
        if keeper.is_due(&imitation.state, recipe.sft.steps) {
            keeper.write(&mut run, &imitation.learner, &mut imitation.state)?;
        }
        watch(seen);
    }
    Ok(imitation.learner)
}

/// The run in the directory at its newest checkpoint, or a new one.
fn open_run(recipe: &Recipe, directory: &Path) -> Result<(RunDir, Option<(PathBuf, State)>), TrainError> {
    if !directory.join("recipe.toml").exists() {
        return Ok((RunDir::create(directory, &recipe.to_toml()?)?, None));
    }
    let (mut run, _) = RunDir::resume(directory)?;
    let found = checkpoint::newest(directory)?;
    let superseded = run.rewind(found.as_ref().map(|(_, state)| state.position).unwrap_or_default())?;
    let step = found.as_ref().map(|(_, state)| state.step);
    run.event(&json!({"event": "resumed", "step": step, "superseded": superseded}))?;
    Ok((run, found))
}

fn settings(recipe: &Recipe) -> LearnerSettings {
    LearnerSettings {
        adamw: recipe.train.adamw,
        recompute: recipe.train.recompute,
        memory_limit: recipe.train.activation_limit(),
        device: None,
    }
}

fn record(seen: &SftStep) -> serde_json::Map<String, Value> {
    let metrics = [
        ("step", Value::from(seen.step)),
        ("sft/loss", seen.loss.into()),
        ("policy/grad_norm", seen.grad_norm.into()),
        ("trainer/trained_tokens", seen.tokens.into()),
    ];
    metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Imitation in progress.
struct Imitation<'a> {
    setup: &'a Setup,
    recipe: &'a Recipe,
    material: &'a Material<'a>,
    learner: NativeLearner,
    loss: Objective,
    schedule: Schedule,
    plan: Plan<'a>,
    rollouts: hone_arena::rollout::Rollouts,
    state: State,
}

impl<'a> Imitation<'a> {
    fn new(
        setup: &'a Setup,
        recipe: &'a Recipe,
        material: &'a Material<'a>,
        plan: &'a PlanRecipe,
        learner: NativeLearner,
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
            rollouts: setup.rollouts(recipe, Arc::clone(&setup.sampler), 1.0),
            state,
        })
    }

    /// Whether there is a step to do: not all are done, and the held-out tasks do not say that it is enough. Asked again
    /// after a resume it says the same.
    async fn goes_on(&self) -> Result<bool, TrainError> {
        let (sft, step) = (&self.recipe.sft, self.state.step);
        if step >= sft.steps {
            return Ok(false);
        }
        let asked = step > 0 && step.is_multiple_of(sft.check_every.max(1));
        let Some(enough) = sft.stop_at.filter(|_| asked) else { return Ok(true) };
        let success = evaluate(self.setup, self.recipe).await.success;
        Ok(success.is_none_or(|success| success < enough))
    }

    async fn step(&mut self) -> Result<SftStep, TrainError> {
        let step = self.state.step + 1;
        let sequences = self.sequences(step).await?;
        let packing = Packing {
            reduction: Reduction::TokenMean,
            temperature: 1.0,
            budget: self.recipe.train.batch_tokens,
            share: true,
        };
        let mut stats = LossStats::default();
        for batch in pack(&sequences, &packing) {
            stats += self.learner.accumulate(&batch, &self.loss).await?.loss;
        }
        let max_grad_norm = Some(self.recipe.train.max_grad_norm);
        let rate = OptimizerStep { learning_rate: self.schedule.at(step), max_grad_norm, publish: true };
        let report = self.learner.step(rate).await?;
        (self.state.step, self.state.plan) = (step, self.plan.state.clone());
        let tokens = sequences.iter().map(|sequence| sequence.ids.len()).sum();
        Ok(SftStep { step, loss: stats.loss, grad_norm: report.grad_norm, tokens })
    }

    /// What a step imitates: whole episodes, and copying where it is still mixed in.
    async fn sequences(&mut self, step: u64) -> Result<Vec<Sequence>, TrainError> {
        let sft = &self.recipe.sft;
        let mut rng = Seed::root(self.recipe.seed).with("sft").at(step).rng();
        let copying = sft.copying * (1.0 - step as f64 / (sft.steps as f64 * sft.copying_until)).max(0.0);
        let of_all = step as f64 / sft.steps as f64;
        let shown = if of_all <= sft.solutions_until { Shown::Solution } else { Shown::Demonstration };
        let vocab = self.setup.policy.current().model.config.vocab as u32;
        let mut sequences = Vec::with_capacity(sft.batch);
        for group in 0..sft.batch {
            if rng.unit() < copying {
                sequences.push(repeated(group, vocab, &mut rng));
                continue;
            }
            for draw in self.plan.draw(1) {
                let trace = self.material.episode(self.setup, &self.rollouts, &self.plan, draw, shown).await?;
                sequences.push(imitated(group, &trace, sft.context_weight as f32));
            }
        }
        Ok(sequences)
    }
}

/// A trace to imitate: the agent's tokens at weight 1, the others at `context_weight`.
fn imitated(group: usize, trace: &Trace, context_weight: f32) -> Sequence {
    let ids: Vec<u32> = trace.tokens().collect();
    let mut weights = vec![context_weight; ids.len()];
    for (at, node) in trace.sampled() {
        weights[at..at + node.tokens().len()].fill(1.0);
    }
    sequence(group, ids, &weights)
}

/// A random run of ids, repeated: only copying predicts the second half.
fn repeated(group: usize, vocab: u32, rng: &mut Rng) -> Sequence {
    let length = 8 + rng.below(56);
    let run: Vec<u32> = (0..length).map(|_| rng.below(vocab as usize) as u32).collect();
    let times = 2 + rng.below(3);
    let ids = run.repeat(times);
    let mut weights = vec![0.0; ids.len()];
    weights[length..].fill(1.0);
    sequence(group, ids, &weights)
}

fn sequence(group: usize, ids: Vec<u32>, weights: &[f32]) -> Sequence {
    let place = |(position, &weight): (usize, &f32)| Place {
        position,
        sampler: 0.0,
        behaviour: 0.0,
        old: None,
        advantage: weight,
    };
    let places = weights.iter().enumerate().skip(1).filter(|(_, weight)| **weight > 0.0).map(place).collect();
    Sequence { group, trace: 0, ids, places }
}
