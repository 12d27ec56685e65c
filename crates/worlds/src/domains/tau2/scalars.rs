//! Numbers, flags and dates as pydantic reads them in its lax mode: from numbers, flags and strings.

use num_bigint::BigInt;

use super::super::py::Value;
use super::super::py::num::Number;

/// Digits of the longest integer that is read, as in Python.
const MAX_DIGITS: usize = 4300;

/// A number's defect: pydantic's message and its kind.
type Wrong = (&'static str, &'static str);

const TOO_LARGE: Wrong = ("Unable to parse input string as an integer, exceeded maximum size", "int_parsing_size");

/// `int`.
pub(super) fn whole(value: &Value) -> Result<Value, Wrong> {
    match value {
        Value::Int(_) | Value::Big(_) => Ok(value.clone()),
        Value::Bool(flag) => Ok(Value::Int(i64::from(*flag))),
        Value::Float(number) if !number.is_finite() => Err(("Input should be a finite number", "finite_number")),
        Value::Float(number) if number.fract() != 0.0 => {
            Err(("Input should be a valid integer, got a number with a fractional part", "int_from_float"))
        }
        // A float converts only within 64 bits, the two ends excluded.
        Value::Float(number) if number.abs() < i64::MAX as f64 => Ok(Value::Int(*number as i64)),
        Value::Float(_) => Err(TOO_LARGE),
        Value::Str(text) => whole_text(text.trim()),
        _ => Err(("Input should be a valid integer", "int_type")),
    }
}

/// A sign, digits with single underscores between them, and zeros after a point: `152.0`, `1_000`, `-007`.
fn whole_text(text: &str) -> Result<Value, Wrong> {
    const NONE: Wrong = ("Input should be a valid integer, unable to parse string as an integer", "int_parsing");
    if text.len() > MAX_DIGITS {
        return Err(TOO_LARGE);
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = match digits.split_once('.') {
        Some((digits, zeros)) if !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0') => digits,
        Some(_) => return Err(NONE),
        None => digits,
    };
    let digits = without_underscores(digits).ok_or(NONE)?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NONE);
    }
    let number: BigInt = digits.parse().map_err(|_| NONE)?;
    Ok(Value::integer(if text.starts_with('-') { -number } else { number }))
}

/// `float`.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Str(text) => without_underscores(text.trim())?.parse().ok(),
        other => Number::of(other).and_then(|number| number.to_float().ok()),
    }
}

/// `bool`: 0 and 1, and the words for them.
pub(super) fn flag(value: &Value) -> Result<bool, Wrong> {
    const NONE: Wrong = ("Input should be a valid boolean, unable to interpret input", "bool_parsing");
    const OTHER: Wrong = ("Input should be a valid boolean", "bool_type");
    let number = match value {
        Value::Bool(flag) => return Ok(*flag),
        Value::Int(number) => *number,
        Value::Float(number) if number.fract() == 0.0 && number.abs() < i64::MAX as f64 => *number as i64,
        Value::Str(text) => match text.to_lowercase().as_str() {
            "0" | "off" | "f" | "false" | "n" | "no" => 0,
            "1" | "on" | "t" | "true" | "y" | "yes" => 1,
            _ => return Err(NONE),
        },
        _ => return Err(OTHER),
    };
    match number {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(NONE),
    }
}

/// `date`, in the form the benchmarks' files have and `str` shows: `2025-02-25`.
pub(super) fn date(text: &str) -> Option<String> {
    is_shaped(text, "0000-00-00").then(|| text.to_owned())
}

/// `datetime` of `2025-01-20T14:30:00` or just a date, as `str` shows it: `2025-01-20 14:30:00`.
pub(super) fn moment(text: &str) -> Option<String> {
    match text.split_once(['T', ' ']) {
        Some((day, time)) if is_shaped(time, "00:00:00") => Some(format!("{} {time}", date(day)?)),
        Some(_) => None,
        None => Some(format!("{} 00:00:00", date(text)?)),
    }
}

/// True when the text has a digit where the pattern has one, and the pattern's letter elsewhere.
fn is_shaped(text: &str, pattern: &str) -> bool {
    let fits = |(byte, of): (u8, u8)| if of == b'0' { byte.is_ascii_digit() } else { byte == of };
    text.len() == pattern.len() && text.bytes().zip(pattern.bytes()).all(fits)
}

