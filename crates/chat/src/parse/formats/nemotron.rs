//! Nemotron: `<TOOLCALL>[{"name": …, "arguments": {…}}]</TOOLCALL>`.

use hone_trace::ToolCall;

use super::{FormatEntry, Holds, Reply, Tag, Values, alone, call_json, payload};

const OPEN: &str = "<TOOLCALL>";
const CLOSE: &str = "</TOOLCALL>";

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "nemotron",
    models: "Llama Nemotron, Nemotron Nano 2",
    summary: "A JSON list of calls in one tag.",
    markers: &[OPEN, CLOSE],
    claims: alone,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    payload::walk(reply, OPEN, &mut Tag::new(CLOSE, &[OPEN]), Holds::Call);
}

fn render(calls: &[ToolCall]) -> String {
    let calls: Vec<_> = calls.iter().map(|call| call_json(call, "arguments")).collect();
    format!("{OPEN}[{}]{CLOSE}", calls.join(", "))
}

fn guidance() -> String {
    format!("Write all calls as one JSON list of objects with \"name\" and \"arguments\" between {OPEN} and {CLOSE}.")
}
