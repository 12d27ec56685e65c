//! Full trace: its record, its conversation and its turns.

use std::ops::{ControlFlow, Range};

use hone_trace::Advantage;
use serde::Serialize;
use serde_json::Value;

use super::brief::{Brief, no_signal};
use super::lines::parse;
use super::words::{Lenient, Origin};
use super::{Call, Message, Part, Run, ViewError};

/// A trace with its complete record.
#[derive(Debug, Clone, Serialize)]
pub struct Full {
    #[serde(flatten)]
    pub brief: Brief,
    /// The step or evaluation it belongs to.
    pub part: Option<Part>,
    pub messages: Vec<Message>,
    pub turn_records: Vec<TurnView>,
    pub nodes: Vec<Node>,
    /// The line as it was recorded.
    #[serde(skip)]
    pub record: Value,
    #[serde(skip)]
    pub(super) advantages: Option<Vec<f64>>,
    #[serde(skip)]
    pub(super) no_signal: Option<String>,
}

/// The readable side of one agent turn.
#[derive(Debug, Clone, Serialize)]
pub struct TurnView {
    pub calls: Vec<Call>,
    pub executed: u64,
    pub failed: u64,
    /// The parse failure in words.
    pub failure: Option<String>,
    pub repairs: Vec<String>,
    /// Seconds waited for each party.
    pub timings: Vec<(String, f64)>,
}

/// Tokens of one hand-over.
#[derive(Debug, Clone, Serialize)]
pub struct Node {
    pub origin: Lenient<Origin>,
    pub tokens: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sampling_logprobs: Vec<f64>,
    /// The policy steps that sampled it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policy_steps: Vec<u64>,
}

impl Run {
    /// A trace by its number.
    pub fn trace(&self, number: u64) -> Result<Full, ViewError> {
        let traces = self.traces()?;
        if number >= traces.len() {
            return Err(ViewError::Missing(format!(
                "the run has no trace {number}; it has {}",
                match traces.len() {
                    0 => "none that can be read".to_owned(),
                    count => format!("0 to {}", count - 1),
                }
            )));
        }
        let mut found = Err("it is not there".to_owned());
        traces.lines(number..number + 1, |_, line| {
            found =
                line.map_err(|error| error.to_string()).and_then(|line| Ok((Brief::read(number, line)?, parse(line)?)));
            ControlFlow::Break(())
        });
        let (brief, record) =
            found.map_err(|why| ViewError::Missing(format!("trace {number} could not be read: {why}")))?;
        let part = self.part_of(brief.trace);
        Ok(self.full(brief, record, part))
    }

    /// Every trace of some numbers that can be read, one at a time, until `with` says to stop.
    pub(crate) fn fulls(
        &self,
        numbers: Range<u64>,
        mut with: impl FnMut(Full) -> ControlFlow<()>,
    ) -> Result<(), ViewError> {
        let mut now: Option<(Range<u64>, Part)> = None;
        self.traces()?.lines(numbers, |number, line| {
            let Ok(line) = line else { return ControlFlow::Continue(()) };
            let (Ok(brief), Ok(record)) = (Brief::read(number, line), parse(line)) else {
                return ControlFlow::Continue(());
            };
            if now.as_ref().is_none_or(|(range, _)| !range.contains(&number)) {
                let part = self.part_of(number);
                now = part.and_then(|part| Some((self.range(&part).ok()?, part)));
            }
            with(self.full(brief, record, now.as_ref().map(|(_, part)| part.clone())))
        });
        Ok(())
    }

    fn full(&self, brief: Brief, record: Value, part: Option<Part>) -> Full {
        let nodes: Vec<Node> = list(&record, "nodes").map(node).collect();
        let turn_records: Vec<TurnView> = list(&record, "turns").map(turn).collect();
        let mut messages: Vec<Message> =
            record.get("facts").into_iter().flat_map(|facts| list(facts, "messages")).map(Message::read).collect();
        if messages.is_empty() {
            messages = nodes.iter().map(|node| self.as_message(node)).collect();
        }
        let agent = messages.iter_mut().filter(|message| message.is_agent());
        agent
            .enumerate()
            .for_each(|(turn, message)| message.turn = Some(turn).filter(|turn| *turn < turn_records.len()));
        let advantage = record
            .get("lesson")
            .and_then(|lesson| serde_json::from_value::<Advantage>(lesson.get("advantage")?.clone()).ok());
        let lengths = nodes.iter().filter(|node| node.origin.is(Origin::Sampled)).map(|node| node.tokens.len());
        let advantages = advantage.as_ref().and_then(|advantage| advantage.per_token(lengths));
        let no_signal = match advantage {
            Some(Advantage::None { why }) => Some(no_signal(why).to_owned()),
            _ => None,
        };
        Full { brief, part, messages, turn_records, nodes, record, advantages, no_signal }
    }
}

