//! JSON as template values that behave like Python's dicts and lists.
//!
//! The conversion is written out by hand: going through serde would let a dependency's `arbitrary_precision` feature
//! turn every number into a private map and silently halve template parity.

use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::value::{Enumerator, Object, ObjectRepr, Tuple, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use serde_json::Value as Json;

use super::python::{self, MAX_DEPTH};

/// A JSON value as the template sees it.
pub(super) fn from_json(json: &Json) -> Result<Value, Error> {
    convert(json, 0)
}

fn convert(json: &Json, depth: usize) -> Result<Value, Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(
            ErrorKind::BadSerialization,
            format!("a message or tool is nested deeper than {MAX_DEPTH} levels; flatten it before rendering"),
        ));
    }
    Ok(match json {
        Json::Null => Value::from(()),
        Json::Bool(flag) => Value::from(*flag),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(int), _, _) => Value::from(int),
            (None, Some(int), _) => Value::from(int),
            (None, None, float) => from_float(float.unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => {
            Value::from_object(List(items.iter().map(|item| convert(item, depth + 1)).collect::<Result<_, _>>()?))
        }
        Json::Object(entries) => Value::from_object(Dict(
            entries
                .iter()
                .map(|(key, value)| Ok((key.as_str().into(), convert(value, depth + 1)?)))
                .collect::<Result<_, Error>>()?,
        )),
    })
}

/// A float. If Python writes an exponent where the engine would write the digits out, it becomes a separate object, so
/// that it prints correctly even under operators that the engine formats by itself.
fn from_float(float: f64) -> Value {
    let positional = float == 0.0 || (1e-4..1e16).contains(&float.abs());
    if positional { Value::from(float) } else { Value::from_object(WideFloat(float)) }
}

/// A float of a size that Python prints with an exponent.
#[derive(Debug)]
pub(super) struct WideFloat(pub(super) f64);

impl Object for WideFloat {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        python::write_float(&mut out, self.0, "nan", "inf");
        f.write_str(&out)
    }
}

/// A Python list: prints as one.
#[derive(Debug)]
struct List(Vec<Value>);

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        render(&Value::from_dyn_object(Arc::clone(self)), f)
    }
}

/// A Python dict: keeps its order, prints as one, and its methods win over keys of the same name.
#[derive(Debug)]
struct Dict(IndexMap<Arc<str>, Value>);

impl Object for Dict {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_str()?).cloned()
    }

    /// Attribute access. `schema.items` is the method even if the dict has that key; `schema['items']` is the key.
    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        match key {
            "get" | "items" | "keys" | "values" | "copy" => {
                let dict = Arc::clone(self);
                let name = key.to_owned();
                Some(Value::from_object(Method { dict, name }))
            }
            // The sandbox hides the methods that change a dict.
            "clear" | "pop" | "popitem" | "setdefault" | "update" => None,
            _ => self.0.get(key).cloned(),
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.keys().map(|key| Value::from(&**key)).collect())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.0.len())
    }

    fn call_method(self: &Arc<Self>, _: &mut State<'_, '_>, method: &str, args: &[Value]) -> Result<Value, Error> {
        self.call(method, args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        render(&Value::from_dyn_object(Arc::clone(self)), f)
    }
}

impl Dict {
    fn call(self: &Arc<Self>, method: &str, args: &[Value]) -> Result<Value, Error> {
        let view = |name, items: Vec<Value>| Value::from_object(DictView { name, items });
        match method {
            "get" => {
                let (key, default): (&Value, Option<Value>) = from_args(args)?;
                let found = key.as_str().and_then(|key| self.0.get(key)).cloned();
                Ok(found.or(default).unwrap_or_else(|| Value::from(())))
            }
            "items" => {
                let () = from_args(args)?;
                let pair =
                    |(key, value): (&Arc<str>, &Value)| Value::from(Tuple::from([Value::from(&**key), value.clone()]));
                Ok(view("items", self.0.iter().map(pair).collect()))
            }
            "keys" => {
                let () = from_args(args)?;
                Ok(view("keys", self.0.keys().map(|key| Value::from(&**key)).collect()))
            }
            "values" => {
                let () = from_args(args)?;
                Ok(view("values", self.0.values().cloned().collect()))
            }
            "copy" => {
                let () = from_args(args)?;
                Ok(Value::from_dyn_object(Arc::clone(self)))
            }
            "clear" | "pop" | "popitem" | "setdefault" | "update" => Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("dict.{method} would change the conversation; the template sandbox forbids it"),
            )),
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

/// A bound method of a dict, as `schema.items` without a call gives one.
#[derive(Debug)]
struct Method {
    dict: Arc<Dict>,
    name: String,
}

impl Object for Method {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        self.dict.call(&self.name, args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<built-in method {} of dict object>", self.name)
    }
}

/// `dict.items()` and its siblings: iterable and sized, but neither indexable nor JSON.
#[derive(Debug)]
pub(super) struct DictView {
    name: &'static str,
    items: Vec<Value>,
}

impl DictView {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }
}

impl Object for DictView {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items.clone())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.items.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        render(&Value::from_dyn_object(Arc::clone(self)), f)
    }
}

/// Python's text of a container, for the operations of the engine that print values by themselves (`~`, `join`).
fn render(value: &Value, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(&python::to_str(value).map_err(|_| fmt::Error)?)
}
