//! Fields under their aliases: removed from a row one by one, so that the row's own extra fields remain.

use hone_trace::{Modality, Side, ToolCall};
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::Trouble;

/// A row's fields, with the repairs made so far.
pub(super) struct Fields {
    rest: Map<String, Value>,
    pub(super) repairs: Vec<Trouble>,
}

impl Fields {
    pub(super) fn new(rest: Map<String, Value>) -> Self {
        Self { rest, repairs: Vec::new() }
    }

    pub(super) fn into_rest(self) -> (Map<String, Value>, Vec<Trouble>) {
        (self.rest, self.repairs)
    }

    /// The first of the names that has a value; `null` does not count. Other names stay in the row.
    pub(super) fn take(&mut self, names: &[&str]) -> Option<Value> {
        for name in names {
            if self.rest.get(*name).is_some_and(Value::is_null) {
                self.rest.shift_remove(*name);
            }
        }
        let name = names.iter().find(|name| self.rest.contains_key(**name))?;
        self.rest.shift_remove(*name)
    }

    /// A value that stays in the row.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.rest.get(name)
    }

    pub(super) fn repaired(&mut self, field: &'static str, reason: impl Into<String>, fix: impl Into<String>) {
        self.repairs.push(Trouble::new(field, reason, fix));
    }

    /// A text; a number is converted to text.
    pub(super) fn text(&mut self, field: &'static str, names: &[&str]) -> Result<Option<String>, Trouble> {
        match self.take(names) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(number @ (Value::Number(_) | Value::Bool(_))) => {
                self.repaired(field, format!("{number} is not text and was converted"), "quote it");
                Ok(Some(number.to_string()))
            }
            Some(other) => Err(Trouble::new(
                field,
                format!("a text is expected, found {}", kind(&other)),
                format!("write \"{field}\": \"…\""),
            )),
        }
    }

    /// Variables: an object, or the JSON text of one. Values that are not text are converted to text.
    pub(super) fn variables(&mut self, names: &[&str]) -> Result<IndexMap<String, String>, Trouble> {
        let object = |value: Value| match value {
            Value::Object(map) => Ok(map),
            other => Err(Trouble::new(
                "env_variables",
                format!("an object is expected, found {}", kind(&other)),
                "write {\"CURRENT_DATE\": \"2025-01-31\", …}, or the same as a JSON text",
            )),
        };
        let map = match self.take(names) {
            None => Map::new(),
            Some(Value::String(text)) if text.trim().is_empty() => Map::new(),
            Some(Value::String(text)) => match serde_json::from_str(&text) {
                Ok(Value::Null) => Map::new(),
                Ok(value) => object(value)?,
                Err(error) => {
                    let reason = format!("the text is not JSON ({error})");
                    return Err(Trouble::new("env_variables", reason, "write an object, or its JSON text"));
                }
            },
            Some(value) => object(value)?,
        };
        let mut variables = IndexMap::with_capacity(map.len());
        for (name, value) in map {
            let text = match value {
                Value::String(text) => text,
                Value::Null => {
                    self.repaired("env_variables", format!("{name} is null and was left out"), "give it a value");
                    continue;
                }
                other => {
                    self.repaired("env_variables", format!("{name} is not text and was converted"), "quote it");
                    other.to_string()
                }
            };
            variables.insert(name, text);
        }
        Ok(variables)
    }

    pub(super) fn modality(&mut self, names: &[&str]) -> Result<Modality, Trouble> {
        let Some(name) = self.text("task_modality", names)? else { return Ok(Modality::default()) };
        match name.as_str() {
            "tool_use" | "" => Ok(Modality::ToolUse),
            "computer_use" => Ok(Modality::ComputerUse),
            "browser_use" | "browser" => Ok(Modality::Browser),
            other => Err(Trouble::new(
                "task_modality",
                format!("{other:?} is not a modality"),
                "write tool_use, computer_use or browser_use",
            )),
        }
    }

    pub(super) fn difficulty(&mut self) -> Option<u8> {
        let value = self.take(&["difficulty"])?;
        let number =
            value.as_u64().or_else(|| value.as_f64().filter(|f| f.fract() == 0.0 && *f >= 0.0).map(|f| f as u64));
        if let Some(level) = number.and_then(|number| u8::try_from(number).ok()) {
            return Some(level);
        }
        let read = value.as_str().and_then(|text| text.trim().parse().ok());
        let what = if read.is_some() { "was read as a number" } else { "is not a level and was dropped" };
        self.repaired("difficulty", format!("{value} {what}"), "write 1, 2 or 3");
        read
    }

    /// Calls, their arguments under `arguments` or `kwargs`.
    pub(super) fn calls(&mut self, names: &[&str]) -> Result<Option<Vec<ToolCall>>, Trouble> {
        let bad = |reason: String| Trouble::new("reference", reason, "write [{\"name\": …, \"arguments\": {…}}, …]");
        let Some(value) = self.take(names) else { return Ok(None) };
        let value = match value {
            Value::String(text) => serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?,
            other => other,
        };
        let Value::Array(items) = value else {
            return Err(bad(format!("an array of calls is expected, found {}", kind(&value))));
        };
        let call = |(at, mut item): (usize, Value)| {
            if let Some(fields) = item.as_object_mut()
                && let Some(arguments) = fields.shift_remove("kwargs")
            {
                fields.insert("arguments".into(), arguments);
            }
            serde_json::from_value::<ToolCall>(item).map_err(|error| bad(format!("call {at}: {error}")))
        };
        items.into_iter().enumerate().map(call).collect::<Result<_, _>>().map(Some)
    }

    pub(super) fn texts(&mut self, field: &'static str, names: &[&str]) -> Result<Vec<String>, Trouble> {
        let bad = || Trouble::new(field, "a list of texts is expected", format!("write \"{field}\": [\"…\", …]"));
        match self.take(names) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                items.into_iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(bad)).collect()
            }
            Some(_) => Err(bad()),
        }
    }

    pub(super) fn side(&mut self) -> Option<Side> {
        let value = self.take(&["split"])?;
        let side = value.as_str().and_then(side_of);
        if side.is_none() {
            self.repaired("split", format!("{value} is not a side of a split and was dropped"), "write train or eval");
        }
        side
    }
}

/// The side that a name means: of a split, or of a file.
pub(crate) fn side_of(name: &str) -> Option<Side> {
    let name = name.to_lowercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let has = |known: &[&str]| words.iter().any(|word| known.contains(word));
    if has(&["train", "training"]) {
        Some(Side::Train)
    } else if has(&["eval", "evaluation", "test", "dev", "val", "valid", "validation", "heldout"])
        || name.replace('-', "_").contains("held_out")
    {
        Some(Side::Eval)
    } else if has(&["unused"]) {
        Some(Side::Unused)
    } else {
        None
    }
}

pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
