//! verifiers: `results.jsonl` of `vf-eval` (a row an episode), and version 1's `traces.jsonl` (an episode a line, with traces).

use serde_json::Value;

use super::Reader;
use crate::ForeignError;
use crate::record::{Episode, Record};
use crate::source::{Source, left_out, lines, said};

pub(super) const READER: Reader = Reader {
    what: "verifiers' results (results.jsonl or traces.jsonl)",
    recognises: |source| {
        source.has_line_with(&["traces"])
            || source.has_line_with(&["example_id", "reward"])
            || source.has_line_with(&["prompt", "completion", "reward"])
    },
    read,
};

/// Keys of which a result row has one at least.
const ROW: [&str; 3] = ["reward", "example_id", "completion"];
/// Keys of a result row that are no metrics.
const OWN: [&str; 4] = ["example_id", "reward", "id", "rollout_id"];

fn read(source: &Source) -> Result<Record, ForeignError> {
    let mut record = Record { format: "verifiers results", ..Record::default() };
    for path in source.json_lines() {
        let (mut others, mut unscored) = (0, 0);
        for (_, row) in lines(path, &mut record.notes)? {
            match row["traces"].as_array() {
                Some(traces) => {
                    (record.has_faults, record.has_endings) = (true, true);
                    for trace in traces {
                        let episode = of_trace(trace, &mut record);
                        record.episodes.push(episode);
                    }
                }
                None if ROW.iter().any(|key| row.get(key).is_some()) => {
                    unscored += usize::from(row.get("reward").is_none());
                    let episode = of_row(&row, &mut record);
                    record.episodes.push(episode);
                }
                None => others += 1,
            }
        }
        left_out(&mut record.notes, path, others, "no episodes of verifiers'");
        if unscored > 0 {
            record.notes.push(format!("{}: {unscored} of its episodes without a reward", path.display()));
        }
    }
    Ok(record)
}

fn of_row(row: &Value, record: &mut Record) -> Episode {
    record.component("reward", 1.0);
    let numbers = row
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, value)| !OWN.contains(&name.as_str()) && value.is_number());
    let mut rewards = std::collections::BTreeMap::new();
    for (name, value) in numbers {
        record.component(name, 0.0);
        rewards.extend(value.as_f64().map(|value| (name.clone(), value)));
    }
    let reward = row["reward"].as_f64();
    rewards.extend(reward.map(|reward| ("reward".to_owned(), reward)));
    let prompt = said(&row["prompt"]);
    let example = row.get("example_id").or_else(|| row.get("id")).map(Value::to_string);
    Episode {
        group: example.or_else(|| prompt.clone()).unwrap_or_default(),
        rewards,
        total: reward,
        prompt,
        completion: said(&row["completion"]),
        ..Episode::default()
    }
}

fn of_trace(trace: &Value, record: &mut Record) -> Episode {
    let (mut rewards, mut total) = (std::collections::BTreeMap::new(), None);
    for (name, reward) in trace["rewards"].as_object().into_iter().flatten() {
        let weight = reward["weight"].as_f64().unwrap_or(1.0);
        record.component(name, weight);
        if let Some(score) = reward["score"].as_f64().or_else(|| reward.as_f64()) {
            rewards.insert(name.clone(), score);
            total = Some(total.unwrap_or(0.0) + weight * score);
        }
    }
    let task = &trace["task"];
    let name = ["key", "hash"].iter().find_map(|key| task[key].as_str()).map(str::to_owned);
    let stop = trace["stop_condition"].as_str().unwrap_or_default();
    let error = trace["errors"].as_array().and_then(|errors| errors.last()).filter(|_| trace["ok"] == false);
    let messages: Vec<Value> =
        trace["nodes"].as_array().into_iter().flatten().filter_map(|node| node.get("message").cloned()).collect();
    Episode {
        group: name.unwrap_or_else(|| task["data"].to_string()),
        rewards,
        total,
        prompt: said(&task["data"]["prompt"]),
        completion: messages.iter().filter(|message| message["role"] == "assistant").filter_map(said).next_back(),
        truncated: stop.contains("length") || stop.contains("max_turns") || stop.contains("token"),
        fault: error.map(|error| error["message"].as_str().map_or_else(|| error.to_string(), str::to_owned)),
        messages: Some(messages).filter(|messages| !messages.is_empty()),
        ..Episode::default()
    }
}
