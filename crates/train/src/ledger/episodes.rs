//! How the episodes went: lengths, turns, calls, parse failures, per environment and over all.

use std::collections::BTreeMap;

use hone_trace::{Group, Outcome, ParseFailureKind, Trace};

use super::{Ledger, Spread, all_traces, by_env, sampled_tokens};

/// Turns and calls of some episodes, counted.
#[derive(Debug, Default)]
struct Counts {
    episodes: usize,
    turns: Vec<usize>,
    emitted: usize,
    executed: usize,
    failed: usize,
    repaired: usize,
    failures: BTreeMap<ParseFailureKind, usize>,
}

impl Counts {
    fn of<'a>(traces: impl Iterator<Item = &'a Trace>) -> Self {
        let mut counts = Self::default();
        for trace in traces {
            counts.episodes += 1;
            counts.turns.push(trace.turns.len());
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

impl Ledger {
    pub(super) fn episodes(&mut self, groups: &[Group]) {
        let kept = || groups.iter().flat_map(Group::traces);
        let count = |wanted: fn(&Outcome) -> bool| all_traces(groups).filter(|trace| wanted(&trace.outcome)).count();
        self.set("rollouts/total", all_traces(groups).count() as f64);
        self.set("rollouts/valid", kept().count() as f64);
        self.set("rollouts/invalid", groups.iter().map(|group| group.excluded().len()).sum::<usize>() as f64);
        self.set("rollouts/faulted", count(|outcome| matches!(outcome, Outcome::Fault { .. })) as f64);
        self.set("rollouts/malformed", count(|outcome| matches!(outcome, Outcome::Malformed { .. })) as f64);
        let truncated = count(|outcome| matches!(outcome, Outcome::Truncated { .. }));
        self.set("rollouts/truncated_overlong", truncated as f64);
        self.lengths(groups);
        self.calls(&Counts::of(kept()));
        for (env, indices) in by_env(groups) {
            self.environment(env, &Counts::of(indices.iter().flat_map(|&index| groups[index].traces())));
        }
    }

    fn lengths(&mut self, groups: &[Group]) {
        let kept = || groups.iter().flat_map(Group::traces);
        let tokens: Spread = kept().map(|trace| sampled_tokens(trace) as f64).collect();
        self.set_some("generate/avg_num_tokens", tokens.mean());
        self.set_some("generate/std_num_tokens", tokens.std());
        self.set_some("generate/min_num_tokens", tokens.min());
        self.set_some("generate/max_num_tokens", tokens.max());
        let turns = kept().flat_map(Trace::sampled).map(|(_, node)| node.tokens().len() as f64);
        let turns: Spread = turns.collect();
        self.set_some("generate/tokens_per_turn_mean", turns.mean());
        self.set_some("generate/tokens_per_turn_std", turns.std());
        self.set_some("generate/tokens_per_turn_max", turns.max());
    }

    fn calls(&mut self, counts: &Counts) {
        let turns = counts.turns();
        self.ratio("reward/parse_failure_rate", counts.failures.values().sum(), turns);
        for kind in ParseFailureKind::ALL {
            let count = counts.failures.get(&kind).copied().unwrap_or(0);
            self.ratio(&format!("reward/parse_failure_rate/{kind}"), count, turns);
        }
        self.ratio("reward/repaired_rate", counts.repaired, turns);
        self.set("environment/total_episodes", counts.episodes as f64);
        self.ratio("environment/avg_turns", turns, counts.episodes);
        self.ratio("environment/avg_tool_calls", counts.executed, counts.episodes);
        self.ratio("environment/tool_error_rate", counts.failed, counts.executed);
        self.set("environment/tool_calls_emitted", counts.emitted as f64);
        self.set("environment/tool_calls_executed", counts.executed as f64);
        self.set("environment/tool_calls_failed", counts.failed as f64);
    }

    fn environment(&mut self, env: &str, counts: &Counts) {
        let name = |metric: &str| format!("environment/{env}/{metric}");
        let turns: Spread = counts.turns.iter().map(|turns| *turns as f64).collect();
        self.set(&name("num_episodes"), counts.episodes as f64);
        self.set_some(&name("avg_turns"), turns.mean());
        self.set_some(&name("min_turns"), turns.min());
        self.set_some(&name("max_turns"), turns.max());
        self.ratio(&name("avg_tool_calls"), counts.executed, counts.episodes);
        self.ratio(&name("tool_calls_per_turn"), counts.executed, counts.turns());
        self.ratio(&name("avg_tool_errors"), counts.failed, counts.episodes);
        self.set(&name("total_tool_errors"), counts.failed as f64);
        self.ratio(&name("tool_error_rate"), counts.failed, counts.executed);
        self.ratio(&name("parse_failure_rate"), counts.failures.values().sum(), counts.turns());
    }
}
