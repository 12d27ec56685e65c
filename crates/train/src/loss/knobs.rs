//! The numbers of a loss by name, and the refusal of names it does not read.

use std::collections::BTreeMap;

use crate::catalogue::{UnknownName, nearest};

/// Why a loss cannot be built from its recipe.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BadLoss {
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    #[error("loss {loss:?} has no option {option:?}{hint} It reads: {known}")]
    Option { loss: String, option: String, hint: String, known: String },
    #[error("loss {loss:?} needs {option} = a number: {why}")]
    Missing { loss: String, option: &'static str, why: &'static str },
    #[error("loss {loss:?} cannot go with this correction: {why}")]
    Conflict { loss: String, why: &'static str },
    #[error("{option} must be a number")]
    NotANumber { option: String },
    #[error("{option} = {value} is out of range: {must}")]
    Range { option: &'static str, value: f64, must: &'static str },
}

/// Numbers a recipe gives a loss. A constructor takes what it reads; what is left over is an error.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Knobs {
    loss: String,
    given: BTreeMap<String, f64>,
    read: Vec<&'static str>,
}

impl Knobs {
    pub(super) fn new(loss: &str, given: BTreeMap<String, f64>) -> Self {
        Self { loss: loss.to_owned(), given, read: Vec::new() }
    }

    /// The number given under this name, or the default.
    pub fn take(&mut self, name: &'static str, default: f64) -> f64 {
        self.take_optional(name).unwrap_or(default)
    }

    pub fn take_optional(&mut self, name: &'static str) -> Option<f64> {
        self.read.push(name);
        self.given.remove(name)
    }

    /// A number that has no sensible default.
    pub fn require(&mut self, option: &'static str, why: &'static str) -> Result<f64, BadLoss> {
        self.take_optional(option).ok_or_else(|| BadLoss::Missing { loss: self.loss.clone(), option, why })
    }

    /// Refuses what nobody read. `others` are the options every loss has.
    pub(super) fn finish(self, others: &[&'static str]) -> Result<(), BadLoss> {
        let Some(option) = self.given.into_keys().next() else { return Ok(()) };
        let known: Vec<_> = self.read.iter().chain(others).copied().collect();
        let hint = nearest(&option, known.iter().copied()).map(|name| format!("; did you mean {name:?}?"));
        Err(BadLoss::Option {
            loss: self.loss,
            option,
            hint: hint.unwrap_or_else(|| ".".into()),
            known: known.join(", "),
        })
    }
}
