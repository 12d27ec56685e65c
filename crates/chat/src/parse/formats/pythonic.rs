//! Pythonic calls (Llama 3.2 and 4): `[name(key="value"), other(key=3)]`. Brackets are often forgotten.

use hone_trace::{ParseFailureKind, ToolCall};

use super::{FormatEntry, Reply, Values, alone};
use crate::parse::{
    draft::{Draft, Fault},
    python::{self, PyCall, PyError, Python},
    repair::Repair,
    reply::run_end,
};

const START: &str = "<|python_start|>";
const END: &str = "<|python_end|>";

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "pythonic",
    models: "Llama 3.2 and 4, Toolace",
    summary: "A Python list of calls with keyword arguments.",
    markers: &[START],
    claims: alone,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    reply.skip_reasoning();
    while let Some((which, at)) = reply.seek(&[START, END, "["]) {
        match which {
            0 => reply.pos = at + START.len(),
            1 => reply.pos = at + END.len(),
            _ if list(reply, at) => {}
            _ => reply.keep(run_end(reply.text.as_bytes(), at)),
        }
    }
    if reply.drafts.is_empty() && reply.unclosed.is_none() {
        bare_lines(reply);
    }
}

/// A call list at `at`; false when the bracket opens something else.
fn list(reply: &mut Reply<'_>, at: usize) -> bool {
    let mut python = Python::new(reply.text, at + 1);
    python.blank();
    let Some(name) = python.name() else { return false };
    if !python.rest().trim_start().starts_with('(') {
        return false;
    }
    let known = reply.tools.get(name).is_some();
    if !known && reply.has_prose && !reply.named {
        return false;
    }
    let read = |mut python: Python<'_>| -> Result<(Vec<PyCall>, usize, bool), PyError> {
        let mut calls = Vec::new();
        loop {
            python.blank();
            calls.push(python.call()?);
            if python.closes(b']', "expected ',' or ']' after a call")? {
                return Ok((calls, python.pos, python.closed));
            }
        }
    };
    match read(Python::new(reply.text, at + 1)) {
        Ok((calls, end, _)) => {
            take(reply, at, end, calls);
            true
        }
        Err(error) if !known && !error.eof && error.why == POSITIONAL => false,
        Err(error) => {
            if !error.eof {
                broken(reply, at, error);
                return true;
            }
            match read(Python::closing_at_end(reply.text, at + 1)) {
                Ok((calls, end, true)) => {
                    take(reply, at, end, calls);
                    let kind = reply.cut_kind(ParseFailureKind::MalformedMarkup);
                    if let Some(last) = reply.drafts.last_mut() {
                        last.repaired(Fault::new(kind, end, "the list of calls is not closed"), Repair::MissingCloser);
                    }
                }
                _ => broken(reply, at, error),
            }
            true
        }
    }
}

const POSITIONAL: &str = "an argument without a name";

fn take(reply: &mut Reply<'_>, at: usize, end: usize, calls: Vec<PyCall>) {
    let first = reply.drafts.len();
    reply.drafts.extend(calls.into_iter().map(Draft::from_python));
    reply.drafts[first].span.start = at;
    if let Some(last) = reply.drafts.last_mut() {
        last.span.end = end;
    }
    reply.pos = end;
}

/// A call that cannot be read. Nothing marks its end, so nothing after it is read.
pub(super) fn broken(reply: &mut Reply<'_>, open: usize, error: PyError) {
    let end = reply.text.len();
    if reply.ends_reasoning(open..end) {
        return;
    }
    let kind = reply.markup_kind(error.eof);
    reply.drafts.push(Draft::faulty(open..end, Fault::new(kind, error.at, error.why)));
    reply.pos = end;
}

/// Calls without brackets: the whole text, or (in a reply known to be pythonic) separate lines after prose.
fn bare_lines(reply: &mut Reply<'_>) {
    let Some(prose) = reply.take_last_prose() else { return };
    let text = &reply.text[prose.clone()];
    let mut at = prose.end - text.trim_start().len();
    while at < prose.end {
        if let Some(calls) = statements(reply, at, prose.end) {
            reply.pos = prose.start;
            reply.keep(at);
            reply.pos = reply.text.len();
            reply.drafts.extend(calls);
            return;
        }
        // Prose that may be followed by calls on separate lines.
        match memchr::memchr(b'\n', &reply.text.as_bytes()[at..prose.end]) {
            Some(length) if reply.named => at += length + 1,
            _ => break,
        }
    }
    reply.pos = prose.start;
    reply.keep(prose.end);
}

/// Calls from `at` to the end of the text, separated by line breaks, commas or semicolons. `None` when it is not that.
fn statements(reply: &Reply<'_>, at: usize, end: usize) -> Option<Vec<Draft>> {
    let text = &reply.text[..end];
    let mut python = Python::new(text, at);
    let mut drafts = Vec::new();
    loop {
        python.blank();
        if python.rest().is_empty() && !drafts.is_empty() {
            return Some(drafts);
        }
        let start = python.pos;
        let name = python.name()?;
        let known = reply.tools.get(name).is_some();
        if !python.rest().starts_with('(') {
            return None;
        }
        python.pos = start;
        match python.call() {
            // An unknown tool on its own line counts as a call only if that line is the whole text.
            Ok(call) if known || (reply.named && at == reply.text.len() - reply.text.trim_start().len()) => {
                drafts.push(Draft::from_python(call));
            }
            Err(error) if known => {
                let kind = reply.markup_kind(error.eof);
                let mut draft = Draft::faulty(start..end, Fault::new(kind, error.at, error.why));
                let mut closing = Python::closing_at_end(text, start);
                if error.eof
                    && let Ok(call) = closing.call()
                    && closing.closed
                {
                    draft.reading = Draft::from_python(call).reading;
                    draft.repairs.add(Repair::MissingCloser);
                }
                drafts.push(draft);
                return Some(drafts);
            }
            _ => return None,
        }
        if python.rest().starts_with([',', ';']) {
            python.pos += 1;
        } else if !python.rest().is_empty() && !python.rest().trim_start_matches([' ', '\t']).starts_with(['\n', '\r'])
        {
            return None;
        }
    }
}

pub(super) fn render_call(call: &ToolCall) -> String {
    let mut out = format!("{}(", call.name);
    for (index, (key, value)) in call.arguments.iter().enumerate() {
        out.push_str(if index > 0 { ", " } else { "" });
        out.push_str(key);
        out.push('=');
        python::write(value, &mut out);
    }
    out.push(')');
    out
}

fn render(calls: &[ToolCall]) -> String {
    format!("[{}]", calls.iter().map(render_call).collect::<Vec<_>>().join(", "))
}

fn guidance() -> String {
    "To call tools, answer with a Python list of calls with keyword arguments and literal values, and nothing else: \
     [NAME(KEY=VALUE, …), …]."
        .to_owned()
}
