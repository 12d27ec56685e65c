//! Python literals and keyword calls, for the formats that borrow Python's syntax.
//!
//! `name(key=value, …)` with literal values only: nothing is evaluated, and a positional argument is a fault because a
//! tool's arguments have names. JSON's `true`, `false` and `null` are accepted beside Python's literals: models mix
//! them.

mod strings;

use std::ops::Range;

use serde_json::{Map, Value};

use super::{
    json::{Json, MAX_DEPTH},
    wide::Wide,
    work::spend,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PyError {
    pub at: usize,
    pub why: &'static str,
    /// The text ended where more was needed.
    pub eof: bool,
}

pub(super) struct Python<'a> {
    text: &'a str,
    pub pos: usize,
    depth: usize,
    /// Treat a missing closer at the end of the text as present; `closed` is then set.
    close_at_end: bool,
    pub closed: bool,
    /// Line breaks inside strings: allowed if `Some`, which records whether one occurred.
    pub raw_lines: Option<bool>,
    pub wide: Wide,
    /// Places of the keywords of the calls read so far, and of their values.
    pub keywords: Vec<(Range<usize>, Range<usize>)>,
}

/// One call: its name, its arguments and the position of its text.
#[derive(Debug)]
pub(super) struct PyCall {
    pub name: String,
    pub arguments: Map<String, Value>,
    pub wide: Wide,
    pub start: usize,
    pub end: usize,
}

impl<'a> Python<'a> {
    pub(super) fn new(text: &'a str, pos: usize) -> Self {
        Self {
            text,
            pos,
            depth: 0,
            close_at_end: false,
            closed: false,
            raw_lines: None,
            wide: Wide::new(),
            keywords: Vec::new(),
        }
    }

    pub(crate) fn closing_at_end(text: &'a str, pos: usize) -> Self {
        Self { close_at_end: true, ..Self::new(text, pos) }
    }

