//! Fleet's task JSON: all aliases of the fields needed to play a task.

use std::path::Path;

use hone_trace::{Modality, Task};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::openenv::wire::plain;

/// The key of a task's `extra` that holds its Fleet fields.
const EXTRA: &str = "fleet";

/// The fields needed to play a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct FleetTask {
    pub key: String,
    pub prompt: String,
    pub env_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_version: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub env_variables: Map<String, Value>,
    /// Verifier, as Python source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verifier_func: Option<String>,
    pub verifier_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verifier_sha: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verifier_runtime_version: Option<String>,
    pub modality: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difficulty: Option<u8>,
}

/// Reads a file of tasks. The error says which task is wrong.
pub(super) fn read(path: &Path) -> Result<Vec<FleetTask>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let file: Value =
        serde_json::from_str(&text).map_err(|error| format!("{} is not JSON: {error}", path.display()))?;
    let listed = match &file {
        Value::Array(tasks) => tasks,
        Value::Object(object) => object
            .get("tasks")
            .and_then(Value::as_array)
            .ok_or_else(|| format!("{} is an object without a list of \"tasks\"", path.display()))?,
        _ => return Err(format!("{} is neither a list of tasks nor an object with \"tasks\"", path.display())),
    };
    let read = |(at, task): (usize, &Value)| {
        FleetTask::read(task).map_err(|what| format!("task {at} of {}: {what}", path.display()))
    };
    listed.iter().enumerate().map(read).collect()
}

impl FleetTask {
    /// Reads one task. If several aliases of a field are present, the first in its table counts.
    pub(super) fn read(task: &Value) -> Result<Self, String> {
        let at = |path: &str| task.pointer(path).filter(|value| !value.is_null());
        let text = |paths: &[&str]| paths.iter().find_map(|path| at(path)).map(plain).filter(|text| !text.is_empty());
        let required = |name: &str, paths: &[&str]| text(paths).ok_or_else(|| format!("it has no `{name}`"));
        let key = required("key", &["/key", "/task_key", "/id"])?;
        let difficulty = match at("/difficulty") {
            None => None,
            Some(level) => {
                let level = level.as_u64().and_then(|level| u8::try_from(level).ok());
                Some(level.ok_or("its `difficulty` is not a small number")?)
            }
        };
        Ok(Self {
            prompt: required("prompt", &["/prompt"])?,
            env_id: required("env_id", &["/env_id", "/env_key", "/environment_id"])?,
            version: text(&["/version", "/env_version"]),
            data_id: text(&["/data_id", "/data_key"]),
            data_version: text(&["/data_version"]),
            env_variables: variables(at("/env_variables"))?,
            verifier_func: text(&["/verifier_func", "/verifier_code", "/verifier/code"]),
            verifier_id: text(&["/verifier_id", "/verifier/verifier_id", "/metadata/verifier/verifier_id"])
                .unwrap_or_else(|| key.clone()),
            verifier_sha: text(&["/verifier_sha", "/verifier/sha256"]),
            verifier_runtime_version: text(&["/verifier_runtime_version", "/metadata/verifier_runtime_version"]),
            modality: text(&["/task_modality"]).unwrap_or_else(|| "tool_use".into()),
            difficulty,
            key,
        })
    }

    /// The task, as one of the environment `name`.
    pub(super) fn task(&self, name: &str) -> Task {
        let mut task = Task::new(&self.key, name, &self.prompt);
        task.variables = self.env_variables.iter().map(|(key, value)| (key.clone(), plain(value))).collect();
        task.difficulty = self.difficulty;
        task.modality = match self.modality.as_str() {
            "computer_use" => Modality::ComputerUse,
            "browser_use" => Modality::Browser,
            _ => Modality::ToolUse,
        };
        // Plain data with string keys: it cannot fail.
        task.extra.insert(EXTRA.into(), serde_json::to_value(self).unwrap_or_default());
        task
    }

    /// The Fleet fields of a task, or an error that names the missing one.
    pub(super) fn of(task: &Task) -> Result<Self, String> {
        let fields = task.extra.get(EXTRA).ok_or("it is no Fleet task: it has no `fleet` fields")?;
        serde_json::from_value(fields.clone()).map_err(|error| format!("its `fleet` fields: {error}"))
    }

    /// True if the agent gets the tool that submits an answer.
    pub(super) fn submits(&self) -> bool {
        self.prompt.contains("submit_final_answer")
    }

    /// True if the agent is offered a tool.
    pub(super) fn offers(&self, tool: &str) -> bool {
        (tool == "computer") == matches!(self.modality.as_str(), "computer_use" | "browser_use")
    }
}

/// `env_variables`: an object, or a string that holds one.
fn variables(value: Option<&Value>) -> Result<Map<String, Value>, String> {
    match value {
        None => Ok(Map::new()),
        Some(Value::Object(variables)) => Ok(variables.clone()),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(Map::new()),
        Some(Value::String(text)) => serde_json::from_str(text)
            .map_err(|error| format!("its `env_variables` are a string that holds no JSON object: {error}")),
        Some(_) => Err("its `env_variables` are neither an object nor a string that holds one".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_alias_is_read() {
        let canonical = json!({
            "key": "k", "prompt": "p", "env_id": "booking", "version": "v1", "data_id": "d", "data_version": "v2",
            "env_variables": {"CURRENT_DATE": "2026-01-01"}, "verifier_func": "def f(env): return 1",
            "verifier_id": "vid", "verifier_sha": "abc", "verifier_runtime_version": "3", "difficulty": 2,
        });
        let aliases = json!({
            "task_key": "k", "prompt": "p", "env_key": "booking", "env_version": "v1", "data_key": "d",
            "data_version": "v2", "env_variables": "{\"CURRENT_DATE\": \"2026-01-01\"}",
            "verifier": {"code": "def f(env): return 1", "verifier_id": "vid", "sha256": "abc"},
            "metadata": {"verifier_runtime_version": "3"}, "difficulty": 2, "task_modality": "tool_use",
        });
        let read = FleetTask::read(&canonical).unwrap();
        assert_eq!(FleetTask::read(&aliases).unwrap(), read);
        assert_eq!(FleetTask::of(&read.task("fleet")).unwrap(), read);
        assert_eq!(read.task("fleet").variables["CURRENT_DATE"], "2026-01-01");
        let bare = FleetTask::read(&json!({"id": "k", "prompt": "p", "environment_id": "e"})).unwrap();
        assert_eq!((bare.verifier_id.as_str(), bare.modality.as_str()), ("k", "tool_use"));
        for (task, words) in [
            (json!({"prompt": "p", "env_id": "e"}), "`key`"),
            (json!({"key": "k", "env_id": "e"}), "`prompt`"),
            (json!({"key": "k", "prompt": "p"}), "`env_id`"),
            (json!({"key": "k", "prompt": "p", "env_id": "e", "env_variables": "x"}), "env_variables"),
        ] {
            assert!(FleetTask::read(&task).unwrap_err().contains(words), "{task}");
        }
    }
}
