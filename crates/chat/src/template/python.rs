//! Python's `str`, `repr` and `json.dumps` over template values.
//!
//! Chat templates were written against CPython: a float, a list or a union type that prints differently is a different
//! prompt. This file knows nothing about templates, only how Python prints values.

use std::fmt::Write as _;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use super::meter;
use super::value::{DictView, WideFloat};

/// Maximum depth of a value. Deeper ones are refused: they cannot come from JSON text (whose reader stops at 128), and
/// each level costs a stack frame.
pub(super) const MAX_DEPTH: usize = 256;

/// `str(value)`, with Jinja's reading of an undefined value as the empty string.
pub(super) fn to_str(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    if value.is_undefined() {
        return Ok(String::new());
    }
    let mut out = String::new();
    write_repr(&mut out, value, 0)?;
    Ok(out)
}

/// `repr(value)`.
pub(super) fn write_repr(out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
    check(out, depth)?;
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::String => write_str_repr(out, value.as_str().unwrap_or_default()),
        ValueKind::Number => write_number(out, value, "nan", "inf"),
        ValueKind::Seq | ValueKind::Iterable => {
            let (open, close) = if value.is_tuple() { ('(', ')') } else { ('[', ']') };
            let view = value.downcast_object_ref::<DictView>();
            if let Some(view) = view {
                let _ = write!(out, "dict_{}(", view.name());
            }
            out.push(open);
            let mut count = 0;
            for item in value.try_iter()? {
                separate(out, count, ", ");
                write_repr(out, &item, depth + 1)?;
                count += 1;
            }
            if value.is_tuple() && count == 1 {
                out.push(',');
            }
            out.push(close);
            if view.is_some() {
                out.push(')');
            }
        }
        ValueKind::Map => {
            out.push('{');
            for (index, key) in value.try_iter()?.enumerate() {
                separate(out, index, ", ");
                write_repr(out, &key, depth + 1)?;
                out.push_str(": ");
                write_repr(out, &value.get_item(&key)?, depth + 1)?;
            }
            out.push('}');
        }
        // None, True, False, bytes and the engine's own objects print the same in both.
        _ => {
            let _ = write!(out, "{value}");
        }
    }
    Ok(())
}

fn separate(out: &mut String, index: usize, separator: &str) {
    if index > 0 {
        out.push_str(separator);
    }
}

fn check(out: &str, depth: usize) -> Result<(), Error> {
    meter::check_string(out.len())?;
    if depth > MAX_DEPTH {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("a value is nested deeper than {MAX_DEPTH} levels"),
        ));
    }
    Ok(())
}

/// Python quotes with `'` unless that would need escaping and `"` would not, and escapes what is not printable.
fn write_str_repr(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c if (c as u32) < 0x100 => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c if (c as u32) < 0x1_0000 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => {
                let _ = write!(out, "\\U{:08x}", c as u32);
            }
        }
    }
    out.push(quote);
}

/// Python's `str.isprintable` for one character. The standard library's table behind `escape_debug` is built from the
/// same Unicode categories; the leading letter keeps it from escaping combining marks, which Python prints.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    let mut buffer = [0; 5];
    buffer[0] = b'x';
    let len = c.encode_utf8(&mut buffer[1..]).len();
    let text = std::str::from_utf8(&buffer[..=len]).unwrap_or_default();
    text.escape_debug().nth(1) == Some(c)
}

fn write_number(out: &mut String, value: &Value, nan: &str, infinity: &str) {
    if value.is_integer() {
        let _ = write!(out, "{value}");
        return;
    }
    match f64::try_from(value.clone()) {
        Ok(float) => write_float(out, float, nan, infinity),
        Err(_) => {
            let _ = write!(out, "{value}");
        }
    }
}

/// `float.__repr__`: the shortest digits that read back, in positional notation for exponents from -4 to 15.
pub(super) fn write_float(out: &mut String, float: f64, nan: &str, infinity: &str) {
    if float.is_nan() {
        return out.push_str(nan);
    }
    if float.is_infinite() {
        if float < 0.0 {
            out.push('-');
        }
        return out.push_str(infinity);
    }
    let scientific = format!("{float:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let fixed = format!("{float}");
        out.push_str(&fixed);
        if !fixed.contains('.') {
            out.push_str(".0");
        }
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.abs());
    }
}

