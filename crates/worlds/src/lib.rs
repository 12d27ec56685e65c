//! Built-in environments and their catalogue.
//!
//! Each one is an arena (`hone_trace::Arena`) with tasks, a rubric and scripted baselines; nothing outside its own
//! folder knows its rules. [`registry`] is the single entry point: it turns a recipe's `[env]` into environments to
//! play in.

pub mod registry;

use hone_trace::entries;

pub use registry::{EnvEntry, EnvSpec, EnvSpecs};

entries! {
    /// The built-in environments. A new one is one file (or folder) with its entry, and one line here.
    pub static BUILTINS: [&EnvEntry];
    pub mod shop: SHOP;
    pub mod triage: READER, SEARCHER;
    pub mod domains: RETAIL, AIRLINE, TELECOM;
}
