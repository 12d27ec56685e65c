//! Bare JSON: the call object, or a list of them, as plain text. An object of another shape is an answer.

use hone_trace::ToolCall;

use super::{FormatEntry, Reply, Values, call_json, embedded, unmarked};

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "bare_json",
    models: "any, untagged",
    summary: "The call object, or a list of them, as plain text.",
    markers: &[],
    claims: unmarked,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    embedded::walk(reply);
}

fn render(calls: &[ToolCall]) -> String {
    match calls {
        [one] => call_json(one, "arguments"),
        several => {
            let calls: Vec<_> = several.iter().map(|call| call_json(call, "arguments")).collect();
            format!("[{}]", calls.join(", "))
        }
    }
}

fn guidance() -> String {
    "To call a tool, answer with a JSON object with \"name\" and \"arguments\" and nothing else. \
     Several calls: a JSON list of such objects."
        .to_owned()
}
