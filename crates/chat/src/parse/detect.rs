//! Which format a reply is in: the one whose markers occur.
//!
//! One pass over the text looks for markers that only a call has. Without one, the weaker signs are tried in turn: the
//! lines of ReAct, a code fence, an object, a call list. These only count when a tool's name or a call's shape is seen,
//! since prose has them too.

use memchr::memmem;

use super::{
    draft::is_call_key,
    formats::{
        Format, code_call, deepseek, fenced_json, glm45, harmony, hermes, kimi_k2, llama3_json, minimax_m1, minimax_m2,
        mistral, phi4, pythonic, qwen3_coder, react,
    },
    reply::REASONING,
    toolbox::Toolbox,
};

impl Format {
    /// The format whose markers occur in `text`; `None` for a plain reply.
    pub fn detect(text: &str, tools: &Toolbox) -> Option<Self> {
        let start = lone_closer(text);
        let found = tagged(text, start).or_else(|| if start > 0 { tagged(text, 0) } else { None });
        found.or_else(|| untagged(&text[start..], tools))
    }
}

/// Where the text goes on after reasoning that was opened in the prompt.
fn lone_closer(text: &str) -> usize {
    let (open, close) = REASONING[0];
    match memmem::find(text.as_bytes(), close.as_bytes()) {
        Some(at) if memmem::find(&text.as_bytes()[..at], open.as_bytes()).is_none() => at + close.len(),
        _ => 0,
    }
}

fn tagged(text: &str, start: usize) -> Option<Format> {
    let bytes = text.as_bytes();
    let mut from = start;
    while let Some(found) = memchr::memchr2(b'<', b'[', &bytes[from..]) {
        let at = from + found;
        let rest = &text[at..];
        if let Some(format) = marker(text, at) {
            return Some(format);
        }
        from = at + 1;
        if let Some((open, close)) = REASONING.iter().find(|(open, _)| rest.starts_with(open)) {
            let inner = at + open.len();
            from = inner + memmem::find(&bytes[inner..], close.as_bytes())? + close.len();
        }
    }
    None
}

/// The format whose marker stands at `at`, which is a '<' or a '['.
fn marker(text: &str, at: usize) -> Option<Format> {
    let rest = &text[at..];
    let starts = |marker: &str| rest.as_bytes().starts_with(marker.as_bytes());
    match *rest.as_bytes().get(1)? {
        b'T' if starts(mistral::OPEN) => Some(Format::Mistral),
        b't' if starts(hermes::OPEN) => Some(inside_tool_call(&rest[hermes::OPEN.len()..])),
        b't' if starts(minimax_m1::OPEN) => Some(Format::MinimaxM1),
        b'/' if starts(hermes::CLOSE) => Some(Format::Hermes),
        b'f' if starts(qwen3_coder::FUNCTION) => Some(inside_function(rest)),
        b'm' if starts(minimax_m2::OPEN) => Some(Format::MinimaxM2),
        b'|' => [
            (llama3_json::PYTHON_TAG, Format::Llama3Json),
            (pythonic::START, Format::Pythonic),
            (kimi_k2::SECTION, Format::KimiK2),
            (kimi_k2::CALL, Format::KimiK2),
            (harmony::CHANNEL, Format::Harmony),
            (harmony::MESSAGE, Format::Harmony),
            (phi4::OPEN, Format::Phi4),
        ]
        .into_iter()
        .find_map(|(marker, format)| starts(marker).then_some(format)),
        0xEF if starts(deepseek::SECTION) || starts(deepseek::CALL) => Some(inside_deepseek(rest)),
        b'{' if text[..=at].ends_with(phi4::FUNCTOOLS) => Some(Format::Phi4),
        _ => None,
    }
}

/// Three formats share `<tool_call>`; what follows tells them apart.
fn inside_tool_call(rest: &str) -> Format {
    let rest = rest.trim_start();
    if rest.starts_with(qwen3_coder::FUNCTION) {
        return Format::Qwen3Coder;
    }
    let name = rest.find(|ch: char| !(ch.is_alphanumeric() || matches!(ch, '_' | '-' | '.'))).unwrap_or(rest.len());
    let behind = rest[name..].trim_start();
    if name > 0 && (behind.starts_with(glm45::KEY) || behind.starts_with(hermes::CLOSE) || behind.is_empty()) {
        return Format::Glm45;
    }
    Format::Hermes
}

