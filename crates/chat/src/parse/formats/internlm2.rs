//! InternLM 2: `<|action_start|><|plugin|>{"name": …, "parameters": {…}}<|action_end|>`.

use hone_trace::ToolCall;

use super::{FormatEntry, Holds, Reply, Tag, Values, alone, call_json, payload};

const OPEN: &str = "<|action_start|>";
const PLUGIN: &str = "<|plugin|>";
const CLOSE: &str = "<|action_end|>";

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "internlm2",
    models: "InternLM 2 and 3",
    summary: "A JSON object with `name` and `parameters` between action markers.",
    markers: &[OPEN],
    claims: alone,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    let mut tag = Tag::new(CLOSE, &[OPEN]);
    while let Some((which, at)) = reply.seek(&[OPEN, CLOSE]) {
        if which == 1 {
            reply.stray_closer(at, CLOSE, |_, _| None);
            continue;
        }
        let rest = reply.text[at + OPEN.len()..].trim_start();
        let rest = rest.strip_prefix(PLUGIN).unwrap_or(rest);
        payload::read(reply, at, reply.text.len() - rest.len(), Holds::Call, &mut tag);
    }
}

fn render(calls: &[ToolCall]) -> String {
    let calls: Vec<_> =
        calls.iter().map(|call| format!("{OPEN}{PLUGIN}{}{CLOSE}", call_json(call, "parameters"))).collect();
    calls.concat()
}

fn guidance() -> String {
    format!("For each call write {OPEN}{PLUGIN}, a JSON object with \"name\" and \"parameters\", and {CLOSE}.")
}
