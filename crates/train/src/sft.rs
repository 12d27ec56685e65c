//! The warm start: imitation of the oracle, with the learner and the packing of reinforcement learning.
//!
//! Copying ids out of context is what small models learn last, so repeated random sequences are mixed in at first
//! (`copying`), and fade out.

use hone_engine::optim::Schedule;
use hone_engine::{LearnerSettings, NativeLearner};
use hone_trace::{Learner as _, LossStats, OptimizerStep, Rng, Seed, Trace};

use crate::loss::{LossRecipe, Reduction};
use crate::oracle;
use crate::pack::{Packing, Place, Sequence, pack};
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

/// Imitates the oracle for `recipe.sft.steps` steps; `watch` is told of each. Returns the learner, whose policy is the
/// setup's.
pub async fn sft(setup: &Setup, recipe: &Recipe, mut watch: impl FnMut(SftStep)) -> Result<NativeLearner, TrainError> {
    let sft = &recipe.sft;
    let settings = LearnerSettings { adamw: recipe.train.adamw, ..LearnerSettings::default() };
    let mut learner = NativeLearner::new(std::sync::Arc::clone(&setup.policy), None, settings);
    let loss = LossRecipe::named("cross_entropy").build()?;
    let schedule =
        Schedule { peak: sft.learning_rate, warmup: sft.warmup, total: sft.steps, decay: sft.decay, floor: 0.0 };
    let rollouts = setup.rollouts(recipe, std::sync::Arc::clone(&setup.sampler), 1.0);
    let vocab = setup.policy.current().model.config.vocab as u32;
    let mut order: Vec<usize> = Vec::new();
    let mut epoch = 0;
    for step in 1..=sft.steps {
        let mut rng = Seed::root(recipe.seed).with("sft").at(step).rng();
        let copying = sft.copying * (1.0 - step as f64 / (sft.steps as f64 * COPYING_UNTIL)).max(0.0);
        let mut sequences = Vec::with_capacity(sft.batch);
        for group in 0..sft.batch {
            if rng.unit() < copying {
                sequences.push(repeated(group, vocab, &mut rng));
                continue;
            }
            if order.is_empty() {
                order = (0..setup.tasks.len()).collect();
                Seed::root(recipe.seed).with("sft order").at(epoch).rng().shuffle(&mut order);
                epoch += 1;
            }
            let Some(task) = order.pop() else { break };
            let trace = oracle::oracle(setup, &rollouts, &setup.tasks[task]).await?;
            sequences.push(imitated(group, &trace, sft.context_weight as f32));
        }
        let packing = Packing {
            reduction: Reduction::TokenMean,
            temperature: 1.0,
            budget: recipe.train.batch_tokens,
            share: true,
        };
        let mut stats = LossStats::default();
        for batch in pack(&sequences, &packing) {
            stats += learner.accumulate(&batch, &loss).await?.loss;
        }
        let rate = OptimizerStep { learning_rate: schedule.at(step), max_grad_norm: Some(recipe.train.max_grad_norm) };
        let report = learner.step(rate).await?;
        let tokens = sequences.iter().map(|sequence| sequence.ids.len()).sum();
        watch(SftStep { step, loss: stats.loss, grad_norm: report.grad_norm, tokens });
    }
    Ok(learner)
}

/// The share of the steps after which no copying sequences are mixed in.
const COPYING_UNTIL: f64 = 5.0 / 6.0;

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
