//! Calls inside unknown markup: quoted or considered, but not made.
//!
//! Models think aloud in markers that no list knows. A call between a marker and its closer, in any kind of bracket, is
//! not made, and neither is one before a closer that the prompt opened.

use std::collections::HashMap;
use std::ops::Range;

use super::{detect, reasoning, unknown, work::spend};

/// Brackets around a marker's name.
const BRACKETS: [(char, char); 14] = [
    ('<', '>'),
    ('[', ']'),
    ('{', '}'),
    ('(', ')'),
    ('◁', '▷'),
    ('【', '】'),
    ('⟨', '⟩'),
    ('〈', '〉'),
    ('《', '》'),
    ('「', '」'),
    ('『', '』'),
    ('«', '»'),
    ('＜', '＞'),
    ('［', '］'),
];

/// Longest marker considered, in bytes.
const LONGEST: usize = 64;

/// Maximum number of open markers; a reply with more is a page of markup.
const MOST_OPEN: usize = 1024;

/// Words in markers around text meant for others, and around formats' own sections.
const SAID: [&str; 14] = [
    "answer", "response", "output", "final", "reply", "tool", "call", "function", "action", "invoke", "plugin", "dsml",
    "message", "channel",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Open,
    Close,
}

/// The marker at the start of `rest`: its side, what it is about, and its length.
fn marker(rest: &str) -> Option<(Side, String, usize)> {
    let open = rest.chars().next()?;
    let (_, close) = BRACKETS.into_iter().find(|(known, _)| *known == open)?;
    let rest = &rest[..rest.floor_char_boundary(LONGEST)];
    let inner = rest.trim_start_matches(open).trim_start_matches(['|', '｜', '!', '#', '/', '\\']);
    let slash = rest[..rest.len() - inner.len()].contains(['/', '\\']);
    let whole = &inner[..inner.find(close)?];
    // Attributes follow the name of a tag.
    let name = if open == '<' { whole.split(' ').next().unwrap_or_default() } else { whole };
    let plain = |ch: char| ch.is_alphanumeric() || matches!(ch, '_' | '-' | ':' | '.' | ' ' | '▁' | '|' | '｜' | '/');
    if !name.starts_with(char::is_alphabetic) || !name.chars().all(plain) || whole.contains([open, '\n']) {
        return None;
    }
    let slash = slash || name.ends_with('/');
    let (mut side, mut about) = (if slash { Side::Close } else { Side::Open }, String::new());
    for word in name.split(|ch: char| !ch.is_alphanumeric()) {
        match word.to_lowercase().as_str() {
            "begin" | "start" | "open" | "prefix" | "of" => {}
            "end" | "stop" | "close" | "suffix" | "finish" => side = Side::Close,
            word => about.push_str(word),
        }
    }
    let length = rest.len() - inner.len() + whole.len() + close.len_utf8();
    (!about.is_empty()).then_some((side, about, length))
}

/// The first unknown marker that encloses one of `calls`, with its position. `aside` are the ranges of calls and
/// reasoning, in order, which are not searched.
pub(super) fn around<'a>(text: &'a str, calls: &[Range<usize>], aside: &[Range<usize>]) -> Option<(usize, &'a str)> {
    spend(text.len());
    if let Some(found) = comment(text, calls) {
        return Some(found);
    }
    let mut open: HashMap<(char, String), Vec<(usize, usize)>> = HashMap::new();
    let mut opened = 0;
    let mut aside = aside.iter().peekable();
    let mut from = 0;
    while let Some(at) = text[from..].find(|ch| BRACKETS.iter().any(|(open, _)| *open == ch)).map(|at| from + at) {
        while aside.next_if(|range| range.end <= at).is_some() {}
        if let Some(range) = aside.peek().filter(|range| range.start <= at) {
            from = range.end;
            continue;
        }
        let bracket = text[at..].chars().next().unwrap_or_default();
        from = at + bracket.len_utf8();
        let Some((side, about, length)) = marker(&text[at..]) else { continue };
        if is_said(text, at, &about, length) {
            continue;
        }
        from = at + length;
        let places = open.entry((bracket, about)).or_default();
        if side == Side::Open {
            opened += 1;
            if opened > MOST_OPEN {
                return None;
            }
            places.push((at, length));
            continue;
        }
        let lone = text[at..].starts_with("</") || text[at..].starts_with("[/");
        let (start, found) = match places.pop() {
            Some((start, length)) => (start, start..start + length),
            None if lone => (0, at..at + length),
            None => continue,
        };
        if calls.iter().any(|call| start <= call.start && call.end <= at) {
            return Some((found.start, &text[found]));
        }
    }
    None
}

/// True for markers of a format, of a call, or of text meant for others; and for those of reasoning, which are already
/// handled: after a complete block a closer is text.
fn is_said(text: &str, at: usize, about: &str, length: usize) -> bool {
    let rest = &text.as_bytes()[at..];
    reasoning::opener(rest).is_some()
        || reasoning::lone_closer(rest).is_some()
        || SAID.iter().any(|word| about.contains(word))
        || matches!(text.as_bytes()[at], b'<' | b'[') && detect::known_marker(text, at).is_some()
        || unknown::call_like(text, at..at + length).is_some()
}

/// An HTML comment around a call.
fn comment<'a>(text: &'a str, calls: &[Range<usize>]) -> Option<(usize, &'a str)> {
    let first = calls.first()?;
    let at = text[..first.start].rfind("<!--")?;
    let closed = text[at..first.start].contains("-->");
    (!closed && text[first.end..].contains("-->")).then(|| (at, &text[at..at + 4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_of_many_kinds() {
        let read = |text: &'static str| marker(text).map(|(side, about, length)| (side == Side::Open, about, length));
        for (text, open, about) in [
            ("<musing>", true, "musing"),
            ("</musing>", false, "musing"),
            ("<musing kind=\"deep\">", true, "musing"),
            ("<|musing|>", true, "musing"),
            ("<|/musing|>", false, "musing"),
            ("<|begin_of_musing|>", true, "musing"),
            ("<|musing_end|>", false, "musing"),
            ("[MUSING]", true, "musing"),
            ("[END MUSING]", false, "musing"),
            ("<<musing>>", true, "musing"),
            ("【/musing】", false, "musing"),
            ("{{musing}}", true, "musing"),
        ] {
            let (side, said, _) = read(text).unwrap();
            assert_eq!((side, said.as_str()), (open, about), "{text}");
        }
        for text in ["< b", "[1]", "{\"a\": 1}", "<>", "<a<b>", "(", "[x\ny]"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_call_inside_and_beside() {
        let found = |text: &'static str| {
            let at = text.find("CALL").unwrap();
            let calls = std::slice::from_ref(&(at..at + 4)).to_vec();
            around(text, &calls, &calls).map(|(_, marker)| marker)
        };
        for (text, expected) in [
            ("<musing>CALL</musing>", Some("<musing>")),
            ("a <musing> b CALL c </musing> d", Some("<musing>")),
            ("CALL</musing>", Some("</musing>")),
            ("<musing>a</musing>CALL", None),
            ("CALL<musing>a</musing>", None),
            ("<b>a</b>CALL<b>c</b>", None),
            ("<b><i>a</i>CALL</b>", Some("<b>")),
            ("a <city> CALL", None),
            ("<answer>CALL</answer>", None),
            ("<!-- CALL -->", Some("<!--")),
            ("<!-- a --> CALL -->", None),
            ("[x](y) CALL [/y]", Some("[/y]")),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }
}
