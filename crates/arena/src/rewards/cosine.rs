//! Cosine length scaling: right answers earn more when short, wrong ones lose less when long.
//!
//! v_min + (v_max - v_min)/2 · (1 + cos(π min(length/max, 1))): a right answer goes from 1 down to 0.5 with its length,
//! a wrong one from -1 up to -0.5. Every right answer is worth more than every wrong one.

use std::f64::consts::PI;

use hone_trace::Verdict;
use serde::{Deserialize, Serialize};

use super::catalogue::{ComponentEntry, plain};
use super::{Case, Measure, not_applicable, scored};
use crate::catalogue::Options;
use crate::documented;

pub(super) const ENTRY: ComponentEntry = ComponentEntry {
    name: "cosine",
    about: "Cosine length scaling: right answers earn more when short, wrong ones lose less when long",
    advice: "For reasoning that gets too long or too short; every right answer stays worth more than every wrong one",
    paper: Some("Yeo et al. 2025, Demystifying Long Chain-of-Thought Reasoning, arXiv:2502.03373"),
    options: Options::with::<Cosine>(r#"{"max": 2048}"#),
    make: plain::<Cosine>,
};

documented! {
    #[derive(Debug, Clone, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Cosine {
        /// Tokens at which the scaling ends.
        pub max: usize where whole(1, 100_000_000),
        /// Value of a right answer at `max` tokens, and at none.
        #[serde(default = "right")]
        pub right: (f64, f64) where real(-1e6, 1e6),
        /// Value of a wrong answer at `max` tokens, and at none.
        #[serde(default = "wrong")]
        pub wrong: (f64, f64) where real(-1e6, 1e6),
    }
}

fn right() -> (f64, f64) {
    (0.5, 1.0)
}

fn wrong() -> (f64, f64) {
    (-0.5, -1.0)
}

impl Measure for Cosine {
    fn measure(&self, case: &Case) -> Verdict {
        let Some(length) = case.length() else { return not_applicable("the case has no `tokens`") };
        let Some(correct) = case.correct else {
            return not_applicable("nothing says whether the answer is `correct`");
        };
        let right = if correct { "right" } else { "wrong" };
        scored(self.value(length, correct), format!("cosine: a {right} answer of {length} tokens"))
    }
}

impl Cosine {
    pub fn value(&self, length: usize, correct: bool) -> f64 {
        let (low, high) = if correct { self.right } else { self.wrong };
        let progress = (length as f64 / self.max.max(1) as f64).min(1.0);
        low + 0.5 * (high - low) * (1.0 + (PI * progress).cos())
    }
}
