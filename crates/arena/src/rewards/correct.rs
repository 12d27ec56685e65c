//! Correctness: 1 when the environment found the answer right, else 0.
//!
//! The test is the environment's own and looks at no confidence, so it may stand beside calibration.

use hone_trace::Verdict;
use serde::Deserialize;

use super::{Case, Measure, not_applicable, scored};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Correct {}

impl Measure for Correct {
    fn measure(&self, case: &Case) -> Verdict {
        match case.correct {
            Some(true) => scored(1.0, "right: by the environment's own test"),
            Some(false) => scored(0.0, "wrong: by the environment's own test"),
            None => not_applicable("nothing says whether the answer is `correct`"),
        }
    }
}
