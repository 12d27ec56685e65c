//! Evaluation: honest numbers about a policy, and comparisons of two.
//!
//! [`passes`] and [`bootstrap`] are the statistics, [`table`] counts recorded episodes into rows by environment, split and
//! difficulty, [`checkpoints`] sets those
//! of a run beside each other, [`spent`] says what a solved task costs, [`detect`] finds behaviour in single episodes, [`compare`] pairs two evaluations of the same tasks. Everything
//! is computed from traces: asked again later, it says the same.

pub mod bootstrap;
pub mod checkpoints;
pub mod compare;
pub mod detect;
pub mod passes;
pub mod recorded;
pub mod spent;
pub mod table;

pub use hone_data::table::Table;
