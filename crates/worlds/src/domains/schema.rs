//! Tool schemas: one description that yields both the JSON Schema in the prompt and the checks of the strict profile.

use std::sync::Arc;

use hone_trace::ToolSpec;
use serde_json::{Map, json};

use super::py::num::round2_float;
use super::py::{Dict, Value};

/// Longest text of an argument. Texts and lists longer than any honest call needs are refused before they cost
/// anything.
const MAX_TEXT: usize = 10_000;
const MAX_ITEMS: usize = 50;

/// Type of a parameter.
#[derive(Debug, Clone, Copy)]
pub(super) enum Type {
    Text,
    Choice(&'static [&'static str]),
    /// A count: 0, 1, 2, …
    Whole,
    /// An amount in dollars, to the cent.
    Money,
    List(&'static Type),
    /// An optional parameter.
    Maybe(&'static Type),
    Record(&'static [Parameter]),
}

/// A named value with a one-line description.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameter {
    pub name: &'static str,
    pub about: &'static str,
    pub takes: Type,
}

/// A tool's description. All parameters are required except [`Type::Maybe`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Spec {
    pub name: &'static str,
    pub about: &'static str,
    pub parameters: &'static [Parameter],
}

pub(super) const fn param(name: &'static str, about: &'static str, takes: Type) -> Parameter {
    Parameter { name, about, takes }
}

impl Type {
    fn to_json(self) -> Map<String, serde_json::Value> {
        let schema = match self {
            Self::Text => json!({ "type": "string" }),
            Self::Choice(options) => json!({ "type": "string", "enum": options }),
            Self::Whole => json!({ "type": "integer", "minimum": 0 }),
            Self::Money => json!({ "type": "number" }),
            Self::List(item) => json!({ "type": "array", "items": item.to_json() }),
            Self::Maybe(inner) => return inner.to_json(),
            Self::Record(fields) => object(fields),
        };
        match schema {
            serde_json::Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }
}

fn object(fields: &[Parameter]) -> serde_json::Value {
    let mut properties = Map::new();
    for field in fields {
        let mut schema = field.takes.to_json();
        schema.insert("description".into(), field.about.into());
        properties.insert(field.name.into(), schema.into());
    }
    let required = fields.iter().filter(|field| !matches!(field.takes, Type::Maybe(_)));
    let required: Vec<_> = required.map(|field| field.name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

impl Spec {
    pub(crate) fn tool_spec(&self) -> ToolSpec {
        ToolSpec::new(self.name, self.about, object(self.parameters))
    }

    /// Arguments with numbers in canonical form, or a one-line description of the error.
    pub(super) fn check(&self, arguments: &Dict) -> Result<Dict, String> {
        record(self.parameters, arguments, "")
    }
}

fn record(fields: &[Parameter], given: &Dict, at: &str) -> Result<Dict, String> {
    let name = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    if let Some(unknown) = given.keys().find(|key| fields.iter().all(|field| *field.name != ***key)) {
        let known: Vec<_> = fields.iter().map(|field| field.name).collect();
        return Err(format!("unexpected argument {}; known: {}", name(unknown), known.join(", ")));
    }
    let mut checked = Dict::new();
    for field in fields {
        let path = name(field.name);
        if matches!(field.takes, Type::Maybe(_)) && !given.contains_key(field.name) {
            continue;
        }
        let value = given.get(field.name).ok_or_else(|| format!("missing argument {path}: {}", field.about))?;
        checked.insert(field.name.into(), check(field.takes, value, &path)?);
    }
    Ok(checked)
}

fn check(takes: Type, value: &Value, at: &str) -> Result<Value, String> {
    let wrong = |wanted: &str| Err(format!("{at} must be {wanted}, found {}", describe(value)));
    match (takes, value) {
        (Type::Text, Value::Str(text)) if text.len() > MAX_TEXT => {
            Err(format!("{at} is longer than {MAX_TEXT} characters"))
        }
        (Type::Text, Value::Str(_)) | (Type::Money, Value::Int(_)) => Ok(value.clone()),
        (Type::Text, _) => wrong("a string"),
        (Type::Choice(options), Value::Str(text)) if options.contains(&&**text) => Ok(value.clone()),
        (Type::Choice(options), _) => wrong(&format!("one of {}", options.join(", "))),
        (Type::Whole, Value::Int(number)) if *number >= 0 => Ok(value.clone()),
        (Type::Whole, Value::Float(number)) if *number >= 0.0 && number.fract() == 0.0 && *number < 1e15 => {
            Ok(Value::Int(*number as i64))
        }
        (Type::Whole, _) => wrong("a whole number, 0 or more"),
        (Type::Money, Value::Float(number)) if number.is_finite() && number.abs() < 1e15 => Ok(money(*number)),
        (Type::Money, _) => wrong("an amount in dollars"),
        (Type::List(_), Value::List(items)) if items.len() > MAX_ITEMS => {
            Err(format!("{at} has more than {MAX_ITEMS} entries"))
        }
        (Type::List(item), Value::List(items)) => {
            let items = items.iter().enumerate().map(|(index, value)| check(*item, value, &format!("{at}[{index}]")));
            Ok(Value::list(items.collect::<Result<_, _>>()?))
        }
        (Type::List(_), _) => wrong("a list"),
        (Type::Record(fields), Value::Dict(given)) => Ok(Value::Dict(Arc::new(record(fields, given, at)?))),
        (Type::Record(_), _) => wrong("an object"),
        (Type::Maybe(inner), _) => check(*inner, value, at),
    }
}

/// An amount to the cent, or as an integer if it is whole: one form for each value.
fn money(number: f64) -> Value {
    let cents = round2_float(number);
    if cents.fract() == 0.0 { Value::Int(cents as i64) } else { Value::Float(cents) }
}

fn describe(value: &Value) -> &'static str {
    match value {
        Value::None => "null",
        Value::Bool(_) => "a boolean",
        Value::Int(_) | Value::Big(_) | Value::Float(_) => "a number",
        Value::Str(_) => "a string",
        Value::List(_) => "a list",
        Value::Dict(_) => "an object",
    }
}
