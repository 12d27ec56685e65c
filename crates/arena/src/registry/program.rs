//! `command = ["python3", "my_env.py"]`: an environment of the user's own, in any language.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hone_trace::{Seed, Task};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Counts, EnvOptions, Environment, HELD_OUT, RegistryError, TRAIN, set};
use crate::documented;
use crate::rewards::spec::RubricSpec;
use crate::stdio::{CommandSpec, StdioArena};
use crate::users::NewUser;

documented! {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct ProgramSpec {
        /// A name of your own for it, which its tasks carry.
        pub name: String,
        /// The program and its arguments. No shell is involved.
        pub command: Vec<String>,
        /// Where it runs; absent: where Hone runs, and in a recipe the recipe's own directory.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub directory: Option<PathBuf>,
        /// Number of processes that share the episodes.
        pub workers: usize where whole(1, 1_024),
        /// Seconds for one answer.
        pub deadline_s: f64 where over(0.0, 86_400.0),
        /// Seconds for the first answer of a fresh process.
        pub start_deadline_s: f64 where over(0.0, 86_400.0),
        /// Names of variables that the program gets beside the usual ones (`PATH`, `HOME`, `LANG`, `TMPDIR`, `PYTHONPATH`,
        /// …). It sees no others, and no key of a judge or a model.
        pub variables: Vec<String>,
        /// JSON lines of tasks, `key` and `prompt` at least. The last `held_out` of them are never trained on. Absent: numbered
        /// tasks that all say `prompt`, for programs that make their own worlds out of a task's key.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub task_file: Option<PathBuf>,
        /// The prompt of numbered tasks.
        pub prompt: String,
        /// Number of training tasks; of a file, at most this many.
        pub tasks: usize where whole(1, 1_000_000),
        /// Tasks that are evaluated on and never trained on.
        pub held_out: usize where whole(0, 1_000_000),
        /// Seed of the tasks: it numbers them, or shuffles the file.
        pub seed: u64 where seed(),
    }
}

impl Default for ProgramSpec {
    fn default() -> Self {
        let CommandSpec { command, directory, workers, deadline_s, start_deadline_s, variables } =
            CommandSpec::new(std::iter::empty::<String>());
        Self {
            name: "stdio".into(),
            command,
            directory,
            workers,
            deadline_s,
            start_deadline_s,
            variables,
            task_file: None,
            prompt: "Begin.".into(),
            tasks: 2048,
            held_out: 256,
            seed: 1,
        }
    }
}

impl EnvOptions for ProgramSpec {
    fn name(&self) -> &str {
        &self.name
    }

    fn counts(&self) -> Counts {
        Counts { tasks: self.tasks, held_out: self.held_out, seed: self.seed }
    }

    fn open(&self, _: Option<Arc<NewUser>>) -> Result<Environment, RegistryError> {
        let name = &self.name;
        let spec = CommandSpec {
            command: self.command.clone(),
            directory: self.directory.clone(),
            workers: self.workers,
            deadline_s: self.deadline_s,
            start_deadline_s: self.start_deadline_s,
            variables: self.variables.clone(),
        };
        let (train, held_out) = match &self.task_file {
            Some(path) => {
                task_file(path, name, Counts { tasks: self.tasks, held_out: self.held_out, seed: self.seed })?
            }
            None => (self.numbered(TRAIN, self.tasks), self.numbered(HELD_OUT, self.held_out)),
        };
        let version = format!("seed{}", self.seed);
        Ok(Environment {
            name: name.clone(),
            arena: Arc::new(StdioArena::new(spec)?),
            splits: [set(name, TRAIN, &version, train)?, set(name, HELD_OUT, &version, held_out)?].into(),
            rubric: RubricSpec::single("correct", Map::new()).build()?,
            baselines: Vec::new(),
        })
    }
}

impl ProgramSpec {
    fn numbered(&self, split: &str, count: usize) -> Vec<Task> {
        let key = |number| format!("{}-{split}-{}-{number}", self.name, self.seed);
        (0..count).map(|number| Task::new(key(number), &self.name, &self.prompt)).collect()
    }
}

/// The tasks of a JSON lines file for the environment `name`: those to train on, and those held out. They are shuffled by
/// the seed, so that a sorted file makes no special held-out tasks.
pub fn task_file(path: &Path, name: &str, counts: Counts) -> Result<(Vec<Task>, Vec<Task>), RegistryError> {
    let mut tasks = read(path, name)?;
    if tasks.len() <= counts.held_out {
        let what = format!(
            "{} has {} tasks, which leaves none to train on beside held_out = {}",
            path.display(),
            tasks.len(),
            counts.held_out
        );
        return Err(RegistryError::Options { name: name.to_owned(), what });
    }
    Seed::root(counts.seed).with("task file").rng().shuffle(&mut tasks);
    let held_out = tasks.split_off(tasks.len() - counts.held_out);
    tasks.truncate(counts.tasks);
    Ok((tasks, held_out))
}

/// The tasks of a JSON lines file. `env` may be left out: it is the program's.
fn read(path: &Path, name: &str) -> Result<Vec<Task>, RegistryError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| RegistryError::TaskFile { path: path.to_owned(), source })?;
    let mut tasks = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |source| RegistryError::TaskLine { path: path.to_owned(), line: at + 1, source };
        let mut fields: Map<String, Value> = serde_json::from_str(line).map_err(bad)?;
        fields.insert("env".into(), name.into());
        tasks.push(serde_json::from_value(Value::Object(fields)).map_err(bad)?);
    }
    Ok(tasks)
}
