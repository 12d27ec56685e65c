//! What optimizer steps did: loss, ratios, entropy, gradient, and how far sampler and learner are apart.

use hone_trace::{Batch, LearnStats, LossStats, StepReport};
use serde_json::{Map, Value};

use super::spread::Correlation;
use super::tokens::Visits;
use super::{Ledger, Spread, rewards};
use crate::pack::Sequence;

/// What one optimizer step's batches said.
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
    pub fn of(sequences: &[Sequence]) -> Self {
        let members = sequences.iter().map(|sequence| (sequence.group, sequence.trace)).collect();
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
}

/// Sums over the optimizer steps of one step of the run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Learning {
    passes: f64,
    grad_norms: Spread,
    losses: Spread,
    kl: Spread,
    entropy: Spread,
    clip_ratio: Spread,
    ratio_mean: Spread,
    ratio_range: Spread,
    skipped: f64,
    pub(super) visits: Visits,
}

impl Ledger {
    /// What an optimizer step did. Several steps on one batch are averaged.
    pub fn learned(&mut self, pass: &Pass, report: &StepReport, learning_rate: f64) {
        self.tally(pass, report);
        let learning = self.learning;
        self.set_some("policy/policy_loss", learning.losses.mean());
        self.set_some("policy/policy_entropy", learning.entropy.mean());
        self.set_some("policy/policy_kl", learning.kl.mean());
        self.set_some("policy/loss_metrics/clip_ratio", learning.clip_ratio.mean());
        self.set_some("policy/loss_metrics/is_ratio_mean", learning.ratio_mean.mean());
        self.set_some("policy/loss_metrics/is_ratio_min", learning.ratio_range.min());
        self.set_some("policy/loss_metrics/is_ratio_max", learning.ratio_range.max());
        self.set_some("policy/grad_norm", learning.grad_norms.mean());
        self.set("policy/policy_lr", learning_rate);
        self.set("policy/skipped_steps", learning.skipped);
        self.set("trainer/optimizer_steps", learning.passes);
        // Before the first step on a batch this is sampler against learner; later steps move the learner on.
        if learning.passes == 1.0 {
            self.set_some("policy/rollout_train_logprobs_abs_diff_mean", pass.gap.mean());
            self.set_some("policy/rollout_train_logprobs_abs_diff_std", pass.gap.std());
            self.set_some("policy/rollout_train_logprobs_abs_diff_min", pass.gap.min());
            self.set_some("policy/rollout_train_logprobs_abs_diff_max", pass.gap.max());
            self.set_some("policy/rollout_train_logprobs_corr", pass.agreement.value());
        }
        self.settle();
        let batch = self.batch(pass, report);
        self.batches.push(batch);
    }

    /// One event per optimizer step: what its own sequences earned, and what the step did.
    pub fn batches(&self) -> &[Map<String, Value>] {
        &self.batches
    }

    fn tally(&mut self, pass: &Pass, report: &StepReport) {
        let learning = &mut self.learning;
        learning.passes += 1.0;
        learning.losses.add(pass.loss.loss);
        learning.kl.add(pass.loss.kl / pass.targets());
        learning.clip_ratio.add(pass.loss.clipped as f64 / pass.targets());
        pass.entropy.mean().into_iter().for_each(|entropy| learning.entropy.add(entropy));
        pass.ratio.mean().into_iter().for_each(|ratio| learning.ratio_mean.add(ratio));
        [pass.ratio.min(), pass.ratio.max()].into_iter().flatten().for_each(|ratio| learning.ratio_range.add(ratio));
        report.grad_norm.into_iter().for_each(|norm| learning.grad_norms.add(norm));
        let visits = &mut learning.visits;
        if report.skipped.is_some() {
            learning.skipped += 1.0;
            visits.skipped += pass.credited as f64;
            return;
        }
        let LossStats { trained, clipped, .. } = pass.loss;
        visits.trained += trained as f64;
        visits.clipped += clipped as f64;
        visits.masked += pass.credited.saturating_sub(trained + clipped) as f64;
    }

    fn batch(&self, pass: &Pass, report: &StepReport) -> Map<String, Value> {
        let earned = pass.members.iter().filter_map(|(group, trace)| self.earned.get(*group)?.get(*trace));
        let mut line = Map::new();
        line.insert("event".into(), "optimizer_step".into());
        line.insert("step".into(), self.step.into());
        line.insert("batch".into(), self.batches.len().into());
        line.insert("sequences".into(), pass.members.len().into());
        line.insert("policy_step".into(), report.version.step.into());
        for (name, spread) in rewards::component_spreads(earned) {
            line.insert(format!("batch_reward/{name}"), spread.mean().into());
        }
        line.insert("policy/policy_loss".into(), pass.loss.loss.into());
        line.insert("policy/grad_norm".into(), report.grad_norm.into());
        line.insert("policy/loss_metrics/clip_ratio".into(), (pass.loss.clipped as f64 / pass.targets()).into());
        if let Some(why) = &report.skipped {
            line.insert("skipped".into(), why.clone().into());
        }
        line
    }
}
