//! Keys of recipe tables: name, type, range and meaning of everything a user may set, each beside the field that holds it.
//!
//! [`documented!`](crate::documented) wraps the struct that serde fills. The doc comment of a field is the key's
//! meaning, its type determines the kind of value, its `Default` is the default, and `where` gives the range of a number,
//! says that the key is a path, or that a resumed run may change it:
//!
//! ```
//! # use serde::{Deserialize, Serialize};
//! hone_trace::documented! {
//!     #[derive(Serialize, Deserialize)]
//!     #[serde(deny_unknown_fields, default)]
//!     pub struct Oven {
//!         /// Degrees Celsius.
//!         pub heat: f64 where over(0.0, 300.0),
//!         /// Trays at once.
//!         pub trays: usize where whole(1, 8),
//!         /// Log of what was baked.
//!         pub log: std::path::PathBuf where path().may_change(),
//!     }
//! }
//! # impl Default for Oven { fn default() -> Self { Self { heat: 180.0, trays: 1, log: "log".into() } } }
//! # use hone_trace::keys::Documented as _;
//! assert_eq!(Oven::KEYS[0].rule.to_string(), "over 0, at most 300");
//! assert!(Oven::KEYS[2].rule.is_path());
//! ```
//!
//! The reader of a recipe enforces the ranges; reference pages are written from the same entries.

mod kind;
mod rules;

pub use kind::{Kind, kind};
pub use rules::{
    Bounds, Choose, Rule, Shape, flat, home_of, named, open, others, over, path, real, seed, table, table_of,
    tables_by_name, under, whole,
};

/// A key of a table.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub meaning: &'static str,
    /// The kind of value it takes.
    pub kind: fn() -> Kind,
    pub rule: Rule,
}

impl Key {
    /// An entry of [`documented!`](crate::documented) or [`keys!`](crate::keys!). A rule may rename its key.
    pub const fn new(field: &'static str, meaning: &'static str, kind: fn() -> Kind, rule: Rule) -> Self {
        let name = match rule.name {
            Some(name) => name,
            None => field,
        };
        Self { name, meaning, kind, rule }
    }
}

/// Tables that know their keys. [`documented!`](crate::documented) implements it.
pub trait Documented {
    const KEYS: &'static [Key];
}

/// A struct whose fields are the keys of a table: doc comments become the reference page's words, and `where` gives the
/// range of a number or the keys of an inner table.
#[macro_export]
macro_rules! documented {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($(#[$($attribute:tt)*])* $shown:vis $field:ident: $type:ty $(where $rule:expr)?),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$($attribute)*])* $shown $field: $type),*
        }

        impl $crate::keys::Documented for $name {
            const KEYS: &'static [$crate::keys::Key] =
                $crate::keys! { $($(#[$($attribute)*])* $field: $type $(where $rule)?),* };
        }
    };
}

/// Keys without a struct behind them: `/// Meaning.` and `name: type where range`, one after the other.
#[macro_export]
macro_rules! keys {
    ($($(#[$($attribute:tt)*])* $field:ident: $type:ty $(where $rule:expr)?),* $(,)?) => {
        &[$($crate::keys::Key::new(
            stringify!($field),
            concat!($($crate::doc_line!($($attribute)*)),*),
            $crate::keys::kind::<$type>,
            $crate::rule!($($rule)?),
        )),*]
    };
}

/// Rule after `where`; without one, the type alone determines the rule.
#[doc(hidden)]
#[macro_export]
macro_rules! rule {
    () => {
        $crate::keys::Rule::OPEN
    };
    ($rule:expr) => {{
        use $crate::keys::*;
        $rule
    }};
}

/// The text of a doc comment's line; nothing for other attributes.
#[doc(hidden)]
#[macro_export]
macro_rules! doc_line {
    (doc = $line:literal) => {
        $line
    };
    ($($other:tt)*) => {
        ""
    };
}
