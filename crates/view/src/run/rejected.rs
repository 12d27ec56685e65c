//! Tasks that a validation rejected: `rejected.jsonl` of the directory that `hone data validate` wrote.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Run, Tail};

/// A rejected task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rejected {
    pub task: String,
    pub env: String,
    /// The reason in a few words.
    pub reason: String,
    /// Observation, or what to do about it.
    pub detail: String,
    /// Numbers of the traces of its replays; empty if it was not played.
    pub traces: Vec<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Finding {
    key: String,
    env: String,
    rejected: String,
    detail: String,
    traces: Vec<u64>,
}

impl Run {
    /// The rejected tasks, and the unreadable part of the list. Empty for a run that is not a validation.
    pub fn rejected(&self) -> (Vec<Rejected>, Vec<String>) {
        let (mut rejected, mut odd) = (Vec::new(), 0);
        let mut file = Tail::new(self.path.join("rejected.jsonl"));
        let read = file.read(|mut line| {
            let reason = line.get("reason").and_then(Value::as_str).map(str::to_owned);
            let finding = line.remove("finding").map(serde_json::from_value::<Finding>);
            let Some(Ok(Finding { key: task, env, rejected: name, detail, traces })) = finding else {
                odd += 1;
                return;
            };
            let reason = reason.unwrap_or_else(|| name.replace('_', " "));
            rejected.push(Rejected { task, env, reason, detail, traces });
        });
        let mut notes = file.notes();
        notes.extend(read.err().map(|error| error.to_string()));
        if odd > 0 {
            notes.push(format!("rejected.jsonl: {odd} lines have no finding that can be read"));
        }
        (rejected, notes)
    }
}
