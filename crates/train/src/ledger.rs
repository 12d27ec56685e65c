//! The signal ledger: where a step's tokens went, and what came of them.

use std::collections::BTreeMap;

use hone_trace::{Advantage, Batch, Group, LearnStats, LossStats, Outcome, StepReport, Trace};
use serde_json::{Map, Value};

/// The books of one step, as metrics by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ledger {
    pub step: u64,
    metrics: BTreeMap<String, f64>,
    /// Optimizer steps taken, for means over them.
    passes: f64,
}

/// What one optimizer step's batches said.
#[derive(Debug, Clone, Default)]
pub struct Pass {
    loss: LossStats,
    entropy: f64,
    /// |learner − sampler| over targets.
    gap_sum: f64,
    gap_max: f64,
}

impl Pass {
    pub fn add(&mut self, batch: &Batch, stats: &LearnStats) {
        self.loss += stats.loss;
        self.entropy += stats.entropies.iter().map(|&entropy| f64::from(entropy)).sum::<f64>();
        for (target, &logprob) in batch.targets.iter().zip(&stats.logprobs) {
            let gap = f64::from(logprob - target.sampler).abs();
            self.gap_sum += gap;
            self.gap_max = self.gap_max.max(gap);
        }
    }
}

impl Ledger {
    /// What sampling and credit gave.
    pub fn of(step: u64, groups: &[Group], advantages: &[Vec<Advantage>]) -> Self {
        let mut ledger = Self { step, ..Self::default() };
        let traces = || {
            groups.iter().flat_map(|group| group.traces().iter().chain(group.excluded().iter().map(|(trace, _)| trace)))
        };
        let kept = || groups.iter().flat_map(Group::traces);
        ledger.set("trainer/global_step", step as f64);
        ledger.set("generate/sampled_tokens", traces().map(sampled_tokens).sum::<usize>() as f64);
        ledger.set("rollouts/total", traces().count() as f64);
        ledger.set("rollouts/faulted", (traces().count() - kept().count()) as f64);
        ledger.set(
            "rollouts/truncated",
            kept().filter(|trace| matches!(trace.outcome, Outcome::Truncated { .. })).count() as f64,
        );
        ledger.calls(kept());
        ledger.components(kept());
        ledger.signal(groups, advantages);
        ledger
    }

