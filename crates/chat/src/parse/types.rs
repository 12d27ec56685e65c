//! Values whose type the text does not show: typed only by the schema.
//!
//! XML formats write `<parameter=limit>3</parameter>`; only the schema says whether that is `3` or `"3"`. A value that
//! does not fit the schema's type stays a string, so that validation names the fault.

use std::borrow::Cow;

use serde_json::Value;

use super::{
    json::{self, JsonError},
    python::Python,
    wide::Wide,
};

/// A set of JSON types. Empty: unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(u8);

/// Chains of `$ref`s and combinators that are followed to find a type.
const LOOKUP_DEPTH: usize = 16;

impl Types {
    pub(crate) const ANY: Self = Self(0);
    pub(crate) const STRING: Self = Self(1);
    pub(crate) const INTEGER: Self = Self(2);
    pub(super) const NUMBER: Self = Self(4);
    pub(crate) const BOOLEAN: Self = Self(8);
    pub(crate) const NULL: Self = Self(16);
    pub(crate) const OBJECT: Self = Self(32);
    pub(crate) const ARRAY: Self = Self(64);

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn is_any(self) -> bool {
        self.0 == 0
    }

    pub(super) fn named(name: &str) -> Self {
        match name {
            "string" => Self::STRING,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "boolean" => Self::BOOLEAN,
            "null" => Self::NULL,
            "object" => Self::OBJECT,
            "array" => Self::ARRAY,
            _ => Self::ANY,
        }
    }

    fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) if number.is_f64() => Self::NUMBER,
            Value::Number(_) => Self::INTEGER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    pub(crate) fn union(types: impl IntoIterator<Item = Self>) -> Self {
        let mut all = 0;
        for one in types {
            if one.is_any() {
                return Self::ANY;
            }
            all |= one.0;
        }
        Self(all)
    }

    /// The types `schema` allows; `root` is where its `$ref`s point into.
    pub(super) fn of(schema: &Value, root: &Value) -> Self {
        Self::look_up(schema, root, LOOKUP_DEPTH)
    }

    fn look_up(schema: &Value, root: &Value, depth: usize) -> Self {
        let Some(map) = schema.as_object().filter(|_| depth > 0) else { return Self::ANY };
        match map.get("type") {
            Some(Value::String(name)) => return Self::named(name),
            Some(Value::Array(names)) => return Self::union(names.iter().filter_map(Value::as_str).map(Self::named)),
            _ => {}
        }
        if let Some(value) = map.get("const") {
            return Self::of_value(value);
        }
        if let Some(values) = map.get("enum").and_then(Value::as_array) {
            return Self::union(values.iter().map(Self::of_value));
        }
        if let Some(target) = map.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'))
        {
            return root.pointer(target).map_or(Self::ANY, |schema| Self::look_up(schema, root, depth - 1));
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(branches) = map.get(keyword).and_then(Value::as_array) {
                return Self::union(branches.iter().map(|branch| Self::look_up(branch, root, depth - 1)));
            }
        }
        let all = map.get("allOf").and_then(Value::as_array).into_iter().flatten();
        all.map(|branch| Self::look_up(branch, root, depth - 1)).find(|types| !types.is_any()).unwrap_or(Self::ANY)
    }

    /// Reads `text` as a value of one of these types.
    ///
    /// A string type wins over every scalar but null: `75001` stays text if text is allowed; a complete list or object
    /// is read if the schema allows one besides text. JSON or a Python literal is read for arrays and objects; text
    /// that starts like one and is neither is an error.
    pub(super) fn read(self, text: &str, wide: &mut Wide) -> Result<Value, JsonError> {
        let trimmed = text.trim();
        if self.is_any() {
            let Ok((value, mut digits)) = json::read_all(trimmed) else { return Ok(Value::from(text)) };
            wide.append(&mut digits);
            return Ok(value);
        }
        if self.has(Self::NULL) && matches!(trimmed, "null" | "None") {
            return Ok(Value::Null);
        }
        let container = (self.has(Self::OBJECT) && trimmed.starts_with('{'))
            || (self.has(Self::ARRAY) && trimmed.starts_with(['[', '(']));
        if self.has(Self::STRING) {
            let whole = if container { json::read_all(trimmed).ok() } else { None };
            let Some((value, mut digits)) = whole else { return Ok(Value::from(text)) };
            wide.append(&mut digits);
            return Ok(value);
        }
        if self.has(Self::BOOLEAN) {
            // XML has no literals; models write those of some language.
            for (word, value) in [("true", true), ("false", false)] {
                if trimmed.eq_ignore_ascii_case(word) {
                    return Ok(Value::Bool(value));
                }
            }
        }
        let number = (self.has(Self::INTEGER) || self.has(Self::NUMBER))
            && trimmed.starts_with(|ch: char| matches!(ch, '-' | '+') || ch.is_ascii_digit());
        if !container && !number {
            return Ok(Value::from(text));
        }
        let written = if number { without_leading_zeros(trimmed) } else { Cow::Borrowed(trimmed) };
        match json::read_all(&written) {
            Ok((value, mut digits)) => {
                wide.append(&mut digits);
                Ok(value)
            }
            Err(_) if !container => Ok(Value::from(text)),
            Err(error) => {
                let mut python = Python::new(trimmed, 0);
                match python.value() {
                    Ok(value) if python.rest().is_empty() => {
                        wide.append(&mut python.wide);
                        Ok(value)
                    }
                    _ => Err(error),
                }
            }
        }
    }

    /// The text of a value that [`Types::read`] turns back into it; `None` if no text does.
    pub(super) fn write(self, value: &Value) -> Option<String> {
        let text = match value {
            Value::String(text) if self.is_any() && json::read_all(text.trim()).is_ok() => value.to_string(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let back = self.read(&text, &mut Wide::new()).ok()?;
        (back == *value).then_some(text)
    }
}

/// A number as JSON writes it: `007` is 7, `+5` is 5. Anything else as it is.
fn without_leading_zeros(text: &str) -> Cow<'_, str> {
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => ("-", &text[1..]),
        Some(b'+') => ("", &text[1..]),
        _ => ("", text),
    };
    let whole = digits.bytes().take_while(u8::is_ascii_digit).count();
    let zeros = digits.bytes().take_while(|byte| *byte == b'0').count().min(whole.saturating_sub(1));
    if zeros == 0 && !text.starts_with('+') {
        return Cow::Borrowed(text);
    }
    Cow::Owned([sign, &digits[zeros..]].concat())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "json!() literals read better by value")]
    fn reads(schema: Value, text: &str, expected: Value) {
        let types = Types::of(&schema, &schema);
        assert_eq!(types.read(text, &mut Wide::new()), Ok(expected), "{schema} {text}");
    }

    #[test]
    fn the_schema_decides() {
        reads(json!({"type": "string"}), "75001", json!("75001"));
        reads(json!({"type": "string"}), "null", json!("null"));
        reads(json!({"type": "string"}), "  x ", json!("  x "));
        reads(json!({"type": ["string", "null"]}), "null", json!(null));
        reads(json!({"type": ["string", "integer"]}), "3", json!("3"));
        reads(json!({"type": ["integer", "null"]}), " 3 ", json!(3));
        reads(json!({"type": "integer"}), "3.0", json!(3.0));
        reads(json!({"type": "integer"}), "five", json!("five"));
        reads(json!({"type": "number"}), "-1.5", json!(-1.5));
        reads(json!({"type": "boolean"}), "True", json!(true));
        reads(json!({"type": "boolean"}), "FALSE", json!(false));
        reads(json!({"type": "boolean"}), "1", json!("1"));
        reads(json!({"type": "integer"}), "007", json!(7));
        reads(json!({"type": "integer"}), "0x10", json!("0x10"));
        reads(json!({"type": "number"}), "-00.5", json!(-0.5));
        reads(json!({"type": ["array", "string"]}), "[\"a\"]", json!(["a"]));
        reads(json!({"type": ["array", "string"]}), "[a", json!("[a"));
        reads(json!({"type": ["string", "object"]}), "{\"a\": 1}", json!({"a": 1}));
        reads(json!({"type": "object"}), "{'a': None}", json!({"a": null}));
        reads(json!({"type": "array"}), "[1, \"x\"]", json!([1, "x"]));
        reads(json!({"type": "array"}), "a, b", json!("a, b"));
        reads(json!({"enum": [1, 2]}), "2", json!(2));
        reads(json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), "None", json!(null));
        reads(json!({"oneOf": [{"const": "a"}, {"type": "null"}]}), "a", json!("a"));
        reads(json!({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}), "7", json!(7));
        reads(json!({"allOf": [{"minimum": 0}, {"type": "integer"}]}), "7", json!(7));
        reads(json!({}), "7", json!(7));
        reads(json!({}), "seven", json!("seven"));
        reads(json!({"$ref": "#"}), "x", json!("x"));
    }

    #[test]
    fn a_broken_container_is_an_error_not_a_string() {
        assert!(Types::OBJECT.read("{\"a\": 1,,}", &mut Wide::new()).is_err());
    }

    #[test]
    fn writing_inverts_reading_or_refuses() {
        assert_eq!(Types::ANY.write(&json!("7")).as_deref(), Some("\"7\""));
        assert_eq!(Types::ANY.write(&json!("x")).as_deref(), Some("x"));
        assert_eq!(Types::union([Types::STRING, Types::NULL]).write(&json!("null")), None);
        assert_eq!(Types::STRING.write(&json!(7)), None);
    }
}
