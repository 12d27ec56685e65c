//! Laws of the parser: what is rendered parses back to itself; no text makes it panic; nothing in reasoning runs.

#![expect(clippy::expect_used, reason = "a test fails where its data is not as expected")]

mod arbitrary;
mod panics;
mod reasoning;
mod rendered;

use hone_chat::parse::Toolbox;
use hone_trace::ToolSet;
use serde_json::json;

fn tools() -> Toolbox {
    let set: ToolSet = serde_json::from_value(json!([
        {"name": "put", "parameters": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "count": {"type": "integer"},
                "ratio": {"type": "number"},
                "flag": {"type": "boolean"},
                "maybe": {"type": ["string", "null"]},
                "list": {"type": "array"},
                "tree": {"type": "object"},
                "any": {},
            },
            "additionalProperties": false,
        }},
        {"name": "ping", "parameters": {"type": "object", "properties": {}}},
    ]))
    .expect("tools");
    Toolbox::new(&set).expect("schemas")
}
