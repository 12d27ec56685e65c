//! Token account: every sampled token of a step ends up in exactly one category.

use hone_trace::{Advantage, Group, NoSignal, Trace};

use super::{Metrics, names, sampled_tokens};

/// Fates of sampled tokens before learning. `credited` tokens have an advantage other than 0; learning settles their fate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Account {
    sampled: usize,
    faulted: usize,
    unscored: usize,
    truncated: usize,
    zero_advantage: usize,
    credited: usize,
}

impl Account {
    pub fn of(groups: &[Group], advantages: &[Vec<Advantage>]) -> Self {
        let count = |traces: &mut dyn Iterator<Item = &Trace>| traces.map(sampled_tokens).sum();
        let mut account = Self {
            sampled: count(&mut groups.iter().flat_map(Group::all)),
            faulted: count(&mut groups.iter().flat_map(Group::faulted)),
            ..Self::default()
        };
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

/// Outcomes of the credited tokens in the optimizer steps that saw them, counted each time a token was seen.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Visits {
    pub trained: f64,
    pub clipped: f64,
    pub masked: f64,
    pub skipped: f64,
}

impl Account {
    /// Tokens that were sampled.
    pub fn sampled(&self) -> usize {
        self.sampled
    }

    /// The account after learning. If a batch is trained on several times, a token is divided among the outcomes of its
    /// visits; credited tokens that no optimizer step saw were skipped.
    pub fn settled(&self, visits: Visits) -> Metrics {
        let Self { sampled, faulted, unscored, truncated, zero_advantage, credited } = *self;
        let mut metrics = Metrics::default();
        for (name, tokens) in [
            (names::TOKENS_SAMPLED, sampled),
            (names::TOKENS_FAULTED, faulted),
            (names::TOKENS_UNSCORED, unscored),
            (names::TOKENS_TRUNCATED, truncated),
            (names::TOKENS_ZERO_ADVANTAGE, zero_advantage),
        ] {
            metrics.set(name, tokens as f64);
        }
        let Visits { trained, clipped, masked, skipped } = visits;
        let visits = trained + clipped + masked + skipped;
        let share = |part: f64| if visits > 0.0 { credited as f64 * part / visits } else { 0.0 };
        let not_shown = if visits > 0.0 { 0.0 } else { credited as f64 };
        metrics.set(names::TOKENS_MASKED, share(masked));
        metrics.set(names::TOKENS_CLIPPED, share(clipped));
        metrics.set(names::TOKENS_SKIPPED, share(skipped) + not_shown);
        metrics.set(names::TOKENS_TRAINED, share(trained));
        metrics
    }

    /// Account of a step that was undone: its trained tokens count as skipped.
    pub fn undone(&self, visits: Visits) -> Metrics {
        let mut metrics = self.settled(visits);
        let counted = |name| metrics.get(name).unwrap_or(0.0);
        let skipped = counted(names::TOKENS_SKIPPED) + counted(names::TOKENS_TRAINED);
        metrics.set(names::TOKENS_SKIPPED, skipped);
        metrics.set(names::TOKENS_TRAINED, 0.0);
        metrics
    }
}
