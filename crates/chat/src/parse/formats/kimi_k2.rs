//! Kimi K2: a section of calls, each with an id `functions.NAME:INDEX` and JSON arguments.

use hone_trace::ToolCall;

use super::{FormatEntry, Holds, Reply, Section, Tag, Values, alone, arguments_json, no_head, payload, sectioned};

const SECTION: &str = "<|tool_calls_section_begin|>";
const SECTION_END: &str = "<|tool_calls_section_end|>";
const SECTION_ALT: &str = "<|tool_call_section_begin|>";
const SECTION_ALT_END: &str = "<|tool_call_section_end|>";
const CALL: &str = "<|tool_call_begin|>";
const ARGUMENTS: &str = "<|tool_call_argument_begin|>";
const CALL_END: &str = "<|tool_call_end|>";
const PREFIX: &str = "functions.";

pub(super) const FORMAT: FormatEntry = FormatEntry {
    name: "kimi_k2",
    models: "Kimi K2",
    summary: "A section of calls, each an id `functions.NAME:INDEX` and JSON arguments.",
    markers: &[SECTION, SECTION_ALT, CALL],
    claims: alone,
    parse,
    render: |calls, _| Ok(render(calls)),
    guidance,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    let section = Section {
        open: &[SECTION, SECTION_ALT],
        close: &[SECTION_END, SECTION_ALT_END],
        call: CALL,
        call_end: CALL_END,
    };
    let mut tag = Tag::new(CALL_END, &[CALL, SECTION_END]);
    sectioned(reply, &section, |reply, at| call(reply, &mut tag, at));
}

fn call(reply: &mut Reply<'_>, tag: &mut Tag, open: usize) {
    let text = reply.text;
    let start = open + CALL.len();
    let window = &text.as_bytes()[start..text.len().min(start + 512)];
    let Some(length) = memchr::memmem::find(window, ARGUMENTS.as_bytes()) else {
        return no_head(reply, open, start, ARGUMENTS, CALL_END);
    };
    let id = text[start..start + length].trim();
    let name = name_of(id, |name| reply.tools.get(name).is_some());
    payload::read(reply, open, start + length + ARGUMENTS.len(), Holds::Arguments { name, id: Some(id) }, tag);
}

/// The tool's name in an id. Prefix and index are optional, and a tool may itself be named like them.
fn name_of(id: &str, known: impl Fn(&str) -> bool) -> &str {
    if known(id) {
        return id;
    }
    let name = match id.rsplit_once(':') {
        Some((name, index)) if !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => id,
    };
    if known(name) { name } else { name.strip_prefix(PREFIX).unwrap_or(name) }
}

fn render(calls: &[ToolCall]) -> String {
    let calls: Vec<_> = calls
        .iter()
        .enumerate()
        .map(|(index, call)| {
            format!("{CALL}{PREFIX}{}:{index}{ARGUMENTS}{}{CALL_END}", call.name, arguments_json(call))
        })
        .collect();
    format!("{SECTION}{}{SECTION_END}", calls.concat())
}

fn guidance() -> String {
    format!(
        "Write all calls between one {SECTION} and {SECTION_END}. Each call is {CALL}{PREFIX}NAME:INDEX{ARGUMENTS} \
         followed by its arguments as a JSON object and {CALL_END}; INDEX counts from 0."
    )
}
