//! The environments that come with Hone, and the catalogue that gives them their names.
//!
//! Each one is an arena (`hone_trace::Arena`) with tasks, a rubric and scripted baselines; nothing outside its own
//! folder knows its rules. [`registry`] is the one door: a recipe's `[env]` in, environments to play out.

pub mod domains;
pub mod registry;
pub mod shop;
pub mod triage;

pub use registry::{BUILTINS, EnvEntry, EnvSpec, EnvSpecs};
