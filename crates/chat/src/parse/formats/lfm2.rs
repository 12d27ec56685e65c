//! LFM2: `<|tool_call_start|>[name(key="value")]<|tool_call_end|>`, a Python list of calls between markers.

use hone_trace::ToolCall;

use super::{FormatEntry, Holds, Reply, Tag, Values, alone, payload, pythonic};
use crate::parse::{draft::Fault, repair::Repair, reply::Lookup, statements};

const OPEN: &str = "<|tool_call_start|>";
const CLOSE: &str = "<|tool_call_end|>";

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "lfm2",
    models: "LFM2 and LFM2.5",
    summary: "A Python list of calls with keyword arguments between markers.",
    markers: &[OPEN],
    claims: alone,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    let mut tag = Tag::new(CLOSE, &[OPEN]);
    let mut close = Lookup::new(CLOSE);
    while let Some((which, at)) = reply.seek(&[OPEN, CLOSE]) {
        if which == 1 {
            reply.stray_closer(at, CLOSE, |_, _| None);
            continue;
        }
        let mut start = at + OPEN.len();
        let first = reply.drafts.len();
        while let Some(again) = reply.text[start..].trim_start().strip_prefix(OPEN) {
            start = reply.text.len() - again.len();
        }
        let inside = reply.text[start..].trim_start();
        let json =
            inside.starts_with('{') || inside.strip_prefix('[').is_some_and(|list| list.trim_start().starts_with('{'));
        if json {
            payload::read(reply, at, start, Holds::Calls, &mut tag);
        } else {
            statements::read(reply, at, start, CLOSE, &mut close);
        }
        if start > at + OPEN.len()
            && let Some(draft) = reply.drafts.get_mut(first)
        {
            draft.repaired(Fault::markup(start, format!("{OPEN} twice")), Repair::ReopenedTag);
        }
    }
}

fn render(calls: &[ToolCall]) -> String {
    let calls: Vec<_> = calls.iter().map(pythonic::render_call).collect();
    format!("{OPEN}[{}]{CLOSE}", calls.join(", "))
}

fn guidance() -> String {
    format!(
        "Write all calls between one {OPEN} and {CLOSE}, as a Python list of calls with keyword arguments and literal \
         values: [NAME(KEY=VALUE, …), …]."
    )
}
