//! Granite 20B function calling: `<function_call> {"name": …, "arguments": {…}}`, without an end marker.

use hone_trace::ToolCall;

use super::{FormatEntry, Reply, Values, alone, call_json, embedded};

const OPEN: &str = "<function_call>";
const CLOSE: &str = "</function_call>";

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "granite_fc",
    models: "Granite 20B function calling",
    summary: "A JSON object with `name` and `arguments` behind a tag.",
    markers: &[OPEN],
    claims: alone,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    while let Some((which, at)) = reply.seek(&[OPEN, CLOSE]) {
        if which == 0 {
            let rest = reply.text[at + OPEN.len()..].trim_start();
            embedded::marked(reply, at, reply.text.len() - rest.len());
            // Some fine-tunes close the tag.
            let behind = reply.rest().trim_start();
            if let Some(rest) = behind.strip_prefix(CLOSE) {
                reply.pos = reply.text.len() - rest.len();
            }
        } else {
            reply.stray_closer(at, CLOSE, |_, _| None);
        }
    }
}

fn render(calls: &[ToolCall]) -> String {
    let calls: Vec<_> = calls.iter().map(|call| format!("{OPEN} {}", call_json(call, "arguments"))).collect();
    calls.join("\n")
}

fn guidance() -> String {
    format!("For each call write {OPEN} and a JSON object with \"name\" and \"arguments\".")
}
