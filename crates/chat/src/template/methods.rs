//! Python's string and list methods that `minijinja-contrib` lacks or implements differently from CPython.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

use super::glue::{bind, check_widths};
use super::meter::{self, MAX_VALUES};
use super::python::{is_line_break, is_space, to_str};

/// The environment's answer to a method minijinja does not know.
pub(super) fn call(state: &mut State<'_, '_>, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    match (value.kind(), value.as_str()) {
        (ValueKind::String, Some(text)) => match string_method(text, method, args)? {
            Some(result) => Ok(result),
            None if method == "replace" && args.len() >= 2 => replaced(text, args),
            None if method == "join" => {
                let items = args.first().and_then(Value::len).unwrap_or(0);
                meter::check_string(items.saturating_mul(text.len()))?;
                pycompat::unknown_method_callback(state, value, method, args)
            }
            None if method == "format" => {
                check_widths(text)?;
                pycompat::unknown_method_callback(state, value, method, args)
            }
            None => pycompat::unknown_method_callback(state, value, method, args),
        },
        (ValueKind::Seq | ValueKind::Iterable, _) => match method {
            "index" => index_of(value, args),
            "append" | "extend" | "insert" | "pop" | "remove" | "clear" | "sort" | "reverse" => Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("list.{method} would change the conversation; the template sandbox forbids it"),
            )),
            _ => pycompat::unknown_method_callback(state, value, method, args),
        },
        _ => pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// `str.replace`, bounded by the size a template may build.
fn replaced(text: &str, args: &[Value]) -> Result<Value, Error> {
    let [old, new, count] = bind(args, ["old", "new", "count"])?;
    let text_of = |value: Option<Value>| to_str(&value.unwrap_or_default());
    let (old, new) = (text_of(old)?, text_of(new)?);
    let count = count.and_then(|count| count.as_i64()).and_then(|count| usize::try_from(count).ok());
    let count = count.unwrap_or(usize::MAX);
    let places = text.matches(old.as_str()).take(count).count();
    meter::check_string(text.len().saturating_add(places.saturating_mul(new.len())))?;
    Ok(Value::from(text.replacen(&old, &new, count)))
}

fn string_method(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = bind(args, ["chars"])?;
            let chars = chars.as_ref().and_then(Value::as_str);
            Value::from(strip(text, chars, method != "rstrip", method != "lstrip"))
        }
        "split" => split(text, args, false)?,
        "rsplit" => split(text, args, true)?,
        "splitlines" => {
            let [keepends] = bind(args, ["keepends"])?;
            list(lines(text, keepends.is_some_and(|flag| flag.is_true())))?
        }
        "partition" | "rpartition" => {
            let separator = one_string(args, "sep")?;
            let found = if method == "partition" { text.split_once(&separator) } else { text.rsplit_once(&separator) };
            match (found, method) {
                (Some((before, after)), _) => Value::from((before, separator.as_str(), after)),
                (None, "partition") => Value::from((text, "", "")),
                (None, _) => Value::from(("", "", text)),
            }
        }
        "removeprefix" => Value::from(text.strip_prefix(one_string(args, "prefix")?.as_str()).unwrap_or(text)),
        "removesuffix" => Value::from(text.strip_suffix(one_string(args, "suffix")?.as_str()).unwrap_or(text)),
        "capitalize" => Value::from(capitalize(text)),
        "title" => Value::from(title(text)),
        "isspace" => Value::from(!text.is_empty() && text.chars().all(is_space)),
        "isdigit" | "isdecimal" => Value::from(!text.is_empty() && text.chars().all(|c| c.is_ascii_digit())),
        _ => return Ok(None),
    }))
}

fn one_string(args: &[Value], name: &str) -> Result<String, Error> {
    let [value] = bind(args, [name])?;
    match value {
        Some(value) => to_str(&value),
        None => Err(Error::from(ErrorKind::MissingArgument)),
    }
}

/// `str.strip` and its one-sided forms; `chars` is a set of characters, not a prefix.
pub(super) fn strip<'t>(text: &'t str, chars: Option<&str>, start: bool, end: bool) -> &'t str {
    let drop = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let text = if start { text.trim_start_matches(drop) } else { text };
    if end { text.trim_end_matches(drop) } else { text }
}

pub(super) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(chars.as_str().to_lowercase().chars()).collect())
}

/// `str.title`: every run of letters starts upper case.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_word = false;
    for c in text.chars() {
        if in_word {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        in_word = c.is_alphabetic();
    }
    out
}

fn split(text: &str, args: &[Value], from_right: bool) -> Result<Value, Error> {
    let [separator, maxsplit] = bind(args, ["sep", "maxsplit"])?;
    let limit = maxsplit.and_then(|n| n.as_i64()).and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let mut parts: Vec<&str> = match separator.as_ref().and_then(Value::as_str) {
        Some("") => return Err(Error::new(ErrorKind::InvalidOperation, "split: the separator is empty")),
        Some(separator) if from_right => text.rsplitn(limit.saturating_add(1), separator).collect(),
        Some(separator) => text.splitn(limit.saturating_add(1), separator).collect(),
        None => split_space(text, limit, from_right),
    };
    if from_right {
        parts.reverse();
    }
    list(parts)
}

fn list(parts: Vec<&str>) -> Result<Value, Error> {
    if parts.len() > MAX_VALUES {
        return Err(meter::Excess::Values.into());
    }
    Ok(parts.into_iter().map(Value::from).collect())
}

/// `str.split()` without a separator: runs of white space separate, and none is kept at the ends.
fn split_space(text: &str, limit: usize, from_right: bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = strip(text, None, true, true);
    while !rest.is_empty() {
        let cut = if from_right { rest.rfind(is_space) } else { rest.find(is_space) };
        match cut {
            Some(at) if parts.len() < limit => {
                let width = rest[at..].chars().next().map_or(1, char::len_utf8);
                let (head, tail) = (&rest[..at], &rest[at + width..]);
                let (part, remaining) = if from_right { (tail, head) } else { (head, tail) };
                parts.push(part);
                rest = strip(remaining, None, !from_right, from_right);
            }
            _ => {
                parts.push(rest);
                break;
            }
        }
    }
    parts
}

pub(super) fn lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(is_line_break) {
        let width =
            if rest[at..].starts_with("\r\n") { 2 } else { rest[at..].chars().next().map_or(1, char::len_utf8) };
        lines.push(&rest[..if keep_ends { at + width } else { at }]);
        rest = &rest[at + width..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

fn index_of(value: &Value, args: &[Value]) -> Result<Value, Error> {
    let [wanted] = bind(args, ["value"])?;
    let wanted = wanted.ok_or_else(|| Error::from(ErrorKind::MissingArgument))?;
    match value.try_iter()?.position(|item| item == wanted) {
        Some(index) => Ok(Value::from(index)),
        None => Err(Error::new(ErrorKind::InvalidOperation, "index: the value is not in the list")),
    }
}
