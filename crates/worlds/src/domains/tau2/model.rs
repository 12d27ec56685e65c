//! Models: field order, types, defaults. Values are coerced as pydantic coerces them.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::super::py::{Dict, Raised, Value, text};
use super::scalars::{date, flag, moment, number, whole};

/// Pydantic release whose texts these are; they name it in a link.
const PYDANTIC: &str = "2.12";

/// Type of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Holds {
    Text,
    Whole,
    Number,
    Flag,
    Choice(&'static [&'static str]),
    /// A choice that is an enumeration upstream: its error has another name.
    Enum(&'static [&'static str]),
    /// A date, as `str` shows it.
    Date,
    /// A date with a time, as `str` shows it.
    Moment,
    Optional(&'static Holds),
    List(&'static Holds),
    Map(&'static Holds),
    Model(&'static Model),
    /// A model that takes no other fields.
    Closed(&'static Model),
    /// An optional field with its default.
    Or(&'static Holds, fn() -> Value),
    /// The model whose `source` or `status` the value names.
    OneOf(&'static str, &'static [(&'static str, &'static Model)]),
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) name: &'static str,
    pub(super) fields: &'static [(&'static str, Holds)],
}

/// A defect and its place, as pydantic lists it.
struct Fault {
    at: String,
    what: String,
    kind: &'static str,
    input: Value,
}

impl Model {
    /// `Model(**value)`.
    pub(super) fn shape(&'static self, value: &Value) -> Result<Value, Raised> {
        self.shape_as(Holds::Model(self), value)
    }

    /// `Model(**value)` of a model that takes no other fields.
    pub(super) fn shape_closed(&'static self, value: &Value) -> Result<Value, Raised> {
        self.shape_as(Holds::Closed(self), value)
    }

    fn shape_as(&self, holds: Holds, value: &Value) -> Result<Value, Raised> {
        let mut faults = Vec::new();
        match coerce(holds, value, "", &mut faults) {
            Some(shaped) if faults.is_empty() => Ok(shaped),
            _ => Err(self.raise(&faults)),
        }
    }

    fn raise(&self, faults: &[Fault]) -> Raised {
        let plural = if faults.len() == 1 { "" } else { "s" };
        let mut out = format!("{} validation error{plural} for {}", faults.len(), self.name);
        for Fault { at, what, kind, input } in faults {
            let (shown, of) = (shorten(&text::repr(input)), input.type_name());
            // Writing to a String cannot fail.
            let _ = write!(out, "\n{at}\n  {what} [type={kind}, input_value={shown}, input_type={of}]");
            let _ = write!(out, "\n    For further information visit https://errors.pydantic.dev/{PYDANTIC}/v/{kind}");
        }
        Raised(out)
    }
}

/// Long values are shown with their middle cut out: over 50 bytes, the first 25 and the last 24, at character
/// boundaries.
fn shorten(repr: &str) -> String {
    if repr.len() <= 50 {
        return repr.to_owned();
    }
    let (head, tail) = (repr.floor_char_boundary(25), repr.ceil_char_boundary(repr.len() - 24));
    format!("{}...{}", &repr[..head], &repr[tail..])
}

fn coerce(holds: Holds, value: &Value, at: &str, faults: &mut Vec<Fault>) -> Option<Value> {
    let mut fault = |what: &str, kind: &'static str| {
        faults.push(Fault { at: at.to_owned(), what: what.to_owned(), kind, input: value.clone() });
        None
    };
    let inside = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
    match (holds, value) {
        (Holds::Optional(_), Value::None) => Some(Value::None),
        (Holds::Optional(holds) | Holds::Or(holds, _), _) => coerce(*holds, value, at, faults),
        (Holds::List(holds), Value::List(items)) => {
            let items =
                items.iter().enumerate().map(|(index, item)| coerce(*holds, item, &inside(&index.to_string()), faults));
            let items: Vec<_> = items.collect();
            items.into_iter().collect::<Option<Vec<_>>>().map(Value::list)
        }
        (Holds::List(_), _) => fault("Input should be a valid list", "list_type"),
        (Holds::Map(holds), Value::Dict(dict)) => {
            let entries: Vec<_> =
                dict.iter().map(|(key, item)| (key.clone(), coerce(*holds, item, &inside(key), faults))).collect();
            let entries: Option<Dict> = entries.into_iter().map(|(key, item)| item.map(|item| (key, item))).collect();
            entries.map(Value::dict)
        }
        (Holds::Map(_), _) => fault("Input should be a valid dictionary", "dict_type"),
        (Holds::Model(model), Value::Dict(dict)) => Some(fields(model, dict, at, faults)),
        (Holds::Closed(model), Value::Dict(dict)) => {
            let shaped = fields(model, dict, at, faults);
            let known = |key: &str| model.fields.iter().any(|(name, _)| *name == key);
            faults.extend(dict.iter().filter(|(key, _)| !known(key)).map(|(key, input)| Fault {
                at: inside(key),
                what: "Extra inputs are not permitted".into(),
                kind: "extra_forbidden",
                input: input.clone(),
            }));
            Some(shaped)
        }
        (Holds::Model(model) | Holds::Closed(model), _) => {
            fault(&format!("Input should be a valid dictionary or instance of {}", model.name), "model_type")
        }
        (Holds::OneOf(tag, models), Value::Dict(dict)) => {
            let named = dict.get(tag).and_then(Value::as_str);
            match models.iter().find(|(name, _)| Some(*name) == named) {
                Some((_, model)) => Some(fields(model, dict, at, faults)),
                None => fault("Input matches none of the models", "union_error"),
            }
        }
        (Holds::OneOf(..), _) => fault("Input should be a valid dictionary or instance", "model_type"),
        _ => match scalar(holds, value) {
            Ok(value) => Some(value),
            Err((what, kind)) => fault(&what, kind),
        },
    }
}

/// A value without parts: the coerced value, or pydantic's message and the kind of its error.
fn scalar(holds: Holds, value: &Value) -> Result<Value, (Cow<'static, str>, &'static str)> {
    let wrong = |what: &'static str, kind| Err((Cow::Borrowed(what), kind));
    match holds {
        Holds::Flag => flag(value).map(Value::Bool).or_else(|(what, kind)| wrong(what, kind)),
        Holds::Whole => whole(value).or_else(|(what, kind)| wrong(what, kind)),
        Holds::Number => match number(value) {
            Some(number) => Ok(Value::Float(number)),
            None if value.as_str().is_some() => {
                wrong("Input should be a valid number, unable to parse string as a number", "float_parsing")
            }
            None => wrong("Input should be a valid number", "float_type"),
        },
        Holds::Choice(options) | Holds::Enum(options) => match value.as_str() {
            Some(text) if options.contains(&text) => Ok(value.clone()),
            _ => {
                let kind = if matches!(holds, Holds::Enum(_)) { "enum" } else { "literal_error" };
                Err((Cow::Owned(format!("Input should be {}", quoted(options))), kind))
            }
        },
        Holds::Date => match value.as_str().and_then(date) {
            Some(date) => Ok(Value::str(date)),
            None => wrong("Input should be a valid date, written YYYY-MM-DD", "date_parsing"),
        },
        Holds::Moment => match value.as_str().and_then(moment) {
            Some(moment) => Ok(Value::str(moment)),
            None => wrong("Input should be a valid datetime, written YYYY-MM-DDTHH:MM:SS", "datetime_parsing"),
        },
        // Text; `coerce` has handled everything with parts.
        _ => match value {
            Value::Str(_) => Ok(value.clone()),
            _ => wrong("Input should be a valid string", "string_type"),
        },
    }
}

fn fields(model: &Model, dict: &Dict, at: &str, faults: &mut Vec<Fault>) -> Value {
    let mut shaped = Dict::new();
    for (name, holds) in model.fields {
        let path = if at.is_empty() { (*name).to_owned() } else { format!("{at}.{name}") };
        let value = match (dict.get(*name), holds) {
            (Some(value), holds) => coerce(*holds, value, &path, faults),
            (None, Holds::Optional(_)) => Some(Value::None),
            (None, Holds::Or(_, absent)) => Some(absent()),
            (None, _) => {
                let input = Value::dict(dict.clone());
                faults.push(Fault { at: path, what: "Field required".into(), kind: "missing", input });
                None
            }
        };
        shaped.insert((*name).into(), value.unwrap_or(Value::None));
    }
    Value::dict(shaped)
}

fn quoted(options: &[&str]) -> String {
    let options: Vec<_> = options.iter().map(|option| format!("'{option}'")).collect();
    match options.as_slice() {
        [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
        _ => options.join(""),
    }
}

#[cfg(test)]
mod tests {
    use super::shorten;

    /// Texts recorded from pydantic.
    #[test]
    fn long_values_are_cut_by_bytes_between_letters() {
        for (text, shown) in [
            ("a".repeat(48), format!("'{}'", "a".repeat(48))),
            ("a".repeat(49), format!("'{}...{}'", "a".repeat(24), "a".repeat(23))),
            ("\u{e9}".repeat(60), format!("'{}...{}'", "\u{e9}".repeat(12), "\u{e9}".repeat(11))),
            ("\u{65e5}".repeat(30), format!("'{}...{}'", "\u{65e5}".repeat(8), "\u{65e5}".repeat(7))),
            ("\u{1f600}".repeat(20), format!("'{}...{}'", "\u{1f600}".repeat(6), "\u{1f600}".repeat(5))),
        ] {
            assert_eq!(shorten(&format!("'{text}'")), shown);
        }
    }
}
