//! Validation of client requests, with errors in the form of OpenEnv's validator.

use serde_json::{Map, Value, json};

/// Complaints, one for each field.
pub(super) type Complaints = Vec<Value>;

/// The longest id that a client may give.
const LONGEST_ID: usize = 255;

/// A complaint about a field.
fn complaint(kind: &str, place: &[&str], message: &str, input: &Value) -> Value {
    json!({"type": kind, "loc": place, "msg": message, "input": input})
}

/// Error of a reset that names an unknown task.
pub(super) fn no_task(why: &str, data: &Map<String, Value>) -> Value {
    complaint("value_error", &["body"], why, &Value::Object(data.clone()))
}

/// Error of a task count that is not a valid number.
pub(super) fn no_number(key: &str, input: &Value) -> Value {
    complaint("int_type", &["body", key], "Input should be a valid integer, 0 or more", input)
}

/// Adds the URL that the validator of an action adds.
fn with_url(mut complaint: Value) -> Value {
    let kind = complaint.get("type").and_then(Value::as_str).unwrap_or_default();
    complaint["url"] = format!("https://errors.pydantic.dev/2.14/v/{kind}").into();
    complaint
}

/// An action: `list_tools`, or `call_tool` with a name and arguments.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Act {
    List,
    Call { name: String, arguments: Map<String, Value> },
}

impl Act {
    pub(super) fn read(action: &Value) -> Result<Self, Complaints> {
        let Some(fields) = action.as_object() else {
            let message = "Input should be a valid dictionary or instance of CallToolAction";
            return Err(vec![with_url(complaint("model_type", &[], message, action))]);
        };
        let listing = fields.get("type").and_then(Value::as_str) == Some("list_tools");
        let mut wrong = Vec::new();
        let mut complain = |kind, key, message, input| wrong.push(with_url(complaint(kind, &[key], message, input)));
        if let Some(metadata) = fields.get("metadata").filter(|metadata| !metadata.is_object()) {
            complain("dict_type", "metadata", "Input should be a valid dictionary", metadata);
        }
        let known: &[&str] =
            if listing { &["metadata", "type"] } else { &["metadata", "type", "tool_name", "arguments"] };
        if !listing {
            if let Some(kind) = fields.get("type").filter(|kind| kind.as_str() != Some("call_tool")) {
                complain("literal_error", "type", "Input should be 'call_tool'", kind);
            }
            match fields.get("tool_name") {
                None => complain("missing", "tool_name", "Field required", action),
                Some(Value::String(_)) => {}
                Some(other) => complain("string_type", "tool_name", "Input should be a valid string", other),
            }
            if let Some(other) = fields.get("arguments").filter(|arguments| !arguments.is_object()) {
                complain("dict_type", "arguments", "Input should be a valid dictionary", other);
            }
        }
        for (key, value) in fields.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            complain("extra_forbidden", key, "Extra inputs are not permitted", value);
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        if listing {
            return Ok(Self::List);
        }
        let name = fields.get("tool_name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let arguments = fields.get("arguments").and_then(Value::as_object).cloned().unwrap_or_default();
        Ok(Self::Call { name, arguments })
    }
}

/// The body of a `POST /reset`; an absent one is empty.
pub(super) fn reset(body: &[u8]) -> Result<Map<String, Value>, Complaints> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    let mut fields = object(body)?;
    let mut wrong = Vec::new();
    match fields.get("seed") {
        None | Some(Value::Null) => {}
        Some(seed) if seed.as_u64().is_some() => {}
        Some(seed) if seed.as_i64().is_some() => {
            let mut error =
                complaint("greater_than_equal", &["body", "seed"], "Input should be greater than or equal to 0", seed);
            error["ctx"] = json!({"ge": 0});
            wrong.push(error);
        }
        Some(seed) => {
            wrong.push(complaint("int_type", &["body", "seed"], "Input should be a valid integer", seed));
        }
    }
    wrong.extend(id(&fields, "episode_id"));
    fields.retain(|_, value| !value.is_null());
    if wrong.is_empty() { Ok(fields) } else { Err(wrong) }
}

/// The action in the body of a `POST /step`.
pub(super) fn step(body: &[u8]) -> Result<Value, Complaints> {
    let fields = object(body)?;
    let mut wrong = Vec::new();
    match fields.get("action") {
        None => {
            let whole = Value::Object(fields.clone());
            wrong.push(complaint("missing", &["body", "action"], "Field required", &whole));
        }
        Some(Value::Object(_)) => {}
        Some(other) => {
            wrong.push(complaint("dict_type", &["body", "action"], "Input should be a valid dictionary", other));
        }
    }
    if let Some(timeout) = fields.get("timeout_s").filter(|timeout| !timeout.is_null()) {
        let place = &["body", "timeout_s"];
        match timeout.as_f64() {
            None => wrong.push(complaint("float_type", place, "Input should be a valid number", timeout)),
            Some(seconds) if seconds <= 0.0 => {
                let mut error = complaint("greater_than", place, "Input should be greater than 0", timeout);
                error["ctx"] = json!({"gt": 0.0});
                wrong.push(error);
            }
            Some(_) => {}
        }
    }
    wrong.extend(id(&fields, "request_id"));
    if wrong.is_empty() { Ok(fields.get("action").cloned().unwrap_or_default()) } else { Err(wrong) }
}

fn id(fields: &Map<String, Value>, key: &str) -> Option<Value> {
    let place = &["body", key];
    match fields.get(key)? {
        Value::Null => None,
        Value::String(text) if text.chars().count() <= LONGEST_ID => None,
        long @ Value::String(_) => {
            let mut error = complaint("string_too_long", place, "String should have at most 255 characters", long);
            error["ctx"] = json!({"max_length": LONGEST_ID});
            Some(error)
        }
        other => Some(complaint("string_type", place, "Input should be a valid string", other)),
    }
}

/// A JSON object, whatever is in it.
pub(super) fn object(body: &[u8]) -> Result<Map<String, Value>, Complaints> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(other) => {
            let message = "Input should be a valid dictionary or object to extract fields from";
            Err(vec![complaint("model_attributes_type", &["body"], message, &other)])
        }
        Err(error) => {
            let at = error.column().saturating_sub(1);
            let why = json!({"error": error.to_string()});
            Err(vec![
                json!({"type": "json_invalid", "loc": ["body", at], "msg": "JSON decode error", "input": {}, "ctx": why}),
            ])
        }
    }
}

/// Complaints about unknown keys of a message.
pub(super) fn extra(message: &Map<String, Value>, known: &[&str]) -> Complaints {
    let unknown = message.iter().filter(|(key, _)| !known.contains(&key.as_str()));
    unknown
        .map(|(key, value)| with_url(complaint("extra_forbidden", &[key], "Extra inputs are not permitted", value)))
        .collect()
}

/// The `data` of a message: an object, or nothing.
pub(super) fn data(message: &Map<String, Value>) -> Result<Map<String, Value>, Complaints> {
    match message.get("data") {
        None => Ok(Map::new()),
        Some(Value::Object(data)) => Ok(data.clone()),
        Some(other) => {
            Err(vec![with_url(complaint("dict_type", &["data"], "Input should be a valid dictionary", other))])
        }
    }
}

/// Validator's error for missing `data`.
pub(super) fn missing_data(message: &Map<String, Value>) -> Complaints {
    vec![with_url(complaint("missing", &["data"], "Field required", &Value::Object(message.clone())))]
}
