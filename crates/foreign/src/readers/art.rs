//! ART: `trajectories/<split>/<step>.jsonl`, a group of trajectories a line, and the tables of newer versions,
//! `<step>.parquet`, a trajectory a row with the whole of it as JSON.
//!
//! A trajectory has its messages (those the policy wrote are OpenAI choices, without their logprobs), a reward, and metrics.
//! Rollouts that raised an exception are not written.

use std::path::Path;

use serde_json::{Map, Value};

use super::Reader;
use crate::ForeignError;
use crate::parquet;
use crate::record::{Episode, Record};
use crate::source::{Source, bytes, left_out, lines, said, step_of};

pub(super) const READER: Reader = Reader {
    what: "ART's trajectories (trajectories/train/*.jsonl or *.parquet)",
    recognises: |source| {
        let table = |path: &Path| parquet::read(&bytes(path).ok()?).ok();
        source.has_line_with(&["trajectories"])
            || source.ending("parquet").filter_map(table).any(|table| table.columns.contains_key(WHOLE))
    },
    read,
};

/// Column of a table that holds a trajectory as JSON.
const WHOLE: &str = "trajectory_json";

fn read(source: &Source) -> Result<Record, ForeignError> {
    let mut record = Record { format: "ART trajectories", has_endings: true, ..Record::default() };
    record.component("reward", 1.0);
    for path in source.json_lines() {
        let mut others = 0;
        for (number, row) in lines(path, &mut record.notes)? {
            others += usize::from(!row["trajectories"].is_array());
            for trajectory in row["trajectories"].as_array().into_iter().flatten() {
                add(&mut record, trajectory, path, &number.to_string());
            }
        }
        left_out(&mut record.notes, path, others, "no groups of trajectories");
    }
    for path in source.ending("parquet") {
        let bad = |what: String| ForeignError::Bad { path: path.to_owned(), line: None, what };
        let table = parquet::read(&bytes(path)?).map_err(|what| bad(what.to_string()))?;
        let group =
            |row: usize| table.columns.get("group_index").and_then(|values| values.get(row)).map(Value::to_string);
        for (row, cell) in table.columns.get(WHOLE).into_iter().flatten().enumerate() {
            // A group whose rollouts all broke has a row without a trajectory.
            let Some(text) = cell.as_str() else { continue };
            let trajectory = serde_json::from_str(text).map_err(|error| bad(format!("row {row}: {error}")))?;
            add(&mut record, &trajectory, path, &group(row).unwrap_or_default());
        }
    }
    Ok(record)
}

fn add(record: &mut Record, trajectory: &Value, path: &Path, group: &str) {
    let metrics = trajectory["metrics"].as_object();
    for (name, _) in metrics.into_iter().flatten().filter(|(_, value)| value.is_number() || value.is_boolean()) {
        record.component(name, 0.0);
    }
    let group = format!("{}-{group}", stem(path));
    record.episodes.push(episode(trajectory, metrics, group, step_of(path).unwrap_or(0)));
}

fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
}

fn episode(trajectory: &Value, metrics: Option<&Map<String, Value>>, group: String, step: u64) -> Episode {
    let written = trajectory["messages_and_choices"].as_array().cloned().unwrap_or_default();
    let message = |item: &Value| item.get("message").unwrap_or(item).clone();
    let messages: Vec<Value> = written.iter().map(message).collect();
    let reward = trajectory["reward"].as_f64();
    let number = |value: &Value| value.as_f64().or_else(|| value.as_bool().map(|flag| f64::from(u8::from(flag))));
    let mut rewards: std::collections::BTreeMap<String, f64> =
        metrics.into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), number(value)?))).collect();
    rewards.extend(reward.map(|reward| ("reward".to_owned(), reward)));
    let replies = messages.iter().filter(|message| message["role"] == "assistant");
    Episode {
        step,
        group,
        rewards,
        total: reward,
        prompt: messages.iter().find(|message| message["role"] == "user").and_then(said),
        completion: replies.filter_map(said).next_back(),
        truncated: written.iter().any(|item| item["finish_reason"] == "length"),
        messages: Some(messages),
        ..Episode::default()
    }
}
