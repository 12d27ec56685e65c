//! `command = ["python3", "my_env.py"]`: a user's own environment, in any language.

use std::path::PathBuf;
use std::sync::Arc;

use hone_trace::Task;
use serde::{Deserialize, Serialize};

use super::{Counts, EnvOptions, Environment, HELD_OUT, RegistryError, TRAIN, TaskFile, set};
use crate::documented;
use crate::stdio::{CommandSpec, StdioArena};
use crate::users::NewUser;

documented! {
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct ProgramSpec {
        /// Name of the environment, recorded with its tasks.
        pub name: String,
        /// The program and its arguments. No shell is involved.
        pub command: Vec<String> where open().needed(),
        /// Working directory; absent: that of Hone, and in a recipe the recipe's own directory.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub directory: Option<PathBuf> where home_of("command"),
        /// Number of processes that share the episodes.
        pub workers: usize where whole(1, 1_024),
        /// Seconds for one answer.
        pub deadline_s: f64 where over(0.0, 86_400.0),
        /// Seconds for the first answer of a fresh process.
        pub start_deadline_s: f64 where over(0.0, 86_400.0),
        /// Names of variables that the program gets beside the usual ones (`PATH`, `HOME`, `LANG`, `TMPDIR`, `PYTHONPATH`,
        /// …). It sees no others, and no key of a judge or a model.
        pub variables: Vec<String>,
        /// JSON lines of tasks, with at least `key` and `prompt`. The last `held_out` of them are never trained on; if
        /// there is a `split.lock` of `hone data split` beside the file, its sides decide. Absent: numbered tasks with
        /// the same `prompt`, for programs that derive their state from a task's key.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub task_file: Option<PathBuf> where path(),
        /// JSON lines of the tasks that are never trained on, such as the `eval.jsonl` of `hone data split`. Absent: they are
        /// taken out of `task_file`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub held_out_file: Option<PathBuf> where path(),
        /// The prompt of numbered tasks.
        pub prompt: String,
        /// Number of training tasks; with a file, the maximum.
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
            held_out_file: None,
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

    fn split_lock(&self) -> Option<PathBuf> {
        self.task_file.as_deref().filter(|_| self.held_out_file.is_none()).and_then(TaskFile::lock_of)
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
                let held_out = self.held_out_file.as_deref();
                TaskFile { path, held_out, name, counts: self.counts() }.split()?
            }
            None => (self.numbered(TRAIN, self.tasks), self.numbered(HELD_OUT, self.held_out)),
        };
        let version = format!("seed{}", self.seed);
        Ok(Environment {
            name: name.clone(),
            arena: Arc::new(StdioArena::new(spec)?),
            splits: [set(name, TRAIN, &version, train)?, set(name, HELD_OUT, &version, held_out)?].into(),
            rubric: self.rubric().build()?,
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
