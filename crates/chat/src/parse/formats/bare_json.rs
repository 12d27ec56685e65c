//! Bare JSON: the call object, or a list of them, as plain text. An object of another shape is an answer.

use hone_trace::ToolCall;

use super::{Reply, call_json, embedded};

pub(super) fn parse(reply: &mut Reply<'_>) {
    embedded::walk(reply);
}

pub(super) fn render(calls: &[ToolCall]) -> String {
    match calls {
        [one] => call_json(one, "arguments"),
        several => {
            let calls: Vec<_> = several.iter().map(|call| call_json(call, "arguments")).collect();
            format!("[{}]", calls.join(", "))
        }
    }
}

pub(super) fn guidance() -> String {
    "To call a tool, answer with a JSON object with \"name\" and \"arguments\" and nothing else. \
     Several calls: a JSON list of such objects."
        .to_owned()
}
