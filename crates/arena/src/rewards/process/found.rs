//! Found first: the records the reference writes to were looked at before they were written to.
//!
//! The share of the ids in the reference's writes that some tool showed, or answered for without an error, before the
//! agent's first write that names them (or at all, if the agent never wrote to them). Unscored if the reference writes
//! nothing.

use std::collections::{BTreeSet, VecDeque};

use hone_trace::{Message, Verdict};
use serde::Deserialize;

use super::{ids, mentions, messages, writes};
use crate::catalogue::Options;
use crate::rewards::catalogue::{ComponentEntry, plain};
use crate::rewards::{Case, Measure, not_applicable, scored};

pub(in crate::rewards) const ENTRY: ComponentEntry = ComponentEntry {
    name: "found_first",
    about: "Share of the records changed by the reference that were read before they were written, from 0 to 1",
    advice: "A process reward for service desks; anneal it to 0 once tau is earned",
    paper: None,
    options: Options::NONE,
    make: plain::<FoundFirst>,
};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FoundFirst {}

impl Measure for FoundFirst {
    fn measure(&self, case: &Case) -> Verdict {
        let (messages, writes) = match (messages(case), writes(case)) {
            (Ok(messages), Ok(writes)) => (messages, writes),
            (Err(missing), _) | (_, Err(missing)) => return missing,
        };
        let Some(reference) = &case.reference_calls else { return not_applicable("the case has no `reference_calls`") };
        let wanted: BTreeSet<&str> =
            reference.iter().filter(|call| writes.contains(&call.name)).flat_map(|call| ids(call)).collect();
        if wanted.is_empty() {
            return not_applicable("the reference writes to no record");
        }
        let missed: Vec<&str> = wanted.iter().copied().filter(|id| !seen_first(messages, writes, id)).collect();
        let found = wanted.len() - missed.len();
        let why = format!("found: {found} of {} records before writing, not {missed:?}", wanted.len());
        scored(found as f64 / wanted.len() as f64, why)
    }
}

fn seen_first(messages: &[Message], writes: &[String], id: &str) -> bool {
    // Pending calls, answered in order: whether each asks about the id.
    let mut asked: VecDeque<bool> = VecDeque::new();
    for message in messages {
        match message {
            Message::Tool { content, .. } => {
                let (text, about) = (content.text(), asked.pop_front().unwrap_or(false));
                if mentions(&text, id) || (about && !text.starts_with("Error")) {
                    return true;
                }
            }
            Message::Assistant { tool_calls, .. } => {
                if tool_calls.iter().any(|call| writes.contains(&call.name) && ids(call).contains(&id)) {
                    return false;
                }
                asked = tool_calls.iter().map(|call| ids(call).contains(&id)).collect();
            }
            _ => {}
        }
    }
    false
}
