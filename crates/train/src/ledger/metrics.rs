//! Metrics of a stage: numbers by name. Stages return theirs, and the loop merges them.

use std::collections::BTreeMap;

use super::names::Name;

/// Numbers by name. A value that is not known is absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    pub fn set(&mut self, name: impl Into<Name>, value: f64) {
        self.0.insert(name.into().to_string(), value);
    }

    pub(crate) fn set_some(&mut self, name: impl Into<Name>, value: Option<f64>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Absent if the denominator is 0.
    pub(super) fn ratio(&mut self, name: impl Into<Name>, part: usize, of: usize) {
        self.set_some(name, (of > 0).then(|| part as f64 / of as f64));
    }

    /// Adds those of another stage.
    pub fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub fn get(&self, name: impl Into<Name>) -> Option<f64> {
        self.0.get(name.into().as_str()).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// Metrics as recorded, by any version of Hone: unknown names are kept.
    pub(super) fn recorded(numbers: impl Iterator<Item = (String, f64)>) -> Self {
        Self(numbers.collect())
    }
}
