//! The account of tokens: every sampled token of a step ends in exactly one place.

use hone_trace::{Advantage, Group, NoSignal, Outcome};

use super::{Ledger, all_traces, sampled_tokens};

/// How the reason begins for which a group excludes a trace that was sampled too many policy versions ago.
pub const STALE: &str = "stale";

/// Where sampled tokens went before learning. What is `credited` has an advantage other than 0, and learning says the rest.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Account {
    sampled: usize,
    faulted: usize,
    stale: usize,
    excluded: usize,
    unscored: usize,
    truncated: usize,
    zero_advantage: usize,
    credited: usize,
}

impl Account {
    pub(super) fn of(groups: &[Group], advantages: &[Vec<Advantage>]) -> Self {
        let mut account = Self { sampled: all_traces(groups).map(sampled_tokens).sum(), ..Self::default() };
        for (trace, why) in groups.iter().flat_map(Group::excluded) {
            let place = match &trace.outcome {
                Outcome::Fault { .. } => &mut account.faulted,
                _ if why.starts_with(STALE) => &mut account.stale,
                _ => &mut account.excluded,
            };
            *place += sampled_tokens(trace);
        }
        for (group, advantages) in groups.iter().zip(advantages) {
            for (trace, advantage) in group.traces().iter().zip(advantages) {
                let tokens = sampled_tokens(trace);
                match advantage {
                    Advantage::None { why: NoSignal::Unscored } => account.unscored += tokens,
                    Advantage::None { why: NoSignal::Overlong } => account.truncated += tokens,
                    Advantage::None { why: NoSignal::Singleton | NoSignal::ZeroVariance | NoSignal::NoSuccess } => {
                        account.zero_advantage += tokens;
                    }
                    credited => {
                        let turns = trace.sampled().map(|(_, node)| node.tokens().len());
                        for value in credited.per_token(turns).unwrap_or_default() {
                            let place =
                                if is_zero(value) { &mut account.zero_advantage } else { &mut account.credited };
                            *place += 1;
                        }
                    }
                }
            }
        }
        account
    }
}

/// Learning computes with 32-bit advantages.
fn is_zero(advantage: f64) -> bool {
    advantage as f32 == 0.0
}

/// What optimizer steps made of the credited tokens they were shown, each as often as it was shown.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Visits {
    pub(super) trained: f64,
    pub(super) clipped: f64,
    pub(super) masked: f64,
    pub(super) skipped: f64,
}

impl Ledger {
    /// Writes the account. Where a batch is gone through several times, a token's place is shared out over its visits;
    /// credited tokens no optimizer step was shown were skipped.
    pub(super) fn settle(&mut self) {
        let Account { sampled, faulted, stale, excluded, unscored, truncated, zero_advantage, credited } = self.account;
        for (name, tokens) in [
            ("tokens/sampled", sampled),
            ("tokens/faulted", faulted),
            ("tokens/stale", stale),
            ("tokens/excluded", excluded),
            ("tokens/unscored", unscored),
            ("tokens/truncated", truncated),
            ("tokens/zero_advantage", zero_advantage),
        ] {
            self.set(name, tokens as f64);
        }
        let Visits { trained, clipped, masked, skipped } = self.learning.visits;
        let visits = trained + clipped + masked + skipped;
        let share = |part: f64| if visits > 0.0 { credited as f64 * part / visits } else { 0.0 };
        let not_shown = if visits > 0.0 { 0.0 } else { credited as f64 };
        self.set("tokens/masked", share(masked));
        self.set("tokens/clipped", share(clipped));
        self.set("tokens/skipped", share(skipped) + not_shown);
        self.set("tokens/trained", share(trained));
    }
}
