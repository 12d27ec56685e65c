//! `repr`, `str` and Python's spelling of floats.

use std::fmt::Write as _;

use super::Value;

/// `repr(x)`.
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(&mut out, value);
    out
}

/// `str(x)`, as also shown by an f-string.
pub fn str(value: &Value) -> String {
    match value {
        Value::Str(text) => text.to_string(),
        other => repr(other),
    }
}

pub fn write_repr(out: &mut String, value: &Value) {
    match value {
        Value::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                write_repr(out, item);
            }
            out.push(']');
        }
        Value::Dict(dict) => {
            out.push('{');
            for (at, (key, item)) in dict.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                write_str_repr(out, key);
                out.push_str(": ");
                write_repr(out, item);
            }
            out.push('}');
        }
        scalar => write_scalar_repr(out, scalar),
    }
}

/// `repr` of anything but a container; containers write nothing.
pub(crate) fn write_scalar_repr(out: &mut String, value: &Value) {
    // Writing to a String cannot fail.
    let _ = match value {
        Value::None => write!(out, "None"),
        Value::Bool(flag) => write!(out, "{}", if *flag { "True" } else { "False" }),
        Value::Int(number) => write!(out, "{number}"),
        Value::Big(number) => write!(out, "{number}"),
        Value::Float(number) => write!(out, "{}", float_repr(*number)),
        Value::Str(text) => {
            write_str_repr(out, text);
            Ok(())
        }
        Value::List(_) | Value::Dict(_) => Ok(()),
    };
}

/// Single quotes, unless the text has one and no double quote.
pub fn write_str_repr(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        let _ = match c {
            '\\' => write!(out, "\\\\"),
            '\n' => write!(out, "\\n"),
            '\r' => write!(out, "\\r"),
            '\t' => write!(out, "\\t"),
            c if c == quote => write!(out, "\\{c}"),
            ' '..='~' => write!(out, "{c}"),
            c if is_printable(c) => write!(out, "{c}"),
            c if u32::from(c) < 0x100 => write!(out, "\\x{:02x}", u32::from(c)),
            c if u32::from(c) < 0x10000 => write!(out, "\\u{:04x}", u32::from(c)),
            c => write!(out, "\\U{:08x}", u32::from(c)),
        };
    }
    out.push(quote);
}

/// `str.isprintable` of one character beyond ASCII. Rust's debug escaping is built on the same Unicode categories
/// (separators, control, format, surrogate, private, unassigned); only at the start of a text does it also escape
/// combining marks, hence the letter before.
fn is_printable(c: char) -> bool {
    let mut pair = String::from("a");
    pair.push(c);
    c > '\u{7f}' && pair.escape_debug().nth(1) == Some(c)
}

/// `repr` of a float: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
pub(crate) fn float_repr(number: f64) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.into();
    }
    let shortest = shortest(number);
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return plain(mantissa, exponent);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// The shortest digits that read back, in exponent form. If two neighbours are equally near, Python takes the even one
/// and Rust the larger; that happens only for numbers so large that their exact digits fit into a few more.
fn shortest(number: f64) -> String {
    let found = format!("{number:e}");
    if number.abs() < 1e14 {
        return found;
    }
    let (mantissa, exponent) = found.split_once('e').unwrap_or((&found, "0"));
    let digits = mantissa.chars().filter(char::is_ascii_digit).count();
    let exact = format!("{number:.40e}");
    let exact: String = exact.chars().take_while(|c| *c != 'e').filter(char::is_ascii_digit).collect();
    let (head, tail) = exact.split_at(digits);
    if !tail.starts_with('5') || tail[1..].bytes().any(|byte| byte != b'0') {
        return found;
    }
    // A tie: `found` is one of the two, and the other ends in the digit next to its last.
    let Some(below) = head.parse::<u64>().ok().filter(|head| head % 2 == 0) else { return found };
    let below = below.to_string();
    let (first, rest) = below.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if number < 0.0 { "-" } else { "" };
    let even = format!("{sign}{first}{point}{rest}e{exponent}");
    if even.parse() == Ok(number) { even } else { found }
}

/// Digits in exponent form, written out.
fn plain(mantissa: &str, exponent: i32) -> String {
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    if exponent < 0 {
        return format!("{sign}0.{}{digits}", "0".repeat((-exponent - 1) as usize));
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{sign}{digits}{}.0", "0".repeat(whole - digits.len()));
    }
    format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::excessive_precision, reason = "the digits that Rust would print are the point")]
    fn floats_are_spelt_as_python_spells_them() {
        let cases = [
            (85.0, "85.0"),
            (1e-5, "1e-05"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (-0.0, "-0.0"),
            (0.049_999_999_999_997_16, "0.04999999999999716"),
            (f64::INFINITY, "inf"),
            (5e-324, "5e-324"),
            (2_213_371_723_846_341.25, "2213371723846341.2"),
            (-217_677_663_524_252.125, "-217677663524252.12"),
            (1_859_413_485_384_702.75, "1859413485384702.8"),
            (123_456_789.125, "123456789.125"),
            (0.00012, "0.00012"),
        ];
        for (number, text) in cases {
            assert_eq!(float_repr(number), text);
        }
    }

    #[test]
    fn strings_choose_their_quotes_and_escape_what_does_not_print() {
        let cases = [
            ("it's", "\"it's\""),
            ("say \"hi\"", "'say \"hi\"'"),
            ("it's \"x\"", "'it\\'s \"x\"'"),
            ("a\\b\n\t\u{7f}\u{0}", "'a\\\\b\\n\\t\\x7f\\x00'"),
            ("é ñ 日本 e\u{301} 😀", "'é ñ 日本 e\u{301} 😀'"),
            ("\u{a0}\u{200b}\u{feff}\u{e000}\u{10ffff}", "'\\xa0\\u200b\\ufeff\\ue000\\U0010ffff'"),
        ];
        for (text, expected) in cases {
            assert_eq!(repr(&Value::from(text)), expected);
        }
    }
}
