//! Environments and scorers in any language: a child process that answers JSON lines.
//!
//! Hone writes requests to the process's stdin and reads answers from its stdout, one JSON object per line. One process
//! plays many episodes at once: a request names its episode and carries an `id`, an answer carries the same `id`, and
//! answers may come in any order. `docs/environments.md` has the protocol and complete Python examples.
//!
//! Processes are supervised. Every request has a deadline; a process that ends or stops answering is replaced. That
//! costs the episodes it was playing, and no others; each gets a transient fault that quotes the process's stderr.
//! Lines are bounded, stray output is named in the next fault, and nothing outlives its pool.
//!
//! This module knows nothing about Python or about any particular environment.

mod arena;
mod flush;
mod lines;
mod process;
mod scorer;
mod wire;
mod worker;

use serde::{Deserialize, Serialize};

use crate::children;
use crate::documented;

pub use arena::StdioArena;
pub use scorer::StdioScorer;

documented! {
    /// A program to talk to: `{ command = ["python3", "my_env.py"], workers = 4 }`.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct CommandSpec {
        /// The program and its arguments. No shell is involved.
        pub command: Vec<String>,
        /// Working directory; absent: that of Hone, and in a recipe the recipe's own directory.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub directory: Option<std::path::PathBuf> where home_of("command"),
        /// Number of processes that share the episodes.
        #[serde(default = "one")]
        pub workers: usize where whole(1, 1_024),
        /// Seconds for one answer.
        #[serde(default = "deadline")]
        pub deadline_s: f64 where over(0.0, 86_400.0),
        /// Seconds for the first answer of a fresh process, its start included. Imports can be slow.
        #[serde(default = "start_deadline")]
        pub start_deadline_s: f64 where over(0.0, 86_400.0),
        /// Names of variables that the program gets beside the usual ones (`PATH`, `HOME`, `LANG`, `TMPDIR`, `PYTHONPATH`,
        /// …). It sees no others, and no key of a judge or a model.
        #[serde(default)]
        pub variables: Vec<String>,
    }
}

fn one() -> usize {
    1
}

fn deadline() -> f64 {
    30.0
}

fn start_deadline() -> f64 {
    60.0
}

/// Errors in a command.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CommandError {
    #[error("the command is empty; name a program: command = [\"python3\", \"my_env.py\"]")]
    Empty,
    #[error("workers must be between 1 and 1024, found {0}; set it to your number of cores")]
    Workers(usize),
    #[error("{name} must be over 0 and at most 86400 seconds, found {value}; set it to seconds, such as 10")]
    Deadline { name: &'static str, value: f64 },
    #[error("variables names {0}, which is not set here; set it, or leave it out")]
    Variable(String),
}

impl CommandSpec {
    /// One process with the usual deadlines.
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            directory: None,
            workers: one(),
            deadline_s: deadline(),
            start_deadline_s: start_deadline(),
            variables: Vec::new(),
        }
    }

    fn check(&self) -> Result<(), CommandError> {
        if self.command.is_empty() {
            return Err(CommandError::Empty);
        }
        if !(1..=1024).contains(&self.workers) {
            return Err(CommandError::Workers(self.workers));
        }
        for (name, value) in [("deadline_s", self.deadline_s), ("start_deadline_s", self.start_deadline_s)] {
            if !(value > 0.0 && value <= 86_400.0) {
                return Err(CommandError::Deadline { name, value });
            }
        }
        if let Some(name) = children::missing(&self.variables) {
            return Err(CommandError::Variable(name.clone()));
        }
        Ok(())
    }

    /// The program's name in messages.
    fn name(&self) -> String {
        self.command.join(" ")
    }
}
