//! Environments by name: the catalogue, and the one door through which recipes and commands open them.
//!
//! An [`EnvSpec`] is a recipe's `[env]` table. A new built-in environment is one file here, with its entry, its options
//! and how they open, and one line of [`BUILTINS`]; docs/environments-reference.md is written from here.

mod page;
mod remote;
mod service;
mod shop;
mod spec;
mod triage;

use hone_arena::catalogue::{self, Entry, Key, Options};
use hone_arena::registry::{ProgramSpec, RegistryError};
use serde_json::{Map, Value};

pub use page::page;
pub use remote::REMOTE;
pub use service::{ServiceSpec, UserSpec};
pub use shop::ShopSpec;
pub use spec::{EnvSpec, EnvSpecs};
pub use triage::{HeldOut, TriageSpec};

/// Maker of an environment.
#[derive(Debug, Clone, Copy)]
pub struct Make {
    /// Reads its options, with the name they stand under.
    read: fn(&str, Map<String, Value>) -> Result<EnvSpec, RegistryError>,
    /// True when the agent talks to a user.
    pub user: bool,
}

pub type EnvEntry = Entry<Make>;

/// The environments that come with Hone.
pub static BUILTINS: &[&EnvEntry] = &[
    &shop::ENTRY,
    &triage::READER_ENTRY,
    &triage::SEARCHER_ENTRY,
    &service::RETAIL_ENTRY,
    &service::AIRLINE_ENTRY,
    &service::TELECOM_ENTRY,
];

/// A program of the user's own, which `command` names.
pub(crate) const PROGRAM: EnvEntry = EnvEntry {
    name: "command",
    about: "A program of your own, in any language: requests and answers as JSON lines over stdin and stdout",
    advice: "The way to train in an environment that is not built in; docs/environments.md has the protocol and a Python example",
    paper: None,
    options: Options::with::<ProgramSpec>(r#"{"command": ["python3", "my_env.py"]}"#),
    make: Make { read: spec::read::<ProgramSpec>, user: false },
};

/// The entry of a name; otherwise an error with the nearest one.
pub fn find(name: &str) -> Result<&'static EnvEntry, RegistryError> {
    Ok(catalogue::find("environment", BUILTINS.iter().copied(), name)?)
}

/// The keys of an `[env]` table: those of the environment it names. None where nothing is known under that name.
pub fn keys<'a>(text: &dyn Fn(&str) -> Option<&'a str>) -> Vec<&'static [Key]> {
    let entry = match (text("command"), text("name")) {
        (Some(_), _) => Some(&PROGRAM),
        (None, name) => find(name.unwrap_or(crate::shop::NAME)).ok(),
    };
    entry.map(|entry| entry.options.keys.to_vec()).unwrap_or_default()
}
