//! Environments by name: what there is, and the one door through which recipes and commands open them.
//!
//! An [`EnvSpec`] is a recipe's `[env]` table. It opens as an [`Environment`] (tasks by split, a rubric) or, several at
//! once, as a [`World`] to train in. A new built-in environment is one file here, one entry of [`BUILTINS`] and one
//! variant of [`EnvSpec`].

mod program;
mod service;
mod shop;
mod spec;
mod triage;
mod world;

use std::path::PathBuf;
use std::sync::Arc;

use hone_trace::{Arena, DuplicateTool, Task, TaskSet, TaskSetError};
use indexmap::IndexMap;

use crate::baseline::Baseline;
use crate::domains::LoadError;
use crate::domains::generate::GenerateError;
use crate::domains::tasks::TasksError;
use crate::rewards::spec::SpecError;
use crate::rewards::{Rubric, RubricError};
use crate::stdio::CommandError;

pub use program::ProgramSpec;
pub use service::{ServiceSpec, UserSpec};
pub use shop::ShopSpec;
pub use spec::{EnvSpec, EnvSpecs};
pub use triage::{HeldOut, TriageSpec};
pub use world::World;

/// An environment that comes with Hone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    pub name: &'static str,
    pub about: &'static str,
    /// Whether the agent talks to a user.
    pub user: bool,
}

pub const BUILTINS: [Builtin; 5] = [
    Builtin {
        name: crate::shop::NAME,
        about: "A small shop's desk: tools that must be read, three to nine calls that build on each other. For small models",
        user: false,
    },
    Builtin {
        name: "triage-reader",
        about: "IT tickets with the documents in the prompt: one turn, one submission",
        user: false,
    },
    Builtin { name: "triage-searcher", about: "IT tickets with a knowledge base to search: many turns", user: false },
    Builtin {
        name: "retail",
        about: "Customer service of a shop, as tau-bench defines it: a generated world, or tau-bench's with data = DIR",
        user: true,
    },
    Builtin {
        name: "airline",
        about: "Customer service of an airline, as tau-bench defines it: a generated world, or tau-bench's",
        user: true,
    },
];

/// The split that is trained on.
pub const TRAIN: &str = "train";
/// The split of generated tasks that is never trained on.
pub const HELD_OUT: &str = "held-out";

/// An environment with its tasks, by split, and what an episode earns where a recipe does not say.
pub struct Environment {
    /// As its tasks name it.
    pub name: String,
    pub arena: Arc<dyn Arena>,
    pub splits: IndexMap<String, TaskSet>,
    pub rubric: Rubric,
    /// Scripted policies of its own, beside those that play everywhere: a floor under every trained policy.
    pub baselines: Vec<Arc<dyn Baseline>>,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why an environment cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error("there is no environment {name:?}; {hint}there are {known}, and {{ command = […] }} for your own", hint = did_you_mean(name), known = names())]
    Unknown { name: String },
    #[error("env: {0}")]
    Form(String),
    #[error("options of {name}: {what}")]
    Options { name: String, what: String },
    #[error(
        "{path} has no tasks: neither tasks_train.json, tasks_dev.json and tasks_test.json nor tasks.json; give the \
         domain's own directory"
    )]
    NoTasks { path: String },
    #[error("{name} has no {split} tasks; it has {known}. {fix}")]
    NoSplit { name: String, split: &'static str, known: String, fix: &'static str },
    #[error("two [[env]] tables are called {0:?}; their tasks could not be told apart, so give one table to each")]
    Twice(String),
    #[error("cannot read the tasks in {}", path.display())]
    TaskFile { path: PathBuf, source: std::io::Error },
    #[error("{}, line {line}, is not a task ({{\"key\": …, \"prompt\": …}})", path.display())]
    TaskLine { path: PathBuf, line: usize, source: serde_json::Error },
    #[error("the {name} world cannot be generated")]
    Generate { name: String, source: GenerateError },
    #[error(transparent)]
    Triage(#[from] crate::triage::GenerateError),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Tasks(#[from] TasksError),
    #[error(transparent)]
    Set(#[from] TaskSetError),
    #[error(transparent)]
    Rubric(#[from] RubricError),
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Tools(#[from] DuplicateTool),
}

fn names() -> String {
    BUILTINS.map(|builtin| builtin.name).join(", ")
}

fn did_you_mean(name: &str) -> String {
    let nearest = hone_chat::parse::nearest(name, BUILTINS.iter().map(|builtin| builtin.name));
    nearest.map(|nearest| format!("did you mean {nearest:?}? Otherwise ")).unwrap_or_default()
}

/// The entry of a name.
pub fn find(name: &str) -> Result<Builtin, RegistryError> {
    BUILTINS
        .into_iter()
        .find(|builtin| builtin.name == name)
        .ok_or_else(|| RegistryError::Unknown { name: name.to_owned() })
}

/// Tasks as a set of the environment's split.
fn set(env: &str, split: &str, version: &str, tasks: Vec<Task>) -> Result<(String, TaskSet), RegistryError> {
    Ok((split.to_owned(), TaskSet::new(format!("{env}-{split}"), version, tasks)?.0))
}
