//! Reply being parsed: calls, prose and reasoning.
//!
//! A format walks the reply with [`Reply::seek`], which stops at the format's openers and skips reasoning blocks on the
//! way, so that no format can execute what is inside one. Offsets are bytes of the reply as it was given.

use std::ops::Range;

use hone_trace::ParseFailureKind;
use memchr::memmem;

use super::{
    draft::{Draft, Fault},
    reasoning,
    repair::Repair,
    tokens::{self, Stop},
    toolbox::Toolbox,
    unknown,
    work::spend,
};

/// Maximum calls of one reply. More are a fault: a model caught in a loop, or an attack on whoever runs them.
pub const MAX_CALLS: usize = 1024;

/// Search for one text from increasing positions that never looks at a byte twice.
pub(super) struct Lookup {
    needle: &'static str,
    /// The last answer; `usize::MAX` when there is none.
    found: Option<usize>,
}

impl Lookup {
    pub(super) fn new(needle: &'static str) -> Self {
        Self { needle, found: None }
    }

    pub(super) fn find(&mut self, text: &str, from: usize) -> Option<usize> {
        let found = match self.found {
            Some(found) if found >= from => found,
            _ => {
                let found = find(&text.as_bytes()[from..], self.needle.as_bytes());
                spend(found.unwrap_or(text.len() - from));
                found.map_or(usize::MAX, |at| at + from)
            }
        };
        self.found = Some(found);
        (found != usize::MAX).then_some(found)
    }
}

/// Next position to check after a bracket at `at` that opens nothing: no marker starts with two of the same bracket, so
/// only the last of a run needs a check.
pub(super) fn run_end(bytes: &[u8], at: usize) -> usize {
    let run = bytes[at..].iter().take_while(|byte| **byte == bytes[at]).count();
    at + (run - 1).max(1)
}

/// Finds `needle`. In a short text, building a searcher costs more than checking every first byte.
fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    if text.len() > 1024 {
        return memmem::find(text, needle);
    }
    memchr::memchr_iter(needle[0], text).find(|at| text[*at..].starts_with(needle))
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts about a reply, each read by name")]
pub(super) struct Reply<'a> {
    /// The reply without trailing end tokens.
    pub text: &'a str,
    /// Everything before is already parsed.
    pub pos: usize,
    /// An end token followed: no limit cut the missing part off.
    pub ended: bool,
    /// The format was requested by name. An untagged format that was only detected needs more evidence.
    pub named: bool,
    pub tools: &'a Toolbox,
    pub drafts: Vec<Draft>,
    prose: Vec<Range<usize>>,
    /// True if there is prose so far, not counting whitespace.
    pub has_prose: bool,
    reasoning: Vec<Range<usize>>,
    /// Start of reasoning that is never closed.
    pub unclosed: Option<usize>,
    /// The reply's text outside its calls, if that is not simply the text around them.
    pub content: Option<String>,
    /// Text that is neither call nor reply: an observation the model made up.
    pub ignored: Option<Range<usize>>,
    /// The text has a `◁`, which opens or closes reasoning of some models.
    triangles: bool,
    /// A reasoning block has been closed. A closer after it is text: reasoning ends at its first closer.
    reasoned: bool,
    /// Cached position of the next closer; `usize::MAX` if there is none.
    closer: Option<usize>,
    /// End of the model's turn before the end of its text: an end token, or an answer only the environment can give.
    pub beyond: Option<(usize, Stop)>,
    /// Bytes read by scans that may fail and start again; see [`Reply::may_rescan`].
    rescanned: usize,
}

impl<'a> Reply<'a> {
    pub(super) fn new(text: &'a str, tools: &'a Toolbox, named: bool) -> Self {
        let (end, ended) = tokens::strip_end(text);
        Self::bounded(&text[..end], tokens::strip_start(&text[..end]), ended, tools, named)
    }

    /// The reply with end tokens left in place, for the format whose markers they are.
    pub(super) fn raw(text: &'a str, tools: &'a Toolbox, named: bool) -> Self {
        Self::bounded(text.trim_end(), 0, false, tools, named)
    }

