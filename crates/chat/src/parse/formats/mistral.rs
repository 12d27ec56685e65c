//! Mistral: `[TOOL_CALLS][{"name": …, "arguments": {…}}]` up to v7, `[TOOL_CALLS]name[ARGS]{…}` from v11 on.

use hone_trace::ToolCall;

use super::{FormatEntry, Reply, Values, alone, embedded};
use crate::parse::draft::{Draft, Fault};

const OPEN: &str = "[TOOL_CALLS]";
const CLOSE: &str = "[/TOOL_CALLS]";
const CALL_ID: &str = "[CALL_ID]";
const ARGS: &str = "[ARGS]";

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "mistral",
    models: "Mistral, Mixtral, Magistral, Devstral",
    summary: "A marker, then a JSON list of calls (to v7) or a name and JSON arguments (from v11).",
    markers: &[OPEN],
    claims: alone,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    while let Some((which, at)) = reply.seek(&[OPEN, CLOSE]) {
        if which == 1 {
            // After a call it closes the marker, as some fine-tunes write it.
            let behind = reply.drafts.last().is_some_and(|last| reply.text[last.span.end..at].trim().is_empty());
            if behind {
                reply.pos = at + CLOSE.len();
            } else {
                reply.stray_closer(at, CLOSE, |_, _| None);
            }
            continue;
        }
        let start = at + OPEN.len();
        let rest = reply.text[start..].trim_start();
        if rest.starts_with("[ARGS]") || !rest.starts_with(['[', '{']) {
            named(reply, at, start);
        } else {
            embedded::marked(reply, at, reply.text.len() - rest.len());
        }
    }
}

/// `name{…}`, `name[ARGS]{…}`, `name[CALL_ID]id[ARGS]{…}`
fn named(reply: &mut Reply<'_>, open: usize, start: usize) {
    let text = reply.text;
    // A name is short; looking further would make a hostile reply slow.
    let window = &text.as_bytes()[start..text.len().min(start + 512)];
    let length = memchr::memchr2(b'[', b'{', window).unwrap_or(window.len());
    let head_end = start + length;
    let (name, mut pos) = match text.get(start..head_end) {
        Some(name) => (name.trim(), head_end),
        None => ("", start),
    };
    let mut id = None;
    if let Some(rest) = text[pos..].strip_prefix(CALL_ID)
        && let Some(length) = rest.as_bytes()[..rest.len().min(256)].iter().position(|byte| *byte == b'[')
    {
        id = Some(&rest[..length]);
        pos += CALL_ID.len() + length;
    }
    pos += if text[pos..].starts_with(ARGS) { ARGS.len() } else { 0 };
    let rest = text[pos..].trim_start();
    if rest.starts_with(['{', '[', '"', '\'']) {
        embedded::arguments(reply, open, text.len() - rest.len(), name, id);
        return;
    }
    let cut = rest.is_empty() || [CALL_ID, ARGS].iter().any(|marker| marker.starts_with(rest));
    let kind = reply.markup_kind(cut);
    let end = text[pos..].find(OPEN).map_or(text.len(), |next| pos + next);
    if reply.ends_reasoning(pos..end) {
        return;
    }
    reply.drafts.push(Draft::faulty(open..end, Fault::new(kind, pos, "expected a tool name and its arguments")));
    reply.pos = end;
}

fn render(calls: &[ToolCall]) -> String {
    let calls: Vec<_> =
        calls.iter().map(|call| format!("{OPEN}{}{ARGS}{}", call.name, super::arguments_json(call))).collect();
    calls.concat()
}

fn guidance() -> String {
    format!("For each call write {OPEN}, the tool's name, {ARGS} and its arguments as a JSON object, without spaces.")
}
