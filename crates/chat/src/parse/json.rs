//! Strict JSON scanner, shared by all formats.
//!
//! It pulls one value at a time from a position in the reply, so that a call is read in place, without copying its text
//! and without knowing where it ends. It accepts exactly RFC 8259; [`super::repair`] handles broken JSON. Two things
//! serde_json does silently are faults here: a repeated key (one of the two values would be lost) and an integer beyond
//! 64 bits (it would become the nearest float), which is kept as text beside the value, see [`Wide`].

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use super::work::spend;

/// Deepest nesting that is read. Tool arguments never get close; a hostile reply of a million brackets stops here.
pub const MAX_DEPTH: usize = 128;

/// Source text of the numbers of a value that 64 bits cannot hold, in document order.
///
/// `serde_json::Value` stores it as the nearest float. Every number of magnitude 2^63 or more that is held as a float
/// has its entry, so that [`write_exact`] can print the value with the digits the model wrote.
pub(super) type Wide = Vec<Box<str>>;

/// Bytes at which the run of a string's plain bytes ends: its quote, a backslash, a control character.
const SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        special[byte] = true;
        byte += 1;
    }
    special[b'"' as usize] = true;
    special[b'\\' as usize] = true;
    special
};

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

    /// Reads a string; `pos` is at its opening quote. Borrows when there is nothing to unescape.
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        let start = self.pos;
        let result = self.string_text();
        spend(self.pos - start);
        result
    }

    fn string_text(&mut self) -> Result<Cow<'a, str>, JsonError> {
        let bytes = self.text.as_bytes();
        self.pos += 1;
        let mut run = self.pos;
        let mut owned: Option<String> = None;
        loop {
            let plain = bytes[self.pos..].iter().position(|byte| SPECIAL[usize::from(*byte)]);
            let Some(length) = plain else {
                self.pos = bytes.len();
                return self.fail("a string is never closed");
            };
            self.pos += length;
            match bytes[self.pos] {
                b'"' => {
                    let tail = &self.text[run..self.pos];
                    self.pos += 1;
                    return Ok(match owned {
                        None => Cow::Borrowed(tail),
                        Some(mut text) => {
                            text.push_str(tail);
                            Cow::Owned(text)
                        }
                    });
                }
                b'\\' => {
                    let text = &self.text[run..self.pos];
                    let ch = self.escape()?;
                    let owned = owned.get_or_insert_with(String::new);
                    owned.push_str(text);
                    owned.push(ch);
                    run = self.pos;
                }
                _ => return self.fail("a raw control character in a string"),
            }
        }
    }

    /// Reads an escape; `pos` is at the backslash.
    pub(super) fn escape(&mut self) -> Result<char, JsonError> {
        let Some(&kind) = self.text.as_bytes().get(self.pos + 1) else {
            self.pos = self.text.len();
            return self.fail("a string is never closed");
        };
        let ch = match kind {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return self.fail("an escape JSON does not have"),
        };
        self.pos += 2;
        Ok(ch)
    }

    fn unicode_escape(&mut self) -> Result<char, JsonError> {
        let high = self.hex4(self.pos + 2)?;
        if !(0xD800..0xE000).contains(&high) {
            self.pos += 6;
            return char::from_u32(high).map_or_else(|| self.fail("an escape that is no character"), Ok);
        }
        let low = if self.text.as_bytes()[self.pos + 6..].starts_with(b"\\u") { self.hex4(self.pos + 8)? } else { 0 };
        if !(0xD800..0xDC00).contains(&high) || !(0xDC00..0xE000).contains(&low) {
            let eof = self.text.len() <= self.pos + 7;
            return Err(JsonError { at: self.pos, why: "half of a surrogate pair", eof });
        }
        self.pos += 12;
        char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
            .map_or_else(|| self.fail("an escape that is no character"), Ok)
    }

    fn hex4(&self, at: usize) -> Result<u32, JsonError> {
        let bytes = self.text.as_bytes();
        let mut code = 0;
        for index in at..at + 4 {
            let Some(&byte) = bytes.get(index) else {
                return Err(JsonError { at: bytes.len(), why: "a string is never closed", eof: true });
            };
            let Some(digit) = char::from(byte).to_digit(16) else {
                return Err(JsonError { at: self.pos, why: "\\u needs four hexadecimal digits", eof: false });
            };
            code = code * 16 + digit;
        }
        Ok(code)
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

/// True if digits of the number may have been lost.
fn is_wide(number: &Number) -> bool {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    !number.is_i64() && !number.is_u64() && number.as_f64().is_some_and(|float| float.abs() >= LIMIT)
}

/// Takes from the numbers of a larger value those that belong to `value`, its next part.
pub(super) fn take_wide(value: &Value, wide: &mut Wide) -> Wide {
    fn count(value: &Value) -> usize {
        match value {
            Value::Number(number) => usize::from(is_wide(number)),
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(map) => map.values().map(count).sum(),
            _ => 0,
        }
    }
    if wide.is_empty() {
        return Wide::new();
    }
    let taken = count(value).min(wide.len());
    wide.drain(..taken).collect()
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

/// Writes a value as JSON, with the digits of `wide` where 64 bits could not hold them.
pub(super) fn write_exact(value: &Value, wide: &mut std::slice::Iter<'_, Box<str>>, out: &mut String) {
    match value {
        Value::Number(number) if is_wide(number) => match wide.next() {
            Some(digits) => out.push_str(digits),
            None => out.push_str(&number.to_string()),
        },
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write_exact(item, wide, out);
            }
            out.push(']');
        }
        Value::Object(map) => write_exact_map(map, wide, out),
        scalar => out.push_str(&scalar.to_string()),
    }
}

pub(super) fn write_exact_map(map: &Map<String, Value>, wide: &mut std::slice::Iter<'_, Box<str>>, out: &mut String) {
    out.push('{');
    for (index, (key, item)) in map.iter().enumerate() {
        out.push_str(if index > 0 { "," } else { "" });
        out.push_str(&Value::String(key.clone()).to_string());
        out.push(':');
        write_exact(item, wide, out);
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;

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
