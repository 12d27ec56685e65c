//! Tables with a stable schema: metrics by step, rollouts, rewards. Parquet and CSV write the same ones.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::{ExportError, each, failed, file};
use crate::run::{Full, Message, Part, Run};

/// A column: its name and its values. An unknown value is `None`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Column {
    Int(Vec<Option<i64>>),
    Float(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
}

impl Column {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Int(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    fn cell(&self, row: usize) -> String {
        match self {
            Self::Int(values) => values[row].map(|value| value.to_string()),
            Self::Float(values) => values[row].map(|value| value.to_string()),
            Self::Text(values) => values[row].as_ref().map(|text| format!("\"{}\"", text.replace('"', "\"\""))),
        }
        .unwrap_or_default()
    }
}

pub(super) type Table = Vec<(String, Column)>;

/// Rows of a table kept in memory at a time.
pub(super) const ROWS: usize = 50_000;

/// Step, then every metric by its name.
pub(super) fn metrics(run: &Run) -> Table {
    let steps = run.metrics.steps();
    let mut table = vec![("step".to_owned(), Column::Int(steps.iter().map(|step| Some(*step as i64)).collect()))];
    for name in run.metrics.names() {
        table.push((name.to_owned(), Column::Float(steps.iter().map(|step| run.metrics.at(*step, name)).collect())));
    }
    table
}

/// One row per rollout and component: trace, component, value, why.
#[derive(Debug, Default)]
struct Rewards {
    trace: Vec<Option<i64>>,
    component: Vec<Option<String>>,
    value: Vec<Option<f64>>,
    why: Vec<Option<String>>,
}

/// One row per rollout, in parts.
#[derive(Debug, Default)]
pub(super) struct Rollouts {
    numbers: [Vec<Option<i64>>; 10],
    floats: [Vec<Option<f64>>; 3],
    texts: [Vec<Option<String>>; 8],
    rewards: Rewards,
}

impl Rollouts {
    pub(super) fn add(&mut self, full: &Full) {
        let brief = &full.brief;
        let step = full.part.as_ref().and_then(|part| Some(part.step()? as i64));
        let count = |value: usize| Some(value as i64);
        let numbers = [
            Some(brief.trace as i64),
            step,
            Some(brief.replica as i64),
            count(brief.turns),
            count(brief.calls.len()),
            Some(brief.failed_calls as i64),
            count(brief.parse_failures.len()),
            count(brief.tokens),
            count(brief.sampled),
            brief.trained.map(|trained| trained as i64),
        ];
        self.numbers.iter_mut().zip(numbers).for_each(|(column, value)| column.push(value));
        let floats = [brief.total(), brief.advantage.value(), Some(brief.seconds)];
        self.floats.iter_mut().zip(floats).for_each(|(column, value)| column.push(value));
        let messages = |agent: bool| {
            let first = full.messages.iter().position(Message::is_agent).unwrap_or(full.messages.len());
            let part = if agent { &full.messages[first..] } else { &full.messages[..first] };
            serde_json::to_string(part).ok()
        };
        let texts = [
            full.part.as_ref().map(Part::to_string),
            Some(brief.env.clone()),
            Some(brief.task.clone()),
            Some(brief.outcome.to_string()),
            Some(brief.why.clone()),
            Some(brief.calls.join(" ")),
            messages(false),
            messages(true),
        ];
        self.texts.iter_mut().zip(texts).for_each(|(column, value)| column.push(value));
        for reward in &brief.rewards {
            self.rewards.trace.push(Some(brief.trace as i64));
            self.rewards.component.push(Some(reward.component.clone()));
            self.rewards.value.push(reward.value);
            self.rewards.why.push(Some(reward.why.clone()));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.floats[0].len()
    }

    /// The rollouts' table and the rewards'.
    pub(super) fn tables(self) -> (Table, Table) {
        let named = |names: &[&str], columns: Vec<Column>| {
            names.iter().map(|name| (*name).to_owned()).zip(columns).collect::<Table>()
        };
        let mut rollouts = named(
            &[
                "trace",
                "step",
                "replica",
                "turns",
                "calls",
                "failed_calls",
                "parse_failures",
                "tokens",
                "sampled_tokens",
                "trained_tokens",
            ],
            self.numbers.into_iter().map(Column::Int).collect(),
        );
        rollouts
            .extend(named(&["reward", "advantage", "seconds"], self.floats.into_iter().map(Column::Float).collect()));
        rollouts.extend(named(
            &["part", "env", "task", "outcome", "why", "tools_called", "prompt", "completion"],
            self.texts.into_iter().map(Column::Text).collect(),
        ));
        let Rewards { trace, component, value, why } = self.rewards;
        let rewards = named(
            &["trace", "component", "value", "why"],
            vec![Column::Int(trace), Column::Text(component), Column::Float(value), Column::Text(why)],
        );
        (rollouts, rewards)
    }
}

/// Calls back with the rollouts' and rewards' tables, a part at a time; at least once, so that an empty run has its
/// columns.
pub(super) fn rollouts(
    run: &Run,
    mut with: impl FnMut(Table, Table) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let mut part = Rollouts::default();
    each(run, 0..u64::MAX, |full| {
        part.add(&full);
        if part.len() < ROWS {
            return Ok(());
        }
        let (rollouts, rewards) = std::mem::take(&mut part).tables();
        with(rollouts, rewards)
    })?;
    let (rollouts, rewards) = part.tables();
    with(rollouts, rewards)
}

/// CSV by RFC 4180: text in quotes, numbers bare, absent empty.
pub(super) fn write(run: &Run, into: &Path) -> Result<Vec<PathBuf>, ExportError> {
    let rows = |out: &mut dyn Write, table: &Table, header: bool| -> std::io::Result<()> {
        if header {
            let names: Vec<String> =
                table.iter().map(|(name, _)| format!("\"{}\"", name.replace('"', "\"\""))).collect();
            write!(out, "{}\r\n", names.join(","))?;
        }
        for row in 0..table.first().map_or(0, |(_, column)| column.len()) {
            let cells: Vec<String> = table.iter().map(|(_, column)| column.cell(row)).collect();
            write!(out, "{}\r\n", cells.join(","))?;
        }
        Ok(())
    };
    let [metrics_path, rollouts_path, rewards_path] =
        ["metrics.csv", "rollouts.csv", "rewards.csv"].map(|name| into.join(name));
    let metrics_file = file(&metrics_path, |out| rows(out, &metrics(run), true).map_err(failed(&metrics_path)))?;
    let mut written = vec![metrics_file];
    let rewards_file = file(&rewards_path, |rewards_out| {
        let mut first = true;
        let rollouts_file = file(&rollouts_path, |out| {
            rollouts(run, |rollouts, rewards| {
                rows(out, &rollouts, first).map_err(failed(&rollouts_path))?;
                rows(rewards_out, &rewards, first).map_err(failed(&rewards_path))?;
                first = false;
                Ok(())
            })
        })?;
        written.push(rollouts_file);
        Ok(())
    })?;
    written.push(rewards_file);
    Ok(written)
}
