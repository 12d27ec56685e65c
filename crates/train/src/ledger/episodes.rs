//! Statistics of the episodes: lengths, turns, calls, parse failures, per environment and over all.

use std::collections::BTreeMap;

use hone_arena::rollout::DEFUSED;
use hone_trace::{Group, Outcome, ParseFailureKind, Trace};
use serde_json::Value;

use super::{Metrics, Spread, by_env, names, sampled_tokens};

/// Turns and calls of some episodes, counted.
#[derive(Debug, Default)]
struct Counts {
    episodes: usize,
    turns: Vec<usize>,
    emitted: usize,
    executed: usize,
    failed: usize,
    repaired: usize,
    defused: u64,
    failures: BTreeMap<ParseFailureKind, usize>,
}

impl Counts {
    fn of<'a>(traces: impl Iterator<Item = &'a Trace>) -> Self {
        let mut counts = Self::default();
        for trace in traces {
            counts.episodes += 1;
            counts.turns.push(trace.turns.len());
            counts.defused += trace.facts.get(DEFUSED).and_then(Value::as_u64).unwrap_or(0);
            for turn in &trace.turns {
                counts.emitted += turn.calls.len();
                counts.executed += turn.executed as usize;
                counts.failed += turn.failed as usize;
                counts.repaired += usize::from(!turn.repairs.is_empty());
                if let Some(failure) = &turn.failure {
                    *counts.failures.entry(failure.kind).or_default() += 1;
                }
            }
        }
        counts
    }

    fn turns(&self) -> usize {
        self.turns.iter().sum()
    }
}

/// Metrics of the episodes, over all and by environment.
pub(super) fn episodes(groups: &[Group]) -> Metrics {
    let kept = || groups.iter().flat_map(Group::traces);
    let everyone = || groups.iter().flat_map(Group::all);
    let count = |wanted: fn(&Outcome) -> bool| everyone().filter(|trace| wanted(&trace.outcome)).count() as f64;
    let faulted = groups.iter().map(|group| group.faulted().len()).sum::<usize>() as f64;
    let mut metrics = Metrics::default();
    metrics.set(names::ROLLOUTS_TOTAL, everyone().count() as f64);
    metrics.set(names::ROLLOUTS_VALID, kept().count() as f64);
    metrics.set(names::ROLLOUTS_INVALID, faulted);
    metrics.set(names::ROLLOUTS_FAULTED, faulted);
    metrics.set(names::ROLLOUTS_MALFORMED, count(|outcome| matches!(outcome, Outcome::Malformed { .. })));
    metrics.set(names::ROLLOUTS_TRUNCATED_OVERLONG, count(|outcome| matches!(outcome, Outcome::Truncated { .. })));
    metrics.merge(lengths(groups));
    let waits = kept().flat_map(|trace| &trace.turns).filter_map(|turn| turn.timings.room);
    metrics.set_some(names::TIMING_ROOM_MEAN, waits.reduce(|a, b| a + b).map(|all| all / kept().count() as f64));
    metrics.merge(calls(&Counts::of(kept())));
    for (env, indices) in by_env(groups) {
        metrics.merge(environment(env, &Counts::of(indices.iter().flat_map(|&index| groups[index].traces()))));
    }
    metrics
}

fn lengths(groups: &[Group]) -> Metrics {
    let kept = || groups.iter().flat_map(Group::traces);
    let tokens: Spread = kept().map(|trace| sampled_tokens(trace) as f64).collect();
    let turns = kept().flat_map(Trace::sampled).map(|(_, node)| node.tokens().len() as f64);
    let turns: Spread = turns.collect();
    let mut metrics = Metrics::default();
    metrics.set_some(names::GENERATE_AVG_NUM_TOKENS, tokens.mean());
    metrics.set_some(names::GENERATE_STD_NUM_TOKENS, tokens.std());
    metrics.set_some(names::GENERATE_MIN_NUM_TOKENS, tokens.min());
    metrics.set_some(names::GENERATE_MAX_NUM_TOKENS, tokens.max());
    metrics.set_some(names::GENERATE_TOKENS_PER_TURN_MEAN, turns.mean());
    metrics.set_some(names::GENERATE_TOKENS_PER_TURN_STD, turns.std());
    metrics.set_some(names::GENERATE_TOKENS_PER_TURN_MAX, turns.max());
    metrics
}

fn calls(counts: &Counts) -> Metrics {
    let turns = counts.turns();
    let mut metrics = Metrics::default();
    metrics.ratio(names::REWARD_PARSE_FAILURE_RATE, counts.failures.values().sum(), turns);
    for kind in ParseFailureKind::ALL {
        let count = counts.failures.get(&kind).copied().unwrap_or(0);
        metrics.ratio(names::REWARD_PARSE_FAILURE_RATE_KIND.of([&kind]), count, turns);
    }
    metrics.ratio(names::REWARD_REPAIRED_RATE, counts.repaired, turns);
    metrics.set(names::ENVIRONMENT_TOTAL_EPISODES, counts.episodes as f64);
    metrics.ratio(names::ENVIRONMENT_AVG_TURNS, turns, counts.episodes);
    metrics.ratio(names::ENVIRONMENT_AVG_TOOL_CALLS, counts.executed, counts.episodes);
    metrics.ratio(names::ENVIRONMENT_TOOL_ERROR_RATE, counts.failed, counts.executed);
    metrics.set(names::ENVIRONMENT_TOOL_CALLS_EMITTED, counts.emitted as f64);
    metrics.set(names::ENVIRONMENT_TOOL_CALLS_EXECUTED, counts.executed as f64);
    metrics.set(names::ENVIRONMENT_TOOL_CALLS_FAILED, counts.failed as f64);
    metrics.set(names::ENVIRONMENT_DEFUSED_TOKENS, counts.defused as f64);
    metrics
}

fn environment(env: &str, counts: &Counts) -> Metrics {
    let turns: Spread = counts.turns.iter().map(|turns| *turns as f64).collect();
    let mut metrics = Metrics::default();
    metrics.set(names::ENVIRONMENT_ENV_NUM_EPISODES.of([&env]), counts.episodes as f64);
    metrics.set_some(names::ENVIRONMENT_ENV_AVG_TURNS.of([&env]), turns.mean());
    metrics.set_some(names::ENVIRONMENT_ENV_MIN_TURNS.of([&env]), turns.min());
    metrics.set_some(names::ENVIRONMENT_ENV_MAX_TURNS.of([&env]), turns.max());
    metrics.ratio(names::ENVIRONMENT_ENV_AVG_TOOL_CALLS.of([&env]), counts.executed, counts.episodes);
    metrics.ratio(names::ENVIRONMENT_ENV_TOOL_CALLS_PER_TURN.of([&env]), counts.executed, counts.turns());
    metrics.ratio(names::ENVIRONMENT_ENV_AVG_TOOL_ERRORS.of([&env]), counts.failed, counts.episodes);
    metrics.set(names::ENVIRONMENT_ENV_TOTAL_TOOL_ERRORS.of([&env]), counts.failed as f64);
    metrics.ratio(names::ENVIRONMENT_ENV_TOOL_ERROR_RATE.of([&env]), counts.failed, counts.executed);
    let failures = counts.failures.values().sum();
    metrics.ratio(names::ENVIRONMENT_ENV_PARSE_FAILURE_RATE.of([&env]), failures, counts.turns());
    metrics
}
