//! GigaChat 3: `<|function_call|>{"name": …, "arguments": {…}}`, or a message with the role `function call`.

use hone_trace::ToolCall;

use super::{Claim, FormatEntry, Reply, Values, call_json, embedded};

const OPEN: &str = "<|function_call|>";
const MESSAGE: &str = "<|message_sep|>";
const ROLE: &str = "function call<|role_sep|>";

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "gigachat3",
    models: "GigaChat 3",
    summary: "A JSON object with `name` and `arguments` behind a marker.",
    markers: &[OPEN, MESSAGE],
    claims: |text, at| Claim::sure_if(start(text, at).is_some()),
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

/// Start of the JSON of the call that is announced at `at`.
fn start(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    let inner = match rest.strip_prefix(OPEN) {
        Some(inner) => inner,
        None => rest.strip_prefix(MESSAGE)?.trim_start().strip_prefix(ROLE)?,
    };
    Some(text.len() - inner.trim_start().len())
}

fn parse(reply: &mut Reply<'_>) {
    while let Some((which, at)) = reply.seek(&[OPEN, MESSAGE]) {
        match start(reply.text, at) {
            Some(start) => embedded::marked(reply, at, start),
            None => reply.pos = at + [OPEN, MESSAGE][which].len(),
        }
    }
}

fn render(calls: &[ToolCall]) -> String {
    let calls: Vec<_> = calls.iter().map(|call| format!("{OPEN}{}", call_json(call, "arguments"))).collect();
    calls.join("\n")
}

fn guidance() -> String {
    format!("For each call write {OPEN} and a JSON object with \"name\" and \"arguments\".")
}
