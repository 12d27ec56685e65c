//! The values of a JSON document, one at a time: lines of JSON, an array, or the array under `"tasks"` of an object.
//!
//! Only strings and brackets are parsed, so that one malformed task does not cost the rest of the file, and at most one
//! task is in memory.

use std::io::{self, BufRead};

/// Maximum length of a single task. Anything longer is not a task but a file of the wrong kind.
const LONGEST: usize = 64 << 20;

/// Layout of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Unknown,
    Lines,
    /// Values one after the other, over several lines each.
    Values,
    Array,
    Ended,
}

/// One value's text and the line it begins on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) line: u64,
    pub(crate) text: Vec<u8>,
    /// Known fault of the value.
    pub(crate) fault: Option<&'static str>,
}

pub(crate) struct Elements<R> {
    input: R,
    line: u64,
    layout: Layout,
    /// Part of the document will not be read.
    unread: bool,
}

/// End of the scan of one value.
enum Ended {
    Value,
    /// The object holds a `"tasks"` array, which begins here.
    Container,
    Fault(&'static str),
}

impl<R: BufRead> Elements<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, line: 1, layout: Layout::Unknown, unread: false }
    }

    /// The next value; `None` at the end of the document.
    pub(crate) fn next(&mut self) -> io::Result<Option<Element>> {
        loop {
            match self.layout {
                Layout::Ended => {
                    let fault =
                        Some("everything from here on was not read: the task before it does not end where it should");
                    let rest = Element { line: self.line, text: Vec::new(), fault };
                    return Ok(std::mem::take(&mut self.unread).then_some(rest));
                }
                Layout::Lines => return self.next_line(),
                Layout::Unknown => {
                    let Some(byte) = self.skip_blank(false)? else { return Ok(None) };
                    if byte == b'[' {
                        self.input.consume(1);
                        self.layout = Layout::Array;
                        continue;
                    }
                    let line = self.line;
                    let mut text = Vec::new();
                    match self.scan(&mut text, true)? {
                        Ended::Container => self.layout = Layout::Array,
                        Ended::Value => {
                            self.layout = if self.line == line { Layout::Lines } else { Layout::Values };
                            return Ok(Some(Element { line, text, fault: None }));
                        }
                        Ended::Fault(fault) => {
                            self.layout = Layout::Lines;
                            return Ok(Some(Element { line, text, fault: Some(fault) }));
                        }
                    }
                }
                Layout::Array | Layout::Values => return self.next_value(),
            }
        }
    }

    fn next_line(&mut self) -> io::Result<Option<Element>> {
        loop {
            let line = self.line;
            let mut text = Vec::new();
            let read = io::Read::take(&mut self.input, LONGEST as u64).read_until(b'\n', &mut text)?;
            if read == 0 {
                return Ok(None);
            }
            if text.last() == Some(&b'\n') {
                self.line += 1;
            } else if read == LONGEST {
                self.skip_line()?;
                return Ok(Some(Element { line, text: Vec::new(), fault: Some("a line longer than 64 MiB") }));
            }
            if !text.trim_ascii().is_empty() {
                return Ok(Some(Element { line, text, fault: None }));
            }
        }
    }

    /// Skips the rest of a line.
    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let chunk = self.input.fill_buf()?;
            if chunk.is_empty() {
                return Ok(());
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(chunk.len(), |at| at + 1);
            self.input.consume(used);
            if end.is_some() {
                self.line += 1;
                return Ok(());
            }
        }
    }

    fn next_value(&mut self) -> io::Result<Option<Element>> {
        let in_array = self.layout == Layout::Array;
        match self.skip_blank(in_array)? {
            None => {
                self.layout = Layout::Ended;
                let line = self.line;
                let fault = Some("the file ends before its array does");
                return Ok(in_array.then(|| Element { line, text: Vec::new(), fault }));
            }
            Some(b']') if in_array => {
                self.layout = Layout::Ended;
                return Ok(None);
            }
            Some(_) => {}
        }
        let (line, mut text) = (self.line, Vec::new());
        let fault = match self.scan(&mut text, false)? {
            Ended::Fault(fault) => {
                // If the end of a value is unclear, so is the rest.
                self.layout = Layout::Ended;
                self.unread = self.skip_blank(true)?.is_some();
                Some(fault)
            }
            _ => None,
        };
        Ok(Some(Element { line, text, fault }))
    }

    /// The next byte that is neither white space nor (in an array) a comma.
    fn skip_blank(&mut self, commas: bool) -> io::Result<Option<u8>> {
        loop {
            let Some(&byte) = self.input.fill_buf()?.first() else { return Ok(None) };
            match byte {
                b'\n' => self.line += 1,
                // Including a byte order mark.
                b' ' | b'\t' | b'\r' | 0xef | 0xbb | 0xbf => {}
                b',' if commas => {}
                byte => return Ok(Some(byte)),
            }
            self.input.consume(1);
        }
    }

    /// Reads one value. As the first of a document, an object with an array under `"tasks"` is left inside that array.
    fn scan(&mut self, text: &mut Vec<u8>, first: bool) -> io::Result<Ended> {
        let mut state = State { first, ..State::default() };
        loop {
            let chunk = self.input.fill_buf()?;
            if chunk.is_empty() {
                return Ok(if state.between(text) {
                    Ended::Value
                } else {
                    Ended::Fault("the file ends inside a task")
                });
            }
            let mut used = 0;
            let mut ended = None;
            for &byte in chunk {
                if state.between(text) && matches!(byte, b',' | b']' | b'\n' | b' ' | b'\r') {
                    ended = Some(Ended::Value);
                    break;
                }
                if state.starts_another(byte) {
                    ended = Some(Ended::Fault("an object or array where none can stand"));
                    break;
                }
                used += 1;
                text.push(byte);
                self.line += u64::from(byte == b'\n');
                ended = state.step(byte, text);
                if ended.is_some() {
                    break;
                }
            }
            self.input.consume(used);
            if let Some(ended) = ended {
                return Ok(ended);
            }
            if text.len() > LONGEST {
                return Ok(Ended::Fault("a task longer than 64 MiB"));
            }
        }
    }
}

