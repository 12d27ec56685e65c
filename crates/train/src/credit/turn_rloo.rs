//! Leave-one-out per turn: a turn is compared with the same turn of the other traces.

use hone_trace::{Advantage, Credit, Group, NoSignal};

use super::stats::check_spread;
use super::turns::{TurnRewards, group_returns};
use super::{CreditEntry, Estimator, Weights, no_signal};

pub(super) const TURN_RLOO: CreditEntry = CreditEntry {
    name: "turn_rloo",
    maths: "A of turn k = G(k) − mean of the others' G(k); G is the return from turn k on, discounted by `discount` \
        (1) per turn.",
    advice: "For episodes with errors along the way: set `parse_failure` and `failed_call`, and each turn is \
        credited for its own errors. With only an outcome reward it is rloo.",
    paper: super::rloo::RLOO.paper,
    make: Estimator::per_turn(|recipe, weights| {
        let discount = recipe.discount.unwrap_or(1.0);
        Box::new(TurnRloo { weights, discount, turn_rewards: recipe.turn_rewards() })
    }),
};

/// Return of turn k − mean of the others' returns of turn k. A sibling that ended earlier counts with its last turn.
/// With a discount of 1 and no rewards for turns this is RLOO.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRloo {
    pub weights: Weights,
    pub discount: f64,
    pub turn_rewards: TurnRewards,
}

impl TurnRloo {
    fn group(&self, group: &Group) -> Vec<Advantage> {
        let returns = group_returns(group, &self.weights, self.discount, self.turn_rewards);
        let scored: Vec<&Vec<f64>> = returns.iter().flatten().collect();
        let all: Vec<f64> = scored.iter().flat_map(|returns| returns.iter().copied()).collect();
        let spread = if scored.len() < 2 { Err(NoSignal::Singleton) } else { check_spread(&all) };
        let others = (scored.len() as f64 - 1.0).max(1.0);
        let turns = scored.iter().map(|returns| returns.len()).max().unwrap_or(0);
        let sums: Vec<f64> =
            (0..turns).map(|turn| scored.iter().map(|returns| returns[turn.min(returns.len() - 1)]).sum()).collect();
        let advantage = |returns: &Option<Vec<f64>>| match (returns, spread) {
            (None, _) => no_signal(None, NoSignal::Unscored),
            (Some(_), Err(why)) => Advantage::None { why },
            (Some(returns), Ok(())) => {
                let value = |(value, sum): (&f64, &f64)| value - (sum - value) / others;
                Advantage::PerTurn { values: returns.iter().zip(&sums).map(value).collect() }
            }
        };
        returns.iter().map(advantage).collect()
    }
}

impl Credit for TurnRloo {
    fn credit(&self, groups: &[Group]) -> Vec<Vec<Advantage>> {
        groups.iter().map(|group| self.group(group)).collect()
    }
}
