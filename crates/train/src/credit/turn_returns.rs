//! Discounted returns per turn: early turns of a long success earn less than its last one.

use hone_trace::{Advantage, Credit, Group, NoSignal};

use super::stats::{check_spread, mean};
use super::turns::{TurnRewards, group_returns};
use super::{CreditEntry, Estimator, Weights, no_signal};

pub(super) const TURN_RETURNS: CreditEntry = CreditEntry {
    name: "turn_returns",
    maths: "A of turn k = G(k) − mean of G over the group's turns, G discounted by `discount` (0.95) per turn.",
    advice: "Prefers short successes and blames late turns for failures.",
    paper: Some(
        "Sutton and Barto 2018, Reinforcement Learning: An Introduction, section 13.4, the textbook's REINFORCE with baseline",
    ),
    make: Estimator::per_turn(|recipe, weights| {
        let discount = recipe.discount.unwrap_or(0.95);
        Box::new(TurnReturns { weights, discount, turn_rewards: recipe.turn_rewards() })
    }),
};

/// Return of the turn − mean over all turns of the group.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnReturns {
    pub weights: Weights,
    pub discount: f64,
    pub turn_rewards: TurnRewards,
}

impl TurnReturns {
    fn group(&self, group: &Group) -> Vec<Advantage> {
        let returns = group_returns(group, &self.weights, self.discount, self.turn_rewards);
        let all: Vec<f64> = returns.iter().flatten().flatten().copied().collect();
        let alone = returns.iter().flatten().count() < 2;
        let spread = if alone { Err(NoSignal::Singleton) } else { check_spread(&all) };
        let centre = mean(&all);
        let advantage = |returns: Option<Vec<f64>>| match (returns, spread) {
            (None, _) => no_signal(None, NoSignal::Unscored),
            (Some(_), Err(why)) => Advantage::None { why },
            (Some(returns), Ok(())) => {
                Advantage::PerTurn { values: returns.iter().map(|value| value - centre).collect() }
            }
        };
        returns.into_iter().map(advantage).collect()
    }
}

impl Credit for TurnReturns {
    fn credit(&self, groups: &[Group]) -> Vec<Vec<Advantage>> {
        groups.iter().map(|group| self.group(group)).collect()
    }
}
