//! Estimators by name: `credit = "grpo"`.

use hone_trace::Credit;
use serde::{Deserialize, Serialize};

use super::{Gdpo, Grpo, MaxRl, ReinforcePlusPlus, Rloo, Scale, TurnReturns, TurnRewards, TurnRloo, Weights};
use crate::catalogue::{Entry, UnknownName, catalogue, find};

/// Builds an estimator over these reward components.
pub(super) type Make = fn(Weights) -> Box<dyn Credit>;

/// The estimators and their names.
pub static CREDITS: &[Entry<Make>] = catalogue! {
    /// A = (R − mean of the group) / (sample deviation of the group + 1e-4).
    /// The default. Division by the deviation makes easy and hard tasks push equally hard.
    "grpo" => |weights| Box::new(Grpo::new(weights, Scale::Group));
    /// A = (R − mean of the group) / (sample deviation of the batch + 1e-4).
    /// As grpo, steadier for small groups.
    "grpo_batch" => |weights| Box::new(Grpo::new(weights, Scale::Batch));
    /// A = R − mean of the group.
    /// No difficulty bias: the gradient is that of the mean reward. With `loss = "dr_grpo"` also no length bias.
    "dr_grpo" => |weights| Box::new(Grpo::new(weights, Scale::None));
    /// A = R − mean of the others in the group.
    /// Unbiased whatever the group's size.
    "rloo" => |weights| Box::new(Rloo { weights });
    /// A = (R − mean of the group) / (mean of the group + 1e-6).
    /// For rewards of at least 0, best 0 or 1: rarely solved tasks push hardest.
    "maxrl" => |weights| Box::new(MaxRl { weights, epsilon: 1e-6 });
    /// A = (R − mean) / deviation, over all sampled tokens of the batch.
    /// No groups needed. Tasks of unequal difficulty compete; use the baseline variant for those.
    "reinforce++" => |weights| Box::new(ReinforcePlusPlus { weights, baseline: false, epsilon: 1e-8 });
    /// As reinforce++ after taking the mean of the group off.
    /// As grpo_batch, whitened over tokens.
    "reinforce++_baseline" => |weights| Box::new(ReinforcePlusPlus { weights, baseline: true, epsilon: 1e-8 });
    /// S = Σ weight × (r − mean of the group) / (deviation of the group + 1e-4) over components; A = S whitened over the batch.
    /// For several rewards of different scale or sparsity.
    "gdpo" => |weights| Box::new(Gdpo { weights, epsilon: 1e-4 });
    /// A of turn k = G(k) − mean of the others' G(k); G is the return from turn k on, undiscounted.
    /// For long episodes with rewards inside them; with an outcome reward alone it is rloo.
    "turn_rloo" => |weights| {
        Box::new(TurnRloo { weights, discount: 1.0, turn_rewards: TurnRewards::default() })
    };
    /// A of turn k = G(k) − mean of G over the group's turns, G discounted by 0.95 a turn.
    /// Prefers short successes and blames late turns for failures.
    "turn_returns" => |weights| {
        Box::new(TurnReturns { weights, discount: 0.95, turn_rewards: TurnRewards::default() })
    };
};

/// The estimator of this name, or the nearest name in the error.
pub fn named(name: &str, weights: Weights) -> Result<Box<dyn Credit>, UnknownName> {
    Ok((find("credit", CREDITS, name)?.make)(weights))
}

/// `[turn_credit]`: what the per-turn estimators count besides the episode's reward.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TurnCredit {
    /// What a reward is worth one turn earlier. Absent: the estimator's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discount: Option<f64>,
    /// For a reply that could not be read.
    pub parse_failure: f64,
    /// For every call the environment answered with an error.
    pub failed_call: f64,
}

/// As [`named`], with what a recipe says of turns. `Err` with the reason where the estimator looks at no turns.
pub fn per_turn(name: &str, weights: Weights, turns: &TurnCredit) -> Result<Box<dyn Credit>, String> {
    let entry = find("credit", CREDITS, name).map_err(|error| error.to_string())?;
    if !turns.discount.is_none_or(|discount| (0.0..=1.0).contains(&discount)) {
        return Err("turn_credit.discount must lie between 0 and 1".into());
    }
    let turn_rewards = TurnRewards { parse_failure: turns.parse_failure, failed_call: turns.failed_call };
    let discount = |own: f64| turns.discount.unwrap_or(own);
    match entry.name {
        "turn_rloo" => Ok(Box::new(TurnRloo { weights, discount: discount(1.0), turn_rewards })),
        "turn_returns" => Ok(Box::new(TurnReturns { weights, discount: discount(0.95), turn_rewards })),
        other => Err(format!(
            "credit {other:?} looks at no turns: take turn_credit out, or set credit to turn_rloo or turn_returns"
        )),
    }
}
