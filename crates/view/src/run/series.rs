//! Metrics as columns over the steps.

use std::collections::{BTreeMap, BTreeSet};

use hone_arena::rewards::TOTAL;
use hone_train::ledger::names::BATCH_REWARD_COMPONENT;
use serde_json::{Map, Value};

/// Columns of metrics.jsonl. A value that a step does not have is NaN inside and `None` outside.
#[derive(Debug, Clone, Default)]
pub struct Series {
    steps: Vec<u64>,
    columns: BTreeMap<String, Vec<f64>>,
    /// Skipped: lines without a step, and names of values that are not numbers.
    without_step: u64,
    not_numbers: BTreeSet<String>,
}

impl Series {
    /// Adds a line. A step recorded twice counts as recorded last; a line without a step is skipped.
    pub(super) fn add(&mut self, line: &Map<String, Value>) {
        let Some(step) = line.get("step").and_then(Value::as_u64) else {
            self.without_step += 1;
            return;
        };
        let place = match self.steps.binary_search(&step) {
            Ok(place) => {
                self.columns.values_mut().for_each(|column| column[place] = f64::NAN);
                place
            }
            Err(place) => {
                self.steps.insert(place, step);
                self.columns.values_mut().for_each(|column| column.insert(place, f64::NAN));
                place
            }
        };
        let count = self.steps.len();
        for (name, value) in line.iter().filter(|(name, _)| *name != "step") {
            let Some(value) = value.as_f64() else {
                // null is an unknown value.
                if !value.is_null() {
                    self.not_numbers.insert(name.clone());
                }
                continue;
            };
            if let Some(column) = self.columns.get_mut(name) {
                column[place] = value;
            } else {
                let mut column = vec![f64::NAN; count];
                column[place] = value;
                self.columns.insert(name.clone(), column);
            }
        }
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.without_step > 0 {
            notes.push(format!("metrics.jsonl: {} lines name no step and were skipped", self.without_step));
        }
        if !self.not_numbers.is_empty() {
            let names: Vec<&str> = self.not_numbers.iter().map(String::as_str).collect();
            notes.push(format!("metrics.jsonl: values that are no numbers were skipped: {}", names.join(", ")));
        }
        notes
    }

    pub fn steps(&self) -> &[u64] {
        &self.steps
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.keys().map(String::as_str)
    }

    /// A metric over the steps that have it.
    pub fn points(&self, name: &str) -> Vec<(u64, f64)> {
        let column = self.columns.get(name).map_or(&[][..], Vec::as_slice);
        self.steps.iter().copied().zip(column.iter().copied()).filter(|(_, value)| value.is_finite()).collect()
    }

    pub fn at(&self, step: u64, name: &str) -> Option<f64> {
        let place = self.steps.binary_search(&step).ok()?;
        self.columns.get(name)?.get(place).copied().filter(|value| value.is_finite())
    }

    pub fn sum(&self, name: &str) -> Option<f64> {
        let points = self.points(name);
        (!points.is_empty()).then(|| points.iter().map(|(_, value)| value).sum())
    }

    /// Reward components, the total last.
    pub fn components(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.names().filter_map(|name| BATCH_REWARD_COMPONENT.part(name)).collect();
        names.sort_by_key(|name| (*name == TOTAL, *name));
        names
    }

    /// The step before and the step after one that was recorded.
    pub fn neighbours(&self, step: u64) -> (Option<u64>, Option<u64>) {
        let place = self.steps.partition_point(|other| *other < step);
        let after = self.steps.get(place).filter(|other| **other > step).or_else(|| self.steps.get(place + 1));
        (place.checked_sub(1).and_then(|place| self.steps.get(place)).copied(), after.copied())
    }
}