pub(super) fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

pub(super) fn floats(value: &Value, key: &str) -> Vec<f64> {
    list(value, key).map(|number| number.as_f64().unwrap_or(f64::NAN)).collect()
}

pub(super) fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}

fn node(value: &Value) -> Node {
    let ids = list(value, "tokens").filter_map(|id| u32::try_from(id.as_u64()?).ok());
    Node {
        origin: Lenient::read(value.get("origin")).unwrap_or_else(Lenient::missing),
        tokens: ids.collect(),
        logprobs: floats(value, "logprobs"),
        sampling_logprobs: floats(value, "sampling_logprobs"),
        policy_steps: list(value, "versions").filter_map(|span| span.get(0)?.get("step")?.as_u64()).collect(),
    }
}

fn turn(value: &Value) -> TurnView {
    let failure = value.get("failure").filter(|failure| failure.is_object()).map(|failure| {
        let part = |key| text(failure, key).unwrap_or_default();
        let hint = Some(part("hint")).filter(|hint| !hint.is_empty()).map(|hint| format!(" ({hint})"));
        format!("{}: {}{}", part("kind"), part("message"), hint.unwrap_or_default())
    });
    let timings = value.get("timings").and_then(Value::as_object).into_iter().flatten();
    TurnView {
        calls: list(value, "calls").map(Call::read).collect(),
        executed: value.get("executed").and_then(Value::as_u64).unwrap_or(0),
        failed: value.get("failed").and_then(Value::as_u64).unwrap_or(0),
        failure,
        repairs: list(value, "repairs").filter_map(|repair| repair.as_str().map(str::to_owned)).collect(),
        timings: timings.filter_map(|(who, seconds)| Some((who.clone(), seconds.as_f64()?))).collect(),
    }
}

impl Full {
    /// One key per turn: the calls it makes, or that it makes none. Turns of equal keys do the same thing.
    pub(crate) fn turn_keys(&self) -> Vec<String> {
        let key = |turn: &TurnView| {
            let names: Vec<&str> = turn.calls.iter().map(|call| call.name.as_str()).collect();
            match (&turn.failure, names.is_empty()) {
                (Some(_), _) => "\u{0}failure".to_owned(),
                (None, true) => "\u{0}reply".to_owned(),
                (None, false) => names.join("\u{0}"),
            }
        };
        self.turn_records.iter().map(key).collect()
    }

    /// The tools' names.
    pub fn tools(&self) -> Vec<&str> {
        list(&self.record, "tools")
            .filter_map(|tool| tool.get("function").unwrap_or(tool).get("name")?.as_str())
            .collect()
    }

    /// The messages of a turn: the agent's, and what answered it.
    pub(crate) fn turn_messages(&self, turn: usize) -> &[Message] {
        let Some(start) = self.messages.iter().position(|message| message.turn == Some(turn)) else { return &[] };
        let rest = &self.messages[start + 1..];
        let length = rest.iter().position(Message::is_agent).unwrap_or(rest.len());
        &self.messages[start..=start + length]
    }

    /// A turn in lines: calls with their arguments, the parse failure, words, answers.
    pub(crate) fn turn_lines(&self, turn: usize) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(record) = self.turn_records.get(turn) {
            lines.extend(record.calls.iter().map(|call| format!("→ {} {}", call.name, call.arguments)));
            lines.extend(record.failure.iter().map(|failure| format!("✗ {failure}")));
        }
        for message in self.turn_messages(turn) {
            let mark = if message.is_agent() { "" } else { "← " };
            if !message.content.is_empty() {
                lines.push(format!("{mark}{}", message.content));
            }
        }
        lines
    }
}
