//! OpenAI message JSON: `{"content": …, "tool_calls": [{"function": {"name": …, "arguments": "{…}"}}]}`.

use hone_trace::ToolCall;
use serde_json::{Value, json};

use super::{FormatEntry, Reply, Values, arguments_json, embedded, unmarked};

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "openai_json",
    models: "any, through OpenAI-shaped JSON",
    summary: "An assistant message of the OpenAI API, with `tool_calls`.",
    markers: &[],
    claims: unmarked,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    embedded::walk(reply);
}

fn render(calls: &[ToolCall]) -> String {
    let calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(index, call)| {
            let id = call.id.clone().unwrap_or_else(|| format!("call_{index}"));
            json!({"id": id, "type": "function", "function": {"name": call.name, "arguments": arguments_json(call)}})
        })
        .collect();
    json!({ "tool_calls": calls }).to_string()
}

fn guidance() -> String {
    "To call tools, answer with one JSON object and nothing else: {\"tool_calls\": [{\"id\": \"call_0\", \"type\": \
     \"function\", \"function\": {\"name\": NAME, \"arguments\": the arguments as a JSON string}}, …]}."
        .to_owned()
}
