//! Kinds of values, found by asking serde: a type's deserialiser says which kind it expects before it gets any value.

use serde::de::value::Error;
use serde::de::{DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

/// The kind of value that `T` reads: `whole number`, `one of "a", "b"`, `list of text`, `path`, ….
pub fn kind<'de, T: Deserialize<'de>>() -> String {
    // serde asks for a path as for any text, so the type's name has to say it.
    if std::any::type_name::<T>().contains("PathBuf") {
        return "path".to_owned();
    }
    let mut found = String::from("any");
    // Always fails: there is no value, only the request for one.
    let _ = T::deserialize(Probe(&mut found));
    found
}

/// Deserialiser that records which kind is requested and has no value to give.
struct Probe<'a>(&'a mut String);

impl Probe<'_> {
    fn note<V>(self, kind: impl Into<String>) -> Result<V, Error> {
        *self.0 = kind.into();
        Err(Error::custom("only the kind was asked for"))
    }

    /// The kind of a list's items, after `prefix`.
    fn items<'de, V: Visitor<'de>>(self, prefix: &str, visitor: V) -> Result<V::Value, Error> {
        let mut item = String::from("any");
        let _ = visitor.visit_seq(Items(&mut item));
        self.note(format!("{prefix} {item}"))
    }
}

fn named(names: &'static [&'static str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

macro_rules! noted {
    ($kind:literal: $($method:ident)+) => {
        $(fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            self.note($kind)
        })+
    };
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Error;

    noted!("true or false": deserialize_bool);
    noted!("whole number": deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8
        deserialize_u16 deserialize_u32 deserialize_u64);
    noted!("number": deserialize_f32 deserialize_f64);
    noted!("text": deserialize_char deserialize_str deserialize_string deserialize_identifier);
    noted!("table": deserialize_map);
    noted!("text or table": deserialize_any);

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.items("list of", visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, count: usize, visitor: V) -> Result<V::Value, Error> {
        self.items(&format!("list of {count}, each a"), visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.note(format!("table of {}", named(fields)))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.note(format!("one of {}", named(variants)))
    }

    forward_to_deserialize_any! { i128 u128 bytes byte_buf unit unit_struct tuple_struct ignored_any }
}

/// A list with one item, which is asked only for its kind.
struct Items<'a>(&'a mut String);

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
        assert_eq!(kind::<u8>(), "whole number");
        assert_eq!(kind::<Option<f64>>(), "number");
        assert_eq!(kind::<Vec<String>>(), "list of text");
        assert_eq!(kind::<(f64, f64)>(), "list of 2, each a number");
        assert_eq!(kind::<Choice>(), "one of \"one_thing\", \"another\"");
        assert_eq!(kind::<Option<std::path::PathBuf>>(), "path");
        assert_eq!(kind::<serde_json::Value>(), "text or table");
    }
}
