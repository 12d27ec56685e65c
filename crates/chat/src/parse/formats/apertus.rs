//! Apertus: `<|tools_prefix|>[{"NAME": {…}}]<|tools_suffix|>`, with the tool's name as the key of its arguments.

use hone_trace::{ParseFailureKind, ToolCall};
use serde_json::Value;

use super::{FormatEntry, Reply, Values, alone, arguments_json};
use crate::parse::{
    draft::{Draft, Fault},
    json::{Json, JsonError},
    repair::Repair,
    reply::Lookup,
};

const OPEN: &str = "<|tools_prefix|>";
const CLOSE: &str = "<|tools_suffix|>";

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "apertus",
    models: "Apertus",
    summary: "A JSON list of objects with one member each: the tool's name and its arguments.",
    markers: &[OPEN],
    claims: alone,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    let mut close = Lookup::new(CLOSE);
    while let Some((which, at)) = reply.seek(&[OPEN, CLOSE]) {
        if which == 1 {
            reply.stray_closer(at, CLOSE, |_, _| None);
        } else {
            calls(reply, at, &mut close);
        }
    }
}

fn calls(reply: &mut Reply<'_>, open: usize, close: &mut Lookup) {
    let text = reply.text;
    let start = open + OPEN.len();
    let mut json = Json::new(text, start);
    json.whitespace();
    let mut drafts = Vec::new();
    let read = json.items(|json| {
        let at = json.pos;
        json.members(|json, name, _| {
            let value = json.value()?;
            let wide = std::mem::take(&mut json.wide);
            drafts.push(Draft::of_arguments(at..json.pos, &name, None, value, wide));
            Ok(())
        })
    });
    json.whitespace();
    let rest = &text[json.pos..];
    let error = match read {
        Ok(()) if drafts.is_empty() => Some(JsonError { at: start, why: "a list of calls without a call", eof: false }),
        Ok(()) if rest.starts_with(CLOSE) || CLOSE.starts_with(rest) => None,
        Ok(()) => Some(JsonError { at: json.pos, why: "text after the JSON of a call", eof: false }),
        Err(error) => Some(error),
    };
    let end = close.find(text, json.pos.max(start)).map(|at| at + CLOSE.len());
    let stop = end.unwrap_or(text.len());
    if let Some(error) = error {
        if reply.ends_reasoning(start..stop) {
            return;
        }
        let kind = if end.is_none() {
            reply.cut_kind(ParseFailureKind::MalformedJson)
        } else {
            ParseFailureKind::MalformedJson
        };
        reply.pos = stop;
        reply.drafts.push(Draft::faulty(open..stop, Fault { kind, ..Fault::json(error) }));
        return;
    }
    if let Some(first) = drafts.first_mut() {
        first.span.start = open;
    }
    if let Some(last) = drafts.last_mut() {
        last.span.end = stop;
        if end.is_none() {
            let kind = reply.cut_kind(ParseFailureKind::MalformedMarkup);
            last.repaired(Fault::new(kind, stop, format!("{CLOSE} is missing")), Repair::MissingCloser);
        }
    }
    reply.pos = stop;
    reply.drafts.append(&mut drafts);
}

fn render(calls: &[ToolCall]) -> String {
    let calls = calls.iter().map(|call| format!("{{{}: {}}}", Value::from(call.name.as_str()), arguments_json(call)));
    format!("{OPEN}[{}]{CLOSE}", calls.collect::<Vec<_>>().join(", "))
}

fn guidance() -> String {
    format!(
        "Write all calls between one {OPEN} and {CLOSE}, as a JSON list of objects with one member: the tool's name and \
         an object of its arguments."
    )
}
