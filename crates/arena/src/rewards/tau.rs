//! The tau-bench reward: the final database is the reference's, and every wanted output was said. Both parts are kept.
//! tau2's tasks may set further conditions: assertions on the end, calls that must have been made.
//!
//! The environment compares the states; this wraps its verdict. A truncated episode, or one that ended in a malformed
//! reply, earns 0: tau-bench never computes a reward for it, and it is the policy's doing.

use hone_trace::{Message, Outcome, Verdict};
use indexmap::IndexMap;
use serde::Deserialize;

use super::catalogue::{ComponentEntry, plain};
use super::{Case, Measure, not_applicable, scored};
use crate::catalogue::Options;

pub(super) const ENTRY: ComponentEntry = ComponentEntry {
    name: "tau",
    about: "tau-bench's reward: 1 if the final database equals the reference's and every required output was \
        communicated, otherwise 0",
    advice: "The reward to report for retail and airline; train on it too, unless successes are too rare to learn from",
    paper: Some("Yao et al. 2024, tau-bench, arXiv:2406.12045"),
    options: Options::NONE,
    make: plain::<Tau>,
};

pub(super) const STATE_ENTRY: ComponentEntry = ComponentEntry {
    name: "tau_state",
    about: "The part of tau that compares the final database with the reference's: 1 or 0",
    advice: "For environments whose tasks require no outputs, such as the shop",
    paper: Some("Yao et al. 2024, tau-bench, arXiv:2406.12045"),
    options: Options::NONE,
    make: plain::<TauState>,
};

pub(super) const OUTPUTS_ENTRY: ComponentEntry = ComponentEntry {
    name: "tau_outputs",
    about: "The part of tau that looks for the required outputs in the agent's messages: 1 or 0, unscored if none \
        are required",
    advice: "Record it at weight 0, to see which part of tau fails",
    paper: Some("Yao et al. 2024, tau-bench, arXiv:2406.12045"),
    options: Options::NONE,
    make: plain::<TauOutputs>,
};

/// Part that is scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Both,
    State,
    Outputs,
}

/// 1 when state and outputs are right, else 0.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tau {}

/// The final-state part alone.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TauState {}

/// The outputs part alone; unscored if the task requires none.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TauOutputs {}

impl Measure for Tau {
    fn measure(&self, case: &Case) -> Verdict {
        measure(case, Part::Both)
    }
}

impl Measure for TauState {
    fn measure(&self, case: &Case) -> Verdict {
        measure(case, Part::State)
    }
}

impl Measure for TauOutputs {
    fn measure(&self, case: &Case) -> Verdict {
        measure(case, Part::Outputs)
    }
}

fn measure(case: &Case, part: Part) -> Verdict {
    match &case.outcome {
        Some(Outcome::Truncated { limit }) => return scored(0.0, format!("truncated: {limit}")),
        Some(Outcome::Malformed { failure }) => return scored(0.0, format!("malformed: {failure}")),
        _ => {}
    }
    let said = outputs_of(case);
    if part == Part::Outputs {
        return match said {
            Some(said) if !said.is_empty() => outputs_verdict(&said),
            _ => not_applicable("the task wants no outputs"),
        };
    }
    let Some(state) = case.db_match else { return not_applicable("the case has no `db_match`") };
    if part == Part::State {
        return scored(f64::from(u8::from(state)), format!("state: {}", if state { "as wanted" } else { "different" }));
    }
    if said.is_none() && case.outputs.as_ref().is_some_and(|outputs| !outputs.is_empty()) {
        return not_applicable("the task wants outputs, and the case has neither `outputs_said` nor `messages`");
    }
    let missing: Vec<String> =
        said.iter().flatten().filter(|(_, said)| !**said).map(|(text, _)| text.clone()).collect();
    let unmet: Vec<&str> =
        case.conditions.iter().flatten().filter(|(_, met)| !**met).map(|(name, _)| name.as_str()).collect();
    let value = f64::from(u8::from(state && missing.is_empty() && unmet.is_empty()));
    let outputs = if missing.is_empty() { "all said".to_owned() } else { format!("not said: {missing:?}") };
    let unmet = if unmet.is_empty() { String::new() } else { format!(", unmet: {}", unmet.join(", ")) };
    scored(value, format!("tau: state {}, outputs {outputs}{unmet}", if state { "as wanted" } else { "different" }))
}

fn outputs_verdict(said: &IndexMap<String, bool>) -> Verdict {
    let count = said.values().filter(|said| **said).count();
    scored(f64::from(u8::from(count == said.len())), format!("outputs: {count} of {} said", said.len()))
}

fn outputs_of(case: &Case) -> Option<IndexMap<String, bool>> {
    if let Some(said) = &case.outputs_said {
        return Some(said.clone());
    }
    let (outputs, messages) = (case.outputs.as_ref()?, case.messages.as_ref()?);
    let replies: Vec<String> = messages
        .iter()
        .filter_map(|message| match message {
            // A text beside a call is not sent to the user.
            Message::Assistant { content: Some(content), tool_calls, .. } if tool_calls.is_empty() => {
                Some(content.text())
            }
            _ => None,
        })
        .collect();
    Some(outputs_said(outputs, replies.iter().map(String::as_str)))
}

/// tau-bench's test: the output, lower-cased, occurs in some reply, lower-cased and without commas. (Commas of the
/// output itself stay: an output with one is never found, as in tau-bench.)
pub fn outputs_said<'a>(outputs: &[String], replies: impl Iterator<Item = &'a str>) -> IndexMap<String, bool> {
    let replies: Vec<String> = replies.map(|reply| reply.to_lowercase().replace(',', "")).collect();
    outputs
        .iter()
        .map(|output| (output.clone(), replies.iter().any(|reply| reply.contains(&output.to_lowercase()))))
        .collect()
}
