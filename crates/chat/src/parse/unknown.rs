//! Markup of calls in a format that was not read: told, so that a call nobody ran does not pass for an answer.

use super::detect;

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

/// Longest tag that is looked at, in bytes.
const LONGEST: usize = 96;

/// The first call-like marker in `text[range]`: where it stands, and the marker.
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

#[cfg(test)]
mod tests {
    use super::*;

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
