//! Strict JSON scanner, shared by all formats.
//!
//! It pulls one value at a time from a position in the reply, so that a call is read in place, without copying its text
//! and without knowing where it ends. It accepts exactly RFC 8259; [`super::tolerant`] handles broken JSON. Two things
//! serde_json does silently are faults here: a repeated key (one of the two values would be lost) and an integer beyond
//! 64 bits (it would become the nearest float), which is kept as text beside the value, see [`Wide`].

mod strings;

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use super::wide::{Wide, is_wide};
use super::work::spend;

/// Deepest nesting that is read. Tool arguments never get close; a hostile reply of a million brackets stops here.
pub const MAX_DEPTH: usize = 128;

/// Reason why a value could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JsonError {
    pub at: usize,
    pub why: &'static str,
    /// The text ended where more was needed.
    pub eof: bool,
}

/// One member of an object that is read member by member.
#[derive(Debug)]
pub(super) struct Field<'a> {
    pub key: Cow<'a, str>,
    pub value: Value,
    pub wide: Wide,
}

pub(super) struct Json<'a> {
    text: &'a str,
    pub pos: usize,
    depth: usize,
    pub wide: Wide,
}

impl<'a> Json<'a> {
    pub(super) fn new(text: &'a str, pos: usize) -> Self {
        Self { text, pos, depth: 0, wide: Wide::new() }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos).copied()
    }

    pub(crate) fn whitespace(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.pos += 1;
        }
    }

    /// Skips whitespace and takes `byte` when it is next.
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        self.whitespace();
        let found = self.peek() == Some(byte);
        self.pos += usize::from(found);
        found
    }

    fn fail<T>(&self, why: &'static str) -> Result<T, JsonError> {
        Err(JsonError { at: self.pos, why, eof: self.pos >= self.text.len() })
    }

    fn deeper(&mut self) -> Result<(), JsonError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(JsonError { at: self.pos, why: "nested deeper than 128 levels", eof: false });
        }
        Ok(())
    }

    pub(super) fn value(&mut self) -> Result<Value, JsonError> {
        let before = self.pos;
        self.whitespace();
        spend(self.pos - before + 1);
        match self.peek() {
            Some(b'"') => Ok(Value::String(self.string()?.into_owned())),
            Some(b'{') => self.object().map(Value::Object),
            Some(b'[') => self.array(),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            Some(_) => self.fail("expected a JSON value"),
            None => self.fail("expected a JSON value, found the end"),
        }
    }

    fn literal(&mut self, word: &'static str, value: Value) -> Result<Value, JsonError> {
        let rest = &self.text.as_bytes()[self.pos..];
        if rest.starts_with(word.as_bytes()) {
            self.pos += word.len();
            Ok(value)
        } else if word.as_bytes().starts_with(rest) {
            self.pos = self.text.len();
            self.fail("a literal is cut off")
        } else {
            self.fail("expected a JSON value")
        }
    }

    fn array(&mut self) -> Result<Value, JsonError> {
        let mut items = Vec::new();
        self.items(|json| {
            items.push(json.value()?);
            Ok(())
        })?;
        Ok(Value::Array(items))
    }

    /// Reads an array; calls back at the start of each item.
    pub(super) fn items(&mut self, mut item: impl FnMut(&mut Self) -> Result<(), JsonError>) -> Result<(), JsonError> {
        self.deeper()?;
        if !self.eat(b'[') {
            return self.fail("expected an array");
        }
        if !self.eat(b']') {
            loop {
                self.whitespace();
                item(self)?;
                if self.eat(b',') {
                    continue;
                }
                if self.eat(b']') {
                    break;
                }
                return self.fail("expected ',' or ']' in an array");
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn object(&mut self) -> Result<Map<String, Value>, JsonError> {
        let mut map = Map::new();
        self.members(|json, key, at| {
            let value = json.value()?;
            if map.insert(key.into_owned(), value).is_some() {
                return Err(JsonError { at, why: "a key occurs twice in one object", eof: false });
            }
            Ok(())
        })?;
        Ok(map)
    }

    /// Reads an object as a list of members: cheaper than a map for the two or three keys of a call.
    pub(super) fn fields(&mut self) -> Result<Vec<Field<'a>>, JsonError> {
        let mut fields = Vec::with_capacity(4);
        self.members(|json, key, _| {
            let value = json.value()?;
            fields.push(Field { key, value, wide: std::mem::take(&mut json.wide) });
            Ok(())
        })?;
        Ok(fields)
    }

    /// Reads an object; calls back at the start of each member's value, with its key and position.
    pub(super) fn members(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>, usize) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        self.deeper()?;
        if !self.eat(b'{') {
            return self.fail("expected an object");
        }
        if !self.eat(b'}') {
            loop {
                self.whitespace();
                let at = self.pos;
                if self.peek() != Some(b'"') {
                    return self.fail("expected a key in double quotes");
                }
                let key = self.string()?;
                if !self.eat(b':') {
                    return self.fail("expected ':' after a key");
                }
                member(self, key, at)?;
                if self.eat(b',') {
                    continue;
                }
                if self.eat(b'}') {
                    break;
                }
                return self.fail("expected ',' or '}' in an object");
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Skips a value without building it: the cheapest way to find out that text is not JSON. Repeated keys pass.
    pub(super) fn skip(&mut self) -> Result<(), JsonError> {
        // The open brackets as bits, 1 for an object; nesting is bounded by their number.
        let (mut open, mut depth) = (0_u128, 0);
        loop {
            self.whitespace();
            match self.peek() {
                Some(bracket @ (b'{' | b'[')) => {
                    depth += 1;
                    if depth > MAX_DEPTH {
                        return Err(JsonError { at: self.pos, why: "nested deeper than 128 levels", eof: false });
                    }
                    self.pos += 1;
                    open = open << 1 | u128::from(bracket == b'{');
                    let closer = if bracket == b'{' { b'}' } else { b']' };
                    if !self.eat(closer) {
                        if bracket == b'{' {
                            self.skip_key()?;
                        }
                        continue;
                    }
                    open >>= 1;
                    depth -= 1;
                }
                Some(b'"') => {
                    self.string()?;
                }
                _ => {
                    self.value()?;
                }
            }
            // After a value: consume closers, up to a comma or the end of the outermost.
            loop {
                if depth == 0 {
                    return Ok(());
                }
                let object = open & 1 == 1;
                if self.eat(b',') {
                    if object {
                        self.skip_key()?;
                    }
                    break;
                }
                if !self.eat(if object { b'}' } else { b']' }) {
                    return self.fail("expected ',' or a closing bracket");
                }
                open >>= 1;
                depth -= 1;
            }
        }
    }

    fn skip_key(&mut self) -> Result<(), JsonError> {
        self.whitespace();
        if self.peek() != Some(b'"') {
            return self.fail("expected a key in double quotes");
        }
        self.string()?;
        if self.eat(b':') { Ok(()) } else { self.fail("expected ':' after a key") }
    }

    pub(super) fn number(&mut self) -> Result<Number, JsonError> {
        let start = self.pos;
        let negative = self.peek() == Some(b'-');
        self.pos += usize::from(negative);
        let digits = self.pos;
        self.digits()?;
        if self.text.as_bytes()[digits] == b'0' && self.pos - digits > 1 {
            self.pos = digits;
            return self.fail("a number starts with a superfluous zero");
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            integer = false;
            self.pos += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            integer = false;
            self.pos += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.pos += 1;
            }
            self.digits()?;
        }
        let text = &self.text[start..self.pos];
        if integer && !(negative && text == "-0") {
            if let Ok(small) = text.parse::<i64>() {
                return Ok(small.into());
            }
            if let Ok(large) = text.parse::<u64>() {
                return Ok(large.into());
            }
        }
        let Some(number) = text.parse().ok().and_then(Number::from_f64) else {
            self.pos = start;
            return self.fail("a number too large to hold");
        };
        if is_wide(&number) {
            self.wide.push(text.into());
        }
        Ok(number)
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.pos;
        while let Some(b'0'..=b'9') = self.peek() {
            self.pos += 1;
        }
        if self.pos == start { self.fail("expected a digit") } else { Ok(()) }
    }
}

/// Reads `text` as exactly one JSON value.
pub(super) fn read_all(text: &str) -> Result<(Value, Wide), JsonError> {
    let mut json = Json::new(text, 0);
    let value = json.value()?;
    json.whitespace();
    if json.pos < text.len() {
        return Err(JsonError { at: json.pos, why: "text after the JSON value", eof: false });
    }
    Ok((value, json.wide))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::wide::write_exact;

    fn error(text: &str) -> JsonError {
        read_all(text).expect_err(text)
    }

    #[test]
    fn agrees_with_serde_json() {
        for text in [
            r#"{"a": [1, -2.5, 1e-7, true, false, null, "x\n\u00e9\ud83d\ude00"], "b": {}}"#,
            "[]",
            " { } ",
            "18446744073709551615",
            "-9223372036854775808",
            "-0",
            "0.1",
            r#""\/\b\f\r\t\"\\""#,
        ] {
            assert_eq!(read_all(text).unwrap().0, serde_json::from_str::<Value>(text).unwrap(), "{text}");
            let mut json = Json::new(text, 0);
            assert_eq!(json.skip(), Ok(()), "{text}");
            assert_eq!(json.pos, text.trim_end().len(), "{text}");
        }
        for text in
            ["", "{", "[1,]", "{\"a\":1,}", "01", "1.", ".5", "+1", "tru", "\"\\x\"", "\"a\nb\"", "{a:1}", "1 2"]
        {
            assert!(serde_json::from_str::<Value>(text).is_err());
            error(text);
        }
    }

    #[test]
    fn the_end_of_the_text_is_told_from_a_fault_in_it() {
        for text in ["{", "[", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":1", "[1,", "\"\\", "\"\\u00", "tru", "-", "1."] {
            assert!(error(text).eof, "{text}");
            assert!(Json::new(text, 0).skip().is_err_and(|error| error.eof), "{text}");
        }
        for text in ["{]", "[}", "{\"a\" 1}", "\"\\x\"", "trux", "{\"a\":1 \"b\"", "-x"] {
            assert!(!error(text).eof, "{text}");
            assert!(Json::new(text, 0).skip().is_err_and(|error| !error.eof), "{text}");
        }
    }

    #[test]
    fn digits_beyond_64_bits_are_kept() {
        let text = r#"{"a":123456789012345678901234567890,"b":[1,1e30,-98765432109876543210]}"#;
        let (value, wide) = read_all(text).unwrap();
        assert_eq!(wide.len(), 3);
        let mut out = String::new();
        write_exact(&value, &mut wide.iter(), &mut out);
        assert_eq!(out, text);
    }

    #[test]
    fn nesting_is_bounded() {
        let fits = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
        assert!(read_all(&fits).is_ok());
        let deep = "[".repeat(100_000);
        assert_eq!(error(&deep).why, "nested deeper than 128 levels");
        assert_eq!(error(&deep).at, MAX_DEPTH);
        assert!(read_all(&"{\"a\":".repeat(100_000)).is_err());
    }

    #[test]
    fn a_repeated_key_is_a_fault() {
        let fault = error(r#"{"a": 1, "a": 2}"#);
        assert_eq!((fault.at, fault.why), (9, "a key occurs twice in one object"));
    }
}
