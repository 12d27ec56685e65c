//! Markup of calls in an unknown format: reported, so that a call that was not run does not pass for an answer.

use super::{detect, json::Json, toolbox::Toolbox};

/// Words in a tag that only calls have.
const WORDS: [&str; 12] = [
    "tool_call",
    "toolcall",
    "tool_use",
    "function_call",
    "functioncall",
    "tool▁call",
    "invoke name",
    "action_start",
    "tool_request",
    "invoke_tool",
    "tool_invo",
    "call_tool",
];

/// Longest tag considered, in bytes.
const LONGEST: usize = 96;

/// The first call-like marker in `text[range]`, with its position.
pub(super) fn call_like(text: &str, range: std::ops::Range<usize>) -> Option<(usize, &str)> {
    let bytes = &text.as_bytes()[..range.end];
    let places = memchr::memchr2_iter(b'<', b'[', &bytes[range.start..]).map(|at| at + range.start);
    for at in places {
        if let Some(tag) = tag(&text[at..range.end]) {
            return Some((at, tag));
        }
        if let Some(marker) = detect::known_marker(text, at) {
            return Some((at, marker));
        }
    }
    None
}

/// The tag at the start of `rest`, when its name is a call's.
fn tag(rest: &str) -> Option<&str> {
    let close = match rest.as_bytes() {
        [b'<', second, ..] if second.is_ascii_alphabetic() || matches!(second, b'|' | b'/' | 0xEF) => b'>',
        [b'[', second, ..] if second.is_ascii_uppercase() || *second == b'/' => b']',
        _ => return None,
    };
    let window = &rest.as_bytes()[..rest.len().min(LONGEST)];
    let length = memchr::memchr(close, window).or_else(|| (window.len() == rest.len()).then_some(window.len() - 1))?;
    let tag = rest.get(..=length)?;
    let inner = tag[1..].trim_end_matches(['>', ']']);
    if inner.contains(['<', '\n', '(', '[']) {
        return None;
    }
    if close == b']'
        && inner
            .bytes()
            .any(|byte| !(byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'/')))
    {
        return None;
    }
    let inner = inner.to_lowercase();
    let function =
        ["function=", "function name=", "functionname=", "/function"].iter().any(|head| inner.starts_with(head));
    (function || WORDS.iter().any(|word| inner.contains(word))).then_some(tag)
}

/// Formatting tags, in which a call is quoted, not made.
const TYPESETTING: [&str; 14] =
    ["a", "b", "code", "em", "i", "kbd", "li", "p", "pre", "samp", "span", "strong", "td", "tt"];

/// Maximum number of objects considered.
const OBJECTS: usize = 16;

/// Markup around an offered tool in `text[range]`: a tag of its name, a tag around a call of it, or its name before an
/// object of its arguments.
pub(super) fn tool_markup<'a>(
    text: &'a str,
    range: std::ops::Range<usize>,
    tools: &Toolbox,
) -> Option<(usize, &'a str)> {
    let text = &text[..range.end];
    let mut places = memchr::memchr_iter(b'<', &text.as_bytes()[range.start..]).map(|at| at + range.start);
    let tagged = places.find_map(|at| Some((at, tool_tag(&text[at..], tools)?)));
    tagged.or_else(|| {
        let places = memchr::memchr_iter(b'{', &text.as_bytes()[range.start..]).map(|at| at + range.start);
        places.take(OBJECTS).find_map(|at| named_object(text, range.start, at, tools))
    })
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// The name at the start of `text`.
fn name_of(text: &str) -> &str {
    &text[..text.bytes().take_while(|byte| is_name(*byte)).count()]
}

/// The tag at the start of `rest`, if it names a tool or precedes a call of one.
fn tool_tag<'a>(rest: &'a str, tools: &Toolbox) -> Option<&'a str> {
    let word = name_of(&rest[1..]);
    let window = &rest.as_bytes()[..rest.len().min(LONGEST)];
    let tag = rest.get(..=memchr::memchr(b'>', window)?)?;
    if word.is_empty() || TYPESETTING.contains(&word) {
        return None;
    }
    let value = |quote: char| tag.split(quote).skip(1).step_by(2).any(|value| tools.get(value).is_some());
    let called = rest[tag.len()..].trim_start();
    let name = name_of(called);
    let calls = called[name.len()..].starts_with('(') && tools.get(name).is_some();
    (tools.get(word).is_some() || (tag.contains("name=") && (value('"') || value('\''))) || calls).then_some(tag)
}

