//! Llama 3: `{"name": …, "parameters": {…}}`, after `<|python_tag|>` or bare, several separated by `;`. Also the custom
//! form `<function=NAME>{…}</function>` and the built-in tools' `<|python_tag|>NAME.call(key=value)`.

use hone_trace::{ParseFailureKind, ToolCall};

use super::{
    Claim, FormatEntry, Holds, Reply, Tag, Values, call_json, embedded, no_head, payload, pythonic,
    qwen3_coder::FUNCTION,
};
use crate::parse::{
    draft::{Draft, Fault},
    python::Python,
};

const PYTHON_TAG: &str = "<|python_tag|>";
const FUNCTION_END: &str = "</function>";
const CALL: &str = ".call";

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "llama3_json",
    models: "Llama 3.1 to 3.3, Functionary 3.1",
    summary: "JSON objects with `name` and `parameters`, after `<|python_tag|>` or bare, `;` between them.",
    markers: &[PYTHON_TAG, FUNCTION],
    claims,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    let mut evidence = embedded::Evidence::new();
    let mut tag = Tag::new(FUNCTION_END, &[FUNCTION]);
    while let Some((which, at)) = reply.seek(&[PYTHON_TAG, FUNCTION, "{", "["]) {
        match which {
            0 => python_tag(reply, at),
            1 => function(reply, at, &mut tag),
            _ => embedded::untagged(reply, at, &mut evidence),
        }
    }
}

/// `<function=NAME>` is Qwen3-Coder's unless JSON follows.
fn claims(text: &str, at: usize) -> Claim {
    let rest = &text[at..];
    if rest.starts_with(PYTHON_TAG) {
        return Claim::Sure;
    }
    let window = &rest.as_bytes()[..rest.len().min(256)];
    let body = memchr::memchr(b'>', window).map_or("", |end| rest[end + 1..].trim_start());
    Claim::sure_if(body.starts_with('{'))
}

fn function(reply: &mut Reply<'_>, at: usize, tag: &mut Tag) {
    let start = at + FUNCTION.len();
    let window = &reply.text.as_bytes()[start..reply.text.len().min(start + 256)];
    let Some(length) = memchr::memchr(b'>', window) else {
        return no_head(reply, at, start, ">", FUNCTION_END);
    };
    let name = reply.text[start..start + length].trim();
    payload::read(reply, at, start + length + 1, Holds::Arguments { name, id: None }, tag);
}

fn python_tag(reply: &mut Reply<'_>, at: usize) {
    let text = reply.text;
    let mut start = at + PYTHON_TAG.len();
    let mut open = at;
    loop {
        start = text.len() - text[start..].trim_start().len();
        if text[start..].starts_with(['{', '[']) {
            embedded::marked(reply, open, start);
        } else {
            return expression(reply, open, start);
        }
        // Further calls follow a semicolon.
        let Some(next) = reply.rest().trim_start().strip_prefix(';').map(str::trim_start) else { return };
        if next.is_empty() {
            reply.pos = text.len();
            return;
        }
        start = text.len() - next.len();
        open = start;
    }
}

/// `NAME.call(key=value)`, or `NAME(key=value)`
fn expression(reply: &mut Reply<'_>, open: usize, start: usize) {
    let mut python = Python::new(reply.text, start);
    match python.call() {
        Ok(mut call) => {
            if reply.tools.get(&call.name).is_none()
                && let Some(name) = call.name.strip_suffix(CALL)
            {
                call.name.truncate(name.len());
            }
            call.start = open;
            reply.pos = call.end;
            reply.drafts.push(Draft::from_python(call));
        }
        Err(error) if error.eof && reply.text[start..].trim().is_empty() => {
            let kind = reply.cut_kind(ParseFailureKind::MalformedMarkup);
            reply.pos = reply.text.len();
            reply.drafts.push(Draft::faulty(open..reply.pos, Fault::new(kind, start, "no call follows the tag")));
        }
        Err(error) => pythonic::broken(reply, open, error),
    }
}

fn render(calls: &[ToolCall]) -> String {
    let calls: Vec<_> = calls.iter().map(|call| call_json(call, "parameters")).collect();
    format!("{PYTHON_TAG}{}", calls.join("; "))
}

fn guidance() -> String {
    format!(
        "To call a tool write {PYTHON_TAG} and a JSON object with \"name\" and \"parameters\". \
         Several calls: separate the objects with \"; \"."
    )
}
