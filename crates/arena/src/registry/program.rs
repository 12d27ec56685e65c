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
        /// How many processes share the episodes.
        pub workers: usize,
        /// Seconds for one answer.
        pub deadline_s: f64,
        /// Seconds for the first answer of a fresh process.
        pub start_deadline_s: f64,
        /// Names of variables that the program gets beside the usual ones (`PATH`, `HOME`, `LANG`, `TMPDIR`, `PYTHONPATH`,
        /// …). It sees no others, and no key of a judge or a model.
        pub variables: Vec<String>,
        /// JSON lines of tasks, `key` and `prompt` at least. The last `held_out` of them are never trained on. Absent: numbered
        /// tasks that all say `prompt`, for programs that make their own worlds out of a task's key.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub task_file: Option<PathBuf>,
        /// The prompt of numbered tasks.
        pub prompt: String,
        /// Training tasks; of a file, at most so many.
        pub tasks: usize,
        /// Tasks that are evaluated on and never trained on.
        pub held_out: usize,
        /// Seed of the tasks: it numbers them, or shuffles the file.
        pub seed: u64,
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
            Some(path) => self.split(path, read(path, name)?)?,
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

    /// The tasks of a file, shuffled by the seed so that a sorted file makes no special held-out tasks.
    fn split(&self, path: &Path, mut tasks: Vec<Task>) -> Result<(Vec<Task>, Vec<Task>), RegistryError> {
        if tasks.len() <= self.held_out {
            let what = format!(
                "{} has {} tasks, which leaves none to train on beside held_out = {}; add tasks, or lower env.held_out",
                path.display(),
                tasks.len(),
                self.held_out
            );
            return Err(RegistryError::Options { name: self.name.clone(), what });
        }
        Seed::root(self.seed).with("task file").rng().shuffle(&mut tasks);
        let held_out = tasks.split_off(tasks.len() - self.held_out);
        tasks.truncate(self.tasks);
        Ok((tasks, held_out))
    }
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
