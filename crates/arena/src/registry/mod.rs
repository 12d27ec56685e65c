//! Environments as values: the parts of one, and the [`World`] formed by all environments of a recipe.
//!
//! The options of an environment ([`EnvOptions`]) open as an [`Environment`] (tasks by split, a rubric) or, several at
//! once, as a [`World`] to train in. The catalogue of names is in `hone-worlds`; only [`ProgramSpec`], which runs a
//! user's own program, is here.

mod program;
mod task_file;
mod world;

use std::path::PathBuf;
use std::sync::Arc;

use hone_trace::{Arena, DuplicateTool, Task, TaskSet, TaskSetError};
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;

use crate::baseline::Baseline;
use crate::catalogue::UnknownName;
use crate::rewards::spec::{RubricSpec, SpecError};
use crate::rewards::{Rubric, RubricError};
use crate::stdio::CommandError;
use crate::users::NewUser;

pub use program::ProgramSpec;
pub use task_file::TaskFile;
pub use world::World;

/// The split that is trained on.
pub const TRAIN: &str = "train";
/// The split of generated tasks that is never trained on.
pub const HELD_OUT: &str = "held-out";

/// Environment with its tasks by split, and the default rubric.
pub struct Environment {
    /// Name used in tasks.
    pub name: String,
    pub arena: Arc<dyn Arena>,
    pub splits: IndexMap<String, TaskSet>,
    pub rubric: Rubric,
    /// Scripted policies of the environment, beside those that play everywhere: a floor under every trained policy.
    pub baselines: Vec<Arc<dyn Baseline>>,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The options of one environment: a recipe's `[env]` table, read and complete.
pub trait EnvOptions: Table + std::fmt::Debug + Send + Sync {
    /// Name used in tasks.
    fn name(&self) -> &str;

    /// Tasks asked for.
    fn counts(&self) -> Counts;

    /// Opens the environment. `user`, if given, replaces the user that the options name.
    fn open(&self, user: Option<Arc<NewUser>>) -> Result<Environment, RegistryError>;

    /// Default reward of an episode, for recipes without a rubric: the fact `correct`.
    fn rubric(&self) -> RubricSpec {
        RubricSpec::single("correct", serde_json::Map::new())
    }

    /// The split lock that decides which tasks are held out, where there is one.
    fn split_lock(&self) -> Option<PathBuf> {
        None
    }

    /// The split that is held out for evaluation.
    fn held_out_split(&self) -> &'static str {
        HELD_OUT
    }
}

/// Options that print back as the table they were read from, every default filled in.
pub trait Table {
    fn table(&self) -> serde_json::Result<Value>;
}

impl<T: Serialize> Table for T {
    fn table(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }
}

/// Tasks that an environment's options ask for. A data directory may hold fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    pub tasks: usize,
    /// Held-out tasks: never trained on.
    pub held_out: usize,
    /// The seed of both.
    pub seed: u64,
}

/// An environment's own error.
pub(crate) type OwnError = Box<dyn std::error::Error + Send + Sync>;

/// Reason why an environment is not available.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error("{0}, and {{ command = […] }} for your own")]
    Unknown(#[from] UnknownName),
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
    #[error("cannot read the tasks in {}; env.task_file names them, relative to the recipe", path.display())]
    TaskFile { path: PathBuf, source: std::io::Error },
    #[error(
        "{}, line {line}, is not a task; write one object with `key` and `prompt` a line: {{\"key\": …, \"prompt\": …}}",
        path.display()
    )]
    TaskLine { path: PathBuf, line: usize, source: OwnError },
    #[error("the {name} world cannot be generated")]
    Generate { name: String, source: OwnError },
    #[error(transparent)]
    Own(OwnError),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Lock(#[from] hone_trace::LockError),
    #[error(transparent)]
    Set(#[from] TaskSetError),
    #[error(transparent)]
    Rubric(#[from] RubricError),
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Tools(#[from] DuplicateTool),
}

impl RegistryError {
    /// An environment's own error, unchanged.
    pub fn own(error: impl Into<OwnError>) -> Self {
        Self::Own(error.into())
    }
}

/// Tasks as a set of the environment's split.
pub fn set(env: &str, split: &str, version: &str, tasks: Vec<Task>) -> Result<(String, TaskSet), RegistryError> {
    Ok((split.to_owned(), TaskSet::new(format!("{env}-{split}"), version, tasks)?.0))
}
