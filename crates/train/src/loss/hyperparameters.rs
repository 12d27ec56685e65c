//! Hyperparameters of a loss by name, and the refusal of names it does not read.

use std::collections::BTreeMap;

use hone_trace::keys;
use hone_trace::keys::Key;

use super::LOSSES;
use crate::catalogue::{UnknownName, nearest};

/// Hyperparameters that several losses read. One that only a single loss reads is in that loss's entry.
/// docs/algorithms.md lists which loss reads which, and the defaults.
const SHARED: &[Key] = keys! {
    /// Lower clip: ratios under 1 − clip_low are clipped.
    clip_low: f64 where real(0.0, 1.0),
    /// Upper clip: ratios over 1 + clip_high are clipped.
    clip_high: f64 where real(0.0, 1e6),
    /// Largest ratio that counts.
    cap: f64 where over(0.0, 1e6),
    /// Tokens that the sums of a sequence are divided by; the limit on new tokens of an episode.
    max_tokens: f64 where over(0.0, 1e12),
    /// Share of the step's tokens that are selected.
    share: f64 where over(0.0, 1.0),
};

/// Every number that some loss reads: the shared ones, then each loss's own.
pub static HYPERPARAMETERS: &[Key] = &all::<{ count() }>();

const fn count() -> usize {
    let (mut count, mut at) = (SHARED.len(), 0);
    while at < LOSSES.len() {
        count += LOSSES[at].make.hyperparameters.len();
        at += 1;
    }
    count
}

/// [`SHARED`] and the hyperparameters of all entries as one array: a table's keys are a constant.
const fn all<const N: usize>() -> [Key; N] {
    let mut keys = [SHARED[0]; N];
    let mut filled = copy(SHARED, &mut keys, 0);
    let mut at = 0;
    while at < LOSSES.len() {
        filled = copy(LOSSES[at].make.hyperparameters, &mut keys, filled);
        at += 1;
    }
    keys
}

/// Copies `from` into `to` at `place`; returns the place after it.
const fn copy(from: &[Key], to: &mut [Key], place: usize) -> usize {
    let mut at = 0;
    while at < from.len() {
        to[place + at] = from[at];
        at += 1;
    }
    place + from.len()
}

/// Reason why a loss cannot be built from its recipe.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BadLoss {
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    #[error("loss {loss:?} has no option {option:?}{hint} It reads: {known}")]
    Option { loss: String, option: String, hint: String, known: String },
    #[error("loss {loss:?} needs {option} = a number: {why}")]
    Missing { loss: String, option: &'static str, why: &'static str },
    #[error("loss {loss:?} cannot be combined with this correction: {why}")]
    Conflict { loss: String, why: &'static str },
    #[error("{option} is not a number; write {option} = 0.2, for example")]
    NotANumber { option: String },
    #[error("{option} = {value} is out of range: {must}")]
    Range { option: &'static str, value: f64, must: &'static str },
}

/// Numbers a recipe gives a loss. A constructor takes those it reads; a number left over is an error.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hyperparameters {
    loss: String,
    given: BTreeMap<String, f64>,
    read: Vec<&'static str>,
}

impl Hyperparameters {
    pub(super) fn new(loss: &str, given: BTreeMap<String, f64>) -> Self {
        Self { loss: loss.to_owned(), given, read: Vec::new() }
    }

    /// The number given under this name, or the default.
    pub fn take(&mut self, name: &'static str, default: f64) -> f64 {
        self.take_optional(name).unwrap_or(default)
    }

    pub(crate) fn take_optional(&mut self, name: &'static str) -> Option<f64> {
        self.read.push(name);
        self.given.remove(name)
    }

    /// A number that has no sensible default.
    pub fn require(&mut self, option: &'static str, why: &'static str) -> Result<f64, BadLoss> {
        self.take_optional(option).ok_or_else(|| BadLoss::Missing { loss: self.loss.clone(), option, why })
    }

    /// Refuses options that no part has read. `others` are the options every loss has.
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
