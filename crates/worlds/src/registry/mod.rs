//! Environments by name: the catalogue, and the single entry point through which recipes and commands open them.
//!
//! An [`EnvSpec`] is a recipe's `[env]` table. An environment's own file has its entry, its options and how they open;
//! [`BUILTINS`] lists them, and docs/environments-reference.md is written from here.

mod page;
mod remote;
mod spec;

use hone_arena::catalogue::{self, Entry, Key, Options};
use hone_arena::registry::{ProgramSpec, RegistryError};
use serde_json::{Map, Value};

pub use page::page;
pub use remote::REMOTE;
pub(crate) use spec::read;
pub use spec::{EnvSpec, EnvSpecs};

use crate::BUILTINS;

/// Maker of an environment.
#[derive(Debug, Clone, Copy)]
pub struct Make {
    /// Reads its options, with their name.
    pub(crate) read: fn(&str, Map<String, Value>) -> Result<EnvSpec, RegistryError>,
    /// True when the agent talks to a user.
    pub user: bool,
    /// Floor of a built-in environment; none for other environments.
    pub floor: Option<Floor>,
}

/// Floor: the most that any scripted policy earns in an environment, on average. Only success above it counts.
#[derive(Debug, Clone, Copy)]
pub struct Floor {
    pub at_most: f64,
    /// Options it was measured with, as a JSON object.
    pub options: &'static str,
}

pub type EnvEntry = Entry<Make>;

/// A user's own program, named by `command`.
pub(crate) const PROGRAM: EnvEntry = EnvEntry {
    name: "command",
    about: "A program of your own, in any language: requests and answers as JSON lines over stdin and stdout",
    advice: "The way to train in an environment that is not built in; docs/environments.md has the protocol and a Python example",
    paper: None,
    options: Options::with::<ProgramSpec>(r#"{"command": ["python3", "my_env.py"]}"#),
    make: Make { read: read::<ProgramSpec>, user: false, floor: None },
};

/// The entry of a name; otherwise an error with the nearest one.
pub fn find(name: &str) -> Result<&'static EnvEntry, RegistryError> {
    Ok(catalogue::find("environment", BUILTINS.iter().copied(), name)?)
}

/// The keys of an `[env]` table: those of the environment it names, by the rules of [`EnvSpec::read`]. Empty for an unknown
/// name.
pub fn keys<'a>(text: &dyn Fn(&str) -> Option<&'a str>) -> Vec<&'static [Key]> {
    let entry = match (text("kind"), text("command"), text("name")) {
        (Some(kind), ..) => REMOTE.iter().copied().find(|entry| entry.name == kind),
        (None, Some(_), _) => Some(&PROGRAM),
        (None, None, name) => find(name.unwrap_or(crate::shop::NAME)).ok(),
    };
    entry.map(|entry| entry.options.keys.to_vec()).unwrap_or_default()
}
