//! Evaluation of a policy, and comparisons of several.
//!
//! `passes` and [`hone_train::interval`] are the statistics, [`table`] counts recorded episodes into rows by environment, split
//! and difficulty, [`checkpoints`] compares those of a run, [`spent`] computes the cost of a solved task, `detect`
//! finds behaviour in single episodes, [`compare`] pairs two evaluations of the same tasks. Everything is computed from
//! traces and can be recomputed.

pub mod checkpoints;
pub mod compare;
mod detect;
mod passes;
pub mod recorded;
pub mod spent;
pub mod table;

pub use hone_data::table::Table;
