//! Fates of sampled tokens over a run: one for every category of the token account.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Ledger;
use super::names::{self, Metric};

/// Fate of sampled tokens, in the order of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenFate {
    Trained,
    ZeroAdvantage,
    Clipped,
    Masked,
    Skipped,
    Unscored,
    Truncated,
    Faulted,
}

impl TokenFate {
    pub const ALL: [Self; 8] = [
        Self::Trained,
        Self::ZeroAdvantage,
        Self::Clipped,
        Self::Masked,
        Self::Skipped,
        Self::Unscored,
        Self::Truncated,
        Self::Faulted,
    ];

    /// Metric that counts these tokens.
    pub fn metric(self) -> Metric {
        match self {
            Self::Trained => names::TOKENS_TRAINED,
            Self::ZeroAdvantage => names::TOKENS_ZERO_ADVANTAGE,
            Self::Clipped => names::TOKENS_CLIPPED,
            Self::Masked => names::TOKENS_MASKED,
            Self::Skipped => names::TOKENS_SKIPPED,
            Self::Unscored => names::TOKENS_UNSCORED,
            Self::Truncated => names::TOKENS_TRUNCATED,
            Self::Faulted => names::TOKENS_FAULTED,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Trained => "trained",
            Self::ZeroAdvantage => "zero advantage",
            Self::Clipped => "clipped",
            Self::Masked => "masked",
            Self::Skipped => "skipped",
            Self::Unscored => "unscored",
            Self::Truncated => "truncated",
            Self::Faulted => "faulted",
        }
    }

    /// Meaning of the fate, in a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Trained => "the advantage reached the gradient",
            Self::ZeroAdvantage => {
                "all rollouts of the group earned the same, or there was no other: there is no preference to learn"
            }
            Self::Clipped => "the clip set the gradient to zero",
            Self::Masked => "a mask or an off-policy correction took them out",
            Self::Skipped => "the optimizer step was not taken, or was undone",
            Self::Unscored => "the rollout has no reward",
            Self::Truncated => "a length limit cut the rollout short, and the recipe does not train on such rollouts",
            Self::Faulted => "something outside the policy broke the rollout: it is in no statistics",
        }
    }
}

impl fmt::Display for TokenFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Tokens sampled in a run, and their fates.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TokenTotals {
    #[serde(default)]
    pub sampled: f64,
    #[serde(flatten)]
    pub fates: BTreeMap<TokenFate, f64>,
}

impl TokenTotals {
    /// Sums over steps.
    pub fn of(steps: &[Ledger]) -> Self {
        let sum = |metric: Metric| {
            let values = steps.iter().filter_map(|step| step.get(metric));
            values.fold(None, |sum, tokens| Some(sum.unwrap_or(0.0) + tokens))
        };
        let fates = TokenFate::ALL.into_iter().filter_map(|fate| Some((fate, sum(fate.metric())?)));
        Self { sampled: sum(names::TOKENS_SAMPLED).unwrap_or(0.0), fates: fates.collect() }
    }

    /// Number of tokens of this fate. Steps that recorded none count as 0.
    pub fn of_fate(&self, fate: TokenFate) -> f64 {
        self.fates.get(&fate).copied().unwrap_or(0.0)
    }
}
