//! Scorers in any language that keep running: `kind = "stdio"`.

use super::catalogue::{ComponentEntry, plain};
use crate::catalogue::Options;
use crate::stdio::{CommandSpec, StdioScorer};

pub(super) const ENTRY: ComponentEntry = ComponentEntry {
    name: "stdio",
    about: "Your own program that keeps running: one case per line in, one value with its reason per line out",
    advice: "For scorers in any language that are slow to start; docs/environments.md has the protocol",
    paper: None,
    options: Options::with::<CommandSpec>(r#"{"command": ["python3", "score.py"]}"#),
    make: plain::<StdioScorer>,
};
