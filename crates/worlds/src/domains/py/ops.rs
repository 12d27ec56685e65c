//! Subscripts, membership, iteration and equality, with the exceptions Python raises for the wrong types.

use std::sync::Arc;

use super::num::{Number, compare};
use super::{Dict, Raised, Value};

/// `left == right`.
pub fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::None, Value::None) => true,
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(a, b)),
        (Value::Dict(a), Value::Dict(b)) => {
            a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        _ => match (Number::of(left), Number::of(right)) {
            (Some(a), Some(b)) => compare(&a, &b) == Some(std::cmp::Ordering::Equal),
            _ => false,
        },
    }
}

/// Equality inside containers, where identity comes first: JSON's `NaN` is one object, equal to itself there and only
/// there.
fn same(left: &Value, right: &Value) -> bool {
    matches!((left, right), (Value::Float(a), Value::Float(b)) if a.is_nan() && b.is_nan()) || equal(left, right)
}

/// True when `value == text`.
pub fn is(value: &Value, text: &str) -> bool {
    value.as_str() == Some(text)
}

/// The entry of a dictionary under any key: `None` when absent, an exception when the key cannot be hashed.
pub fn lookup<'a>(dict: &'a Dict, key: &Value) -> Result<Option<&'a Value>, Raised> {
    Ok(hashed(key)?.and_then(|key| dict.get(key)))
}

/// The key as text: the only kind of key our dictionaries have. Other hashable values are in none of them.
pub(crate) fn hashed(key: &Value) -> Result<Option<&str>, Raised> {
    match key {
        Value::List(_) | Value::Dict(_) => Err(Raised(format!("unhashable type: '{}'", key.type_name()))),
        Value::Str(text) => Ok(Some(text)),
        _ => Ok(None),
    }
}

/// `dict[key]`.
pub(crate) fn subscript<'a>(dict: &'a Dict, key: &Value) -> Result<&'a Value, Raised> {
    lookup(dict, key)?.ok_or_else(|| Raised::key(key))
}

/// `container["field"]`.
pub fn field<'a>(container: &'a Value, name: &str) -> Result<&'a Value, Raised> {
    match container {
        Value::Dict(dict) => dict.get(name).ok_or_else(|| Raised::key(&Value::from(name))),
        Value::Str(_) => Err(Raised::new("string indices must be integers, not 'str'")),
        Value::List(_) => Err(Raised::new("list indices must be integers or slices, not str")),
        other => Err(Raised(format!("'{}' object is not subscriptable", other.type_name()))),
    }
}

/// `container["field"]` as a dictionary of records.
pub(crate) fn dict_field<'a>(container: &'a Value, name: &str) -> Result<&'a Dict, Raised> {
    let value = field(container, name)?;
    value.as_dict().ok_or_else(|| Raised(format!("'{}' object is not a dictionary", value.type_name())))
}

/// `container["field"]`, to be written to.
pub(crate) fn field_mut<'a>(container: &'a mut Value, name: &str) -> Result<&'a mut Value, Raised> {
    match container {
        Value::Dict(dict) => Arc::make_mut(dict).get_mut(name).ok_or_else(|| Raised::key(&Value::from(name))),
        other => field(other, name).and_then(|_| Err(Raised::key(&Value::from(name)))),
    }
}

/// `container["field"] = value`.
pub fn set(container: &mut Value, name: &str, value: Value) -> Result<(), Raised> {
    let Value::Dict(dict) = container else {
        return Err(Raised(format!("'{}' object does not support item assignment", container.type_name())));
    };
    Arc::make_mut(dict).insert(name.into(), value);
    Ok(())
}

/// `container.append(value)`.
pub fn append(container: &mut Value, value: Value) -> Result<(), Raised> {
    list_mut(container, "append")?.push(value);
    Ok(())
}

/// `container.extend(values)`.
pub fn extend(container: &mut Value, values: Vec<Value>) -> Result<(), Raised> {
    list_mut(container, "extend")?.extend(values);
    Ok(())
}

fn list_mut<'a>(container: &'a mut Value, method: &str) -> Result<&'a mut Vec<Value>, Raised> {
    match container {
        Value::List(items) => Ok(Arc::make_mut(items)),
        other => Err(no_attribute(other, method)),
    }
}

pub(crate) fn no_attribute(value: &Value, name: &str) -> Raised {
    Raised(format!("'{}' object has no attribute '{name}'", value.type_name()))
}

/// The items that `for x in value` visits.
pub(crate) fn iterate(value: &Value) -> Result<Vec<Value>, Raised> {
    match value {
        Value::List(items) => Ok(items.to_vec()),
        Value::Dict(dict) => Ok(dict.keys().map(|key| Value::Str(key.clone())).collect()),
        Value::Str(text) => Ok(text.chars().map(|c| Value::str(c.to_string())).collect()),
        other => Err(Raised(format!("'{}' object is not iterable", other.type_name()))),
    }
}

/// `len(value)`.
pub fn len(value: &Value) -> Result<i64, Raised> {
    match value {
        Value::List(items) => Ok(items.len() as i64),
        Value::Dict(dict) => Ok(dict.len() as i64),
        Value::Str(text) => Ok(text.chars().count() as i64),
        other => Err(Raised(format!("object of type '{}' has no len()", other.type_name()))),
    }
}

/// `container.count(value)`.
pub fn count(container: &Value, value: &Value) -> Result<usize, Raised> {
    match (container, value) {
        (Value::List(items), _) => Ok(items.iter().filter(|item| same(item, value)).count()),
        (Value::Str(text), Value::Str(part)) => Ok(text.matches(&**part).count()),
        (Value::Str(_), other) => Err(Raised(format!("must be str, not {}", other.type_name()))),
        (other, _) => Err(no_attribute(other, "count")),
    }
}

/// `value.lower()`.
pub fn lower(value: &Value) -> Result<String, Raised> {
    value.as_str().map(str::to_lowercase).ok_or_else(|| no_attribute(value, "lower"))
}

/// `sorted(value)` of ids. Callers have found every one of them among their records' keys, so they are text.
pub(crate) fn sorted_ids(value: &Value) -> Result<Value, Raised> {
    let mut items = iterate(value)?;
    items.iter().zip(items.iter().skip(1)).try_for_each(|(a, b)| super::num::less(b, a).map(drop))?;
    items.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    Ok(Value::list(items))
}

/// `value[0]` of a list in our own records.
pub fn first(value: &Value) -> Result<&Value, Raised> {
    value.as_list().and_then(<[Value]>::first).ok_or_else(|| Raised::new("list index out of range"))
}
