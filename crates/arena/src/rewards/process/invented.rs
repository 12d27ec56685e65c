//! Invented ids: every id in a call was mentioned before by the user, a tool or the system prompt.
//!
//! Minus the share of ids in calls that were not mentioned before.

use hone_trace::Verdict;
use serde::Deserialize;

use super::{Step, ids, mentions, messages, share, steps};
use crate::catalogue::Options;
use crate::rewards::catalogue::{ComponentEntry, plain};
use crate::rewards::{Case, Measure, excerpt, scored};

pub(in crate::rewards) const ENTRY: ComponentEntry = ComponentEntry {
    name: "invented_ids",
    about: "Minus the share of ids in calls that were never mentioned, from -1 to 0",
    advice: "For policies that guess ids instead of looking them up",
    paper: None,
    options: Options::NONE,
    make: plain::<InventedIds>,
};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InventedIds {}

impl Measure for InventedIds {
    fn measure(&self, case: &Case) -> Verdict {
        let messages = match messages(case) {
            Ok(messages) => messages,
            Err(missing) => return missing,
        };
        let mut heard: Vec<String> = Vec::new();
        let (mut named, mut invented) = (0, Vec::new());
        for step in steps(messages) {
            match step {
                Step::Heard { text, .. } => heard.push(text),
                Step::Called(call) => {
                    for id in ids(call) {
                        named += 1;
                        if !heard.iter().any(|text| mentions(text, id)) {
                            invented.push(excerpt(id, 40));
                        }
                    }
                }
                Step::Said => {}
            }
        }
        let why = format!("invented: {} of {named} ids {:?}", invented.len(), &invented[..invented.len().min(5)]);
        scored(share(invented.len(), named), why)
    }
}