    fn calls<'a>(&mut self, traces: impl Iterator<Item = &'a Trace>) {
        let (mut turns, mut failures, mut emitted, mut executed, mut failed, mut episodes) =
            (0u32, 0u32, 0, 0, 0, 0u32);
        let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
        for trace in traces {
            episodes += 1;
            for turn in &trace.turns {
                turns += 1;
                emitted += turn.calls.len() as u32;
                executed += turn.executed;
                failed += turn.failed;
                if let Some(failure) = &turn.failure {
                    failures += 1;
                    *kinds.entry(failure.kind.name()).or_default() += 1;
                }
            }
        }
        self.ratio("reward/parse_failure_rate", failures, turns);
        for (kind, count) in kinds {
            self.ratio(&format!("reward/parse_failure_rate/{kind}"), count, turns);
        }
        self.ratio("environment/avg_turns", turns, episodes);
        self.ratio("environment/avg_tool_calls", executed, episodes);
        self.ratio("environment/tool_error_rate", failed, executed);
        self.set("environment/tool_calls_emitted", f64::from(emitted));
        self.set("environment/tool_calls_executed", f64::from(executed));
        self.set("environment/tool_calls_failed", f64::from(failed));
    }

    fn components<'a>(&mut self, traces: impl Iterator<Item = &'a Trace>) {
        let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for reward in traces.flat_map(|trace| &trace.rewards) {
            if let Some(value) = reward.value() {
                values.entry(&reward.component).or_default().push(value);
            }
        }
        for (name, values) in values {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
            self.set(&format!("batch_reward/{name}"), mean);
            self.set(&format!("batch_reward/{name}/std"), variance.sqrt());
        }
    }

    fn signal(&mut self, groups: &[Group], advantages: &[Vec<Advantage>]) {
        let has_signal = |advantages: &&Vec<Advantage>| {
            advantages.iter().any(|advantage| !matches!(advantage, Advantage::None { .. }))
        };
        let with_signal = advantages.iter().filter(has_signal).count();
        self.ratio("reward/signal_ratio", with_signal as u32, groups.len() as u32);
        let trained: usize = groups
            .iter()
            .zip(advantages)
            .flat_map(|(group, advantages)| group.traces().iter().zip(advantages))
            .filter(|(_, advantage)| !matches!(advantage, Advantage::None { .. }))
            .map(|(trace, _)| sampled_tokens(trace))
            .sum();
        self.set("trainer/trained_tokens", trained as f64);
    }

    /// What an optimizer step did. Several steps on one batch are averaged.
    pub fn learned(&mut self, pass: &Pass, report: &StepReport, learning_rate: f64) {
        let targets = pass.loss.targets.max(1) as f64;
        self.passes += 1.0;
        self.mean("policy/policy_loss", pass.loss.loss);
        self.mean("policy/policy_entropy", pass.entropy / targets);
        self.mean("policy/policy_kl", pass.loss.kl / targets);
        self.mean("policy/loss_metrics/clip_ratio", pass.loss.clipped as f64 / targets);
        // Measured before the first step of a batch this is sampler against learner; later steps move the learner on.
        if self.passes == 1.0 {
            self.set("policy/rollout_train_logprobs_abs_diff_mean", pass.gap_sum / targets);
            self.set("policy/rollout_train_logprobs_abs_diff_max", pass.gap_max);
        }
        if let Some(norm) = report.grad_norm {
            self.mean("policy/grad_norm", norm);
        }
        if report.skipped.is_some() {
            *self.metrics.entry("policy/skipped_steps".into()).or_default() += 1.0;
        }
        self.set("policy/policy_lr", learning_rate);
        self.set("trainer/optimizer_steps", self.passes);
    }

    pub fn timing(&mut self, generate: f64, step: f64) {
        self.set("timing/generate", generate);
        self.set("timing/policy_train", step - generate);
        self.set("timing/step", step);
    }

    pub fn get(&self, name: &str) -> Option<f64> {
        self.metrics.get(name).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.metrics.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// The line of metrics.jsonl.
    pub fn to_map(&self) -> Map<String, Value> {
        let metrics = self.iter().map(|(name, value)| (name.to_owned(), value.into()));
        std::iter::once(("step".to_owned(), self.step.into())).chain(metrics).collect()
    }

    /// What [`Ledger::to_map`] wrote.
    pub fn from_map(record: &Map<String, Value>) -> Self {
        let step = record.get("step").and_then(Value::as_u64).unwrap_or(0);
        let number = |(name, value): (&String, &Value)| Some((name.clone(), value.as_f64()?));
        let metrics: BTreeMap<_, _> = record.iter().filter(|(name, _)| *name != "step").filter_map(number).collect();
        let passes = metrics.get("trainer/optimizer_steps").copied().unwrap_or(0.0);
        Self { step, metrics, passes }
    }

    pub fn set(&mut self, name: &str, value: f64) {
        self.metrics.insert(name.to_owned(), value);
    }

    /// Absent where there is nothing to divide by.
    fn ratio(&mut self, name: &str, part: u32, of: u32) {
        if of > 0 {
            self.set(name, f64::from(part) / f64::from(of));
        }
    }

    fn mean(&mut self, name: &str, value: f64) {
        let entry = self.metrics.entry(name.to_owned()).or_default();
        *entry += (value - *entry) / self.passes;
    }
}

fn sampled_tokens(trace: &Trace) -> usize {
    trace.sampled().map(|(_, node)| node.tokens().len()).sum()
}
