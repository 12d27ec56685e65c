//! ART: `trajectories/<split>/<step>.jsonl`, a group of trajectories a line.
//!
//! A trajectory has its messages (those the policy wrote are OpenAI choices, without their logprobs), a reward, and metrics.
//! Rollouts that raised an exception are not written.

use serde_json::{Map, Value};

use super::Reader;
use crate::ForeignError;
use crate::record::{Episode, Record};
use crate::source::{Source, lines, said, step_of};

pub(super) const READER: Reader = Reader {
    name: "art",
    what: "ART's trajectories (trajectories/train/*.jsonl)",
    recognises: |source| source.has_line_with(&["trajectories"]),
    read,
};

fn read(source: &Source) -> Result<Record, ForeignError> {
    let mut record = Record { format: "ART trajectories", has_endings: true, ..Record::default() };
    record.component("reward", 1.0);
    for path in source.json_lines() {
        for (number, row) in lines(path)? {
            for trajectory in row["trajectories"].as_array().into_iter().flatten() {
                let metrics = trajectory["metrics"].as_object();
                for (name, _) in
                    metrics.into_iter().flatten().filter(|(_, value)| value.is_number() || value.is_boolean())
                {
                    record.component(name, 0.0);
                }
                record.episodes.push(episode(
                    trajectory,
                    metrics,
                    format!("{}-{number}", stem(path)),
                    step_of(path).unwrap_or(0),
                ));
            }
        }
    }
    Ok(record)
}

fn stem(path: &std::path::Path) -> &str {
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
