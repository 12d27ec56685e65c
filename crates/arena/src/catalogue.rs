//! Catalogues: everything a recipe can name in `arena` and `worlds`, and the reference pages that are written from it.
//!
//! An [`Entry`] is the single place that holds a name, its description and its constructor. Its keys come from the
//! struct that reads them ([`documented!`](crate::documented)): name and meaning from the fields and their doc
//! comments, type and default from serde. The pages are tested, so they cannot diverge from the code.

mod page;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub use hone_trace::keys::{Documented, Key, Kind};
pub use page::{Place, keys_table, section};

/// Something a recipe can name.
#[derive(Debug, Clone, Copy)]
pub struct Entry<T: 'static> {
    pub name: &'static str,
    /// Description, in one line.
    pub about: &'static str,
    /// Advice on its use, in one line.
    pub advice: &'static str,
    /// The publication it comes from.
    pub paper: Option<&'static str>,
    pub options: Options,
    pub make: T,
}

/// The options of an entry: their keys, the required ones, and the defaults of the rest.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub keys: &'static [&'static [Key]],
    /// Example values, as a JSON object: all keys without a default, and those that the example needs besides.
    pub example: &'static str,
    complete: fn(Value) -> Result<Value, serde_json::Error>,
}

impl Options {
    /// No options at all.
    pub const NONE: Self = Self { keys: &[], example: "{}", complete: Ok };

    /// The options that `T` reads, all of which have defaults.
    pub const fn of<T: Documented + Serialize + DeserializeOwned>() -> Self {
        Self::with::<T>("{}")
    }

    /// The options that `T` reads; `example` has those without a default.
    pub const fn with<T: Documented + Serialize + DeserializeOwned>(example: &'static str) -> Self {
        Self { keys: const { &[T::KEYS] }, example, complete: complete::<T> }
    }

    /// The options that `A` and `B` read from one table, each its own.
    pub const fn both<A, B>(example: &'static str) -> Self
    where
        A: Documented + Serialize + DeserializeOwned,
        B: Documented + Serialize + DeserializeOwned,
    {
        Self { keys: const { &[A::KEYS, B::KEYS] }, example, complete: complete_both::<A, B> }
    }

    /// The example as a table.
    pub fn shown(&self) -> Result<Value, serde_json::Error> {
        serde_json::from_str(self.example)
    }

    /// The example's keys that no table may lack: without a default, or marked as needed.
    fn required(&self) -> Result<Value, serde_json::Error> {
        let mut example: Map<String, Value> = serde_json::from_str(self.example)?;
        let whole = example.clone();
        example.retain(|name, _| {
            let mut without = whole.clone();
            without.remove(name);
            let marked = self.keys.iter().copied().flatten().any(|key| key.name == name && key.rule.required);
            marked || (self.complete)(without.into()).is_err()
        });
        Ok(example.into())
    }

    /// The required keys with their example values, and every default beside them.
    pub fn defaults(&self) -> Result<(Value, Value), serde_json::Error> {
        let required = self.required()?;
        Ok((required.clone(), (self.complete)(required)?))
    }
}

fn complete<T: Serialize + DeserializeOwned>(table: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(table)?)
}

fn complete_both<A, B>(table: Value) -> Result<Value, serde_json::Error>
where
    A: Documented + Serialize + DeserializeOwned,
    B: Serialize + DeserializeOwned,
{
    let (own, rest) = split::<A>(table);
    let (mut whole, rest) = (complete::<A>(own)?, complete::<B>(rest)?);
    if let (Value::Object(whole), Value::Object(rest)) = (&mut whole, rest) {
        whole.extend(rest);
    }
    Ok(whole)
}

/// A table's keys that are `A`'s, and the others.
pub fn split<A: Documented>(table: Value) -> (Value, Value) {
    let Value::Object(table) = table else { return (table, Value::Null) };
    let (own, rest): (Vec<_>, Vec<_>) =
        table.into_iter().partition(|(key, _)| A::KEYS.iter().any(|known| known.name == key));
    (Value::Object(own.into_iter().collect()), Value::Object(rest.into_iter().collect()))
}

/// Unknown name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no {what} {name:?}; {}known are {known}", did_you_mean(nearest.as_deref()))]
pub struct UnknownName {
    pub what: &'static str,
    pub name: String,
    pub nearest: Option<String>,
    pub known: String,
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!("did you mean {nearest:?}? Otherwise ")).unwrap_or_default()
}

/// The entry of this name, or an error with the nearest one.
pub fn find<'a, T>(
    what: &'static str,
    entries: impl Iterator<Item = &'a Entry<T>> + Clone,
    name: &str,
) -> Result<&'a Entry<T>, UnknownName> {
    entries.clone().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = entries.map(|entry| entry.name).collect();
        UnknownName {
            what,
            name: name.to_owned(),
            nearest: hone_chat::parse::nearest(name, names.iter().copied()).map(str::to_owned),
            known: names.join(", "),
        }
    })
}
