//! Kinds of values, found by asking serde: a type's deserialiser says which kind it expects before it gets any value.

use std::any::TypeId;
use std::fmt;
use std::path::PathBuf;

use serde::de::value::Error;
use serde::de::{DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

/// Kind of value that a key takes. Displayed in a user's words: `whole number`, `one of "a", "b"`, `list of text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Any,
    Flag,
    Whole,
    Number,
    Text,
    Path,
    /// A table; its keys, where the type has a fixed set.
    Table(&'static [&'static str]),
    TextOrTable,
    OneOf(&'static [&'static str]),
    List(Box<Kind>),
    /// A list of a fixed length.
    Tuple(usize, Box<Kind>),
}

impl Kind {
    pub fn is_list(&self) -> bool {
        matches!(self, Self::List(_) | Self::Tuple(..))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Flag => f.write_str("true or false"),
            Self::Whole => f.write_str("whole number"),
            Self::Number => f.write_str("number"),
            Self::Text => f.write_str("text"),
            Self::Path => f.write_str("path"),
            Self::Table([]) => f.write_str("table"),
            Self::Table(keys) => write!(f, "table of {}", quoted(keys)),
            Self::TextOrTable => f.write_str("text or table"),
            Self::OneOf(names) => write!(f, "one of {}", quoted(names)),
            Self::List(item) => write!(f, "list of {item}"),
            Self::Tuple(count, item) => write!(f, "list of {count}, each a {item}"),
        }
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

/// The kind of value that `T` reads.
pub fn kind<'de, T: Deserialize<'de> + 'static>() -> Kind {
    // serde asks for a path as for any text.
    if [TypeId::of::<PathBuf>(), TypeId::of::<Option<PathBuf>>()].contains(&TypeId::of::<T>()) {
        return Kind::Path;
    }
    let mut found = Kind::Any;
    // Always fails: there is no value, only the request for one.
    let _ = T::deserialize(Probe(&mut found));
    found
}

/// Deserialiser that records which kind is requested and has no value to give.
struct Probe<'a>(&'a mut Kind);

impl Probe<'_> {
    fn note<V>(self, kind: Kind) -> Result<V, Error> {
        *self.0 = kind;
        Err(Error::custom("only the kind was asked for"))
    }
}

/// Kind of a list's items.
fn items<'de, V: Visitor<'de>>(visitor: V) -> Kind {
    let mut item = Kind::Any;
    let _ = visitor.visit_seq(Items(&mut item));
    item
}

macro_rules! noted {
    ($kind:expr => $($method:ident)+) => {
        $(fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            self.note($kind)
        })+
    };
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Error;

    noted!(Kind::Flag => deserialize_bool);
    noted!(Kind::Whole => deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8
        deserialize_u16 deserialize_u32 deserialize_u64);
    noted!(Kind::Number => deserialize_f32 deserialize_f64);
    noted!(Kind::Text => deserialize_char deserialize_str deserialize_string deserialize_identifier);
    noted!(Kind::Table(&[]) => deserialize_map);
    noted!(Kind::TextOrTable => deserialize_any);

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.note(Kind::List(Box::new(items(visitor))))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, count: usize, visitor: V) -> Result<V::Value, Error> {
        self.note(Kind::Tuple(count, Box::new(items(visitor))))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.note(Kind::Table(fields))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.note(Kind::OneOf(variants))
    }

    forward_to_deserialize_any! { i128 u128 bytes byte_buf unit unit_struct tuple_struct ignored_any }
}

/// A list with one item, which is asked only for its kind.
struct Items<'a>(&'a mut Kind);

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        seed.deserialize(Probe(self.0)).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_says_what_it_reads() {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Choice {
            OneThing,
            Another,
        }
        for (kind, words) in [
            (kind::<u8>(), "whole number"),
            (kind::<Option<f64>>(), "number"),
            (kind::<Vec<String>>(), "list of text"),
            (kind::<(f64, f64)>(), "list of 2, each a number"),
            (kind::<Choice>(), "one of \"one_thing\", \"another\""),
            (kind::<Option<PathBuf>>(), "path"),
            (kind::<serde_json::Value>(), "text or table"),
        ] {
            assert_eq!(kind.to_string(), words);
            assert_eq!(kind.is_list(), words.starts_with("list"), "{words}");
        }
    }
}
