//! Canonical texts of a state: equal for equal states.
//!
//! tau-bench hashes the `repr` of nested tuples, so 1 and 1.0 are different states. tau2 hashes JSON with sorted keys
//! after pydantic has fixed the types. The strict profile writes numbers by value, in cents, so that their spelling
//! does not matter.

use super::py::json::{self, Keys};
use super::py::num::round2_float;
use super::py::{Value, text};

/// Written form of a state before it is hashed or compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// tau-bench v1: nested tuples by `repr`, dictionaries as sorted pairs.
    Tuples,
    /// tau2: `json.dumps(…, sort_keys=True)`.
    SortedJson,
    /// tau2, for tables that are lists: records by place, without their keys.
    SortedLists,
    /// Sorted JSON with numbers by value.
    ByValue,
}

impl Form {
    pub(super) fn open(self) -> &'static str {
        match self {
            Self::Tuples => "(",
            Self::SortedJson | Self::SortedLists | Self::ByValue => "{",
        }
    }

    pub(super) fn close(self, tables: usize) -> &'static str {
        match self {
            Self::Tuples => close_tuple(tables),
            Self::SortedJson | Self::SortedLists | Self::ByValue => "}",
        }
    }

    pub(super) fn open_table(self, name: &str, position: usize) -> String {
        let separator = if position == 0 { "" } else { ", " };
        match self {
            Self::Tuples => format!("{separator}('{name}', ("),
            Self::SortedLists => format!("{separator}\"{name}\": ["),
            Self::SortedJson | Self::ByValue => format!("{separator}\"{name}\": {{"),
        }
    }

    pub(super) fn close_table(self, records: usize) -> String {
        match self {
            Self::Tuples => format!("{})", close_tuple(records)),
            Self::SortedLists => "]".into(),
            Self::SortedJson | Self::ByValue => "}".into(),
        }
    }

    /// A record with its key.
    pub(super) fn record(self, key: &str, record: &Value) -> String {
        let mut out = String::new();
        match self {
            Self::Tuples => write_pair(&mut out, key, record),
            Self::SortedLists => self.write(&mut out, record),
            Self::SortedJson | Self::ByValue => {
                json::write_string(&mut out, key);
                out.push_str(": ");
                self.write(&mut out, record);
            }
        }
        out
    }

    pub fn write(self, out: &mut String, value: &Value) {
        match self {
            Self::Tuples => write_tuples(out, value),
            Self::SortedJson | Self::SortedLists => json::write(out, value, Keys::Sorted),
            Self::ByValue => json::write(out, &by_value(value), Keys::Sorted),
        }
    }

    /// True when two values have the same canonical text.
    pub fn same(self, left: &Value, right: &Value) -> bool {
        let (mut a, mut b) = (String::new(), String::new());
        self.write(&mut a, left);
        self.write(&mut b, right);
        a == b
    }
}

fn close_tuple(elements: usize) -> &'static str {
    if elements == 1 { ",)" } else { ")" }
}

fn write_tuples(out: &mut String, value: &Value) {
    match value {
        Value::List(items) => {
            out.push('(');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                write_tuples(out, item);
            }
            out.push_str(close_tuple(items.len()));
        }
        Value::Dict(dict) => {
            let mut entries: Vec<_> = dict.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            out.push('(');
            for (at, (key, item)) in entries.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                write_pair(out, key, item);
            }
            out.push_str(close_tuple(entries.len()));
        }
        scalar => text::write_scalar_repr(out, scalar),
    }
}

fn write_pair(out: &mut String, key: &str, value: &Value) {
    out.push('(');
    text::write_str_repr(out, key);
    out.push_str(", ");
    write_tuples(out, value);
    out.push(')');
}

/// Money in cents, whole numbers as integers.
fn by_value(value: &Value) -> Value {
    match value {
        Value::Float(number) => {
            let cents = round2_float(*number);
            if cents.fract() == 0.0 && cents.abs() < 9e15 { Value::Int(cents as i64) } else { Value::Float(cents) }
        }
        Value::List(items) => Value::list(items.iter().map(by_value).collect()),
        Value::Dict(dict) => Value::dict(dict.iter().map(|(key, item)| (key.clone(), by_value(item)))),
        other => other.clone(),
    }
}