/// The text without its underscores, which must be single and between digits.
fn without_underscores(text: &str) -> Option<String> {
    let misplaced = text.starts_with('_') || text.ends_with('_') || text.contains("__");
    (!misplaced).then(|| text.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pydantic's readings of these strings, recorded from it.
    #[test]
    fn strings_are_read_as_pydantic_reads_them() {
        let big = "123456789012345678901234567890";
        for (text, int, float) in [
            ("152.0", "152", "152.0"),
            ("1_000", "1000", "1000.0"),
            ("1__000", "int_parsing", "none"),
            ("_1", "int_parsing", "none"),
            ("1_", "int_parsing", "none"),
            ("-_1", "int_parsing", "-1.0"),
            ("1_.0", "int_parsing", "1.0"),
            ("+5", "5", "5.0"),
            (" 7\u{a0}", "7", "7.0"),
            ("152.", "int_parsing", "152.0"),
            ("152.5", "int_parsing", "152.5"),
            (".0", "int_parsing", "0.0"),
            ("1e3", "int_parsing", "1000.0"),
            ("-007", "-7", "-7.0"),
            ("-0", "0", "-0.0"),
            ("", "int_parsing", "none"),
            ("+", "int_parsing", "none"),
            ("+-5", "int_parsing", "none"),
            ("1 000", "int_parsing", "none"),
            ("0x10", "int_parsing", "none"),
            ("\u{661}\u{662}", "int_parsing", "none"),
            ("inf", "int_parsing", "inf"),
            ("1_0e1_0", "int_parsing", "100000000000.0"),
            ("9223372036854775808", "9223372036854775808", "9.223372036854776e+18"),
            (big, big, "1.2345678901234568e+29"),
        ] {
            let value = Value::str(text.to_owned());
            let read = whole(&value)
                .map_or_else(|(_, kind)| kind.to_owned(), |number| crate::domains::py::text::repr(&number));
            assert_eq!(read, int, "{text:?} as an integer");
            let read = number(&value).map(|number| crate::domains::py::text::repr(&Value::Float(number)));
            assert_eq!(read.as_deref().unwrap_or("none"), float, "{text:?} as a float");
        }
        let long = |digits: usize| whole(&Value::str("1".repeat(digits)));
        assert!(long(4300).is_ok());
        assert_eq!(long(4301).unwrap_err().1, "int_parsing_size");
    }

    /// Pydantic's readings of these values, recorded from it.
    #[test]
    fn flags_are_read_as_pydantic_reads_them() {
        let text = |text: &str| Value::str(text.to_owned());
        for (value, read) in [
            (Value::Int(1), "true"),
            (Value::Float(0.0), "false"),
            (text("Y"), "true"),
            (text("tRue"), "true"),
            (text("off"), "false"),
            (Value::Int(2), "bool_parsing"),
            (Value::Float(2.0), "bool_parsing"),
            (text(" on"), "bool_parsing"),
            (text(""), "bool_parsing"),
            (Value::Float(0.5), "bool_type"),
            (Value::Float(f64::NAN), "bool_type"),
            (Value::integer(BigInt::from(10).pow(30)), "bool_type"),
            (Value::None, "bool_type"),
            (Value::list(Vec::new()), "bool_type"),
        ] {
            let flag = flag(&value).map_or_else(|(_, kind)| kind.to_owned(), |flag| flag.to_string());
            assert_eq!(flag, read, "{value:?}");
        }
    }

    #[test]
    fn dates_are_shown_as_python_shows_them() {
        assert_eq!(moment("2025-01-20T14:30:00").as_deref(), Some("2025-01-20 14:30:00"));
        assert_eq!(moment("2025-01-20").as_deref(), Some("2025-01-20 00:00:00"));
        assert_eq!(date("2025-01-20").as_deref(), Some("2025-01-20"));
        assert_eq!((date("20-01-2025"), moment("2025-01-20T14:30")), (None, None));
    }

    #[test]
    fn floats_become_integers_of_64_bits() {
        for (float, kind) in [
            (9.2e18, "9200000000000000000"),
            (1e16, "10000000000000000"),
            (9_223_372_036_854_775_807.0, "int_parsing_size"),
            (-1e19, "int_parsing_size"),
            (0.5, "int_from_float"),
            (f64::NAN, "finite_number"),
        ] {
            let read = whole(&Value::Float(float));
            assert_eq!(
                read.map_or_else(|(_, kind)| kind.to_owned(), |number| crate::domains::py::text::repr(&number)),
                kind
            );
        }
    }
}
