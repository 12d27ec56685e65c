//! Cohere Command: `<|START_ACTION|>[{"tool_call_id": …, "tool_name": …, "parameters": {…}}]<|END_ACTION|>`.

use hone_trace::ToolCall;
use serde_json::Value;

use super::{FormatEntry, Holds, Reply, Tag, Values, alone, arguments_json, payload};

const OPEN: &str = "<|START_ACTION|>";
const CLOSE: &str = "<|END_ACTION|>";

/// Markers around the answer itself.
const FRAME: [&str; 4] = ["<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"];

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "cohere",
    models: "Command R7B, Command A",
    summary: "A JSON list of objects with `tool_name` and `parameters` between action markers.",
    markers: &[OPEN, FRAME[0], FRAME[2]],
    claims: alone,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    let mut tag = Tag::new(CLOSE, &[OPEN]);
    while let Some((which, at)) = reply.seek(&[OPEN, CLOSE, FRAME[0], FRAME[1], FRAME[2], FRAME[3]]) {
        match which {
            0 => payload::read(reply, at, at + OPEN.len(), Holds::Call, &mut tag),
            1 => reply.stray_closer(at, CLOSE, |_, _| None),
            _ => reply.pos = at + FRAME[which - 2].len(),
        }
    }
}

fn render(calls: &[ToolCall]) -> String {
    let calls = calls.iter().enumerate().map(|(index, call)| {
        let name = Value::from(call.name.as_str());
        format!(
            "    {{\"tool_call_id\": \"{index}\", \"tool_name\": {name}, \"parameters\": {}}}",
            arguments_json(call)
        )
    });
    format!("{OPEN}[\n{}\n]{CLOSE}", calls.collect::<Vec<_>>().join(",\n"))
}

fn guidance() -> String {
    format!(
        "Write all calls between one {OPEN} and {CLOSE}, as a JSON list of objects with \"tool_call_id\", \"tool_name\" \
         and \"parameters\"."
    )
}
