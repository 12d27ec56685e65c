//! Reasoning markers, in every spelling that models use. Nothing between them is a call.

use std::borrow::Cow;
use std::ops::Range;

/// A pair of markers. Case, whitespace and attributes after a tag's name make no difference.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub open: &'static str,
    pub close: &'static str,
    /// A closer that nothing opened ends reasoning that the prompt opened.
    pub lone: bool,
}

const fn pair(open: &'static str, close: &'static str) -> Pair {
    Pair { open, close, lone: true }
}

pub(super) const PAIRS: [Pair; 25] = [
    pair("<think>", "</think>"),
    pair("[THINK]", "[/THINK]"),
    pair("<thinking>", "</thinking>"),
    pair("<thought>", "</thought>"),
    pair("<reasoning>", "</reasoning>"),
    pair("<seed:think>", "</seed:think>"),
    pair("<mm:think>", "</mm:think>"),
    pair("<think:opensource>", "</think:opensource>"),
    pair("<longcat_think>", "</longcat_think>"),
    pair("<|START_THINKING|>", "<|END_THINKING|>"),
    pair("<|begin_of_thought|>", "<|end_of_thought|>"),
    pair("<|inner_prefix|>", "<|inner_suffix|>"),
    pair("<|channel>thought", "<channel|>"),
    pair("<|channel>", "<channel|>"),
    pair("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    pair("<seed:cot_budget_reflect>", "</seed:cot_budget_reflect>"),
    pair("<scratchpad>", "</scratchpad>"),
    pair("<scratch_pad>", "</scratch_pad>"),
    pair("<reflection>", "</reflection>"),
    pair("<analysis>", "</analysis>"),
    pair("<unused94>", "<unused95>"),
    pair("◁think▷", "◁/think▷"),
    // Closers that end other messages too.
    Pair { open: "<|think|>", close: "<|end|>", lone: false },
    Pair { open: "<|content_thinking|>", close: "<|end_message|>", lone: false },
    // Harmony's analysis channel, used in another format.
    Pair { open: "<|channel|>analysis<|message|>", close: "<|end|>", lone: false },
];

/// For each second byte, the pairs (as bits) whose opener or closer has it: nearly every '<' and '[' is neither.
const OPENERS: [u32; 256] = by_second_byte(true);
const CLOSERS: [u32; 256] = by_second_byte(false);

const fn by_second_byte(open: bool) -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < PAIRS.len() {
        let pair = &PAIRS[index];
        if open || pair.lone {
            let second = if open { pair.open.as_bytes()[1] } else { pair.close.as_bytes()[1] };
            table[second.to_ascii_lowercase() as usize] |= 1 << index;
            table[second.to_ascii_uppercase() as usize] |= 1 << index;
        }
        index += 1;
    }
    table
}

/// Bytes that a marker starts with: `<`, `[` and the first of `◁`.
pub(super) const FIRST: [u8; 3] = [b'<', b'[', "◁".as_bytes()[0]];

/// The next position in `bytes` at which a marker may start.
pub(super) fn next_first(bytes: &[u8]) -> Option<usize> {
    memchr::memchr3(FIRST[0], FIRST[1], FIRST[2], bytes)
}

/// Maximum bytes of whitespace and attributes in a tag.
const LONGEST_TAIL: usize = 64;

/// Length of the marker at the start of `rest`, if it is there.
fn width(rest: &[u8], marker: &str) -> Option<usize> {
    let marker = marker.as_bytes();
    let (last, head) = marker.split_last()?;
    if !rest.get(..head.len())?.eq_ignore_ascii_case(head) {
        return None;
    }
    let next = rest.get(head.len())?;
    if next == last {
        return Some(marker.len());
    }
    // A plain tag: its name has no bars, and what may follow the name ends with the tag.
    if !next.is_ascii_whitespace() || *last != b'>' || head.contains(&b'|') {
        return None;
    }
    let tail = &rest[head.len()..rest.len().min(head.len() + LONGEST_TAIL)];
    let end = memchr::memchr2(b'<', b'>', tail).filter(|end| tail[*end] == b'>')?;
    Some(head.len() + end + 1)
}

/// The pair whose opener `rest` starts with, and the opener's length.
pub(super) fn opener(rest: &[u8]) -> Option<(&'static Pair, usize)> {
    find(rest, &OPENERS, |pair| pair.open)
}

/// The pair whose closer `rest` starts with, if it may occur without an opener, and the closer's length.
pub(super) fn lone_closer(rest: &[u8]) -> Option<(&'static Pair, usize)> {
    find(rest, &CLOSERS, |pair| pair.close)
}

fn find(rest: &[u8], table: &[u32; 256], marker: fn(&Pair) -> &'static str) -> Option<(&'static Pair, usize)> {
    let mut candidates = table[usize::from(*rest.get(1)?)];
    while candidates != 0 {
        let pair = &PAIRS[candidates.trailing_zeros() as usize];
        if let Some(width) = width(rest, marker(pair)) {
            return Some((pair, width));
        }
        candidates &= candidates - 1;
    }
    None
}

/// Place of the pair's closer in `text`.
pub(super) fn closer_in(text: &[u8], pair: &Pair) -> Option<Range<usize>> {
    let places = memchr::memchr_iter(pair.close.as_bytes()[0], text);
    places.into_iter().find_map(|at| width(&text[at..], pair.close).map(|width| at..at + width))
}

/// The first closer in `text` that nothing there opens.
pub(super) fn unopened(text: &str) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(found) = next_first(&bytes[from..]) {
        let at = from + found;
        if let Some((_, width)) = lone_closer(&bytes[at..]) {
            return Some(at..at + width);
        }
        from = at + 1;
        if let Some((pair, width)) = opener(&bytes[at..]) {
            from = at + width + closer_in(&bytes[at + width..], pair)?.end;
        }
    }
    None
}

/// The text without its reasoning blocks; an unclosed block extends to the end.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let (mut kept, mut from) = (0, 0);
    while let Some(found) = next_first(&bytes[from..]) {
        let at = from + found;
        from = at + 1;
        let Some((pair, width)) = opener(&bytes[at..]) else { continue };
        out.push_str(&text[kept..at]);
        let inner = at + width;
        let Some(closer) = closer_in(&bytes[inner..], pair) else { return Cow::Owned(out) };
        kept = inner + closer.end;
        from = kept;
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[kept..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_marker_passes_the_filter() {
        for pair in &PAIRS {
            assert_eq!(opener(pair.open.as_bytes()), Some((pair, pair.open.len())));
            assert_eq!(lone_closer(pair.close.as_bytes()).is_some(), pair.lone, "{pair:?}");
            assert_eq!(opener(pair.open.to_lowercase().as_bytes()), Some((pair, pair.open.len())));
            assert!(pair.open.starts_with(['<', '[', '◁']) && pair.close.starts_with(['<', '[', '◁']));
        }
    }

    #[test]
    fn what_is_visible() {
        assert_eq!(visible("a<think>b</think>c[THINK]d[/THINK]e"), "ace");
        assert_eq!(visible("a<think>b"), "a");
        assert_eq!(visible("a < b"), "a < b");
        assert_eq!(visible("a<think >b</THINK\n>c◁think▷d◁/think▷e"), "ace");
        assert_eq!(visible("a<think type=\"deep\">b</think>c"), "ac");
        assert_eq!(visible("a<thinker>b"), "a<thinker>b");
        assert_eq!(unopened("<think>a</think>b</think>"), Some(17..25));
        assert_eq!(unopened("<think>a</think>b"), None);
    }
}
