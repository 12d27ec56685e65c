//! What a run will take, before it takes it: memory, tokens and time.

use std::sync::Arc;
use std::time::Instant;

use hone_engine::memory;
use hone_engine::{GeneratorSettings, Keep, LearnerSettings, NativeLearner, Workspace};
use hone_trace::{Advantage, Group, LearnFault, Learner as _, Seed, Task, Trace};
use serde::Serialize;

use crate::loss::{LossRecipe, Reduction};
use crate::pack::{self, Packing};
use crate::recipe::Recipe;
use crate::run::TrainError;
use crate::setup::Setup;

/// The most a run may need, in bytes and tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Budget {
    pub parameters: u64,
    /// The master copy and the one the kernels read.
    pub weights_bytes: u64,
    /// Gradients and both moments.
    pub optimizer_bytes: u64,
    /// A second set of weights: the reference policy, or the version samplers still hold while the next is made.
    pub reference_bytes: u64,
    pub activation_bytes: u64,
    pub cache_bytes: u64,
    pub total_bytes: u64,
    /// What the machine has free; `None` where it does not say.
    pub available_bytes: Option<u64>,
    pub episodes_per_step: u64,
    /// Every episode as long as the window.
    pub tokens_per_step: u64,
    pub tokens: u64,
}

impl Budget {
    pub fn of(setup: &Setup, recipe: &Recipe) -> Self {
        let snapshot = setup.policy.current();
        let config = &snapshot.model.config;
        let parameters = snapshot.model.parameters() as u64;
        let trained = snapshot.adapter.as_ref().map_or(parameters, |adapter| adapter.table.len() as u64);
        let train = &recipe.train;
        let keep = if train.recompute { Keep::Inputs } else { Keep::Everything };
        let batch = train.batch_tokens.max(recipe.rollout.window);
        let copies = u64::from(
            recipe.kl_reward.is_some() || recipe.loss.kl.is_some() || train.kl_to_start || train.kl_within.is_some(),
        ) + u64::from(recipe.overlap.staleness > 0);
        let episodes = train.groups as u64 * u64::from(train.group_size);
        let per_token = 2 * 4 * config.layers as u64 * (config.heads.keys * config.heads.dim) as u64;
        let running = episodes.min(recipe.rollout.concurrency as u64);
        let cache = (running * recipe.rollout.window as u64 * per_token).min(GeneratorSettings::default().memory_limit);
        let mut budget = Self {
            parameters,
            weights_bytes: 8 * parameters,
            optimizer_bytes: 12 * trained,
            reference_bytes: 8 * parameters * copies,
            activation_bytes: Workspace::bytes(config, batch, keep),
            cache_bytes: cache,
            total_bytes: 0,
            available_bytes: memory::available(),
            episodes_per_step: episodes,
            tokens_per_step: episodes * recipe.rollout.window as u64,
            tokens: train.steps * episodes * recipe.rollout.window as u64,
        };
        budget.total_bytes = budget.weights_bytes
            + budget.optimizer_bytes
            + budget.reference_bytes
            + budget.activation_bytes
            + budget.cache_bytes;
        budget
    }

    /// Refuses what cannot be had for certain: the optimizer and the second set of weights. What batches and the cache
    /// take depends on the episodes; the learner refuses a batch that does not fit when it meets one.
    pub fn check(&self) -> Result<(), LearnFault> {
        let (needed, limit) = (self.optimizer_bytes + self.reference_bytes, self.available_bytes.unwrap_or(u64::MAX));
        let fix = "train a smaller model or an adapter, or leave out the KL to a reference".to_owned();
        if needed > limit { Err(LearnFault::Memory { needed, limit, fix }) } else { Ok(()) }
    }

