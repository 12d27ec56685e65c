//! Phi-4: `<|tool_call|>[{"name": …, "arguments": {…}}]<|/tool_call|>`, or `functools[{…}]` without an end marker.

use hone_trace::ToolCall;

use super::{Holds, Reply, Tag, call_json, payload};

pub(in crate::parse) const OPEN: &str = "<|tool_call|>";
const CLOSE: &str = "<|/tool_call|>";
pub(in crate::parse) const FUNCTOOLS: &str = "functools[";

pub(super) fn parse(reply: &mut Reply<'_>) {
    let mut tag = Tag::new(CLOSE, &[OPEN]);
    while let Some((which, at)) = reply.seek(&[OPEN, FUNCTOOLS]) {
        if which == 0 {
            payload::read(reply, at, at + OPEN.len(), Holds::Call, &mut tag);
        } else {
            super::embedded::marked(reply, at, at + FUNCTOOLS.len() - 1);
        }
    }
}

pub(super) fn render(calls: &[ToolCall]) -> String {
    let calls = calls.iter().map(|call| call_json(call, "arguments"));
    format!("{OPEN}[{}]{CLOSE}", calls.collect::<Vec<_>>().join(", "))
}

pub(super) fn guidance() -> String {
    format!("Write all calls as one JSON list of objects with \"name\" and \"arguments\" between {OPEN} and {CLOSE}.")
}
