//! MiniMax M1: `<tool_calls>` around call objects, one per line.

use hone_trace::ToolCall;

use super::{Claim, FormatEntry, Holds, Reply, Tag, Values, call_json, payload};

const OPEN: &str = "<tool_calls>";
const CLOSE: &str = "</tool_calls>";

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "minimax_m1",
    models: "MiniMax M1, Jamba, Apriel, Hunyuan A13B",
    summary: "JSON call objects, one per line, in one tag.",
    markers: &[OPEN],
    claims: |_, _| Claim::Default,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    let mut tag = Tag::new(CLOSE, &[OPEN]);
    while let Some((which, at)) = reply.seek(&[OPEN, CLOSE]) {
        if which == 0 {
            payload::read(reply, at, at + OPEN.len(), Holds::Calls, &mut tag);
        } else {
            reply.stray_closer(at, CLOSE, super::hermes::whole_call);
        }
    }
}

fn render(calls: &[ToolCall]) -> String {
    let lines = calls.iter().map(|call| call_json(call, "arguments"));
    format!("{OPEN}\n{}\n{CLOSE}", lines.collect::<Vec<_>>().join("\n"))
}

fn guidance() -> String {
    format!("Write all calls between one {OPEN} and {CLOSE}: one JSON object with \"name\" and \"arguments\" per line.")
}
