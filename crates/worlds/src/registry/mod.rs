//! Environments by name: the catalogue, and the one door through which recipes and commands open them.
//!
//! An [`EnvSpec`] is a recipe's `[env]` table. A new built-in environment is one file here, with its options and how they
//! open, and one entry of [`BUILTINS`].

mod service;
mod shop;
mod spec;
mod triage;

use hone_arena::registry::RegistryError;
use serde_json::{Map, Value};

pub use service::{ServiceSpec, UserSpec};
pub use shop::ShopSpec;
pub use spec::{EnvSpec, EnvSpecs};
pub use triage::{HeldOut, TriageSpec};

/// An environment that comes with Hone.
#[derive(Debug, Clone, Copy)]
pub struct Builtin {
    pub name: &'static str,
    pub about: &'static str,
    /// Whether the agent talks to a user.
    pub user: bool,
    /// Reads its options.
    make: fn(&str, Map<String, Value>) -> Result<EnvSpec, RegistryError>,
}

pub const BUILTINS: [Builtin; 5] = [
    Builtin {
        name: crate::shop::NAME,
        about: "A small shop's desk: tools that must be read, three to nine calls that build on each other. For small models",
        user: false,
        make: spec::read::<ShopSpec>,
    },
    Builtin {
        name: "triage-reader",
        about: "IT tickets with the documents in the prompt: one turn, one submission",
        user: false,
        make: spec::read::<TriageSpec>,
    },
    Builtin {
        name: "triage-searcher",
        about: "IT tickets with a knowledge base to search: many turns",
        user: false,
        make: spec::read::<TriageSpec>,
    },
    Builtin {
        name: "retail",
        about: "Customer service of a shop, as tau-bench defines it: a generated world, or tau-bench's with data = DIR",
        user: true,
        make: spec::read::<ServiceSpec>,
    },
    Builtin {
        name: "airline",
        about: "Customer service of an airline, as tau-bench defines it: a generated world, or tau-bench's",
        user: true,
        make: spec::read::<ServiceSpec>,
    },
];

/// The entry of a name; otherwise an error with the nearest one.
pub fn find(name: &str) -> Result<Builtin, RegistryError> {
    BUILTINS.into_iter().find(|builtin| builtin.name == name).ok_or_else(|| RegistryError::Unknown {
        name: name.to_owned(),
        nearest: hone_chat::parse::nearest(name, BUILTINS.iter().map(|builtin| builtin.name)).map(str::to_owned),
        known: BUILTINS.map(|builtin| builtin.name).join(", "),
    })
}
