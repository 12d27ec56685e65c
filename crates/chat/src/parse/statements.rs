//! Function calls between markers: a list in brackets, or calls on separate lines.

use hone_trace::ParseFailureKind;

use super::{
    draft::{Draft, Fault},
    python::{PyCall, PyError, Python},
    repair::Repair,
    reply::{Lookup, Reply},
};

/// Reads the calls at `start` of a block that opened at `open`, and moves the reply past its closer.
pub(super) fn read(reply: &mut Reply<'_>, open: usize, start: usize, close: &'static str, close_at: &mut Lookup) {
    let text = reply.text;
    let mut python = Python::with_raw_lines(text, start);
    let read = calls(&mut python, close);
    python.blank();
    let raw_lines = python.raw_lines == Some(true);
    let rest = python.rest();
    let first = reply.drafts.len();
    match read {
        Ok(calls) if !calls.is_empty() && (rest.starts_with(close) || close.starts_with(rest)) => {
            let closed = rest.starts_with(close);
            reply.pos = if closed { python.pos + close.len() } else { text.len() };
            let kind = reply.cut_kind(ParseFailureKind::MalformedMarkup);
            reply.drafts.extend(calls.into_iter().map(Draft::from_python));
            reply.drafts[first].span.start = open;
            if let Some(last) = reply.drafts.last_mut() {
                last.span.end = reply.pos;
                if raw_lines {
                    last.repaired(Fault::markup(start, "a raw line break in a string"), Repair::RawNewline);
                }
                if !closed {
                    last.repaired(Fault::new(kind, python.pos, format!("{close} is missing")), Repair::MissingCloser);
                }
            }
        }
        read => {
            let error = match read {
                Err(error) => error,
                Ok(_) => PyError { at: python.pos, why: "expected calls and nothing else", eof: false },
            };
            let end = close_at.find(text, start).map(|at| at + close.len());
            let stop = end.unwrap_or(text.len());
            if reply.ends_reasoning(start..stop) {
                return;
            }
            let kind = reply.markup_kind(end.is_none());
            reply.pos = stop;
            reply.drafts.push(Draft::faulty(open..stop, Fault::new(kind, error.at, error.why)));
        }
    }
}

/// Calls in brackets or not, separated by commas, semicolons or line breaks.
fn calls(python: &mut Python<'_>, close: &str) -> Result<Vec<PyCall>, PyError> {
    let mut calls = Vec::new();
    let list = python.eat(b'[');
    loop {
        python.blank();
        if list && python.eat(b']') {
            return Ok(calls);
        }
        if python.rest().is_empty() || python.rest().starts_with(close) {
            return if list { python.fail("the list of calls is not closed") } else { Ok(calls) };
        }
        calls.push(python.call()?);
        if !python.eat(b',') {
            python.eat(b';');
        }
    }
}
