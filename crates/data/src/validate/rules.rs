//! Rules of a validation: how often tasks are played, and which are kept.

use serde::{Deserialize, Serialize};

/// A TOML file, or `--rule key=value`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// The value of the success component from which an episode passes.
    pub pass: f64,
    /// Replays of doing nothing and of the reference, with one seed; their results must agree.
    pub replays: u32,
    /// Attempts of the teacher on every task; 0: once, and only on tasks without a reference.
    pub teacher: u32,
    /// Minimum and maximum share of the teacher's attempts that solve a task.
    pub min_solved: f64,
    pub max_solved: f64,
    /// Reject tasks whose reference changes nothing and that doing nothing passes.
    pub drop_no_op: bool,
    /// Accept references in which a call of a tool that changes nothing fails.
    pub failing_reads: bool,
    /// Accept references in which any call fails, if the verifier passes at the end: errors are part of the task.
    pub failing_calls: bool,
    /// Variables that every task must have.
    pub require_variables: Vec<String>,
    /// Reject tasks without a date variable in environments where at least this share of the tasks has one; over 1: none.
    pub date_share: f64,
    /// Turns of an episode.
    pub max_turns: u32,
    pub seed: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            pass: 1.0,
            replays: 2,
            teacher: 0,
            min_solved: f64::MIN_POSITIVE,
            max_solved: 1.0,
            drop_no_op: false,
            failing_reads: false,
            failing_calls: false,
            require_variables: Vec::new(),
            date_share: 0.5,
            max_turns: 64,
            seed: 0,
        }
    }
}