/// Place inside a value, byte by byte.
#[derive(Default)]
struct State {
    /// The value is the first of its document.
    first: bool,
    depth: usize,
    string: bool,
    escaped: bool,
    /// The last string of depth 1, and the start of the string that is open.
    name: std::ops::Range<usize>,
    name_start: usize,
    /// The last byte that is not whitespace.
    last: u8,
}

impl State {
    /// Outside any value, after a value's text.
    fn between(&self, text: &[u8]) -> bool {
        self.depth == 0 && !self.string && !text.is_empty()
    }

    /// The byte opens an object or array where none is allowed: it starts the next value.
    fn starts_another(&self, byte: u8) -> bool {
        let opens = !self.string && self.depth > 0 && matches!(byte, b'{' | b'[');
        opens && !matches!(self.last, b':' | b',' | b'[')
    }

    /// Processes the byte that was just appended to the text.
    fn step(&mut self, byte: u8, text: &[u8]) -> Option<Ended> {
        if self.string {
            return self.step_in_string(byte, text);
        }
        match byte {
            b'"' => {
                (self.string, self.name_start) = (true, text.len());
                return None;
            }
            b'[' if self.names_tasks(text) => return Some(Ended::Container),
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    return Some(Ended::Value);
                }
            }
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            self.last = byte;
        }
        None
    }

    fn step_in_string(&mut self, byte: u8, text: &[u8]) -> Option<Ended> {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => {
                (self.string, self.last) = (false, byte);
                if self.depth == 1 {
                    self.name = self.name_start..text.len() - 1;
                }
            }
            b'\n' => return Some(Ended::Fault("a text that is not closed on its line")),
            _ => {}
        }
        None
    }

    /// The value after `"tasks":` in the document's outer object.
    fn names_tasks(&self, text: &[u8]) -> bool {
        let here = self.first && self.depth == 1 && self.last == b':';
        here && text.get(self.name.clone()) == Some(b"tasks".as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(u64, String, Option<&'static str>)> {
        // A tiny buffer, so that every state crosses its edge.
        let mut elements = Elements::new(std::io::BufReader::with_capacity(3, text.as_bytes()));
        let mut found = Vec::new();
        while let Some(Element { line, text, fault }) = elements.next().unwrap() {
            found.push((line, String::from_utf8(text).unwrap().trim().to_owned(), fault));
        }
        found
    }

    fn texts(text: &str) -> Vec<(u64, String)> {
        let found = all(text);
        assert!(found.iter().all(|(.., fault)| fault.is_none()), "{found:?}");
        found.into_iter().map(|(line, text, _)| (line, text)).collect()
    }

    #[test]
    fn every_layout_gives_the_same_values() {
        let one = |line| (line, r#"{"a": "}]\"{", "tasks": 1}"#.to_owned());
        let two = |line| (line, r#"{"b": [1, {"tasks": [2]}]}"#.to_owned());
        let (a, b) = (one(1).1, two(1).1);
        assert_eq!(texts(&format!("{a}\n\n{b}\n")), [one(1), two(3)]);
        assert_eq!(texts(&format!("[{a},\n {b}]")), [one(1), two(2)]);
        assert_eq!(texts(&format!("{{\"version\": {{\"tasks\": [9]}},\n\"tasks\": [\n{a}, {b}]}}")), [one(3), two(3)]);
        assert_eq!(
            texts("\u{feff}{\n\"a\": 1}\n{\n\"b\": 2}"),
            [(1, "{\n\"a\": 1}".into()), (3, "{\n\"b\": 2}".into())]
        );
        assert_eq!(texts("[]"), []);
        assert_eq!(texts(""), []);
    }

    #[test]
    fn a_line_beyond_all_measure_costs_itself() {
        let long = "x".repeat(LONGEST + 10);
        let found = all(&format!("{{\"a\": 1}}\n{long}\n{{\"c\": 1}}"));
        assert_eq!((found.len(), found[1].0, found[2].0), (3, 2, 3));
        assert!(found[1].2.is_some() && found[2] == (3, "{\"c\": 1}".into(), None));
    }

    #[test]
    fn a_broken_value_costs_itself() {
        let found = all("{\"a\": \"open\n{\"b\": 1}\n{\"c\": 1}\n");
        assert_eq!(found[0].2, Some("a text that is not closed on its line"));
        assert_eq!(found[1..], [(2, "{\"b\": 1}".into(), None), (3, "{\"c\": 1}".into(), None)]);
        let found = all("{\"a\": 1\n{\"b\": 1}\n");
        assert!(found[0].2.is_some() && found[1] == (2, "{\"b\": 1}".into(), None), "{found:?}");
        let found = all("[{\"a\": 1}, {\"b\": \"open\n}, {\"c\": 1}]");
        assert!(found[1].2.is_some() && found[2].2.is_some_and(|rest| rest.contains("was not read")), "{found:?}");
        let found = all("[{\"a\": 1}, {\"b\": ");
        assert_eq!(found.last().unwrap().2, Some("the file ends inside a task"));
    }
}
