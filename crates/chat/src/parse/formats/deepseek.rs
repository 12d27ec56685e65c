//! DeepSeek V3 and R1 (`function<sep>name` and fenced JSON) and V3.1 (`name<sep>{…}`). Either accepts the other's form.

use hone_trace::{ParseFailureKind, ToolCall};

use super::{Claim, FormatEntry, Holds, Reply, Section, Tag, Values, arguments_json, no_head, payload, sectioned};
use crate::parse::{draft::Fault, repair::Repair};

const SECTION: &str = "<｜tool▁calls▁begin｜>";
const SECTION_END: &str = "<｜tool▁calls▁end｜>";
const CALL: &str = "<｜tool▁call▁begin｜>";
const CALL_END: &str = "<｜tool▁call▁end｜>";
const SEP: &str = "<｜tool▁sep｜>";
const KIND: &str = "function";
const FENCE: &str = "```";

/// Tags of one reply. They remember what they have searched.
struct Tags {
    call: Tag,
    fence: Tag,
}

pub(super) const V3: FormatEntry = FormatEntry {
    name: "deepseek_v3",
    models: "DeepSeek V3 and R1",
    summary: "A section of calls: `function`, a separator, the name, JSON arguments in a code fence.",
    markers: &[SECTION, CALL],
    claims: |text, at| Claim::sure_if(is_v3(text, at)),
    parse,
    render: |calls, _| Ok(render_v3(calls)),
    guidance: guidance_v3,
    values: Values::Literal,
};

pub(super) const V31: FormatEntry = FormatEntry {
    name: "deepseek_v31",
    models: "DeepSeek V3.1",
    summary: "A section of calls: the name, a separator, JSON arguments.",
    markers: &[SECTION, CALL],
    claims: |_, _| Claim::Default,
    parse,
    render: |calls, _| Ok(render_v31(calls)),
    guidance: guidance_v31,
    values: Values::Literal,
};

fn parse(reply: &mut Reply<'_>) {
    let section = Section { open: &[SECTION], close: &[SECTION_END], call: CALL, call_end: CALL_END };
    let mut tags =
        Tags { call: Tag::new(CALL_END, &[CALL, SECTION_END]), fence: Tag::new(FENCE, &[CALL_END, CALL, SECTION_END]) };
    sectioned(reply, &section, |reply, at| call(reply, &mut tags, at));
}

/// V3 says that it calls a function before it says which.
fn is_v3(text: &str, at: usize) -> bool {
    let rest = &text[at..];
    let window = &rest.as_bytes()[..rest.len().min(512)];
    let head = memchr::memmem::find(window, SEP.as_bytes()).map_or("", |end| &rest[..end]);
    head.trim_end().ends_with(KIND)
}

fn call(reply: &mut Reply<'_>, tags: &mut Tags, open: usize) {
    let text = reply.text;
    let start = open + CALL.len();
    let window = &text.as_bytes()[start..text.len().min(start + 512)];
    let Some(length) = memchr::memmem::find(window, SEP.as_bytes()) else {
        return no_head(reply, open, start, SEP, CALL_END);
    };
    let head = text[start..start + length].trim();
    let after = start + length + SEP.len();
    let body = text[after..].trim_start();
    // V3.1: the name came first, the arguments follow. A broken object still starts like one.
    if body.starts_with(['{', '[', '"']) || head != KIND {
        return payload::read(reply, open, after, Holds::Arguments { name: head, id: None }, &mut tags.call);
    }
    // The name ends with its line; without the fence its arguments may follow directly.
    let line = body.as_bytes().iter().take(512).position(|byte| matches!(byte, b'\n' | b'{' | b'`'));
    let line = line.unwrap_or(body.len().min(512));
    let Some(name) = body.get(..line) else { return no_head(reply, open, after, "\n", CALL_END) };
    let json = &body[line..];
    let start = text.len() - json.len();
    fenced(reply, tags, open, start, name.trim());
}

/// The arguments of V3, in their fence; R1 sometimes drops it.
fn fenced(reply: &mut Reply<'_>, tags: &mut Tags, open: usize, start: usize, name: &str) {
    let text = reply.text;
    let body = text[start..].trim_start();
    let holds = Holds::Arguments { name, id: None };
    let Some(inner) = body.strip_prefix(FENCE) else {
        return payload::read(reply, open, start, holds, &mut tags.call);
    };
    let inner = inner.strip_prefix("json").unwrap_or(inner);
    let drafts = reply.drafts.len();
    payload::read(reply, open, text.len() - inner.len(), holds, &mut tags.fence);
    let Some(draft) = reply.drafts.get_mut(drafts) else { return };
    let rest = text[reply.pos..].trim_start();
    let end = text.len() - rest.len();
    if rest.starts_with(CALL_END) {
        reply.pos = end + CALL_END.len();
    } else if CALL_END.starts_with(rest) {
        let kind = if reply.ended { ParseFailureKind::MalformedMarkup } else { ParseFailureKind::Truncated };
        draft.repaired(Fault::new(kind, end, format!("{CALL_END} is missing")), Repair::MissingCloser);
        reply.pos = text.len();
    } else {
        draft.repaired(Fault::markup(end, format!("{CALL_END} is missing")), Repair::MissingCloser);
    }
    draft.span.end = reply.pos;
}

fn render_v3(calls: &[ToolCall]) -> String {
    render(calls, |call| format!("{KIND}{SEP}{}\n{FENCE}json\n{}\n{FENCE}", call.name, arguments_json(call)))
}

fn render_v31(calls: &[ToolCall]) -> String {
    render(calls, |call| format!("{}{SEP}{}", call.name, arguments_json(call)))
}

fn render(calls: &[ToolCall], body: impl Fn(&ToolCall) -> String) -> String {
    let calls: Vec<_> = calls.iter().map(|call| format!("{CALL}{}{CALL_END}", body(call))).collect();
    format!("{SECTION}{}{SECTION_END}", calls.concat())
}

fn guidance_v3() -> String {
    format!(
        "Write all calls between one {SECTION} and {SECTION_END}. Each call is {CALL}{KIND}{SEP}NAME, then on new lines \
         its arguments as a JSON object in a {FENCE}json fence, then {CALL_END}."
    )
}

fn guidance_v31() -> String {
    format!(
        "Write all calls between one {SECTION} and {SECTION_END}. Each call is {CALL}NAME{SEP} followed by its arguments \
         as a JSON object and {CALL_END}."
    )
}
