//! Statistics of a task set, by environment and split.

use std::collections::{BTreeMap, BTreeSet};

use hone_trace::{Modality, Side, Task};
use serde::Serialize;
use serde_json::Value;

use crate::Row;
use crate::table::{Table, count, percent};

/// Counts of one environment, or of all.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Counts {
    pub train: u64,
    pub eval: u64,
    /// Unused by a split: over a cap, or similar to both sides.
    pub unused: u64,
    /// Tasks without a known side.
    pub unsplit: u64,
    pub total: u64,
    pub with_variables: u64,
    pub with_reference: u64,
    pub with_verifier: u64,
    pub modality: BTreeMap<&'static str, u64>,
    /// By level; tasks without one are under `none`.
    pub difficulty: BTreeMap<String, u64>,
    /// Tools that the tasks list or their references call.
    pub tools: BTreeSet<String>,
    /// Lengths of prompts.
    pub prompt: Lengths,
}

/// A distribution of lengths, kept as counts, so that a million need no list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lengths(BTreeMap<usize, u64>);

impl Serialize for Lengths {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let [p50, p95, max] = [0.5, 0.95, 1.0].map(|share| self.quantile(share));
        serde_json::json!({ "p50": p50, "p95": p95, "max": max }).serialize(serializer)
    }
}

impl Lengths {
    fn add(&mut self, length: usize) {
        *self.0.entry(length).or_default() += 1;
    }

    fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(length, count)| *self.0.entry(*length).or_default() += count);
    }

    /// The smallest length that at least this share of the prompts does not exceed. `None` without prompts.
    pub(crate) fn quantile(&self, share: f64) -> Option<usize> {
        let total: u64 = self.0.values().sum();
        let wanted = ((total as f64 * share).ceil() as u64).max(1);
        let mut below = 0;
        self.0.iter().find_map(|(length, count)| {
            below += count;
            (below >= wanted).then_some(*length)
        })
    }
}

/// Statistics of a set.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stats {
    pub environments: BTreeMap<String, Counts>,
    pub all: Counts,
    /// Unit of prompt lengths: `tokens` or `characters`.
    pub unit: &'static str,
}

/// Measures a prompt.
pub type Measure<'a> = &'a dyn Fn(&str) -> usize;

/// Characters.
pub fn characters(text: &str) -> usize {
    text.chars().count()
}

impl Stats {
    pub fn new(unit: &'static str) -> Self {
        Self { unit, ..Self::default() }
    }

    pub fn add(&mut self, row: &Row, measure: Measure<'_>) {
        if !self.environments.contains_key(&row.task.env) {
            self.environments.insert(row.task.env.clone(), Counts::default());
        }
        if let Some(counts) = self.environments.get_mut(&row.task.env) {
            counts.add(&row.task, row.side, measure(&row.task.prompt));
        }
    }

    /// Computes the totals. Call after all rows have been added.
    #[must_use]
    pub fn finish(mut self) -> Self {
        self.all = Counts::default();
        for counts in self.environments.values() {
            self.all.merge(counts);
        }
        self
    }

    pub fn table(&self) -> Table {
        let split = self.all.unsplit < self.all.total;
        let mut head = vec!["environment"];
        if split {
            head.extend(["train", "eval"]);
        }
        let aside = self.all.unused > 0;
        let unsplit = split && self.all.unsplit > 0;
        head.extend(aside.then_some("unused"));
        head.extend(unsplit.then_some("no split"));
        head.extend(["total", "with variables", "with reference", "modality", "difficulty", "tools"]);
        let lengths = [format!("prompt p50 ({})", self.unit), "p95".into(), "max".into()];
        let mut table = Table::new(head.into_iter().map(str::to_owned).chain(lengths));
        let all = (!self.environments.is_empty()).then(|| ("all".to_owned(), &self.all));
        for (name, counts) in self.environments.iter().map(|(name, counts)| (name.clone(), counts)).chain(all) {
            let mut cells = vec![name];
            if split {
                cells.extend([count(counts.train), count(counts.eval)]);
            }
            cells.extend(aside.then(|| count(counts.unused)));
            cells.extend(unsplit.then(|| count(counts.unsplit)));
            cells.push(count(counts.total));
            cells.push(percent(counts.with_variables, counts.total));
            cells.push(percent(counts.with_reference, counts.total));
            cells.push(listed(&counts.modality));
            cells.push(listed(&counts.difficulty));
            cells.push(if counts.tools.is_empty() { "–".into() } else { counts.tools.len().to_string() });
            let length = |share| counts.prompt.quantile(share).map_or_else(|| "–".into(), |n| count(n as u64));
            cells.extend([length(0.5), length(0.95), length(1.0)]);
            table.row(cells);
        }
        table
    }
}

/// `tool_use 12, browser 3`; only the name if there is one.
fn listed<K: AsRef<str>>(counts: &BTreeMap<K, u64>) -> String {
    match counts.iter().collect::<Vec<_>>().as_slice() {
        [] => "–".into(),
        [(name, _)] if name.as_ref() == "none" => "–".into(),
        [(name, _)] => name.as_ref().to_owned(),
        several => several.iter().map(|(name, n)| format!("{} {n}", name.as_ref())).collect::<Vec<_>>().join(", "),
    }
}

impl Counts {
    fn add(&mut self, task: &Task, side: Option<Side>, length: usize) {
        match side {
            Some(Side::Train) => self.train += 1,
            Some(Side::Eval) => self.eval += 1,
            Some(Side::Unused) => self.unused += 1,
            None => self.unsplit += 1,
        }
        self.total += 1;
        self.with_variables += u64::from(!task.variables.is_empty());
        self.with_reference += u64::from(task.reference.is_some());
        self.with_verifier += u64::from(task.verifier.is_some());
        *self.modality.entry(modality(task.modality)).or_default() += 1;
        let level = task.difficulty.map_or_else(|| "none".to_owned(), |level| level.to_string());
        *self.difficulty.entry(level).or_default() += 1;
        for tool in tools(task) {
            if !self.tools.contains(tool) {
                self.tools.insert(tool.to_owned());
            }
        }
        self.prompt.add(length);
    }

    fn merge(&mut self, other: &Self) {
        self.train += other.train;
        self.eval += other.eval;
        self.unused += other.unused;
        self.unsplit += other.unsplit;
        self.total += other.total;
        self.with_variables += other.with_variables;
        self.with_reference += other.with_reference;
        self.with_verifier += other.with_verifier;
        other.modality.iter().for_each(|(name, n)| *self.modality.entry(name).or_default() += n);
        other.difficulty.iter().for_each(|(name, n)| *self.difficulty.entry(name.clone()).or_default() += n);
        self.tools.extend(other.tools.iter().cloned());
        self.prompt.merge(&other.prompt);
    }
}

fn modality(modality: Modality) -> &'static str {
    match modality {
        Modality::ToolUse => "tool_use",
        Modality::ComputerUse => "computer_use",
        Modality::Browser => "browser_use",
    }
}

/// Tools of a task: those its reference calls, and those its `tools` list.
fn tools(task: &Task) -> impl Iterator<Item = &str> {
    let called = task.reference.iter().flatten().map(|call| call.name.as_str());
    let listed = task.extra.get("tools").and_then(Value::as_array).into_iter().flatten();
    let listed = listed.filter_map(|tool| {
        tool.as_str().or_else(|| tool.pointer("/function/name")?.as_str()).or_else(|| tool.get("name")?.as_str())
    });
    called.chain(listed)
}
