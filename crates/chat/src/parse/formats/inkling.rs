//! Inkling: `<|content_invoke_tool_json|>{"name": …, "args": {…}}<|end_message|>`, in a message of the model.

use hone_trace::ToolCall;

use super::{FormatEntry, Holds, Reply, Tag, Values, alone, call_json, payload};

const OPEN: &str = "<|content_invoke_tool_json|>";
const CLOSE: &str = "<|end_message|>";
const MESSAGE: &str = "<|message_model|>";

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "inkling",
    models: "Inkling",
    summary: "A JSON object with `name` and `args` between message markers.",
    markers: &[OPEN],
    claims: alone,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    let mut tag = Tag::new(CLOSE, &[OPEN, MESSAGE]);
    while let Some((which, at)) = reply.seek(&[OPEN, MESSAGE, CLOSE, "<|content_text|>"]) {
        match which {
            0 => payload::read(reply, at, at + OPEN.len(), Holds::Call, &mut tag),
            // A message to a tool names it before the call does.
            1 => {
                let start = at + MESSAGE.len();
                let rest = &reply.text[start..];
                let window = &rest.as_bytes()[..rest.len().min(256)];
                let head = memchr::memchr(b'<', window).filter(|head| rest[*head..].starts_with(OPEN));
                reply.pos = start + head.unwrap_or(0);
            }
            2 => reply.pos = at + CLOSE.len(),
            _ => reply.pos = at + "<|content_text|>".len(),
        }
    }
}

fn render(calls: &[ToolCall]) -> String {
    let calls: Vec<_> = calls.iter().map(|call| format!("{OPEN}{}{CLOSE}", call_json(call, "args"))).collect();
    calls.concat()
}

fn guidance() -> String {
    format!("For each call write {OPEN}, a JSON object with \"name\" and \"args\", and {CLOSE}.")
}
