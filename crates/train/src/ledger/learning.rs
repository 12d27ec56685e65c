//! Statistics of the optimizer steps: loss, ratios, entropy, gradient, and the gap between sampler and learner.

use hone_trace::{Batch, Group, LearnStats, LossStats, StepReport};
use serde_json::{Map, Value};

use super::names::{self, Name};
use super::spread::Correlation;
use super::tokens::Visits;
use super::{Metrics, Spread, rewards};
use crate::events::OptimizerEvent;
use crate::pack::Sequence;

/// Statistics of one optimizer step's batches.
#[derive(Debug, Clone, Default)]
pub struct Pass {
    /// Group and place in it of every sequence.
    members: Vec<(usize, usize)>,
    loss: LossStats,
    entropy: Spread,
    /// |learner − sampler|.
    gap: Spread,
    agreement: Correlation,
    ratio: Spread,
    /// Targets whose advantage is not 0.
    credited: u64,
}

impl Pass {
    /// An optimizer step on these sequences.
    pub fn of<'a>(sequences: impl Iterator<Item = &'a Sequence>) -> Self {
        let members = sequences.map(|sequence| (sequence.group, sequence.trace)).collect();
        Self { members, ..Self::default() }
    }

    pub fn add(&mut self, batch: &Batch, stats: &LearnStats) {
        self.loss += stats.loss;
        stats.entropies.iter().flatten().for_each(|entropy| self.entropy.add(f64::from(*entropy)));
        for (target, &logprob) in batch.targets.iter().zip(&stats.logprobs) {
            let (learner, sampler) = (f64::from(logprob), f64::from(target.sampler));
            self.gap.add((learner - sampler).abs());
            self.agreement.add(learner, sampler);
            self.ratio.add(target.old.map_or(1.0, |old| (learner - f64::from(old)).exp()));
            self.credited += u64::from(target.advantage != 0.0);
        }
    }

    fn targets(&self) -> f64 {
        self.loss.targets.max(1) as f64
    }

    fn clip_ratio(&self) -> f64 {
        self.loss.clipped as f64 / self.targets()
    }
}

/// Optimizer step: its sequences and its results.
#[derive(Debug, Clone)]
pub struct Optimized {
    pub pass: Pass,
    pub report: StepReport,
}

impl Optimized {
    /// Fate of the credited tokens it was shown.
    fn visits(&self) -> Visits {
        let credited = self.pass.credited;
        if self.report.skipped.is_some() {
            return Visits { skipped: credited as f64, ..Visits::default() };
        }
        let LossStats { trained, clipped, .. } = self.pass.loss;
        let masked = credited.saturating_sub(trained + clipped);
        Visits { trained: trained as f64, clipped: clipped as f64, masked: masked as f64, skipped: 0.0 }
    }

    /// Event of the step: the rewards of its own sequences, and the result of the update.
    pub fn event(&self, step: u64, batch: usize, groups: &[Group]) -> OptimizerEvent {
        let Self { pass, report } = self;
        let members = pass.members.iter().filter_map(|(group, trace)| groups.get(*group)?.traces().get(*trace));
        let earned: Vec<rewards::Values> = members.map(rewards::values).collect();
        let mut metrics = Map::new();
        let mut set = |name: Name, value: Value| metrics.insert(name.to_string(), value);
        for (name, spread) in rewards::component_spreads(earned.iter()) {
            set(names::BATCH_REWARD_COMPONENT.of([&name]), spread.mean().into());
        }
        set(names::POLICY_POLICY_LOSS.into(), pass.loss.loss.into());
        set(names::POLICY_GRAD_NORM.into(), report.grad_norm.into());
        set(names::POLICY_LOSS_METRICS_CLIP_RATIO.into(), pass.clip_ratio().into());
        OptimizerEvent {
            step,
            batch,
            sequences: pass.members.len(),
            policy_step: report.version.step,
            metrics,
            skipped: report.skipped.clone(),
        }
    }
}

/// Outcomes of credited tokens over the optimizer steps, counted each time a token was seen.
pub fn visits(steps: &[Optimized]) -> Visits {
    steps.iter().map(Optimized::visits).fold(Visits::default(), |sum, each| Visits {
        trained: sum.trained + each.trained,
        clipped: sum.clipped + each.clipped,
        masked: sum.masked + each.masked,
        skipped: sum.skipped + each.skipped,
    })
}

/// Metrics of the optimizer steps of one step of the run, averaged over them. None if nothing had signal.
pub fn learning(steps: &[Optimized], learning_rate: f64) -> Metrics {
    let mut metrics = Metrics::default();
    let Some(Optimized { pass: first, .. }) = steps.first() else { return metrics };
    let over = |value: &dyn Fn(&Optimized) -> Option<f64>| steps.iter().filter_map(value).collect::<Spread>();
    let each = |value: fn(&Pass) -> f64| over(&|step| Some(value(&step.pass))).mean();
    let ranges: Spread =
        steps.iter().flat_map(|step| [step.pass.ratio.min(), step.pass.ratio.max()]).flatten().collect();
    metrics.set_some(names::POLICY_POLICY_LOSS, each(|pass| pass.loss.loss));
    metrics.set_some(names::POLICY_POLICY_ENTROPY, over(&|step| step.pass.entropy.mean()).mean());
    metrics.set_some(names::POLICY_POLICY_KL, over(&|step| Some(step.pass.loss.kl? / step.pass.targets())).mean());
    metrics.set_some(names::POLICY_LOSS_METRICS_CLIP_RATIO, each(Pass::clip_ratio));
    metrics.set_some(names::POLICY_LOSS_METRICS_IS_RATIO_MEAN, over(&|step| step.pass.ratio.mean()).mean());
    metrics.set_some(names::POLICY_LOSS_METRICS_IS_RATIO_MIN, ranges.min());
    metrics.set_some(names::POLICY_LOSS_METRICS_IS_RATIO_MAX, ranges.max());
    metrics.set_some(names::POLICY_GRAD_NORM, over(&|step| step.report.grad_norm).mean());
    metrics.set(names::POLICY_POLICY_LR, learning_rate);
    let skipped = steps.iter().filter(|step| step.report.skipped.is_some()).count();
    metrics.set(names::POLICY_SKIPPED_STEPS, skipped as f64);
    metrics.set(names::TRAINER_OPTIMIZER_STEPS, steps.len() as f64);
    // Before the first step on a batch this is sampler against learner; later steps move the learner.
    metrics.set_some(names::POLICY_ROLLOUT_TRAIN_LOGPROBS_ABS_DIFF_MEAN, first.gap.mean());
    metrics.set_some(names::POLICY_ROLLOUT_TRAIN_LOGPROBS_ABS_DIFF_STD, first.gap.std());
    metrics.set_some(names::POLICY_ROLLOUT_TRAIN_LOGPROBS_ABS_DIFF_MIN, first.gap.min());
    metrics.set_some(names::POLICY_ROLLOUT_TRAIN_LOGPROBS_ABS_DIFF_MAX, first.gap.max());
    metrics.set_some(names::POLICY_ROLLOUT_TRAIN_LOGPROBS_CORR, first.agreement.value());
    metrics
}
