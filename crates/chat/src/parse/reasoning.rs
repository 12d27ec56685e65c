//! Reasoning markers, in every spelling that models use. Nothing between them is a call.

use std::borrow::Cow;

/// A pair of markers. Case makes no difference.
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

pub(super) const PAIRS: [Pair; 17] = [
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
    // Closers that end other messages too.
    Pair { open: "<|content_thinking|>", close: "<|end_message|>", lone: false },
    // Harmony's analysis channel, met in another format.
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

fn starts(rest: &[u8], marker: &str) -> bool {
    rest.get(..marker.len()).is_some_and(|head| head.eq_ignore_ascii_case(marker.as_bytes()))
}

/// The pair whose opener `rest` starts with.
pub(super) fn opener(rest: &[u8]) -> Option<&'static Pair> {
    find(rest, &OPENERS, |pair| pair.open)
}

/// The pair whose closer `rest` starts with, where it may stand alone.
pub(super) fn lone_closer(rest: &[u8]) -> Option<&'static Pair> {
    find(rest, &CLOSERS, |pair| pair.close)
}

fn find(rest: &[u8], table: &[u32; 256], marker: fn(&Pair) -> &'static str) -> Option<&'static Pair> {
    let mut candidates = table[usize::from(*rest.get(1)?)];
    while candidates != 0 {
        let pair = &PAIRS[candidates.trailing_zeros() as usize];
        if starts(rest, marker(pair)) {
            return Some(pair);
        }
        candidates &= candidates - 1;
    }
    None
}

/// Place of the pair's closer in `text`.
pub(super) fn closer_in(text: &[u8], pair: &Pair) -> Option<usize> {
    memchr::memchr_iter(pair.close.as_bytes()[0], text).find(|at| starts(&text[*at..], pair.close))
}

/// The first closer in `text` that nothing there opens: where it stands, and its pair.
pub(super) fn unopened(text: &str) -> Option<(usize, &'static Pair)> {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(found) = memchr::memchr2(b'<', b'[', &bytes[from..]) {
        let at = from + found;
        if let Some(pair) = lone_closer(&bytes[at..]) {
            return Some((at, pair));
        }
        from = at + 1;
        if let Some(pair) = opener(&bytes[at..]) {
            let inner = at + pair.open.len();
            from = inner + closer_in(&bytes[inner..], pair)? + pair.close.len();
        }
    }
    None
}

/// The text without the reasoning blocks in it; what follows one that is never closed is reasoning too.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let (mut kept, mut from) = (0, 0);
    while let Some(found) = memchr::memchr2(b'<', b'[', &bytes[from..]) {
        let at = from + found;
        from = at + 1;
        let Some(pair) = opener(&bytes[at..]) else { continue };
        out.push_str(&text[kept..at]);
        let inner = at + pair.open.len();
        let Some(length) = closer_in(&bytes[inner..], pair) else { return Cow::Owned(out) };
        kept = inner + length + pair.close.len();
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
            assert_eq!(opener(pair.open.as_bytes()), Some(pair));
            assert_eq!(lone_closer(pair.close.as_bytes()).is_some(), pair.lone, "{pair:?}");
            assert_eq!(opener(pair.open.to_lowercase().as_bytes()), Some(pair));
            assert!(pair.open.starts_with(['<', '[']) && pair.close.starts_with(['<', '[']));
        }
    }

    #[test]
    fn what_is_visible() {
        assert_eq!(visible("a<think>b</think>c[THINK]d[/THINK]e"), "ace");
        assert_eq!(visible("a<think>b"), "a");
        assert_eq!(visible("a < b"), "a < b");
        assert_eq!(unopened("<think>a</think>b</think>").map(|(at, _)| at), Some(17));
        assert_eq!(unopened("<think>a</think>b"), None);
    }
}
