//! Foreign records in our vocabulary.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Everything that was read.
#[derive(Debug, Default)]
pub struct Record {
    /// The format, as a person would call it.
    pub format: &'static str,
    pub episodes: Vec<Episode>,
    /// Numbers by step, under the names of our own metrics.
    pub curves: BTreeMap<u64, BTreeMap<Curve, f64>>,
    /// Reward components with their weights, in order.
    pub components: Vec<(String, f64)>,
    /// The record says how episodes ended.
    pub has_endings: bool,
    /// The record says which episodes broke.
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
    pub prompt: Option<String>,
    pub completion: Option<String>,
    /// The conversation in OpenAI's form, where it is recorded.
    pub messages: Option<Vec<Value>>,
    /// A length limit cut it short.
    pub truncated: bool,
    /// It broke outside the policy, in these words.
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
        if let Some(curve) = Curve::of(name).filter(|_| value.is_finite()) {
            self.curves.entry(step).or_default().entry(curve).or_insert(value);
        }
    }

    /// Names a component that was met, with the weight it is paid with.
    pub(crate) fn component(&mut self, name: &str, weight: f64) {
        if !self.components.iter().any(|(known, _)| known == name) {
            self.components.push((name.to_owned(), weight));
        }
    }
}
