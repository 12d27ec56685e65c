//! HTML writer in which only this program's own literals are markup.
//!
//! [`put!`](crate::put) writes literals as they are and everything else escaped, by type: raw markup must be a literal of the
//! program, so no text of a run can become one.

use std::fmt::Write as _;

use crate::run::{Lenient, Word};

/// Markup that is safe to send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Html(String);

impl Html {
    pub fn new() -> Self {
        Self::default()
    }

    /// Markup of the program itself.
    pub fn raw(&mut self, markup: &'static str) {
        self.0.push_str(markup);
    }

    /// Text, escaped for elements and quoted attributes. Control characters and direction marks become visible.
    pub fn text(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' | '\t' => self.0.push(character),
                // Unicode control pictures, from U+2400 on.
                c if (c as u32) < 0x20 => self.0.extend(char::from_u32(0x2400 + c as u32)),
                '\u{7f}' => self.0.push('\u{2421}'),
                c if c.is_control() || crate::text::is_direction(c) => {
                    self.0.push('⟨');
                    let _ = write!(self.0, "U+{:04X}", c as u32);
                    self.0.push('⟩');
                }
                c => self.0.push(c),
            }
        }
    }

    pub fn add(&mut self, value: &(impl Put + ?Sized)) {
        value.put(self);
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

/// Values that [`put!`](crate::put) writes.
pub trait Put {
    fn put(&self, out: &mut Html);
}

impl Put for Html {
    fn put(&self, out: &mut Html) {
        out.0.push_str(&self.0);
    }
}

impl Put for str {
    fn put(&self, out: &mut Html) {
        out.text(self);
    }
}

impl Put for String {
    fn put(&self, out: &mut Html) {
        out.text(self);
    }
}

impl<W: Word> Put for Lenient<W> {
    fn put(&self, out: &mut Html) {
        out.text(self.as_str());
    }
}

impl<T: Put + ?Sized> Put for &T {
    fn put(&self, out: &mut Html) {
        (*self).put(out);
    }
}

impl<T: Put> Put for Option<T> {
    fn put(&self, out: &mut Html) {
        if let Some(value) = self {
            value.put(out);
        }
    }
}

macro_rules! numbers {
    ($($kind:ty),*) => {
        $(impl Put for $kind {
            fn put(&self, out: &mut Html) {
                out.0.push_str(&self.to_string());
            }
        })*
    };
}
numbers!(u32, u64, usize, i64);

/// Coordinates: one decimal is a tenth of a pixel.
impl Put for f64 {
    fn put(&self, out: &mut Html) {
        let _ = write!(out.0, "{self:.1}");
    }
}

/// Writes literals as markup and values as text: `put!(page, "<td>", name, "</td>")`.
#[macro_export]
macro_rules! put {
    ($out:expr $(,)?) => {};
    ($out:expr, $markup:literal $(, $($rest:tt)*)?) => {
        $out.raw($markup);
        $crate::put!($out $(, $($rest)*)?);
    };
    ($out:expr, $value:expr $(, $($rest:tt)*)?) => {
        $out.add(&$value);
        $crate::put!($out $(, $($rest)*)?);
    };
}

/// At most this many characters, and the number of omitted ones.
pub fn clipped(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((at, _)) => format!(
            "{}… ({} more characters)",
            &text[..at],
            crate::number::thousands(text[at..].chars().count() as u64)
        ),
    }
}

/// A part of a URL.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b':' => out.push(byte as char),
            other => _ = write!(out, "%{other:02X}"),
        }
    }
    out
}

/// A decoded part of a URL. Bytes that are not UTF-8 are replaced.
pub fn decoded(text: &str) -> String {
    let (mut bytes, mut out) = (text.bytes(), Vec::with_capacity(text.len()));
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digits = [bytes.next(), bytes.next()].map(|digit| char::from(digit.unwrap_or(b'?')).to_digit(16));
                match digits {
                    [Some(high), Some(low)] => out.push((high * 16 + low) as u8),
                    _ => out.push(b'?'),
                }
            }
            other => out.push(other),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_run_is_never_markup() {
        let hostile = "<script>alert('x')</script>\" onload=\"x&\u{1b}[31m\u{202e}\0";
        let mut page = Html::new();
        put!(page, "<p title=\"", hostile, "\">", hostile, "</p>");
        let inner = "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot; onload=&quot;x&amp;␛[31m⟨U+202E⟩␀";
        assert_eq!(page.as_str(), format!("<p title=\"{inner}\">{inner}</p>"));
    }

    #[test]
    fn urls_come_back() {
        for text in ["a b&c=d/é\u{202e}", "100%", ""] {
            assert_eq!(decoded(&encoded(text)), text);
        }
        assert_eq!(decoded("%zz%4"), "??");
        assert_eq!(clipped("äöü", 2), "äö… (1 more characters)");
    }
}