/// The options of `json.dumps` that `apply_chat_template` passes to templates.
#[derive(Debug, Clone)]
pub(super) struct JsonStyle {
    pub(super) ensure_ascii: bool,
    pub(super) indent: Option<String>,
    pub(super) separators: Option<(String, String)>,
    pub(super) sort_keys: bool,
}

impl JsonStyle {
    fn item_separator(&self) -> &str {
        match &self.separators {
            Some((item, _)) => item,
            None if self.indent.is_some() => ",",
            None => ", ",
        }
    }

    fn key_separator(&self) -> &str {
        self.separators.as_ref().map_or(": ", |(_, key)| key)
    }
}

/// `json.dumps(value, …)`.
pub(super) fn dumps(value: &Value, style: &JsonStyle) -> Result<String, Error> {
    let mut out = String::new();
    write_json(&mut out, value, style, 0)?;
    Ok(out)
}

fn write_json(out: &mut String, value: &Value, style: &JsonStyle, depth: usize) -> Result<(), Error> {
    check(out, depth)?;
    if let Some(WideFloat(float)) = value.downcast_object_ref() {
        write_float(out, *float, "NaN", "Infinity");
        return Ok(());
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => write_number(out, value, "NaN", "Infinity"),
        ValueKind::String => write_json_string(out, value.as_str().unwrap_or_default(), style.ensure_ascii),
        ValueKind::Map => return write_json_object(out, value, style, depth),
        ValueKind::Seq | ValueKind::Iterable if value.downcast_object_ref::<DictView>().is_none() => {
            let mut count = 0;
            out.push('[');
            for item in value.try_iter()? {
                separate(out, count, style.item_separator());
                write_indent(out, style, depth + 1);
                write_json(out, &item, style, depth + 1)?;
                count += 1;
            }
            if count > 0 {
                write_indent(out, style, depth);
            }
            out.push(']');
        }
        kind => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("tojson: a value of type {kind} has no JSON form; check that the variable is defined"),
            ));
        }
    }
    Ok(())
}

fn write_json_object(out: &mut String, value: &Value, style: &JsonStyle, depth: usize) -> Result<(), Error> {
    let mut keys: Vec<Value> = value.try_iter()?.collect();
    if style.sort_keys {
        keys.sort();
    }
    out.push('{');
    for (index, key) in keys.iter().enumerate() {
        separate(out, index, style.item_separator());
        write_indent(out, style, depth + 1);
        if let Some(text) = key.as_str() {
            write_json_string(out, text, style.ensure_ascii);
        } else {
            out.push('"');
            write_json(out, key, style, depth + 1)?;
            out.push('"');
        }
        out.push_str(style.key_separator());
        write_json(out, &value.get_item(key)?, style, depth + 1)?;
    }
    if !keys.is_empty() {
        write_indent(out, style, depth);
    }
    out.push('}');
    Ok(())
}

fn write_indent(out: &mut String, style: &JsonStyle, depth: usize) {
    if let Some(indent) = &style.indent {
        out.push('\n');
        for _ in 0..depth {
            out.push_str(indent);
        }
    }
}

fn write_json_string(out: &mut String, text: &str, ensure_ascii: bool) {
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
            c if (c as u32) < 0x20 || (ensure_ascii && !(' '..='~').contains(&c)) => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// White space as Python's `str.strip` and `str.split` see it: Unicode's, and the four ASCII separators.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Line boundaries of `str.splitlines`, `\r\n` aside.
pub(super) fn is_line_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values were read off CPython 3.11.
    #[test]
    fn floats_print_as_python_prints_them() {
        for (float, expected) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1e-7, "1e-07"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (1e22, "1e+22"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            let mut out = String::new();
            write_float(&mut out, float, "nan", "inf");
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn strings_are_quoted_as_python_quotes_them() {
        for (text, expected) in [
            ("plain", "'plain'"),
            ("it's", "\"it's\""),
            ("it's \"both\"", "'it\\'s \"both\"'"),
            ("a\nb\\", "'a\\nb\\\\'"),
            ("\u{7f}\u{0}", "'\\x7f\\x00'"),
            ("e\u{301}", "'e\u{301}'"),
            ("\u{2028}", "'\\u2028'"),
            ("\u{a0}", "'\\xa0'"),
            ("\u{200b}", "'\\u200b'"),
            ("\u{1f600}", "'\u{1f600}'"),
            ("\u{e0001}", "'\\U000e0001'"),
        ] {
            let mut out = String::new();
            write_str_repr(&mut out, text);
            assert_eq!(out, expected);
        }
    }
}