    fn bounded(text: &'a str, pos: usize, ended: bool, tools: &'a Toolbox, named: bool) -> Self {
        Self {
            text,
            pos,
            ended,
            named,
            tools,
            drafts: Vec::new(),
            prose: Vec::new(),
            has_prose: false,
            reasoning: Vec::new(),
            unclosed: None,
            content: None,
            ignored: None,
            triangles: text.contains('◁'),
            reasoned: false,
            closer: None,
            beyond: None,
            rescanned: 0,
        }
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.pos..]
    }

    /// Consumes text up to `end` as prose.
    pub(super) fn keep(&mut self, end: usize) {
        if self.pos < end {
            self.has_prose = self.has_prose || !self.text[self.pos..end].trim_start().is_empty();
            match self.prose.last_mut() {
                Some(last) if last.end == self.pos => last.end = end,
                _ => self.prose.push(self.pos..end),
            }
        }
        self.pos = end;
    }

    pub(crate) fn add_reasoning(&mut self, range: Range<usize>) {
        self.reasoning.push(range);
    }

    /// Places of the reasoning blocks.
    pub(super) fn reasoning_places(&self) -> impl Iterator<Item = &Range<usize>> {
        self.reasoning.iter()
    }

    /// End of the last reasoning block; 0 when there is none.
    pub(crate) fn reasoning_end(&self) -> usize {
        self.reasoning.last().map_or(0, |range| range.end)
    }

    /// Removes the prose since the last call and returns its range.
    pub(crate) fn take_last_prose(&mut self) -> Option<Range<usize>> {
        self.prose.pop()
    }

    /// Moves to the next of `openers` outside reasoning: which one, and where. Text on the way is prose; without an
    /// opener, so is the rest, up to the end of the turn.
    pub(super) fn seek(&mut self, openers: &[&str]) -> Option<(usize, usize)> {
        if self.drafts.len() > MAX_CALLS || self.beyond.is_some() {
            return None;
        }
        // Every marker starts with '<' or '['; a format has at most one other first byte.
        let first = openers.iter().map(|opener| opener.as_bytes()[0]);
        let other = first.into_iter().find(|byte| !matches!(byte, b'<' | b'[')).unwrap_or(b'<');
        let bytes = self.text.as_bytes();
        let mut from = self.pos;
        while let Some(found) = self.next_marker(other, from) {
            spend(found + 1);
            let at = from + found;
            let rest = &bytes[at..];
            let opener = openers.iter().position(|opener| rest.starts_with(opener.as_bytes()));
            // A marker takes precedence over the bare bracket it starts with.
            if let Some(which) = opener.filter(|which| openers[*which].len() > 1) {
                self.keep(at);
                return Some((which, at));
            }
            if let Some(after) = self.reasoning_at(at) {
                if self.unclosed.is_some() {
                    return None;
                }
                from = after;
                continue;
            }
            if let Some(which) = opener {
                self.keep(at);
                return Some((which, at));
            }
            if let Some(stop) = tokens::stop_at(self.text, at) {
                self.stop(at, stop);
                return None;
            }
            from = run_end(bytes, at);
        }
        self.keep(self.text.len());
        None
    }

    /// Bytes from `from` to the next one that a marker may start with.
    fn next_marker(&self, other: u8, from: usize) -> Option<usize> {
        let rest = &self.text.as_bytes()[from..];
        let [angle, bracket, triangle] = reasoning::FIRST;
        let found = memchr::memchr3(angle, bracket, other, rest);
        if !self.triangles {
            return found;
        }
        let rest = &rest[..found.unwrap_or(rest.len())];
        memchr::memchr(triangle, rest).or(found)
    }

    /// The turn is over at `at`: nothing after it counts.
    fn stop(&mut self, at: usize, stop: Stop) {
        self.keep(at);
        self.beyond = Some((at, stop));
        self.ignored = Some(at..self.text.len());
        self.pos = self.text.len();
    }

    /// Handles a reasoning marker at `at`, if there is one; returns where it ends.
    fn reasoning_at(&mut self, at: usize) -> Option<usize> {
        let rest = &self.text.as_bytes()[at..];
        if let Some((pair, width)) = reasoning::opener(rest) {
            self.keep(at);
            let inner = at + width;
            let Some(closer) = reasoning::closer_in(&self.text.as_bytes()[inner..], pair) else {
                self.unclosed = Some(at);
                self.reasoning.push(inner..self.text.len());
                self.pos = self.text.len();
                return Some(self.pos);
            };
            self.reasoning.push(inner..inner + closer.start);
            self.reasoned = true;
            self.pos = inner + closer.end;
            return Some(self.pos);
        }
        if self.reasoned {
            return None;
        }
        reasoning::lone_closer(rest).map(|(_, width)| self.close_reasoning(at..at + width))
    }

    /// A closer that nothing opened: everything before it was reasoning, calls included.
    fn close_reasoning(&mut self, closer: Range<usize>) -> usize {
        let at = closer.start;
        self.drafts.clear();
        self.prose.clear();
        self.has_prose = false;
        self.content = None;
        self.ignored = None;
        self.beyond = None;
        self.reasoning.clear();
        self.reasoning.push(tokens::strip_start(&self.text[..at]).min(at)..at);
        self.reasoned = true;
        self.pos = closer.end;
        self.pos
    }

    /// True when broken text in `range` turns out to be reasoning, which ends in it. Then `pos` is after the closer.
    pub(crate) fn ends_reasoning(&mut self, range: Range<usize>) -> bool {
        if self.reasoned || self.next_closer(range.start) >= range.end {
            return false;
        }
        spend(range.len());
        match reasoning::unopened(&self.text[range.clone()]) {
            Some(closer) => {
                self.close_reasoning(range.start + closer.start..range.start + closer.end);
                true
            }
            None => false,
        }
    }

    /// Place of the first closer from `from` on, opened or not. Called with increasing positions, it reads no byte
    /// twice.
    fn next_closer(&mut self, from: usize) -> usize {
        if let Some(known) = self.closer.filter(|known| *known >= from) {
            return known;
        }
        let bytes = &self.text.as_bytes()[from..];
        let [angle, bracket, triangle] = reasoning::FIRST;
        let mut places = memchr::memchr3_iter(angle, bracket, triangle, bytes);
        let found = places.find(|at| reasoning::lone_closer(&bytes[*at..]).is_some());
        spend(found.unwrap_or(bytes.len()));
        let closer = found.map_or(usize::MAX, |at| from + at);
        self.closer = Some(closer);
        closer
    }

    /// True if everything a format read was reasoning, because of a later closer that the format did not look for.
    pub(crate) fn was_reasoning(&mut self) -> bool {
        let read = self.drafts.iter().map(|draft| draft.span.end).max().unwrap_or(0);
        let end = self.beyond.map_or(self.text.len(), |(at, _)| at);
        self.unclosed.is_none() && self.ends_reasoning(read.min(end)..end)
    }

    /// Skips whitespace and reasoning blocks.
    pub(crate) fn skip_reasoning(&mut self) {
        loop {
            let start = self.text.len() - self.rest().trim_start().len();
            match self.reasoning_at(start) {
                Some(_) if self.unclosed.is_none() => {}
                _ => return,
            }
        }
    }

    /// True when a scan from `start` to `end` that failed may be tried again one opener further on. Bounds the total of
    /// these scans to a multiple of the reply's length.
    pub(crate) fn may_rescan(&mut self, start: usize, end: usize) -> bool {
        self.rescanned += end - start;
        self.rescanned <= self.text.len() + 4096
    }

    /// The kind of fault when the text stops inside a call.
    pub(crate) fn cut_kind(&self, complete: ParseFailureKind) -> ParseFailureKind {
        if self.ended { complete } else { ParseFailureKind::Truncated }
    }

    /// The kind of a fault in markup, which may be truncation.
    pub(crate) fn markup_kind(&self, cut: bool) -> ParseFailureKind {
        if cut { self.cut_kind(ParseFailureKind::MalformedMarkup) } else { ParseFailureKind::MalformedMarkup }
    }

    /// A closing tag nothing opened. The text before it may be the call, its opener lost.
    pub(crate) fn stray_closer(&mut self, at: usize, close: &str, read: impl Fn(&str, usize) -> Option<Draft>) {
        let fault = Fault::markup(at, format!("{close} closes nothing"));
        self.pos = at + close.len();
        let before = self.drafts.last().map_or(0, |draft| draft.span.end);
        if let Some(last) = self.drafts.last_mut()
            && self.text[before..at].trim().is_empty()
        {
            last.repaired(fault, Repair::ExtraCloser);
            return;
        }
        let start = self.prose.last().map_or(at, |range| range.start.max(before));
        let draft = match read(&self.text[..at], start) {
            Some(mut draft) => {
                self.prose.pop();
                draft.span = start..self.pos;
                draft.repaired(fault, Repair::MissingOpener);
                draft
            }
            None => Draft::faulty(at..self.pos, fault),
        };
        self.drafts.push(draft);
    }

    /// A marker of calls in the text kept as prose.
    pub(crate) fn call_like(&self) -> Option<(usize, &'a str)> {
        let call_like = |range: &Range<usize>| unknown::call_like(self.text, range.clone());
        let tool_markup = |range: &Range<usize>| unknown::tool_markup(self.text, range.clone(), self.tools);
        self.prose.iter().find_map(call_like).or_else(|| self.prose.iter().find_map(tool_markup))
    }

    /// The text outside the calls, trimmed.
    pub(crate) fn content_text(&self) -> String {
        if let Some(content) = &self.content {
            return content.clone();
        }
        match self.prose.as_slice() {
            [] => String::new(),
            [one] => self.text[one.clone()].trim().to_owned(),
            several => {
                let all: String = several.iter().map(|range| &self.text[range.clone()]).collect();
                all.trim().to_owned()
            }
        }
    }

    /// The reasoning blocks, trimmed, one per line group; `None` when there are none.
    pub(crate) fn reasoning_text(&self) -> Option<String> {
        match self.reasoning.as_slice() {
            [] => None,
            [one] => Some(self.text[one.clone()].trim().to_owned()),
            several => {
                let parts = several.iter().map(|range| self.text[range.clone()].trim()).filter(|part| !part.is_empty());
                Some(parts.collect::<Vec<_>>().join("\n"))
            }
        }
    }
}
