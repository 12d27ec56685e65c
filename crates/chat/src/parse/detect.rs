//! Detection of a reply's format: the one whose markers occur.
//!
//! One pass over the text looks for markers that only a call has. Without one, weaker signs are tried one after the
//! other: the lines of ReAct, a code fence, an object, a call list. These only count when a tool's name or a call's
//! shape is seen, since prose has them too.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem;

use super::{
    draft::is_call_key,
    formats::{Claim, Format, fenced_json, react, starts_with_tool},
    parse, reasoning,
    reply::run_end,
    toolbox::Toolbox,
};

impl Format {
    /// The format whose markers occur in `text`; `None` for a plain reply.
    pub fn detect(text: &str, tools: &Toolbox) -> Option<Self> {
        let start = lone_closer(text);
        // A closer that nothing opened ends reasoning, unless it is a value of a call before it.
        if let Some(closer) = start.checked_sub(1) {
            let before = |(at, format)| (at < start && holds(text, closer, format, tools)).then_some(format);
            let format = around(text, 0, closer, tools).or_else(|| tagged(text, 0).and_then(before));
            if format.is_some() {
                return format;
            }
        }
        match tagged(text, start) {
            // So may a marker be.
            Some((at, format)) => around(text, start, at, tools).or(Some(format)),
            None => untagged(&reasoning::visible(&text[start..]), tools),
        }
    }
}

/// The untagged format of a call that starts at `start` and spans the position `at`.
fn around(text: &str, start: usize, at: usize, tools: &Toolbox) -> Option<Format> {
    let trimmed = text[start..].trim_start();
    if at + trimmed.len() <= text.len() || !starts_untagged(trimmed, tools) {
        return None;
    }
    untagged(trimmed, tools).filter(|format| holds(text, at, *format, tools))
}

/// True when the text starts like one of the untagged formats.
fn starts_untagged(trimmed: &str, tools: &Toolbox) -> bool {
    match trimmed.as_bytes().first() {
        Some(b'{' | b'[' | b'`') => true,
        Some(b'A') => trimmed.starts_with(react::ACTION),
        Some(b'T') => trimmed.starts_with(react::THOUGHT),
        _ => starts_pythonic(trimmed, tools),
    }
}

/// True if a valid call in `format` spans the position.
fn holds(text: &str, at: usize, format: Format, tools: &Toolbox) -> bool {
    parse(text, tools, Some(format)).calls.iter().any(|call| call.span.contains(&at))
}

/// Start of the text after reasoning that was opened in the prompt. A closer after a complete block is text: reasoning
/// ends at its first closer.
fn lone_closer(text: &str) -> usize {
    let closer = reasoning::unopened(text);
    let first = |closer: &Range<usize>| matches!(reasoning::visible(&text[..closer.start]), Cow::Borrowed(_));
    closer.filter(first).map_or(0, |closer| closer.end)
}

/// The first marker outside reasoning: its position and its format.
fn tagged(text: &str, start: usize) -> Option<(usize, Format)> {
    let bytes = text.as_bytes();
    let mut from = start;
    while let Some(found) = reasoning::next_first(&bytes[from..]) {
        let at = from + found;
        if let Some(format) = marker(text, at) {
            return Some((at, format));
        }
        from = run_end(bytes, at);
        if let Some((pair, width)) = reasoning::opener(&bytes[at..]) {
            let inner = at + width;
            from = inner + reasoning::closer_in(&bytes[inner..], pair)?.end;
        }
    }
    None
}

/// The format whose marker is at `at`, which is a '<' or a '['. Of several that share it, the one that is sure.
fn marker(text: &str, at: usize) -> Option<Format> {
    let mut default = None;
    for (_, format) in markers_at(text, at) {
        match (format.entry().claims)(text, at) {
            Claim::Sure => return Some(format),
            Claim::Default => default = default.or(Some(format)),
            Claim::No => {}
        }
    }
    default
}

/// A marker of some format at `at`, if that format claims it.
pub(super) fn known_marker(text: &str, at: usize) -> Option<&'static str> {
    let claimed = |(_, format): &(_, Format)| (format.entry().claims)(text, at) != Claim::No;
    markers_at(text, at).find(claimed).map(|(marker, _)| marker)
}

fn markers_at(text: &str, at: usize) -> impl Iterator<Item = (&'static str, Format)> {
    /// Markers by their second byte.
    static MARKERS: LazyLock<Vec<Vec<(&'static str, Format)>>> = LazyLock::new(|| {
        let mut table = vec![Vec::new(); 256];
        for format in Format::ALL {
            for marker in format.entry().markers {
                table[usize::from(marker.as_bytes()[1])].push((*marker, format));
            }
        }
        table
    });
    let rest = &text.as_bytes()[at..];
    let known = rest.get(1).map_or(&[][..], |second| &MARKERS[usize::from(*second)]);
    known.iter().copied().filter(|(marker, _)| rest.starts_with(marker.as_bytes()))
}

fn untagged(text: &str, tools: &Toolbox) -> Option<Format> {
    let trimmed = text.trim_start();
    if trimmed.starts_with('{') || trimmed.starts_with("[{") {
        return Some(object_format(trimmed));
    }
    if starts_pythonic(trimmed, tools) {
        return Some(Format::Pythonic);
    }
    if trimmed.starts_with(fenced_json::FENCE)
        && let Some(format) = fence(text, tools)
    {
        return Some(format);
    }
    if is_react(text, tools) {
        return Some(Format::React);
    }
    if let Some(format) = fence(text, tools) {
        return Some(format);
    }
    if let Some(at) = call_like_object(text) {
        return Some(object_format(&text[at..]));
    }
    let list = |at: usize| called_name(&text[at + 1..]).is_some_and(|name| tools.get(name).is_some());
    memchr::memchr_iter(b'[', text.as_bytes()).any(list).then_some(Format::Pythonic)
}

