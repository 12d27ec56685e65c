//! Messages of the wire, one per line.

use hone_trace::{Action, Message, Task, ToolSpec};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The action of a `step`.
pub(super) fn action(action: &Action) -> Value {
    match action {
        Action::Calls(calls) => json!({"kind": "calls", "calls": calls}),
        Action::Reply(text) => json!({"kind": "reply", "text": text}),
        Action::Malformed(failure) => json!({"kind": "malformed", "failure": failure}),
    }
}

pub(super) fn open(episode: &str, task: &Task, seed: u64) -> Value {
    json!({"op": "open", "episode": episode, "task": task, "seed": seed})
}

pub(super) fn step(episode: &str, act: &Action) -> Value {
    json!({"op": "step", "episode": episode, "action": action(act)})
}

/// Notice that an episode is over. It has no answer.
pub(super) fn close(episode: &str) -> Value {
    json!({"op": "close", "episode": episode})
}

/// The answer to `open`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Opened {
    #[serde(default)]
    pub(super) system: String,
    #[serde(default)]
    pub(super) tools: Vec<ToolSpec>,
    pub(super) messages: Vec<Message>,
    /// Facts of an episode that ends before its first step.
    #[serde(default)]
    pub(super) facts: Option<Map<String, Value>>,
}

/// The answer to `step`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stepped {
    #[serde(default)]
    pub(super) messages: Vec<Message>,
    #[serde(default)]
    pub(super) done: bool,
    /// Number of the calls that were answered with an error.
    #[serde(default)]
    pub(super) failed: u32,
    #[serde(default)]
    pub(super) facts: Option<Map<String, Value>>,
}

/// A line of the process: the `id` it answers and the rest.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) id: u64,
    pub(super) body: Map<String, Value>,
}

impl Answer {
    pub(super) fn read(line: &[u8]) -> Result<Self, String> {
        let mut body: Map<String, Value> = serde_json::from_slice(line).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => "it is not an answer, which is one JSON object a line".to_owned(),
            _ => format!("it is not a JSON object: {error}"),
        })?;
        match body.shift_remove("id").as_ref().and_then(Value::as_u64) {
            Some(id) => Ok(Self { id, body }),
            None => Err("it has no \"id\": answers carry the id of their request".into()),
        }
    }
}

/// The `id` at the start of a line that cannot be read in full.
pub(super) fn leading_id(line: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(line);
    let rest = text.trim_start().strip_prefix('{')?.trim_start().strip_prefix("\"id\"")?;
    let digits = rest.trim_start().strip_prefix(':')?.trim_start();
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_id_of_a_broken_line() {
        assert_eq!(leading_id(b"{\"id\": 17, \"messages\": [\"aaaa"), Some(17));
        assert_eq!(leading_id(b" { \"id\":3}"), Some(3));
        assert_eq!(leading_id(b"{\"messages\": [], \"id\": 17"), None);
        assert_eq!(leading_id(b"{\"id\": \"x\""), None);
        assert_eq!(leading_id(&[0xff, 0xfe]), None);
    }
}
