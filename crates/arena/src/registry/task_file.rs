//! Task files: JSON lines of tasks, and the sides of a split they fall on.

use std::path::{Path, PathBuf};

use hone_trace::{SPLIT_LOCK, Seed, Side, SplitLock, Task};
use serde_json::{Map, Value};

use super::{Counts, RegistryError};

/// Training tasks and held-out tasks.
type Sides = (Vec<Task>, Vec<Task>);

/// A file of tasks for the environment `name`.
#[derive(Debug, Clone, Copy)]
pub struct TaskFile<'a> {
    pub path: &'a Path,
    /// A file with the held-out tasks; absent: they are taken out of `path`.
    pub held_out: Option<&'a Path>,
    pub name: &'a str,
    pub counts: Counts,
}

impl TaskFile<'_> {
    /// The split lock beside a task file, if there is one.
    pub fn lock_of(path: &Path) -> Option<PathBuf> {
        Some(path.with_file_name(SPLIT_LOCK)).filter(|lock| lock.is_file())
    }

    /// Tasks by side: as the lock beside the file or the held-out file says, else with the last of the shuffled tasks
    /// held out.
    pub fn split(&self) -> Result<Sides, RegistryError> {
        let tasks = read(self.path, self.name)?;
        let lock = SplitLock::beside(self.path)?;
        let (mut train, mut held_out) = match (self.held_out, &lock) {
            (Some(file), lock) => {
                let held_out = read(file, self.name)?;
                if let Some((path, lock)) = lock {
                    lock.check(path, Side::Train, &tasks)?;
                    lock.check(path, Side::Eval, &held_out)?;
                }
                (tasks, held_out)
            }
            (None, Some((path, lock))) => self.by_lock(path, lock, tasks)?,
            (None, None) => return self.shuffled(tasks),
        };
        let rng = |what| Seed::root(self.counts.seed).with(what).rng();
        rng("task file").shuffle(&mut train);
        rng("held-out file").shuffle(&mut held_out);
        train.truncate(self.counts.tasks);
        held_out.truncate(self.counts.held_out);
        Ok((train, held_out))
    }

    fn by_lock(&self, path: &Path, lock: &SplitLock, tasks: Vec<Task>) -> Result<Sides, RegistryError> {
        let (held_out, rest): Sides = tasks.into_iter().partition(|task| lock.side(&task.key) == Some(Side::Eval));
        let train: Vec<Task> = rest.into_iter().filter(|task| lock.side(&task.key) != Some(Side::Unused)).collect();
        lock.check(path, Side::Train, &train)?;
        if held_out.is_empty() && self.counts.held_out > 0 {
            let advice = "give held_out_file = \"eval.jsonl\", or held_out = 0";
            return Err(self.refused(format!("{} holds none of its tasks out; {advice}", path.display())));
        }
        Ok((train, held_out))
    }

    /// Shuffled by the seed, so that the held-out tasks of a sorted file are not special.
    fn shuffled(&self, mut tasks: Vec<Task>) -> Result<Sides, RegistryError> {
        let Counts { tasks: wanted, held_out, seed } = self.counts;
        if tasks.len() <= held_out {
            return Err(self.refused(format!(
                "{} has {} tasks, which leaves none to train on beside held_out = {held_out}; add tasks, or lower env.held_out",
                self.path.display(),
                tasks.len(),
            )));
        }
        Seed::root(seed).with("task file").rng().shuffle(&mut tasks);
        let held_out = tasks.split_off(tasks.len() - held_out);
        tasks.truncate(wanted);
        Ok((tasks, held_out))
    }

    fn refused(&self, what: String) -> RegistryError {
        RegistryError::Options { name: self.name.to_owned(), what }
    }
}

/// The tasks of a JSON lines file. `env` may be omitted: it defaults to the environment's name.
fn read(path: &Path, name: &str) -> Result<Vec<Task>, RegistryError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| RegistryError::TaskFile { path: path.to_owned(), source })?;
    let mut tasks = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let bad =
            |error| RegistryError::TaskLine { path: path.to_owned(), line: at + 1, source: in_line(&error).into() };
        let mut fields: Map<String, Value> = serde_json::from_str(line).map_err(bad)?;
        fields.insert("env".into(), name.into());
        tasks.push(serde_json::from_value(Value::Object(fields)).map_err(bad)?);
    }
    Ok(tasks)
}

/// serde_json's message; its line is the first of one, so that only the column tells anything.
fn in_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) => format!("{what} at column {}", error.column()),
        None => text,
    }
}
