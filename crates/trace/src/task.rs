//! Tasks and versioned sets of them.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest::Digest;
use crate::tool::ToolCall;

/// One task for an agent, in one environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Key, unique in its set and stable across versions of the set.
    pub key: String,
    /// Environment the task is played in: `retail`, `airline`, `triage-reader`, …
    pub env: String,
    /// The request to the agent or, with a simulated user, what that user wants.
    pub prompt: String,
    /// Variables of the system prompt: `CURRENT_DATE`, `LOGGED_IN_USER`, …
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub variables: IndexMap<String, String>,
    #[serde(default)]
    pub modality: Modality,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difficulty: Option<u8>,
    /// A solution: calls that earn full reward when replayed. Absent is not "nothing to do".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Vec<ToolCall>>,
    /// Facts the agent must tell the user, where the reward asks for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// Success criterion, in the environment's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier: Option<Value>,
    /// Provenance: a data set and version, a generator and seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<String>,
    /// Further fields that the environment needs, kept unchanged.
    #[serde(default, flatten)]
    pub extra: Map<String, Value>,
}

impl Task {
    pub fn new(key: impl Into<String>, env: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            env: env.into(),
            prompt: prompt.into(),
            variables: IndexMap::new(),
            modality: Modality::default(),
            difficulty: None,
            reference: None,
            outputs: Vec::new(),
            verifier: None,
            provenance: None,
            extra: Map::new(),
        }
    }

    /// SHA-256 of the serde form. Two tasks of one key and different digests are different versions of it.
    pub fn digest(&self) -> Digest {
        // A task is plain data with string keys: serde_json cannot fail on it.
        Digest::of(serde_json::to_string(self).unwrap_or_default().as_bytes())
    }
}

/// Modality of the agent's actions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Modality {
    #[default]
    ToolUse,
    ComputerUse,
    Browser,
}

/// An ordered set of tasks without duplicates, with a name, a version and a content hash.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskSet {
    pub name: String,
    pub version: String,
    tasks: Vec<Task>,
    digest: Digest,
}

/// Reason why tasks do not form a set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskSetError {
    #[error("tasks {first} and {second} have the same key {key:?} and different content; give one of them another key")]
    Conflict { key: String, first: usize, second: usize },
}

impl TaskSet {
    /// Keeps the order and drops exact repetitions, whose positions are returned: nothing is dropped silently.
    pub fn new(
        name: impl Into<String>,
        version: impl Into<String>,
        tasks: Vec<Task>,
    ) -> Result<(Self, Vec<usize>), TaskSetError> {
        let mut at: HashMap<String, (usize, Digest)> = HashMap::new();
        let mut kept = Vec::with_capacity(tasks.len());
        let mut repeated = Vec::new();
        let mut content = String::new();
        for (position, task) in tasks.into_iter().enumerate() {
            let digest = task.digest();
            match at.get(&task.key) {
                Some((_, same)) if *same == digest => repeated.push(position),
                Some((first, _)) => {
                    return Err(TaskSetError::Conflict { key: task.key, first: *first, second: position });
                }
                None => {
                    at.insert(task.key.clone(), (position, digest));
                    content.push_str(&digest.to_string());
                    kept.push(task);
                }
            }
        }
        let set =
            Self { name: name.into(), version: version.into(), tasks: kept, digest: Digest::of(content.as_bytes()) };
        Ok((set, repeated))
    }

    /// SHA-256 over the tasks' digests, in order: the same hash is the same tasks in the same order.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    pub fn get(&self, key: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.key == key)
    }
}

impl std::ops::Deref for TaskSet {
    type Target = [Task];

    fn deref(&self) -> &[Task] {
        &self.tasks
    }
}