fn inside_function(rest: &str) -> Format {
    let window = &rest.as_bytes()[..rest.len().min(256)];
    let body = memchr::memchr(b'>', window).map_or("", |end| rest[end + 1..].trim_start());
    if body.starts_with('{') { Format::Llama3Json } else { Format::Qwen3Coder }
}

fn inside_deepseek(rest: &str) -> Format {
    let window = &rest.as_bytes()[..rest.len().min(512)];
    let head = memmem::find(window, deepseek::SEP.as_bytes()).map_or("", |end| &rest[..end]);
    if head.trim_end().ends_with("function") { Format::DeepseekV3 } else { Format::DeepseekV31 }
}

fn untagged(text: &str, tools: &Toolbox) -> Option<Format> {
    let trimmed = text.trim_start();
    if is_react(text, tools) {
        return Some(Format::React);
    }
    if let Some(format) = fence(text, tools) {
        return Some(format);
    }
    if memchr::memchr(b'{', text.as_bytes()).is_some() && has_object(text, trimmed) {
        let openai = trimmed.starts_with(['{', '[']) && memmem::find(text.as_bytes(), b"\"function\"").is_some()
            || memmem::find(text.as_bytes(), b"\"tool_calls\"").is_some();
        return Some(if openai { Format::OpenaiJson } else { Format::BareJson });
    }
    is_pythonic(text, tools).then_some(Format::Pythonic)
}

/// Whether some object starts like a call.
fn has_object(text: &str, trimmed: &str) -> bool {
    if trimmed.starts_with(['{', '[']) && !trimmed.starts_with("[{") && trimmed.starts_with('{') {
        return true;
    }
    memchr::memchr_iter(b'{', text.as_bytes()).any(|at| {
        let window = &text.as_bytes()[at + 1..text.len().min(at + 64)];
        let inner = window.trim_ascii_start();
        let inner = inner.strip_prefix(b"\"").or_else(|| inner.strip_prefix(b"'")).unwrap_or(inner);
        let length = inner.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        std::str::from_utf8(&inner[..length]).is_ok_and(is_call_key)
    })
}

/// `Action:` at the start of a line, with an input, an object, or a tool's name behind it; or a final answer after a
/// thought.
fn is_react(text: &str, tools: &Toolbox) -> bool {
    let at_line_start = |label: &'static str| {
        memmem::find_iter(text.as_bytes(), label).filter(|at| {
            let before = text[..*at].trim_end_matches([' ', '\t']);
            before.is_empty() || before.ends_with('\n')
        })
    };
    if at_line_start(react::FINAL).next().is_some() && at_line_start(react::THOUGHT).next().is_some() {
        return true;
    }
    let Some(action) = at_line_start(react::ACTION).next() else { return false };
    if memmem::find(&text.as_bytes()[action..], react::INPUT.as_bytes()).is_some() {
        return true;
    }
    let body = text[action + react::ACTION.len()..].trim_start();
    let name = body.find(|ch: char| !(ch.is_alphanumeric() || matches!(ch, '_' | '-' | '.'))).unwrap_or(body.len());
    body.starts_with(['{', '`']) || tools.get(&body[..name]).is_some()
}

fn fence(text: &str, tools: &Toolbox) -> Option<Format> {
    memmem::find_iter(text.as_bytes(), fenced_json::FENCE).find_map(|at| {
        let (_, start) = fenced_json::head(text, at);
        let body = text[start..].trim_start();
        if body.starts_with(['{', '[']) {
            let window = &body[..body.char_indices().nth(64).map_or(body.len(), |(end, _)| end)];
            return has_object(window, window).then_some(Format::FencedJson);
        }
        code_call::starts_with_tool(text, at, |name| tools.get(name).is_some()).then_some(Format::CodeCall)
    })
}

/// A tool's name and a parenthesis at the start of the text or after a bracket.
fn is_pythonic(text: &str, tools: &Toolbox) -> bool {
    fn call(rest: &str) -> Option<&str> {
        let rest = rest.trim_start();
        let end = rest.find(|ch: char| !(ch.is_alphanumeric() || matches!(ch, '_' | '-' | '.')))?;
        rest[end..].starts_with('(').then(|| &rest[..end])
    }
    let trimmed = text.trim_start();
    if call(trimmed).is_some_and(|name| tools.get(name).is_some()) {
        return true;
    }
    if let Some(rest) = trimmed.strip_prefix('[')
        && call(rest).is_some_and(|name| !name.is_empty())
    {
        return true;
    }
    memchr::memchr_iter(b'[', text.as_bytes())
        .any(|at| call(&text[at + 1..]).is_some_and(|name| tools.get(name).is_some()))
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
