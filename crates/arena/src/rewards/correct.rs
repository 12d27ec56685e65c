//! Correctness: 1 when the environment found the answer right, else 0.
//!
//! The test is the environment's own and ignores confidences, so it can be combined with calibration.

use hone_trace::Verdict;
use serde::Deserialize;

use super::catalogue::{ComponentEntry, plain};
use super::{Case, Measure, not_applicable, scored};
use crate::catalogue::Options;
use crate::rollout::{CRASH, DEFUSED};

pub(super) const ENTRY: ComponentEntry = ComponentEntry {
    name: "correct",
    about: "1 if the environment's own test finds the answer right, otherwise 0",
    advice: "The component to start with, and the only one that your own program needs",
    paper: None,
    options: Options::NONE,
    make: plain::<Correct>,
};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Correct {}

/// Facts that are not the environment's own.
const OURS: [&str; 7] = ["id", "completion", "messages", "stderr", "left_out", CRASH, DEFUSED];
/// Facts that a reason lists.
const LISTED: usize = 8;

/// The reason, with the facts that there are: one of them may be misspelt.
fn missing(names: &[String]) -> String {
    let own = names.iter().filter(|name| !OURS.contains(&name.as_str())).take(LISTED);
    let listed = own.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match listed.as_str() {
        "" => "nothing says whether the answer is `correct`: no facts are reported".into(),
        listed => format!("nothing says whether the answer is `correct`: the facts are {listed}"),
    }
}

impl Measure for Correct {
    fn measure(&self, case: &Case) -> Verdict {
        match case.correct {
            Some(true) => scored(1.0, "right: by the environment's own test"),
            Some(false) => scored(0.0, "wrong: by the environment's own test"),
            None => not_applicable(&missing(&case.names)),
        }
    }
}
