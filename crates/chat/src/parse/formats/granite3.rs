//! Granite 3: `<|tool_call|>[{"name": …, "arguments": {…}}]` or `<tool_call>[…]`, with the list at the end of the
//! reply.

use hone_trace::ToolCall;

use super::{Claim, FormatEntry, Reply, Values, call_json, embedded, hermes};
use crate::parse::{json::Json, tokens};

const OPEN: &str = "<|tool_call|>";
const CLOSE: &str = "<|/tool_call|>";

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "granite3",
    models: "Granite 3.0 to 3.3",
    summary: "A marker and a JSON list of calls, without an end marker.",
    markers: &[OPEN],
    claims,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

/// The list is Granite's if it is complete and nothing follows it; else Phi's, with its closer cut off.
fn claims(text: &str, at: usize) -> Claim {
    let rest = text[at..].strip_prefix(OPEN).unwrap_or_default().trim_start();
    let mut json = Json::new(rest, 0);
    let whole = rest.starts_with('[') && json.skip().is_ok();
    Claim::sure_if(whole && tokens::strip_end(&rest[json.pos..]).0 == 0)
}

fn parse(reply: &mut Reply<'_>) {
    let closers = [CLOSE, hermes::CLOSE];
    while let Some((which, at)) = reply.seek(&[OPEN, hermes::OPEN, CLOSE, hermes::CLOSE]) {
        if which > 1 {
            reply.stray_closer(at, closers[which - 2], |_, _| None);
            continue;
        }
        let rest = reply.text[at + [OPEN, hermes::OPEN][which].len()..].trim_start();
        embedded::marked(reply, at, reply.text.len() - rest.len());
        let behind = reply.rest().trim_start();
        if let Some(rest) = closers.iter().find_map(|close| behind.strip_prefix(close)) {
            reply.pos = reply.text.len() - rest.len();
        }
    }
}

fn render(calls: &[ToolCall]) -> String {
    let calls: Vec<_> = calls.iter().map(|call| call_json(call, "arguments")).collect();
    format!("{OPEN}[{}]", calls.join(", "))
}

fn guidance() -> String {
    format!(
        "Write {OPEN} and all calls as one JSON list of objects with \"name\" and \"arguments\", and nothing behind it."
    )
}
