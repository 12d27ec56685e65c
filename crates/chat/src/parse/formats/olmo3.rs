//! Olmo 3: `<function_calls>name(key="value")</function_calls>`, one call per line.

use hone_trace::ToolCall;

use super::{Claim, FormatEntry, Reply, Values, pythonic};
use crate::parse::{reply::Lookup, statements};

const OPEN: &str = "<function_calls>";
const CLOSE: &str = "</function_calls>";

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "olmo3",
    models: "Olmo 3",
    summary: "Function calls with keyword arguments in a tag, one per line.",
    markers: &[OPEN],
    claims: |_, _| Claim::Default,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    let mut close = Lookup::new(CLOSE);
    while let Some((which, at)) = reply.seek(&[OPEN, CLOSE]) {
        if which == 0 {
            statements::read(reply, at, at + OPEN.len(), CLOSE, &mut close);
        } else {
            reply.stray_closer(at, CLOSE, |_, _| None);
        }
    }
}

fn render(calls: &[ToolCall]) -> String {
    let calls: Vec<_> = calls.iter().map(pythonic::render_call).collect();
    format!("{OPEN}{}{CLOSE}", calls.join("\n"))
}

fn guidance() -> String {
    format!(
        "Write all calls between one {OPEN} and {CLOSE}, one per line, with keyword arguments and literal values: \
         NAME(KEY=VALUE, …)."
    )
}