    /// Reads strings with line breaks in them, which Python does not; `raw_lines` records whether there were any.
    pub(crate) fn with_raw_lines(text: &'a str, pos: usize) -> Self {
        Self { raw_lines: Some(false), ..Self::new(text, pos) }
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.pos..]
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos).copied()
    }

    pub(super) fn blank(&mut self) {
        let before = self.pos;
        self.pos = self.text.len() - self.rest().trim_start().len();
        spend(self.pos - before);
    }

    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        self.blank();
        let found = self.peek() == Some(byte);
        self.pos += usize::from(found);
        found
    }

    pub(super) fn fail<T>(&self, why: &'static str) -> Result<T, PyError> {
        Err(PyError { at: self.pos, why, eof: self.pos >= self.text.len() })
    }

    /// After a complete item: `true` when the container closes here, `false` when a comma and a next item follow.
    pub(super) fn closes(&mut self, closer: u8, why: &'static str) -> Result<bool, PyError> {
        if self.eat(closer) {
            return Ok(true);
        }
        if self.eat(b',') {
            return Ok(self.eat(closer));
        }
        if self.pos >= self.text.len() && self.close_at_end && !self.ends_in_number() {
            self.closed = true;
            return Ok(true);
        }
        self.fail(why)
    }

    /// A number that ends with the text may lack digits.
    fn ends_in_number(&self) -> bool {
        self.text.ends_with(|ch: char| ch.is_ascii_digit() || ch == '.')
    }

    /// A name, dots and hyphens included (`weather.get`, `my-tool`); nothing is consumed when there is none.
    pub(super) fn name(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        if !rest.starts_with(|ch: char| ch.is_alphabetic() || ch == '_') {
            return None;
        }
        let end = rest.find(|ch: char| !(ch.is_alphanumeric() || matches!(ch, '_' | '.' | '-'))).unwrap_or(rest.len());
        self.pos += end;
        Some(&rest[..end])
    }

    /// `name(key=value, …)`
    pub(super) fn call(&mut self) -> Result<PyCall, PyError> {
        let start = self.pos;
        let Some(name) = self.name() else { return self.fail("expected the name of a tool") };
        if !self.eat(b'(') {
            return self.fail("expected '(' after the name of a tool");
        }
        let name = name.to_owned();
        let arguments = self.keywords()?;
        Ok(PyCall { name, arguments, wide: std::mem::take(&mut self.wide), start, end: self.pos })
    }

    /// The arguments after an opening parenthesis, up to and including the closing one.
    fn keywords(&mut self) -> Result<Map<String, Value>, PyError> {
        let mut arguments = Map::new();
        if self.eat(b')') {
            return Ok(arguments);
        }
        loop {
            self.blank();
            let at = self.pos;
            let key = self.name().unwrap_or_default();
            let key_end = self.pos;
            self.blank();
            if self.pos >= self.text.len() {
                return self.fail("the arguments are cut off");
            }
            if key.is_empty() || self.peek() != Some(b'=') {
                let mut ahead = Self { pos: at, ..Self::new(self.text, at) };
                let cut = matches!(ahead.value(), Err(PyError { eof: true, .. }));
                return Err(PyError { at, why: "an argument without a name", eof: cut });
            }
            self.pos += 1;
            self.blank();
            let start = self.pos;
            let value = self.value()?;
            self.keywords.push((at..key_end, start..self.pos));
            if arguments.insert(key.to_owned(), value).is_some() {
                return Err(PyError { at, why: "an argument is given twice", eof: false });
            }
            if self.closes(b')', "expected ',' or ')' after an argument")? {
                return Ok(arguments);
            }
        }
    }

    pub(super) fn value(&mut self) -> Result<Value, PyError> {
        self.blank();
        spend(1);
        match self.peek() {
            Some(b'\'' | b'"') => self.string(false).map(Value::String),
            Some(b'r' | b'R') if matches!(self.text.as_bytes().get(self.pos + 1), Some(b'\'' | b'"')) => {
                self.pos += 1;
                self.string(true).map(Value::String)
            }
            Some(b'[') => self.sequence(b']'),
            Some(b'(') => self.sequence(b')'),
            Some(b'{') => self.dict(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(byte) if byte.is_ascii_alphabetic() => self.word(),
            _ => self.fail("expected a literal value"),
        }
    }

    fn number(&mut self) -> Result<Value, PyError> {
        let mut json = Json::new(self.text, self.pos);
        let number = json.number().map_err(|error| PyError { at: error.at, why: error.why, eof: error.eof })?;
        self.pos = json.pos;
        self.wide.append(&mut json.wide);
        match self.peek() {
            Some(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.') => {
                self.fail("not a literal number")
            }
            _ => Ok(Value::Number(number)),
        }
    }

    fn word(&mut self) -> Result<Value, PyError> {
        let rest = self.rest();
        let end = rest.find(|ch: char| !(ch.is_alphanumeric() || ch == '_')).unwrap_or(rest.len());
        let value = match &rest[..end] {
            "True" | "true" => Value::Bool(true),
            "False" | "false" => Value::Bool(false),
            "None" | "null" => Value::Null,
            _ => {
                let eof = end == rest.len();
                return Err(PyError { at: self.pos, why: "a bare word is not a value; quote it", eof });
            }
        };
        self.pos += end;
        Ok(value)
    }

    fn deeper(&mut self) -> Result<(), PyError> {
        self.pos += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(PyError { at: self.pos, why: "nested deeper than 128 levels", eof: false });
        }
        Ok(())
    }

    fn sequence(&mut self, closer: u8) -> Result<Value, PyError> {
        self.deeper()?;
        let mut items = Vec::new();
        if !self.eat(closer) {
            loop {
                items.push(self.value()?);
                if self.closes(closer, "expected ',' or the closing bracket")? {
                    break;
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Array(items))
    }

    /// True if `byte` is next after whitespace; nothing is consumed. At the end of the text it is undecided.
    fn eat_ahead(&self, byte: u8) -> bool {
        self.rest().trim_start().as_bytes().first().is_none_or(|next| *next == byte)
    }

    fn dict(&mut self) -> Result<Value, PyError> {
        let open = self.pos;
        self.deeper()?;
        let mut map = Map::new();
        if !self.eat(b'}') {
            loop {
                self.blank();
                let at = self.pos;
                if !matches!(self.peek(), Some(b'\'' | b'"')) {
                    return self.fail("expected a key in quotes");
                }
                let key = self.string(false)?;
                if map.is_empty() && !self.eat_ahead(b':') {
                    // Without keys it is a set, which JSON knows as a list.
                    self.pos = open;
                    self.depth -= 1;
                    return self.sequence(b'}');
                }
                if !self.eat(b':') {
                    return self.fail("expected ':' after a key");
                }
                let value = self.value()?;
                if map.insert(key, value).is_some() {
                    return Err(PyError { at, why: "a key occurs twice in one dict", eof: false });
                }
                if self.closes(b'}', "expected ',' or '}' in a dict")? {
                    break;
                }
            }
        }
        self.depth -= 1;
        Ok(Value::Object(map))
    }
}

/// Writes a value as a Python literal.
pub(super) fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push_str(": ");
                write(item, out);
            }
            out.push('}');
        }
        // JSON's escapes are Python's as well.
        scalar => out.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<Value, PyError> {
        let mut python = Python::new(text, 0);
        let value = python.value()?;
        python.blank();
        if python.rest().is_empty() { Ok(value) } else { python.fail("text after the value") }
    }

    #[test]
    fn literals() {
        for (text, expected) in [
            ("'a'", json!("a")),
            (r#""it's""#, json!("it's")),
            (r"'it\'s \x41\u00e9\n\d'", json!("it's Aé\n\\d")),
            (r"'\ud83d\ude00'", json!("😀")),
            ("'''a\n'b'\n'''", json!("a\n'b'\n")),
            (r"r'\d+'", json!(r"\d+")),
            ("[1, -2.5, 'x',]", json!([1, -2.5, "x"])),
            ("(1, 2)", json!([1, 2])),
            ("{'a': {'b': [True, None, false, null]}}", json!({"a": {"b": [true, null, false, null]}})),
            ("1e3", json!(1e3)),
        ] {
            assert_eq!(read(text), Ok(expected), "{text}");
        }
        for text in
            ["a", "'a", "'it''s'", "{'a': 1, 'a': 2}", "{1: 2}", "1_000", "0x10", "[1 2]", "'a\nb'", "f'x'", "+1", ""]
        {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn calls() {
        let mut python = Python::new("f(a=1, b = 'x',)", 0);
        let call = python.call().unwrap();
        assert_eq!((call.name.as_str(), Value::Object(call.arguments)), ("f", json!({"a": 1, "b": "x"})));
        let fault = |text| Python::new(text, 0).call().map(|call| call.name).expect_err(text);
        assert_eq!(fault("f('x')").why, "an argument without a name");
        assert_eq!(fault("f(a=1, a=2)").why, "an argument is given twice");
        assert!(!fault("f('x')").eof);
        for text in ["f", "f(", "f(a", "f(a=", "f(a='x", "f(a='x'", "f(a=[1", "f(a=Tru", "f('x"] {
            assert!(fault(text).eof, "{text}");
        }
    }
}
