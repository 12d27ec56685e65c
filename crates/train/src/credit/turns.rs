//! Per-turn returns: the discounted reward of a trace from each of its turns on.

use hone_trace::{Group, Trace};

use super::Weights;

/// Rewards of single turns, in addition to the episode's reward on the last turn.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TurnRewards {
    /// For a reply that could not be read.
    pub parse_failure: f64,
    /// For every call the environment answered with an error.
    pub failed_call: f64,
}

/// One return per sampled node: its own reward plus `discount` times the next one's. `None` without a reward.
pub(super) fn returns(trace: &Trace, weights: &Weights, discount: f64, turn_rewards: TurnRewards) -> Option<Vec<f64>> {
    let total = weights.total(trace)?;
    let mut returns: Vec<f64> = sampled_nodes(trace).map(|node| own_reward(trace, node, turn_rewards)).collect();
    if let Some(last) = returns.last_mut() {
        *last += total;
    }
    for turn in (1..returns.len()).rev() {
        returns[turn - 1] += discount * returns[turn];
    }
    Some(returns)
}

/// Returns of every trace of a group that has a turn to credit.
pub(super) fn group_returns(
    group: &Group,
    weights: &Weights,
    discount: f64,
    rewards: TurnRewards,
) -> Vec<Option<Vec<f64>>> {
    let of = |trace| returns(trace, weights, discount, rewards).filter(|returns| !returns.is_empty());
    group.traces().iter().map(of).collect()
}

fn sampled_nodes(trace: &Trace) -> impl Iterator<Item = usize> {
    trace.nodes().iter().enumerate().filter(|(_, node)| node.as_sampled().is_some()).map(|(index, _)| index)
}

fn own_reward(trace: &Trace, node: usize, rewards: TurnRewards) -> f64 {
    let records = trace.turns.iter().filter(|turn| turn.node == node);
    records
        .map(|turn| {
            f64::from(u8::from(turn.failure.is_some())) * rewards.parse_failure
                + f64::from(turn.failed) * rewards.failed_call
        })
        .sum()
}
