//! Python's `json.loads` and `json.dumps` with their defaults.
//!
//! Not serde_json, because the two differ visibly: Python keeps integers of any size, reads `NaN` and `Infinity`,
//! escapes everything beyond ASCII, and writes floats its own way.

use std::fmt::Write as _;
use std::sync::Arc;

use num_bigint::BigInt;

use super::{Dict, Value, text};

/// Deeper nesting is refused: Python raises `RecursionError` near a thousand levels, and no record needs ten.
const MAX_DEPTH: usize = 256;

/// Reason why a text is not JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not JSON at byte {at}: {what}")]
pub struct BadJson {
    pub at: usize,
    pub what: &'static str,
}

/// `json.loads(text)`.
pub(crate) fn loads(text: &str) -> Result<Value, BadJson> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.space();
    if reader.at == text.len() { Ok(value) } else { Err(reader.bad("extra data after the value")) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn bad(&self, what: &'static str) -> BadJson {
        BadJson { at: self.at, what }
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), BadJson> {
        self.space();
        if self.peek() != Some(byte) {
            return Err(self.bad(what));
        }
        self.at += 1;
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Value, BadJson> {
        if depth > MAX_DEPTH {
            return Err(self.bad("nested too deep"));
        }
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Value::str(self.string()?)),
            Some(_) => self.word(),
            None => Err(self.bad("a value is missing")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, BadJson> {
        self.at += 1;
        let mut dict = Dict::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Dict(Arc::new(dict)));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.bad("a key in double quotes is missing"));
            }
            let key: Arc<str> = self.string()?.into();
            self.expect(b':', "':' is missing")?;
            let value = self.value(depth + 1)?;
            dict.insert(key, value);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Dict(Arc::new(dict)));
                }
                _ => return Err(self.bad("',' or '}' is missing")),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, BadJson> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::list(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::list(items));
                }
                _ => return Err(self.bad("',' or ']' is missing")),
            }
        }
    }

    fn string(&mut self) -> Result<String, BadJson> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let plain = self.rest().find(['"', '\\']).ok_or_else(|| self.bad("a string is not closed"))?;
            let piece = &self.text[self.at..self.at + plain];
            if piece.bytes().any(|byte| byte < 0x20) {
                return Err(self.bad("a control character in a string"));
            }
            out.push_str(piece);
            self.at += plain + 1;
            if self.text.as_bytes()[self.at - 1] == b'"' {
                return Ok(out);
            }
            out.push(self.escape()?);
        }
    }

    fn escape(&mut self) -> Result<char, BadJson> {
        let c = self.peek().ok_or_else(|| self.bad("a string is not closed"))?;
        self.at += 1;
        Ok(match c {
            b'"' | b'\\' | b'/' => char::from(c),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return Err(self.bad("an unknown escape")),
        })
    }

    fn unicode(&mut self) -> Result<char, BadJson> {
        let first = self.hex4()?;
        let code = if (0xd800..0xdc00).contains(&first) && self.rest().starts_with("\\u") {
            self.at += 2;
            let second = self.hex4()?;
            if (0xdc00..0xe000).contains(&second) {
                0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
            } else {
                first
            }
        } else {
            first
        };
        // Python would keep a lone surrogate and fail later, when the text is encoded; here it cannot be represented.
        char::from_u32(code).ok_or_else(|| self.bad("a lone surrogate"))
    }

    fn hex4(&mut self) -> Result<u32, BadJson> {
        let digits = self.rest().get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        self.at += 4;
        code.ok_or(BadJson { at: self.at - 4, what: "\\u needs four hex digits" })
    }

    fn word(&mut self) -> Result<Value, BadJson> {
        const WORDS: [(&str, Value); 6] = [
            ("null", Value::None),
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
            ("NaN", Value::Float(f64::NAN)),
            ("Infinity", Value::Float(f64::INFINITY)),
            ("-Infinity", Value::Float(f64::NEG_INFINITY)),
        ];
        for (word, value) in WORDS {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        self.number()
    }

    fn digits(&mut self) -> usize {
        let from = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - from
    }

    fn number(&mut self) -> Result<Value, BadJson> {
        let from = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else if self.digits() == 0 {
            return Err(self.bad("a value is missing"));
        }
        let whole = self.at;
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return Err(self.bad("digits are missing after the point"));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(self.bad("digits are missing in the exponent"));
            }
        }
        let spelt = &self.text[from..self.at];
        if self.at > whole {
            return spelt.parse().map(Value::Float).map_err(|_| self.bad("a number"));
        }
        match spelt.parse() {
            Ok(small) => Ok(Value::Int(small)),
            // Python refuses longer ones too, to bound the quadratic conversion.
            Err(_) if spelt.len() > 4301 => Err(self.bad("an integer of more than 4300 digits")),
            Err(_) => spelt.parse::<BigInt>().map(Value::integer).map_err(|_| self.bad("a number")),
        }
    }
}

/// `json.dumps(value)`: ", " and ": ", ASCII only, keys in insertion order.
pub fn dumps(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, Keys::AsInserted);
    out
}

/// The order in which the keys of a dictionary are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    AsInserted,
    Sorted,
}

pub fn write(out: &mut String, value: &Value, keys: Keys) {
    match value {
        Value::None => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Float(number) if number.is_nan() => out.push_str("NaN"),
        Value::Float(number) if number.is_infinite() => {
            out.push_str(if *number > 0.0 { "Infinity" } else { "-Infinity" });
        }
        Value::Int(_) | Value::Big(_) | Value::Float(_) => text::write_scalar_repr(out, value),
        Value::Str(text) => write_string(out, text),
        Value::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                write(out, item, keys);
            }
            out.push(']');
        }
        Value::Dict(dict) => write_dict(out, dict, keys),
    }
}

fn write_dict(out: &mut String, dict: &Dict, keys: Keys) {
    let mut entries: Vec<_> = dict.iter().collect();
    if keys == Keys::Sorted {
        entries.sort_by(|a, b| a.0.cmp(b.0));
    }
    out.push('{');
    for (at, (key, item)) in entries.into_iter().enumerate() {
        out.push_str(if at == 0 { "" } else { ", " });
        write_string(out, key);
        out.push_str(": ");
        write(out, item, keys);
    }
    out.push('}');
}

pub(crate) fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_json_comes_back_as_python_writes_it() {
        let same = [
            "{\"b\": 1, \"a\": [null, true, 1.0, -0.0, 1e+16, 100000000000000000000]}",
            "[NaN, Infinity, -Infinity]",
            "\"\\ud83d\\ude00 \\u00e9 \\u007f \\\\ \\\" \\n\"",
        ];
        for text in same {
            assert_eq!(dumps(&loads(text).unwrap()), text);
        }
        assert_eq!(dumps(&loads(" [1e2 , 0.1]\n").unwrap()), "[100.0, 0.1]");
        assert_eq!(dumps(&loads("{\"a\": 1, \"b\": 2, \"a\": 3}").unwrap()), "{\"a\": 3, \"b\": 2}");
    }

    #[test]
    fn what_is_not_json_is_refused_without_a_panic() {
        let deep = "[".repeat(100_000);
        for text in ["", "[", "{\"a\"}", "01", "1.", "[1,]", "\"\\u12\"", "\"\\ud800\"", "nul", "1 2", "-", &deep] {
            assert!(loads(text).is_err(), "{text:.20}");
        }
    }
}
