//! Repeated calls: the same call with the same arguments, with nothing in between that could change the answer.
//!
//! Minus the share of calls that repeat an earlier one. A write resets the history of reads, since reading again after
//! a write is sensible; a repeated write still counts as a repeat.

use std::collections::HashSet;

use hone_trace::{ToolCall, Verdict};
use serde::Deserialize;
use serde_json::Value;

use super::{Step, messages, share, steps};
use crate::catalogue::Options;
use crate::rewards::catalogue::{ComponentEntry, plain};
use crate::rewards::{Case, Measure, scored};

pub(in crate::rewards) const ENTRY: ComponentEntry = ComponentEntry {
    name: "repeated_calls",
    about: "Minus the share of calls that repeat an earlier one with nothing written in between, from -1 to 0",
    advice: "For policies that ask the same thing again and again",
    paper: None,
    options: Options::NONE,
    make: plain::<RepeatedCalls>,
};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RepeatedCalls {}

impl Measure for RepeatedCalls {
    fn measure(&self, case: &Case) -> Verdict {
        let messages = match messages(case) {
            Ok(messages) => messages,
            Err(missing) => return missing,
        };
        let writes = case.writes.as_deref().unwrap_or_default();
        let mut asked: HashSet<String> = HashSet::new();
        let (mut calls, mut repeats) = (0, 0);
        for step in steps(messages) {
            let Step::Called(call) = step else { continue };
            calls += 1;
            let repeats_one = !asked.insert(key(call));
            repeats += usize::from(repeats_one);
            if writes.contains(&call.name) && !repeats_one {
                asked.clear();
                asked.insert(key(call));
            }
        }
        scored(share(repeats, calls), format!("repeated: {repeats} of {calls} calls"))
    }
}

/// The call's text with sorted keys: two spellings of one call are one call.
fn key(call: &ToolCall) -> String {
    let mut arguments = Value::Object(call.arguments.clone());
    arguments.sort_all_objects();
    format!("{} {arguments}", call.name)
}
