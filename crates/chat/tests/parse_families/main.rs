//! Families of replies beyond the case file, judged by hand: well-formed and broken output of each format's models.

#![expect(clippy::expect_used, reason = "a test fails where its data is not as expected")]

mod hermes;
mod tagged;
mod tokens;
mod untagged;

use hone_chat::parse::{Format, Parsed, Toolbox, parse};
use hone_trace::ToolSet;
use serde_json::{Value, json};

fn tools() -> Toolbox {
    let tool = |name: &str, properties: Value, required: Value| {
        json!({"type": "function", "function": {"name": name, "description": "", "parameters": {
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        }}})
    };
    let set: ToolSet = serde_json::from_value(json!([
        tool(
            "weather",
            json!({"city": {"type": "string"}, "unit": {"enum": ["c", "f"]}, "days": {"type": "integer", "maximum": 14}}),
            json!(["city"])
        ),
        tool("search", json!({"query": {"type": "string"}, "limit": {"type": "integer"}, "filters": {"type": "object"}}), json!(["query"])),
        tool("run", json!({"code": {"type": "string"}, "timeout": {"type": "number"}}), json!(["code"])),
        tool(
            "event",
            json!({
                "title": {"type": "string"},
                "when": {"type": "object", "properties": {"start": {"type": "string"}}, "required": ["start"]},
                "guests": {"type": "array", "items": {"type": "string"}},
                "all_day": {"type": "boolean"},
                "note": {"type": ["string", "null"]},
                "level": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            }),
            json!(["title"])
        ),
        tool("ping", json!({}), json!([])),
        tool("my-tool", json!({"a-b": {"type": "string"}}), json!(["a-b"])),
    ]))
    .expect("tools");
    Toolbox::new(&set).expect("schemas")
}

/// The verdict in a line: `name{arguments}` per call, `reply`, or the kind of fault with what was repaired.
fn summary(parsed: &Parsed) -> String {
    let calls = |calls: &[hone_chat::parse::ParsedCall]| {
        calls.iter().map(|call| format!("{}{}", call.call.name, call.arguments_json())).collect::<Vec<_>>().join(" ")
    };
    match (&parsed.error, &parsed.repaired_calls) {
        (None, _) if parsed.calls.is_empty() => format!("reply {:?}", parsed.content),
        (None, _) if parsed.content.is_empty() => calls(&parsed.calls),
        (None, _) => format!("{} + {:?}", calls(&parsed.calls), parsed.content),
        (Some(failure), None) => failure.kind.to_string(),
        (Some(failure), Some(repaired)) => {
            let repairs = serde_json::to_value(&parsed.repairs).expect("repairs");
            let repairs: Vec<_> = repairs.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            format!("{} -> {} [{}]", failure.kind, calls(repaired), repairs.join(" "))
        }
    }
}

#[track_caller]
fn check(format: &str, cases: &[(&str, &str)]) {
    let tools = tools();
    let format: Option<Format> = (format != "auto").then(|| format.parse().expect("a known format"));
    let mut wrong = Vec::new();
    for (text, expected) in cases {
        let seen = summary(&parse(text, &tools, format));
        if seen != *expected {
            wrong.push(format!("{text:?}\n   expected {expected}\n   seen     {seen}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// The call that most cases make.
const PARIS: &str = r#"weather{"city":"Paris"}"#;