/// Words that may occur between a tool's name and its arguments.
const BETWEEN: [&str; 4] = ["arguments", "parameters", "args", "input"];

/// The name before the object at `at`, when it is a tool's and the object could be its arguments.
fn named_object<'a>(text: &'a str, start: usize, at: usize, tools: &Toolbox) -> Option<(usize, &'a str)> {
    let blank =
        |ch: char| ch.is_whitespace() || matches!(ch, ':' | '=' | '[' | ']' | '<' | '>' | '(' | '`' | '"' | '*' | '|');
    let mut before = text[start..at].trim_end_matches(blank);
    let lower = before.get(before.len().saturating_sub(16)..).unwrap_or(before).to_ascii_lowercase();
    if let Some(word) = BETWEEN.into_iter().find(|word| lower.ends_with(word)) {
        before = before[..before.len() - word.len()].trim_end_matches(blank);
    }
    let length = before.bytes().rev().take_while(|byte| is_name(*byte)).count();
    let name = &before[before.len() - length..];
    let tool = tools.get(name)?;
    let object = Json::new(text, at).value().ok()?;
    let keys = object.as_object().filter(|object| !object.is_empty())?;
    keys.keys().all(|key| tool.has_parameter(key)).then_some((start + before.len() - length, name))
}

#[cfg(test)]
mod tests {
    use hone_trace::{ToolSet, ToolSpec};
    use serde_json::json;

    use super::*;

    #[test]
    fn markup_around_a_tool_that_is_on_offer() {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let tools = Toolbox::new(&ToolSet::new(vec![ToolSpec::new("get_weather", "", schema)]).unwrap()).unwrap();
        let found = |text: &'static str| tool_markup(text, 0..text.len(), &tools).map(|(_, marker)| marker);
        for (text, expected) in [
            ("<action>get_weather(city=\"a\")</action>", Some("<action>")),
            ("<use_tool name=\"get_weather\">{}</use_tool>", Some("<use_tool name=\"get_weather\">")),
            ("Sure.\n<get_weather><city>a</city></get_weather>", Some("<get_weather>")),
            (">>>get_weather\n{\"city\": \"a\"}", Some("get_weather")),
            ("FUNCTION: get_weather\nARGS: {\"city\": \"a\"}", Some("get_weather")),
            ("[get_weather] {\"city\": \"a\"}", Some("get_weather")),
            ("I asked get_weather about {\"city\": \"a\"}", None),
            ("get_weather said {\"sky\": \"blue\"}", None),
            ("get_weather: {\"sky\": \"blue\"}", None),
            ("write <code>get_weather(city=\"a\")</code>", None),
            ("my_get_weather {\"city\": \"a\"}", None),
            ("é{\"city\": \"a\"} <", None),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn call_markup_and_what_only_looks_like_it() {
        let found = |text: &'static str| call_like(text, 0..text.len()).map(|(_, tag)| tag);
        for (text, expected) in [
            ("Sure. <my_tool_call>{}</my_tool_call>", Some("<my_tool_call>")),
            ("<|new_function_call|>f", Some("<|new_function_call|>")),
            ("<xyz:invoke name=\"f\">", Some("<xyz:invoke name=\"f\">")),
            ("<|content_invoke_tool_text|>search", Some("<|content_invoke_tool_text|>")),
            ("<tool_invocation>f", Some("<tool_invocation>")),
            ("<functionname=\"f\">", Some("<functionname=\"f\">")),
            ("[TOOL_CALLS_V9]f", Some("[TOOL_CALLS_V9]")),
            ("<tool_ca", None),
            ("see [the tool_call docs](x)", None),
            ("a < b, List<Invoke>", None),
            ("<b>bold</b> [1] x[i] <tool>", None),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }
}
