//! Numbers beyond 64 bits: their digits beside the value, and JSON written with them.

use serde_json::{Map, Number, Value};

/// Source text of the numbers of a value that 64 bits cannot hold, in document order.
///
/// `serde_json::Value` stores it as the nearest float. Every number of magnitude 2^63 or more that is held as a float
/// has its entry, so that [`write_exact`] can print the value with the digits the model wrote.
pub(super) type Wide = Vec<Box<str>>;

/// True if digits of the number may have been lost.
pub(super) fn is_wide(number: &Number) -> bool {
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
