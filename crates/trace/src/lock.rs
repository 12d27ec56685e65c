//! Split locks: the side of the split that every task of a set was put on, written once and obeyed from then on.
//!
//! A lock is a file `split.lock` beside its task files: one JSON line with the settings of the split, then one line
//! `["train", "booking", "task-17"]` per task. A set that moves a locked task to another side is refused: yesterday's
//! evaluation task must not become today's training task.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::task::Task;

/// The side of a split that a task is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    Train,
    /// Evaluated on, never trained on.
    Eval,
    /// Neither: over a cap, or too similar to tasks of both sides.
    Unused,
}

impl Side {
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Eval => "eval",
            Self::Unused => "unused",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The file's name, beside the task files it locks.
pub const SPLIT_LOCK: &str = "split.lock";

/// A split, recorded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SplitLock {
    /// Provenance of the split, as its maker wrote it.
    pub settings: Value,
    /// Environments no task of which may be trained on.
    pub held_out_envs: Vec<String>,
    sides: HashMap<String, (Side, String)>,
    order: Vec<String>,
}

/// Fault of a lock, or of a set that has one.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("cannot read the split lock {}: {source}; restore it, or split again into a new directory", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "{}, line {line}, is no line of a split lock ({what}); restore the file, or delete it and split again with \
         `hone data split`",
        path.display()
    )]
    Line { path: PathBuf, line: usize, what: String },
    #[error(
        "the {wanted} tasks contradict their split lock {}: {key} is locked as {locked}{more}; use the files that \
         `hone data split` wrote beside the lock",
        path.display()
    )]
    Contradicts { path: PathBuf, key: String, wanted: Side, locked: Side, more: String },
    #[error(
        "the {wanted} tasks are not all in their split lock {}: {key} is unknown to it{more}; run `hone data split` again, \
         which adds new tasks and moves none",
        path.display()
    )]
    Unknown { path: PathBuf, key: String, wanted: Side, more: String },
    #[error(
        "the training tasks contradict their split lock {}: {key} is played in {env}, an environment that is held out{more}; \
         train on the train file that `hone data split` wrote",
        path.display()
    )]
    HeldOutEnvironment { path: PathBuf, key: String, env: String, more: String },
}

#[derive(Serialize, Deserialize)]
struct Head {
    split_lock: u32,
    #[serde(default)]
    held_out_envs: Vec<String>,
    #[serde(default)]
    settings: Value,
}

impl SplitLock {
    pub fn new(settings: Value, held_out_envs: Vec<String>) -> Self {
        Self { settings, held_out_envs, ..Self::default() }
    }

    /// The lock beside a task file, if there is one.
    pub fn beside(task_file: &Path) -> Result<Option<(PathBuf, Self)>, LockError> {
        let path = task_file.parent().unwrap_or(Path::new("")).join(SPLIT_LOCK);
        if !path.is_file() {
            return Ok(None);
        }
        let lock = Self::read(&path)?;
        Ok(Some((path, lock)))
    }

    pub fn read(path: &Path) -> Result<Self, LockError> {
        let read = |source| LockError::Read { path: path.to_owned(), source };
        let bad = |line, what: String| LockError::Line { path: path.to_owned(), line, what };
        let mut lines = BufReader::new(std::fs::File::open(path).map_err(read)?).lines();
        let head = lines.next().transpose().map_err(read)?.unwrap_or_default();
        let head: Head = serde_json::from_str(&head).map_err(|error| bad(1, error.to_string()))?;
        if head.split_lock != 1 {
            return Err(bad(1, format!("version {} of the format, and 1 is known", head.split_lock)));
        }
        let mut lock = Self::new(head.settings, head.held_out_envs);
        for (at, line) in lines.enumerate() {
            let line = line.map_err(read)?;
            if line.trim().is_empty() {
                continue;
            }
            let (side, env, key): (Side, String, String) =
                serde_json::from_str(&line).map_err(|error| bad(at + 2, error.to_string()))?;
            lock.set(&key, &env, side);
        }
        Ok(lock)
    }

    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let (held_out_envs, settings) = (self.held_out_envs.clone(), self.settings.clone());
        serde_json::to_writer(&mut *out, &Head { split_lock: 1, held_out_envs, settings })?;
        out.write_all(b"\n")?;
        for key in &self.order {
            if let Some((side, env)) = self.sides.get(key) {
                serde_json::to_writer(&mut *out, &(side, env, key))?;
                out.write_all(b"\n")?;
            }
        }
        Ok(())
    }

    pub fn set(&mut self, key: &str, env: &str, side: Side) {
        if self.sides.insert(key.to_owned(), (side, env.to_owned())).is_none() {
            self.order.push(key.to_owned());
        }
    }

    /// The side of a task, if it is locked.
    pub fn side(&self, key: &str) -> Option<Side> {
        self.sides.get(key).map(|(side, _)| *side)
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Refuses tasks that are not all locked as `wanted`. `path` is the lock's, for the message.
    pub fn check(&self, path: &Path, wanted: Side, tasks: &[Task]) -> Result<(), LockError> {
        let path = path.to_owned();
        let others = |count: usize| if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        let on_other = |task: &&Task| self.side(&task.key).is_some_and(|side| side != wanted);
        if let Some(task) = tasks.iter().find(on_other) {
            let (key, more) = (task.key.clone(), others(tasks.iter().filter(on_other).count()));
            let locked = self.side(&task.key).unwrap_or(wanted);
            return Err(LockError::Contradicts { path, key, wanted, locked, more });
        }
        let held_out = |task: &&Task| wanted == Side::Train && self.held_out_envs.contains(&task.env);
        if let Some(task) = tasks.iter().find(held_out) {
            let more = others(tasks.iter().filter(held_out).count());
            return Err(LockError::HeldOutEnvironment { path, key: task.key.clone(), env: task.env.clone(), more });
        }
        let unknown = |task: &&Task| self.side(&task.key).is_none();
        match tasks.iter().find(unknown) {
            None => Ok(()),
            Some(task) => {
                let more = others(tasks.iter().filter(unknown).count());
                Err(LockError::Unknown { path, key: task.key.clone(), wanted, more })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lock_reads_back_and_refuses_what_contradicts_it() {
        let mut lock = SplitLock::new(json!({"eval": 0.1}), vec!["outlook".into()]);
        lock.set("a \"quoted\"\tkey", "booking", Side::Train);
        lock.set("b", "booking", Side::Eval);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(SPLIT_LOCK);
        lock.write(&mut std::fs::File::create(&path).unwrap()).unwrap();
        let (found, read) = SplitLock::beside(&directory.path().join("train.jsonl")).unwrap().unwrap();
        assert_eq!((&found, &read), (&path, &lock));

        let task = |key: &str, env: &str| Task::new(key, env, "p");
        assert!(read.check(&path, Side::Train, &[task("a \"quoted\"\tkey", "booking")]).is_ok());
        for (tasks, words) in [
            (vec![task("b", "booking")], "b is locked as eval"),
            (vec![task("new", "booking")], "new is unknown"),
            (vec![task("x", "outlook")], "held out"),
        ] {
            let error = read.check(&path, Side::Train, &tasks).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        std::fs::write(&path, "{\"split_lock\": 1}\n[\"train\", 3]\n").unwrap();
        let error = SplitLock::read(&path).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }
}
