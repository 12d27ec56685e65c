//! KL penalty in the reward: an episode pays for the policy's divergence from the reference on its tokens.
//!
//! The penalty is a separate reward component, `kl`, beside those of the rubric: it is recorded, it is part of the
//! group's statistics, and the rubric's total remains the environment's reward.

use hone_trace::{Group, Learner, Reward, Trace, Whose, documented};
use serde::{Deserialize, Serialize};

use crate::ledger::{Metrics, names};
use crate::loss::Estimator;
use crate::pack::{self, Packing};
use crate::run::TrainError;

/// The component's name.
pub const KL: &str = "kl";

documented! {
    /// `[kl_reward]`
    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct KlReward {
        /// Coefficient of the KL penalty, summed over an episode's tokens. With `target`: the initial value.
        pub coefficient: f64 where real(0.0, 1e6),
        /// One-sample KL estimator: docs/algorithms.md.
        #[serde(default)]
        pub estimator: Estimator,
        /// Target for the mean KL per token, which the coefficient is adapted to. Absent: the coefficient is fixed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub target: Option<f64> where over(0.0, 1e6),
        /// Time constant of the adaptive coefficient, in episodes.
        #[serde(default = "horizon")]
        pub horizon: f64 where over(0.0, 1e12),
    }
}

fn horizon() -> f64 {
    10_000.0
}

/// Clip on the relative KL error: bounds the coefficient's speed.
const MOST: f64 = 0.2;

impl KlReward {
    pub fn check(&self) -> Result<(), String> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if !(self.coefficient.is_finite() && self.coefficient >= 0.0) {
            return Err(format!("kl_reward.coefficient is {}; it must be at least 0", self.coefficient));
        }
        if !self.target.is_none_or(positive) || !positive(self.horizon) {
            return Err("kl_reward.target and kl_reward.horizon must be over 0".into());
        }
        Ok(())
    }

    /// Next coefficient, after a step of `episodes` episodes with this mean KL per token; unchanged if it is unknown.
    pub fn adapted(&self, coefficient: f64, kl: Option<f64>, episodes: usize) -> f64 {
        let (Some(target), Some(kl)) = (self.target, kl) else { return coefficient };
        let error = (kl / target - 1.0).clamp(-MOST, MOST);
        coefficient * (1.0 + error * episodes as f64 / self.horizon)
    }
}

/// KL penalty of the episodes of a step. Without sampled tokens there is no KL.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Penalty {
    pub mean_kl: Option<f64>,
    pub max_kl: Option<f64>,
    pub episodes: usize,
}

impl Penalty {
    /// Metrics, with the coefficient of the next step.
    pub(crate) fn metrics(&self, coefficient: f64) -> Metrics {
        let mut metrics = Metrics::default();
        metrics.set_some(names::LOSS_AVG_KL, self.mean_kl);
        metrics.set_some(names::LOSS_AVG_KL_MAX, self.max_kl);
        metrics.set(names::REWARD_KL_COEFFICIENT, coefficient);
        metrics
    }
}

/// Subtracts `coefficient` x KL from the reward of every scored episode.
pub(crate) async fn apply(
    learner: &mut dyn Learner,
    groups: &mut [Group],
    settings: &KlReward,
    coefficient: f64,
    budget: usize,
) -> Result<Penalty, TrainError> {
    let (sequences, temperature) = pack::sampled(groups)?;
    let Some(temperature) = temperature else { return Ok(Penalty::default()) };
    let packing = Packing { temperature, budget, share: learner.abilities().shared_prefixes };
    let mut reference = Vec::new();
    for batch in pack::to_score(&sequences, &packing) {
        reference.extend(learner.score(&batch, Whose::Reference).await?.logprobs);
    }
    let mut reference = reference.into_iter();
    let (mut penalty, mut sum, mut tokens) = (Penalty::default(), 0.0, 0usize);
    let played = groups.iter_mut().flat_map(Group::traces_mut).filter(|trace| has_samples(trace));
    for (trace, sequence) in played.zip(&sequences) {
        let gaps = sequence.places.iter().zip(reference.by_ref());
        let kl: f64 =
            gaps.map(|(place, theirs)| settings.estimator.at(f64::from(place.sampler) - f64::from(theirs)).0).sum();
        let per_token = kl / sequence.places.len() as f64;
        penalty.max_kl = Some(penalty.max_kl.map_or(per_token, |most| most.max(per_token)));
        penalty.episodes += 1;
        sum += kl;
        tokens += sequence.places.len();
        // An episode that was not scored is not penalised.
        if trace.reward(hone_arena::rewards::TOTAL).is_some() {
            let why = format!("kl: {coefficient} x {kl:.4} over {} tokens", sequence.places.len());
            trace.rewards.push(Reward::scored(KL, -coefficient * kl, why));
        }
    }
    penalty.mean_kl = (tokens > 0).then(|| sum / tokens as f64);
    Ok(penalty)
}

fn has_samples(trace: &Trace) -> bool {
    trace.sampled().any(|(_, node)| !node.tokens().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_sampled_tokens_the_kl_is_absent_and_not_zero() {
        let metrics = Penalty::default().metrics(0.1);
        assert_eq!((metrics.get(names::LOSS_AVG_KL), metrics.get(names::LOSS_AVG_KL_MAX)), (None, None));
        assert_eq!(metrics.get(names::REWARD_KL_COEFFICIENT), Some(0.1));
    }
}
