//! Function-call text in a code block: `name(key="value")` in a fence, and nothing else.

use hone_trace::{ParseFailureKind, ToolCall};

use super::{FormatEntry, Reply, Values, fenced_json, pythonic, unmarked};
use crate::parse::{
    draft::{Draft, Fault},
    python::Python,
    repair::Repair,
};

const FENCE: &str = fenced_json::FENCE;

/// Languages whose fence may hold a call.
const LANGUAGES: [&str; 7] = ["", "python", "py", "tool_code", "tool_call", "tool", "text"];

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "code_call",
    models: "Gemma 2 and 3, code agents",
    summary: "Function calls with keyword arguments in a code block.",
    markers: &[],
    claims: unmarked,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    while let Some((_, at)) = reply.seek(&[FENCE]) {
        let (language, start) = fenced_json::head(reply.text, at);
        if !(LANGUAGES.contains(&language) && block(reply, at, start)) {
            fenced_json::skip_block(reply, start);
        }
    }
}

/// True if the block at `at` starts like a tool call, for format detection.
pub(in crate::parse) fn starts_with_tool(text: &str, at: usize, known: impl Fn(&str) -> bool) -> bool {
    let (language, start) = fenced_json::head(text, at);
    let mut python = Python::new(text, start);
    python.blank();
    let name = python.name();
    LANGUAGES.contains(&language) && python.peek() == Some(b'(') && name.is_some_and(known)
}

/// The calls of a block; false when it holds something else.
fn block(reply: &mut Reply<'_>, open: usize, start: usize) -> bool {
    let text = reply.text;
    let mut python = Python::new(text, start);
    let mut drafts: Vec<Draft> = Vec::new();
    loop {
        python.blank();
        if python.rest().starts_with(FENCE) {
            break;
        }
        let at = python.pos;
        let Some(name) = python.name() else { break };
        let known = reply.tools.get(name).is_some();
        python.pos = at;
        match python.call() {
            Ok(call) if known || (reply.named && !call.arguments.is_empty()) => drafts.push(Draft::from_python(call)),
            Err(error) if known => {
                let end = memchr::memmem::find(&text.as_bytes()[at..], FENCE.as_bytes()).map(|length| at + length);
                let kind = reply.markup_kind(end.is_none() && error.eof);
                let end = end.map_or(text.len(), |end| end + FENCE.len());
                drafts.push(Draft::faulty(open..end, Fault::new(kind, error.at, error.why)));
                reply.drafts.append(&mut drafts);
                reply.pos = end;
                return true;
            }
            _ => return false,
        }
        python.eat(b';');
    }
    let (Some(first), rest) = (drafts.first_mut(), python.rest()) else { return false };
    first.span.start = open;
    let Some(last) = drafts.last_mut() else { return false };
    if rest.starts_with(FENCE) {
        python.pos += FENCE.len();
    } else if FENCE.starts_with(rest) {
        let kind = reply.cut_kind(ParseFailureKind::MalformedMarkup);
        last.repaired(Fault::new(kind, python.pos, "the code block is not closed"), Repair::MissingCloser);
        python.pos = text.len();
    } else {
        return false;
    }
    last.span.end = python.pos;
    reply.pos = python.pos;
    reply.drafts.append(&mut drafts);
    true
}

fn render(calls: &[ToolCall]) -> String {
    let calls: Vec<_> = calls.iter().map(pythonic::render_call).collect();
    format!("{FENCE}python\n{}\n{FENCE}", calls.join("\n"))
}

fn guidance() -> String {
    format!(
        "To call tools, write a {FENCE}python code block with one call per line, keyword arguments and literal values \
         only: NAME(KEY=VALUE, …)."
    )
}
