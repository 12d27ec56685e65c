//! Python string literals and their escapes.

use super::{PyError, Python};
use crate::parse::{json::Json, work::spend};

impl Python<'_> {
    pub(super) fn string(&mut self, raw: bool) -> Result<String, PyError> {
        let start = self.pos;
        let result = self.string_text(raw);
        spend(self.pos - start);
        result
    }

    fn string_text(&mut self, raw: bool) -> Result<String, PyError> {
        let quote = &self.rest()[..1];
        let triple = quote.repeat(3);
        let (close, long) = if self.rest().starts_with(&triple) { (triple.as_str(), true) } else { (quote, false) };
        self.pos += close.len();
        let mut text = String::new();
        loop {
            let rest = self.rest();
            if rest.starts_with(close) {
                self.pos += close.len();
                return Ok(text);
            }
            let Some(ch) = rest.chars().next() else { return self.fail("a string is never closed") };
            match ch {
                '\\' if raw => {
                    // In a raw string a backslash stays, and still escapes the quote after it.
                    text.push('\\');
                    self.pos += 1;
                    if let Some(next) = self.rest().chars().next() {
                        text.push(next);
                        self.pos += next.len_utf8();
                    }
                }
                '\\' => self.escape(&mut text)?,
                '\n' | '\r' if !long && self.raw_lines.is_none() => return self.fail("a raw line break in a string"),
                '\n' | '\r' if !long => {
                    self.raw_lines = Some(true);
                    text.push(ch);
                    self.pos += 1;
                }
                _ => {
                    text.push(ch);
                    self.pos += ch.len_utf8();
                }
            }
        }
    }

    fn escape(&mut self, text: &mut String) -> Result<(), PyError> {
        let Some(kind) = self.rest()[1..].chars().next() else {
            self.pos = self.text.len();
            return self.fail("a string is never closed");
        };
        let simple = match kind {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            '\\' | '\'' | '"' => kind,
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'v' => '\u{b}',
            '0' if !self.rest()[2..].starts_with(|ch: char| ch.is_digit(8)) => '\0',
            '\n' => {
                self.pos += 2;
                return Ok(());
            }
            'x' => return self.hex_escape(2, text),
            'u' => return self.hex_escape(4, text),
            'U' => return self.hex_escape(8, text),
            '0'..='7' | 'N' => return self.fail("an escape that is not read; write the character itself"),
            other => {
                // Python keeps a backslash that escapes nothing.
                text.push('\\');
                self.pos += 1 + other.len_utf8();
                text.push(other);
                return Ok(());
            }
        };
        text.push(simple);
        self.pos += 2;
        Ok(())
    }

    fn hex_escape(&mut self, digits: usize, text: &mut String) -> Result<(), PyError> {
        let rest = &self.rest()[2..];
        let Some(hex) = rest.get(..digits) else {
            let eof = rest.len() < digits;
            return Err(PyError { at: self.pos, why: "an escape is cut off", eof });
        };
        let code = u32::from_str_radix(hex, 16).ok().filter(|_| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        // A surrogate pair is two escapes of one character; JSON's rule covers it.
        if let Some(0xD800..0xE000) = code {
            let mut json = Json::new(self.text, self.pos);
            let ch = json.escape().map_err(|error| PyError { at: error.at, why: error.why, eof: error.eof })?;
            text.push(ch);
            self.pos = json.pos;
            return Ok(());
        }
        match code.and_then(char::from_u32) {
            Some(ch) => {
                text.push(ch);
                self.pos += 2 + digits;
                Ok(())
            }
            None => self.fail("an escape that is no character"),
        }
    }
}
