//! The part of Python's data model that appears in tau-bench's observations and errors.
//!
//! tau-bench has no schema: the agent's arguments go straight into Python dictionaries, come back through `json.dumps`
//! and fail with Python's own error texts. Byte-exact replays therefore need Python's values, spelling, arithmetic and
//! exceptions. This module has only those: it knows nothing about orders or flights.

pub mod json;
pub mod num;
pub mod ops;
pub mod text;

use std::sync::Arc;

use indexmap::IndexMap;
use num_bigint::BigInt;

/// A dictionary in insertion order. Keys are text: everything here came from JSON.
pub type Dict = IndexMap<Arc<str>, Value>;

/// A Python value that JSON can hold. Containers are shared until written to, so that a copy of a record is a pointer.
#[derive(Debug, Clone)]
pub enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// An integer outside `i64`; [`Value::integer`] keeps it that way.
    Big(Arc<BigInt>),
    Float(f64),
    Str(Arc<str>),
    List(Arc<Vec<Value>>),
    Dict(Arc<Dict>),
}

/// A raised exception: the text of `str(e)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raised(pub String);

impl Raised {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// `KeyError`, whose text is the `repr` of the key.
    pub fn key(key: &Value) -> Self {
        Self(text::repr(key))
    }
}

impl Value {
    pub fn str(text: impl Into<Arc<str>>) -> Self {
        Self::Str(text.into())
    }

    pub fn list(items: Vec<Value>) -> Self {
        Self::List(Arc::new(items))
    }

    pub fn dict<K: Into<Arc<str>>>(entries: impl IntoIterator<Item = (K, Value)>) -> Self {
        Self::Dict(Arc::new(entries.into_iter().map(|(key, value)| (key.into(), value)).collect()))
    }

    pub fn integer(number: BigInt) -> Self {
        i64::try_from(&number).map_or_else(|_| Self::Big(Arc::new(number)), Self::Int)
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_dict(&self) -> Option<&Dict> {
        match self {
            Self::Dict(dict) => Some(dict),
            _ => None,
        }
    }

    pub(crate) fn as_list(&self) -> Option<&[Value]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// `type(x).__name__`.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::Big(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "str",
            Self::List(_) => "list",
            Self::Dict(_) => "dict",
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::str(text)
    }
}

impl From<&serde_json::Value> for Value {
    fn from(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::None,
            serde_json::Value::Bool(flag) => Self::Bool(*flag),
            serde_json::Value::Number(number) => number
                .as_i64()
                .map(Self::Int)
                .or_else(|| number.as_u64().map(|big| Self::integer(big.into())))
                .unwrap_or_else(|| Self::Float(number.as_f64().unwrap_or(f64::NAN))),
            serde_json::Value::String(text) => Self::str(text.as_str()),
            serde_json::Value::Array(items) => Self::list(items.iter().map(Self::from).collect()),
            serde_json::Value::Object(entries) => Self::Dict(Arc::new(dict_from(entries))),
        }
    }
}

/// The arguments of a call, as Python would receive them.
pub fn dict_from(entries: &serde_json::Map<String, serde_json::Value>) -> Dict {
    entries.iter().map(|(key, value)| (Arc::from(key.as_str()), Value::from(value))).collect()
}
