//! Training: the main path, from a recipe to a trained policy and its record.
//!
//! [`run`] is the loop; read it first. [`credit`] estimates the advantage of each trace, [`pack`] lays the credited
//! traces out for a learner, [`loss`] turns logprobs into d loss / d logprob: pure functions, no model, no clock, no
//! file. [`catalogue`] lists everything by name, and docs/algorithms.md is generated from it.

pub mod ahead;
pub mod budget;
pub mod catalogue;
pub mod checkpoint;
pub mod credit;
pub mod drift;
pub mod evaluate;
pub mod events;
pub mod faults;
pub mod fresh;
pub mod guard;
pub mod interval;
pub mod keys;
pub mod ledger;
mod lessons;
mod log;
pub mod loss;
mod material;
mod oracle;
pub mod pack;
mod paths;
pub mod penalty;
pub mod placebo;
pub mod plan;
pub mod recipe;
pub mod report;
pub mod run;
pub mod schedule;
pub mod setup;
pub mod sft;
mod update;

pub use update::first_update;
