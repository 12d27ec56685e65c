//! TRL: `completions/completions_00012.parquet`, written with `log_completions=True`.
//!
//! A row is an episode: step, prompt, completion, a column for each reward function, advantage. The group is the prompt.
//! Neither token ids nor logprobs, endings or reward weights are recorded.

use std::path::Path;

use serde_json::Value;

use super::Reader;
use crate::ForeignError;
use crate::parquet::{self, Table};
use crate::record::{Episode, Record};
use crate::source::{Source, bytes, step_of};

pub(super) const READER: Reader =
    Reader { what: "TRL's completions (completions_*.parquet, or the directory they are in)", recognises, read };

fn recognises(source: &Source) -> bool {
    let table = |path: &Path| parquet::read(&bytes(path).ok()?).ok();
    source
        .ending("parquet")
        .filter_map(table)
        .any(|table| table.columns.contains_key("advantage") && is_there(&table, "completion"))
}

fn is_there(table: &Table, column: &str) -> bool {
    table.columns.keys().any(|name| name == column || name.starts_with(&format!("{column}.")))
}

fn read(source: &Source) -> Result<Record, ForeignError> {
    let mut record = Record { format: "TRL completions", ..Record::default() };
    record.notes.push("TRL records no reward weights: each counts 1".into());
    for path in source.ending("parquet") {
        let bad = |what: &str| ForeignError::Bad { path: path.to_owned(), line: None, what: what.to_owned() };
        let table = parquet::read(&bytes(path)?).map_err(bad)?;
        if !table.columns.contains_key("advantage") {
            record.notes.push(format!("{} is no table of completions and was left out", path.display()));
            continue;
        }
        for column in &table.unread {
            record.notes.push(format!("the column {column} is written in a way that is not read here"));
        }
        let rewards: Vec<String> = table
            .columns
            .iter()
            .filter(|(name, values)| is_reward(name, values))
            .map(|(name, _)| name.clone())
            .collect();
        for name in &rewards {
            record.component(name, 1.0);
        }
        for row in 0..table.rows {
            record.episodes.push(episode(&table, row, &rewards, step_of(path).unwrap_or(0)));
        }
    }
    Ok(record)
}

/// A column of numbers that TRL does not write for itself.
fn is_reward(name: &str, values: &[Value]) -> bool {
    let own = ["step", "advantage", "prompt", "completion"];
    !own.contains(&name)
        && !name.contains('.')
        && values.iter().any(Value::is_number)
        && values.iter().all(|value| value.is_number() || value.is_null())
}

fn episode(table: &Table, row: usize, rewards: &[String], otherwise: u64) -> Episode {
    let cell = |column: &str| table.columns.get(column).and_then(|values| values.get(row));
    // A conversation is a list of structs: its contents are a column of their own.
    let text = |column: &str| {
        let nested = || {
            table.columns.iter().find(|(name, _)| name.starts_with(&format!("{column}.")) && name.ends_with(".content"))
        };
        match cell(column).or_else(|| nested().and_then(|(_, values)| values.get(row)))? {
            Value::String(text) => Some(text.clone()),
            Value::Array(texts) => Some(texts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")),
            _ => None,
        }
    };
    let step = cell("step").and_then(|step| step.as_u64().or_else(|| step.as_str()?.parse().ok()));
    let values = rewards.iter().filter_map(|name| Some((name.clone(), cell(name)?.as_f64()?)));
    let values: std::collections::BTreeMap<String, f64> = values.collect();
    let prompt = text("prompt");
    Episode {
        step: step.unwrap_or(otherwise),
        group: prompt.clone().unwrap_or_default(),
        total: (!values.is_empty()).then(|| values.values().sum()),
        rewards: values,
        prompt,
        completion: text("completion"),
        advantage: cell("advantage").and_then(Value::as_f64),
        ..Episode::default()
    }
}
