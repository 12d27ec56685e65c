//! Cost: the share of the turn or token limit an episode used, from 0 down to -1 at the limit.

use hone_trace::Verdict;
use serde::{Deserialize, Serialize};

use super::catalogue::{ComponentEntry, plain};
use super::{Case, Measure, not_applicable, scored};
use crate::catalogue::Options;
use crate::documented;

pub(super) const TURN_ENTRY: ComponentEntry = ComponentEntry {
    name: "turn_cost",
    about: "Minus the share of `max` turns that were used, from -1 to 0",
    advice: "Use a small weight beside a success component if episodes take too many turns",
    paper: None,
    options: Options::with::<TurnCost>(r#"{"max": 12}"#),
    make: plain::<TurnCost>,
};

pub(super) const LENGTH_ENTRY: ComponentEntry = ComponentEntry {
    name: "length_cost",
    about: "Minus the share of `max` tokens that were sampled, from -1 to 0",
    advice: "Use a small weight beside a success component; soft_overlong is gentler",
    paper: None,
    options: Options::with::<LengthCost>(r#"{"max": 2048}"#),
    make: plain::<LengthCost>,
};

documented! {
    /// -turns / max, at least -1.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct TurnCost {
        /// Turns at which the value is -1.
        pub max: usize where whole(1, 100_000_000),
    }
}

impl Measure for TurnCost {
    fn measure(&self, case: &Case) -> Verdict {
        match &case.turns {
            Some(turns) => cost(turns.len(), self.max, "turns"),
            None => not_applicable("the case has no `turns`"),
        }
    }
}

documented! {
    /// -tokens / max, at least -1.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(crate) struct LengthCost {
        /// Tokens at which the value is -1.
        pub max: usize where whole(1, 100_000_000),
    }
}

impl Measure for LengthCost {
    fn measure(&self, case: &Case) -> Verdict {
        match case.length() {
            Some(length) => cost(length, self.max, "tokens"),
            None => not_applicable("the case has no `tokens`"),
        }
    }
}

pub fn cost(used: usize, max: usize, unit: &str) -> Verdict {
    // Written so that an unused budget is 0, not -0.
    scored(0.0 - (used as f64 / max.max(1) as f64).min(1.0), format!("used: {used} of {max} {unit}"))
}