    /// What to change, where the machine has less than the run may need.
    pub fn shortage(&self) -> Option<String> {
        let available = self.available_bytes?;
        (self.total_bytes > available).then(|| {
            format!(
                "the run may need {} and {} are free: lower train.batch_tokens (activations take {}), set train.recompute = \
                 true, lower rollout.concurrency (keys and values take {}), or train a smaller model",
                gigabytes(self.total_bytes),
                gigabytes(available),
                gigabytes(self.activation_bytes),
                gigabytes(self.cache_bytes)
            )
        })
    }
}

/// Bytes as people read them.
pub fn gigabytes(bytes: u64) -> String {
    if bytes < 1 << 30 { format!("{:.0} MB", bytes as f64 / 1e6) } else { format!("{:.1} GB", bytes as f64 / 1e9) }
}

/// How long a run will take, by a small measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Seconds the measurement took.
    pub measured_s: f64,
    pub episodes_measured: u64,
    /// Tokens sampled in a mean episode.
    pub sampled_per_episode: f64,
    pub step_s: f64,
    pub run_s: f64,
}

/// Episodes that a measurement plays at least, where a step has that many.
const MEASURED: usize = 32;

/// Plays a few groups and learns from them, without a step, and scales that up. Sampling more episodes at once costs
/// less per episode, so this is too long rather than too short.
pub async fn estimate(setup: &Setup, recipe: &Recipe) -> Result<Estimate, TrainError> {
    let train = &recipe.train;
    let wanted = MEASURED.div_ceil(train.group_size.max(1) as usize);
    let groups = wanted.min(train.groups).min(setup.tasks.len()).max(1);
    let mut learner = NativeLearner::new(Arc::clone(&setup.policy), None, LearnerSettings::default());
    // What is done for the first time takes longer: threads wake up, memory is taken.
    measure(setup, recipe, &mut learner, 1).await?;
    let started = Instant::now();
    let (sampled_s, learned_s, tokens) = measure(setup, recipe, &mut learner, groups).await?;
    let episodes = groups as u64 * u64::from(train.group_size);
    let step_s = (sampled_s + learned_s * f64::from(train.epochs_per_batch)) * train.groups as f64 / groups as f64;
    Ok(Estimate {
        measured_s: started.elapsed().as_secs_f64(),
        episodes_measured: episodes,
        sampled_per_episode: tokens as f64 / episodes.max(1) as f64,
        step_s,
        run_s: step_s * train.steps as f64,
    })
}

/// Seconds of sampling, seconds of learning and tokens sampled of so many groups.
async fn measure(
    setup: &Setup,
    recipe: &Recipe,
    learner: &mut NativeLearner,
    count: usize,
) -> Result<(f64, f64, usize), TrainError> {
    let rollouts = setup.rollouts(recipe, Arc::clone(&setup.sampler), recipe.sampling.temperature);
    let tasks: Vec<&Task> = setup.tasks.iter().take(count).collect();
    let clock = Instant::now();
    let groups = rollouts.groups(&tasks, recipe.train.group_size, Seed::root(recipe.seed).with("estimate")).await;
    let sampled_s = clock.elapsed().as_secs_f64();
    let sampled = groups.iter().flat_map(Group::traces).flat_map(Trace::sampled);
    let tokens: usize = sampled.map(|(_, node)| node.tokens().len()).sum();
    let credit: Vec<Vec<_>> =
        groups.iter().map(|group| vec![Advantage::Whole { value: 1.0 }; group.traces().len()]).collect();
    let (sequences, temperature) = pack::sequences(&groups, &credit)?;
    let clock = Instant::now();
    if let Some(temperature) = temperature {
        let budget = recipe.train.batch_tokens;
        let packing = Packing { reduction: Reduction::TokenMean, temperature, budget, share: true };
        let loss = LossRecipe::named("reinforce").build()?;
        for batch in pack::pack(&sequences, &packing) {
            learner.accumulate(&batch, &loss).await?;
        }
    }
    Ok((sampled_s, clock.elapsed().as_secs_f64(), tokens))
}
