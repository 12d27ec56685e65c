//! Phi-4: `<|tool_call|>[{"name": …, "arguments": {…}}]<|/tool_call|>`, or `functools[{…}]` without an end marker.

use hone_trace::ToolCall;

use super::{Claim, FormatEntry, Holds, Reply, Tag, Values, call_json, payload};

const OPEN: &str = "<|tool_call|>";
const CLOSE: &str = "<|/tool_call|>";
const FUNCTOOLS: &str = "functools[";
const LIST: &str = "[{";

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "phi4",
    models: "Phi-4, Granite 3",
    summary: "A JSON list of calls in a tag, or behind `functools`.",
    markers: &[OPEN, LIST],
    claims,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    let mut tag = Tag::new(CLOSE, &[OPEN]);
    while let Some((which, at)) = reply.seek(&[OPEN, FUNCTOOLS]) {
        if which == 0 {
            payload::read(reply, at, at + OPEN.len(), Holds::Call, &mut tag);
        } else {
            super::embedded::marked(reply, at, at + FUNCTOOLS.len() - 1);
        }
    }
}

fn claims(text: &str, at: usize) -> Claim {
    if text[at..].starts_with(OPEN) { Claim::Default } else { Claim::sure_if(text[..=at].ends_with(FUNCTOOLS)) }
}

fn render(calls: &[ToolCall]) -> String {
    let calls = calls.iter().map(|call| call_json(call, "arguments"));
    format!("{OPEN}[{}]{CLOSE}", calls.collect::<Vec<_>>().join(", "))
}

fn guidance() -> String {
    format!("Write all calls as one JSON list of objects with \"name\" and \"arguments\" between {OPEN} and {CLOSE}.")
}
