//! Call objects in a code fence. A fence that holds anything else is part of the answer.

use hone_trace::ToolCall;

use super::{FormatEntry, Holds, Reply, Tag, Values, call_json, embedded, payload, unmarked};

pub(in crate::parse) const FENCE: &str = "```";

/// Languages whose fence may hold a call.
const LANGUAGES: [&str; 12] = [
    "",
    "json",
    "jsonc",
    "json5",
    "jsonl",
    "tool_call",
    "tool_calls",
    "tool_code",
    "tool",
    "function_call",
    "tool_use",
    "text",
];

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "fenced_json",
    models: "any, without a call format of its own",
    summary: "A JSON call object in a code block of its own per call.",
    markers: &[],
    claims: unmarked,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    let mut tag = Tag::new(FENCE, &[]);
    let mut evidence = embedded::Evidence::new();
    while let Some((_, at)) = reply.seek(&[FENCE]) {
        let (language, start) = head(reply.text, at);
        let json = reply.text.len() - reply.text[start..].trim_start().len();
        let bracket = reply.text[json..].starts_with(['{', '[']);
        if bracket && LANGUAGES.contains(&language) && embedded::is_call(reply, json, &mut evidence) {
            payload::read(reply, at, json, Holds::Calls, &mut tag);
        } else {
            skip_block(reply, start);
        }
    }
}

/// The language of the fence at `at`, and where its content starts.
pub(in crate::parse) fn head(text: &str, at: usize) -> (&str, usize) {
    let rest = &text[at + FENCE.len()..];
    let length = rest.bytes().take(32).take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    (&rest[..length], at + FENCE.len() + length)
}

/// Keeps a block that holds no call as prose.
pub(super) fn skip_block(reply: &mut Reply<'_>, start: usize) {
    let close = memchr::memmem::find(&reply.text.as_bytes()[start..], FENCE.as_bytes());
    reply.keep(close.map_or(reply.text.len(), |close| start + close + FENCE.len()));
}

fn render(calls: &[ToolCall]) -> String {
    let calls: Vec<_> =
        calls.iter().map(|call| format!("{FENCE}json\n{}\n{FENCE}", call_json(call, "arguments"))).collect();
    calls.join("\n")
}

fn guidance() -> String {
    format!("For each call write a JSON object with \"name\" and \"arguments\" in a {FENCE}json code block of its own.")
}
