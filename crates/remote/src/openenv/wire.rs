//! Messages of an OpenEnv server: the envelope of an observation, and the messages of a `/ws` session.
//!
//! Versions 0.3.0 and 0.10.0 differ only in `metadata`, which the older one drops. Reward and `done` are siblings of
//! the observation and are read from there, never from inside it.

use serde_json::{Map, Value};

use crate::supervise::Failure;

/// The answer to a reset or a step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Envelope {
    pub observation: Map<String, Value>,
    /// Reward; absent if the server sent `null`, which is also how it sends one that is not a number.
    pub reward: Option<f64>,
    pub done: bool,
    /// Metadata: the sibling if there is one, else the observation's own.
    pub metadata: Map<String, Value>,
}

impl Envelope {
    pub fn read(data: Value) -> Result<Self, String> {
        let Value::Object(mut data) = data else { return Err("an envelope is an object".into()) };
        let observation = match data.remove("observation") {
            Some(Value::Object(observation)) => observation,
            Some(other) => Map::from_iter([("observation".to_owned(), other)]),
            None => return Err("the envelope has no \"observation\"".into()),
        };
        let reward = match data.get("reward") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(won)) => Some(f64::from(*won)),
            Some(Value::Number(number)) => number.as_f64(),
            Some(other) => return Err(format!("\"reward\" is a number or null, found {other}")),
        };
        let done = match data.get("done") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(done)) => *done,
            Some(other) => return Err(format!("\"done\" is true or false, found {other}")),
        };
        let metadata = match (data.remove("metadata"), observation.get("metadata")) {
            (Some(Value::Object(metadata)), _) => metadata,
            (_, Some(Value::Object(own))) => own.clone(),
            _ => Map::new(),
        };
        Ok(Self { observation, reward, done, metadata })
    }
}

/// A message of the server.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    Observation(Envelope),
    State(Value),
    Mcp(Value),
    Error { code: String, message: String, details: Map<String, Value> },
}

impl Said {
    pub fn read(text: &str) -> Result<Self, String> {
        let mut message: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| format!("a message that is not a JSON object: {error}"))?;
        let data = message.remove("data").unwrap_or_default();
        match message.get("type").and_then(Value::as_str) {
            Some("observation") => {
                let wrong = |why| format!("an observation that cannot be read: {why}");
                Envelope::read(data).map(Self::Observation).map_err(wrong)
            }
            Some("state") => Ok(Self::State(data)),
            Some("mcp") => Ok(Self::Mcp(data)),
            Some("error") => {
                let Value::Object(mut details) = data else { return Err("an error without \"data\"".into()) };
                let mut text = |key: &str| match details.remove(key) {
                    Some(Value::String(text)) => text,
                    Some(other) => other.to_string(),
                    None => String::new(),
                };
                let (code, message) = (text("code"), text("message"));
                Ok(Self::Error { code, message, details })
            }
            other => Err(format!("a message of the unknown type {other:?}")),
        }
    }

    /// The failure for an error. Only a full server is worth waiting for.
    pub fn failure(code: &str, message: &str) -> Failure {
        let what = format!("{code}: {message}");
        match code {
            "CAPACITY_REACHED" => Failure::busy(what),
            "FACTORY_ERROR" | "SESSION_ERROR" => Failure::infrastructure(what),
            _ => Failure::refused(what),
        }
    }
}

/// The text of a tool's result: FastMCP's client object (`data`, `structured_content`, `is_error`) or MCP's own
/// spelling. The flag is true for an error.
pub fn tool_result(result: &Value) -> (String, bool) {
    let Some(object) = result.as_object() else { return (plain(result), false) };
    let flag = |key: &str| object.get(key).and_then(Value::as_bool).unwrap_or(false);
    let failed = flag("is_error") || flag("isError");
    if let Some(data) = object.get("data").filter(|data| !data.is_null()) {
        return (plain(data), failed);
    }
    match object.get("content") {
        Some(Value::Array(parts)) => {
            let texts: Vec<String> = parts.iter().map(part).collect();
            (texts.join("\n"), failed)
        }
        _ => (plain(result), failed),
    }
}

/// A part of MCP content. Images are named, not shown: no byte of them goes into a prompt as text.
fn part(part: &Value) -> String {
    match part.get("type").and_then(Value::as_str) {
        Some("text") => part.get("text").and_then(Value::as_str).unwrap_or_default().to_owned(),
        Some("resource") => match part.pointer("/resource/text").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => "[resource]".into(),
        },
        Some(kind) => format!("[{kind}]"),
        None => plain(part),
    }
}

/// A string as it is, anything else as JSON.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
