//! Detectors: behaviour visible in a single episode, one file each. The failure taxonomy of public agent runs
//! (unanswered calls, reasoning that consumes the budget, no finish, identical repeats, limits, repeated reasoning,
//! invented ids, finishing without acting), plus plain counts.
//!
//! A new detector is one file with its [`Detector`] and one line of [`DETECTORS`].

mod calls;
mod errors;
mod identical_repeats;
mod invented_ids;
mod limit;
mod missing_finish;
mod premature_finish;
mod repeated_reasoning;
mod thinking;
mod turns;
mod unanswered;
mod unconfirmed;
mod unreadable;

use hone_arena::rewards::Case;
use hone_trace::{EndState, Message, Trace};

use crate::table::{Passing, messages};

/// An episode as detectors see it.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    pub trace: &'a Trace,
    pub messages: Vec<Message>,
    /// `None` for a broken episode.
    pub case: Option<Case>,
    pub passed: Option<bool>,
}

impl<'a> Seen<'a> {
    pub(crate) fn new(trace: &'a Trace, passing: &Passing) -> Self {
        let end = EndState { facts: trace.facts.clone() };
        let passed = trace.reward(&passing.component).map(|value| value >= passing.at_least - 1e-6);
        Self { trace, messages: messages(trace), case: Case::of(trace, &end).ok(), passed }
    }

    /// Replies and calls of the agent, turn by turn.
    fn replies(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(|message| matches!(message, Message::Assistant { .. }))
    }

    /// Answers of tools, with the tool's name.
    fn answers(&self) -> impl Iterator<Item = (&str, String)> {
        self.messages.iter().filter_map(|message| match message {
            Message::Tool { content, name, .. } => Some((name.as_deref().unwrap_or(""), content.text())),
            _ => None,
        })
    }
}

/// Amount seen, and an example in words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sighting {
    pub value: f64,
    pub example: String,
}

impl Sighting {
    fn new(value: f64, example: impl Into<String>) -> Self {
        Self { value, example: example.into() }
    }
}

/// One kind of behaviour.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Detector {
    pub name: &'static str,
    pub about: &'static str,
    /// Value above which the behaviour counts as present. `None`: a plain count.
    pub over: Option<f64>,
    /// `None` if an episode does not show it.
    pub measure: fn(&Seen<'_>) -> Option<Sighting>,
}

/// All detectors, the plain counts first.
pub(crate) static DETECTORS: &[&Detector] = &[
    &turns::DETECTOR,
    &calls::DETECTOR,
    &errors::ARGUMENT,
    &errors::NOT_FOUND,
    &errors::REFUSED,
    &errors::OTHER,
    &unreadable::DETECTOR,
    &unanswered::DETECTOR,
    &thinking::DETECTOR,
    &missing_finish::DETECTOR,
    &identical_repeats::DETECTOR,
    &limit::DETECTOR,
    &repeated_reasoning::DETECTOR,
    &invented_ids::DETECTOR,
    &premature_finish::DETECTOR,
    &unconfirmed::DETECTOR,
];

/// The start of a text on one line, for examples.
fn excerpt(text: &str, limit: usize) -> String {
    let short: String = text.chars().take(limit).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(limit).is_some() { short + "…" } else { short }
}

/// Sighting of a process reward, which is minus the share of violations.
fn punished(verdict: &hone_trace::Verdict) -> Option<Sighting> {
    match verdict {
        hone_trace::Verdict::Scored { value, why, .. } => Some(Sighting::new(-value, why.clone())),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::Arc;

    use hone_trace::{
        Digest, Message, Node, Outcome, PolicyVersion, Reward, Sampled, SamplingParams, ToolCall, ToolSet, Trace,
        TraceBuilder, TraceHead, TurnRecord,
    };
    use serde_json::{Value, json};

    use super::{Detector, Seen, Sighting};
    use crate::table::Passing;

    pub(crate) fn call(name: &str, arguments: Value) -> Message {
        Message::calls(vec![ToolCall::new(name, arguments.as_object().cloned().unwrap())])
    }

    pub(crate) fn thought(reasoning: &str, text: &str) -> Message {
        Message::Assistant { content: Some(text.into()), reasoning: Some(reasoning.into()), tool_calls: Vec::new() }
    }

    /// A trace whose turns are those of its messages; answers that begin with "Error" failed.
    pub(crate) fn trace(messages: &[Message], outcome: Outcome, success: f64) -> Trace {
        let head = TraceHead {
            task: "t".into(),
            env: "e".into(),
            replica: 0,
            seed: 0,
            tools: Arc::new(ToolSet::none()),
            sampling: SamplingParams::default(),
        };
        let mut builder = TraceBuilder::new(head, Vec::new());
        let version = PolicyVersion { run: "r".into(), step: 0, weights: Digest::of(b"w") };
        for (at, message) in messages.iter().enumerate() {
            let Message::Assistant { tool_calls, .. } = message else { continue };
            builder.push(Node::sampled(Vec::new(), Sampled::by(version.clone(), Vec::new())).unwrap());
            let answers = messages[at + 1..].iter().take_while(|message| !matches!(message, Message::Assistant { .. }));
            let failed = answers.filter(
                |message| matches!(message, Message::Tool { content, .. } if content.text().starts_with("Error")),
            );
            builder.record(TurnRecord {
                calls: tool_calls.clone(),
                executed: tool_calls.len() as u32,
                failed: failed.count() as u32,
                ..TurnRecord::default()
            });
        }
        let mut trace = builder.finish(outcome);
        trace.facts.insert("messages".into(), json!(messages));
        trace.facts.insert("writes".into(), json!(["write"]));
        trace.rewards = vec![Reward::scored("s", success, "test")];
        trace
    }

    pub(crate) fn measure(detector: &Detector, trace: &Trace) -> Option<Sighting> {
        (detector.measure)(&Seen::new(trace, &Passing { component: "s".into(), at_least: 1.0 }))
    }

    /// True when the behaviour is seen.
    pub(crate) fn is_seen(detector: &Detector, trace: &Trace) -> bool {
        measure(detector, trace).is_some_and(|sighting| sighting.value > detector.over.unwrap_or(0.0))
    }
}
