//! Cost: what an episode used of its turns or tokens, from 0 down to -1 at the limit.

use hone_trace::Verdict;
use serde::Deserialize;

use super::{Case, Measure, not_applicable, scored};

/// -turns / max, at least -1.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnCost {
    pub max: usize,
}

impl Measure for TurnCost {
    fn measure(&self, case: &Case) -> Verdict {
        match &case.turns {
            Some(turns) => cost(turns.len(), self.max, "turns"),
            None => not_applicable("the case has no `turns`"),
        }
    }
}

/// -tokens / max, at least -1.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthCost {
    pub max: usize,
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
    // Spelled so that an unused budget is 0 and not -0.
    scored(0.0 - (used as f64 / max.max(1) as f64).min(1.0), format!("used: {used} of {max} {unit}"))
}