/// The first object that starts with a call's key.
fn call_like_object(text: &str) -> Option<usize> {
    memchr::memchr_iter(b'{', text.as_bytes()).find(|at| is_call_key(first_key(&text.as_bytes()[at + 1..])))
}

/// OpenAI's message, or a plain call: decided by the first key.
fn object_format(text: &str) -> Format {
    let inner = text.strip_prefix('[').unwrap_or(text).trim_start();
    let inner = inner.strip_prefix('{').unwrap_or(inner);
    match first_key(inner.as_bytes()) {
        "tool_calls" | "role" | "content" | "id" | "type" | "function" | "choices" => Format::OpenaiJson,
        _ => Format::BareJson,
    }
}

/// The key at the start of an object's inside, quoted or not; empty when there is none.
fn first_key(inner: &[u8]) -> &str {
    let inner = inner[..inner.len().min(64)].trim_ascii_start();
    let inner = inner.strip_prefix(b"\"").or_else(|| inner.strip_prefix(b"'")).unwrap_or(inner);
    let length = inner.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    std::str::from_utf8(&inner[..length]).unwrap_or_default()
}

/// `Action:` at the start of a line, followed by an input, an object, or a tool's name; or a final answer after a
/// thought.
fn is_react(text: &str, tools: &Toolbox) -> bool {
    static ACTION: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(react::ACTION));
    static FINAL: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(react::FINAL));
    static THOUGHT: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(react::THOUGHT));
    let at_line_start = |label: &'static memmem::Finder<'static>| {
        label.find_iter(text.as_bytes()).find(|at| {
            let before = text[..*at].trim_end_matches([' ', '\t']);
            before.is_empty() || before.ends_with('\n')
        })
    };
    if at_line_start(&FINAL).is_some() && at_line_start(&THOUGHT).is_some() {
        return true;
    }
    let Some(action) = at_line_start(&ACTION) else { return false };
    if memmem::find(&text.as_bytes()[action..], react::INPUT.as_bytes()).is_some() {
        return true;
    }
    let body = text[action + react::ACTION.len()..].trim_start();
    let name = body.find(|ch: char| !(ch.is_alphanumeric() || matches!(ch, '_' | '-' | '.'))).unwrap_or(body.len());
    body.starts_with(['{', '`']) || tools.get(&body[..name]).is_some()
}

fn fence(text: &str, tools: &Toolbox) -> Option<Format> {
    static FENCE: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(fenced_json::FENCE));
    FENCE.find_iter(text.as_bytes()).find_map(|at| {
        let (_, start) = fenced_json::head(text, at);
        let body = text[start..].trim_start();
        if body.starts_with(['{', '[']) {
            let window = &body[..body.char_indices().nth(64).map_or(body.len(), |(end, _)| end)];
            return call_like_object(window).map(|_| Format::FencedJson);
        }
        starts_with_tool(text, at, |name| tools.get(name).is_some()).then_some(Format::CodeCall)
    })
}

/// A tool's name and a parenthesis at the start of the text, or any name's after a bracket.
fn starts_pythonic(trimmed: &str, tools: &Toolbox) -> bool {
    match trimmed.strip_prefix('[') {
        Some(inner) => called_name(inner).is_some(),
        None => called_name(trimmed).is_some_and(|name| tools.get(name).is_some()),
    }
}

/// The name before a parenthesis.
fn called_name(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let end = text.find(|ch: char| !(ch.is_alphanumeric() || matches!(ch, '_' | '-' | '.')))?;
    (end > 0 && text[end..].starts_with('(')).then(|| &text[..end])
}

#[cfg(test)]
mod tests {
    use hone_trace::{ToolSet, ToolSpec};
    use serde_json::json;

    use super::*;

    #[test]
    fn markers_decide() {
        let set = ToolSet::new(vec![ToolSpec::new("f", "", json!({"type": "object"}))]).unwrap();
        let tools = Toolbox::new(&set).unwrap();
        for (text, expected) in [
            ("hello", None),
            ("a < b and [c]", None),
            ("<think>maybe <tool_call></think>no", None),
            ("<think>open <tool_call>{}", None),
            ("maybe [TOOL_CALLS]</think><tool_call>{}</tool_call>", Some(Format::Hermes)),
            ("<tool_call>\n<function=f>", Some(Format::Qwen3Coder)),
            ("<tool_call>f\n<arg_key>", Some(Format::Glm45)),
            ("<function=f>{\"a\": 1}</function>", Some(Format::Llama3Json)),
            ("<function=f>\n<parameter=a>", Some(Format::Qwen3Coder)),
            ("functools[{\"name\": \"f\"}]", Some(Format::Phi4)),
            ("Action: f", Some(Format::React)),
            ("Action: take a walk", None),
            ("```python\nf(a=1)\n```", Some(Format::CodeCall)),
            ("```python\nprint(1)\n```", None),
            ("```json\n{\"name\": \"f\"}\n```", Some(Format::FencedJson)),
            ("[f(a=1)]", Some(Format::Pythonic)),
            ("f(a=1)", Some(Format::Pythonic)),
            ("g(a=1)", None),
            ("{\"tool_calls\": []}", Some(Format::OpenaiJson)),
            ("{\"name\": \"f\"}", Some(Format::BareJson)),
        ] {
            assert_eq!(Format::detect(text, &tools), expected, "{text}");
        }
    }
}
