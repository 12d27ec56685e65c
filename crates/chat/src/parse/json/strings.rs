//! Strings of JSON and their escapes.

use std::borrow::Cow;

use super::{Json, JsonError};
use crate::parse::work::spend;

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

impl<'a> Json<'a> {
    /// Reads a string; `pos` is at its opening quote. Borrows when there is nothing to unescape.
    pub(in crate::parse) fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
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
    pub(in crate::parse) fn escape(&mut self) -> Result<char, JsonError> {
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
}
