//! Foreign records in our vocabulary.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Steps whose gradient was not finite.
const ENDED: usize = 3;

/// Everything that was read.
#[derive(Debug, Default)]
pub struct Record {
    /// Display name of the format.
    pub format: &'static str,
    pub episodes: Vec<Episode>,
    /// Curves by step.
    pub curves: BTreeMap<u64, BTreeMap<Curve, f64>>,
    /// Steps at which the loss or the gradient was not a number, up to the end of the record.
    pub not_finite: BTreeSet<u64>,
    /// Reward components with their weights, in order.
    pub components: Vec<(String, f64)>,
    /// True if the record says how episodes ended.
    pub has_endings: bool,
    /// True if the record says which episodes broke.
    pub has_faults: bool,
    /// Assumptions and omissions, in sentences.
    pub notes: Vec<String>,
}

/// One episode.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Episode {
    pub step: u64,
    /// Episodes of one step with the same name were sampled for one task.
    pub group: String,
    /// By component. Absent if not scored.
    pub rewards: BTreeMap<String, f64>,
    pub total: Option<f64>,
    /// Advantage it was trained with.
    pub advantage: Option<f64>,
    pub prompt: Option<String>,
    pub completion: Option<String>,
    /// The conversation in OpenAI's form, where it is recorded.
    pub messages: Option<Vec<Value>>,
    /// True if a length limit cut it short.
    pub truncated: bool,
    /// Fault outside the policy: its message.
    pub fault: Option<String>,
}

/// A curve that checks read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Curve {
    Loss,
    GradNorm,
    Entropy,
    Kl,
    LearningRate,
    Reward,
    CompletionLength,
    ClipRatio,
}

impl Curve {
    /// The curve that other trainers write under this name.
    pub fn of(name: &str) -> Option<Self> {
        let name = name.trim().to_lowercase();
        let last = name.rsplit('/').next().unwrap_or(&name);
        Some(match last {
            "loss" | "policy_loss" | "final_loss" | "pg_loss" => Self::Loss,
            "grad_norm" | "raw_grad_norm" => Self::GradNorm,
            "entropy" | "policy_entropy" | "entropy_loss" => Self::Entropy,
            "kl" | "policy_kl" | "kl_div" | "kl_loss" | "mean_kl" => Self::Kl,
            "learning_rate" | "lr" | "policy_lr" => Self::LearningRate,
            "reward" | "avg_raw_reward" | "mean_reward" | "avg_reward" => Self::Reward,
            "mean_length" | "completion_length" | "avg_num_tokens" | "response_length" => Self::CompletionLength,
            "clip_ratio" | "clipfrac" | "region_mean" | "ppo_clip_ratio" => Self::ClipRatio,
            _ => return None,
        })
    }
}

impl Record {
    /// Steps that have anything, in order.
    pub fn steps(&self) -> BTreeSet<u64> {
        self.episodes.iter().map(|episode| episode.step).chain(self.curves.keys().copied()).collect()
    }

    /// The largest number of episodes of one task in one step.
    pub fn group_size(&self) -> usize {
        let mut sizes: BTreeMap<(u64, &str), usize> = BTreeMap::new();
        for episode in &self.episodes {
            *sizes.entry((episode.step, &episode.group)).or_default() += 1;
        }
        sizes.into_values().max().unwrap_or(0)
    }

    pub(crate) fn has(&self, curve: Curve) -> bool {
        self.curves.values().any(|step| step.contains_key(&curve))
    }

    /// Puts a number under its curve where it is one that checks read. Of several names for one curve, the first counts.
    pub(crate) fn point(&mut self, step: u64, name: &str, value: f64) {
        let Some(curve) = Curve::of(name) else { return };
        if value.is_finite() {
            self.curves.entry(step).or_default().entry(curve).or_insert(value);
        } else if matches!(curve, Curve::GradNorm | Curve::Loss) {
            self.not_finite.insert(step);
        }
    }

    /// Keeps the steps without a finite loss and gradient that end the record, beside other numbers: data frames have NaN for
    /// whatever was not logged, now and then.
    pub(crate) fn settle(&mut self) {
        let finite =
            |curves: &BTreeMap<Curve, f64>| curves.contains_key(&Curve::GradNorm) || curves.contains_key(&Curve::Loss);
        let last = self.curves.iter().filter(|(_, curves)| finite(curves)).map(|(step, _)| *step).next_back();
        self.not_finite.retain(|step| self.curves.contains_key(step) && last.is_none_or(|last| *step > last));
        if self.not_finite.len() < ENDED {
            self.not_finite.clear();
        }
    }

    /// Names a component that was met, with the weight it is paid with.
    pub(crate) fn component(&mut self, name: &str, weight: f64) {
        if !self.components.iter().any(|(known, _)| known == name) {
            self.components.push((name.to_owned(), weight));
        }
    }
}
