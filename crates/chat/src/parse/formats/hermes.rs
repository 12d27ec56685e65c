//! Hermes and Qwen: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, one tag per call.

use hone_trace::ToolCall;

use super::{Claim, FormatEntry, Holds, Reply, Tag, Values, call_json, payload};
use crate::parse::{draft::Draft, json::Json};

pub(in crate::parse) const OPEN: &str = "<tool_call>";
pub(in crate::parse) const CLOSE: &str = "</tool_call>";

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "hermes",
    models: "Hermes, Qwen 2.5, Qwen3, Granite 4, Reka",
    summary: "A JSON object with `name` and `arguments` in one tag per call.",
    markers: &[OPEN, CLOSE],
    claims: |_, _| Claim::Default,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    let mut tag = tag();
    while let Some((which, at)) = reply.seek(&[OPEN, CLOSE]) {
        if which == 0 {
            payload::read(reply, at, at + OPEN.len(), Holds::Call, &mut tag);
        } else {
            reply.stray_closer(at, CLOSE, whole_call);
        }
    }
}

pub(in crate::parse) fn tag() -> Tag {
    Tag::new(CLOSE, &[OPEN])
}

/// The text from `start` as one call object and nothing else.
pub(in crate::parse) fn whole_call(text: &str, start: usize) -> Option<Draft> {
    let mut json = Json::new(text, start);
    json.whitespace();
    let fields = json.fields().ok()?;
    let end = json.pos;
    json.whitespace();
    (json.pos == text.len()).then(|| Draft::from_fields(start..end, fields))
}

fn render(calls: &[ToolCall]) -> String {
    let calls = calls.iter().map(|call| format!("{OPEN}\n{}\n{CLOSE}", call_json(call, "arguments")));
    calls.collect::<Vec<_>>().join("\n")
}

fn guidance() -> String {
    format!(
        "For each call write a JSON object with \"name\" and \"arguments\" between {OPEN} and {CLOSE} tags. \
         Several calls: one pair of tags each."
    )
}
