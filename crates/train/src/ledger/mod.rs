//! The signal ledger: where a step's tokens went, what the episodes earned, and what learning made of them.
//!
//! Metrics by name, one line of metrics.jsonl a step. Every name is documented in [`names`], from which docs/metrics.md is
//! written. A value that is not known is absent, never 0. Everything that depends on the wall clock is under `timing/`:
//! the rest of a resumed run is the same to the bit.

mod arguments;
mod episodes;
mod learning;
pub mod names;
mod rewards;
mod spread;
mod tokens;

use std::collections::BTreeMap;

use hone_arena::rewards::Rubric;
use hone_trace::{Advantage, Group, Trace};
use serde_json::{Map, Value};

use crate::recipe::Recipe;

use learning::Learning;
pub use learning::Pass;
use spread::Spread;
use tokens::Account;
pub use tokens::STALE;

/// What the rewards mean: which components the total is made of, and which of them is success.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scheme {
    /// Components and their weights in the total.
    pub weights: Vec<(String, f64)>,
    /// The component whose value of 1 is success.
    pub success: String,
    /// Whether credit normalises each component by itself (GDPO) instead of comparing totals.
    pub normalised: bool,
    /// Arguments whose tokens a component pays by itself, and the component.
    pub arguments: Vec<(String, String)>,
}

impl Scheme {
    pub fn of(rubric: &Rubric, recipe: &Recipe) -> Self {
        let weights = rubric.weights().map(|(name, weight)| (name.to_owned(), weight)).collect();
        let arguments = recipe.credit.arguments.iter().map(|(name, component)| (name.clone(), component.clone()));
        Self {
            weights,
            success: recipe.eval.success.clone(),
            normalised: recipe.credit.name == "gdpo",
            arguments: arguments.collect(),
        }
    }
}

/// The books of one step, as metrics by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ledger {
    pub step: u64,
    metrics: BTreeMap<String, f64>,
    account: Account,
    learning: Learning,
    /// What every trace earned, by group, for the means of optimizer batches.
    earned: Vec<Vec<rewards::Values>>,
    batches: Vec<Map<String, Value>>,
}

impl Ledger {
    /// What sampling and credit gave.
    pub fn of(step: u64, groups: &[Group], advantages: &[Vec<Advantage>], scheme: &Scheme) -> Self {
        let mut ledger = Self { step, ..Self::default() };
        ledger.set("trainer/global_step", step as f64);
        ledger.episodes(groups);
        ledger.components(groups);
        ledger.shares(groups, advantages, scheme);
        ledger.signal(groups, advantages, scheme);
        ledger.arguments(groups, advantages, scheme);
        ledger.account = Account::of(groups, advantages);
        ledger.settle();
        ledger.earned = groups.iter().map(|group| group.traces().iter().map(rewards::values).collect()).collect();
        ledger
    }

    /// How long the step took, and how long of it was sampling. `ahead`: sampling went on beside the rest of the step.
    pub fn timing(&mut self, generate: f64, step: f64, ahead: bool) {
        self.set("timing/generate", generate);
        self.set("timing/policy_train", step - generate);
        self.set("timing/step", step);
        let sampling = if ahead { step } else { generate };
        if let Some(sampled) = self.get("tokens/sampled").filter(|_| sampling > 0.0) {
            self.set("timing/sampled_tokens_per_second", sampled / sampling);
        }
    }

    pub fn get(&self, name: &str) -> Option<f64> {
        self.metrics.get(name).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.metrics.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// The components that were scored in this step, the total last.
    pub fn component_names(&self) -> Vec<&str> {
        let named = self.iter().filter_map(|(name, _)| name.strip_prefix("batch_reward/"));
        let mut names: Vec<&str> = named.filter(|name| !name.contains('/')).collect();
        names.sort_by_key(|name| (*name == hone_arena::rewards::TOTAL, *name));
        names
    }

    /// The line of metrics.jsonl.
    pub fn to_map(&self) -> Map<String, Value> {
        let metrics = self.iter().map(|(name, value)| (name.to_owned(), value.into()));
        std::iter::once(("step".to_owned(), self.step.into())).chain(metrics).collect()
    }

    /// A step as it was recorded. `None` for a line that names no step.
    pub fn from_map(line: &Map<String, Value>) -> Option<Self> {
        let step = line.get("step")?.as_u64()?;
        let numbers = line.iter().filter(|(name, _)| *name != "step");
        let metrics = numbers.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect();
        Some(Self { step, metrics, ..Self::default() })
    }

    /// The step was taken back: what it trained counts as skipped.
    pub fn undone(&mut self) {
        let trained = self.get("tokens/trained").unwrap_or(0.0);
        self.set("tokens/skipped", self.get("tokens/skipped").unwrap_or(0.0) + trained);
        self.set("tokens/trained", 0.0);
    }

    pub fn set(&mut self, name: &str, value: f64) {
        self.metrics.insert(name.to_owned(), value);
    }

    fn set_some(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// Absent where there is nothing to divide by.
    fn ratio(&mut self, name: &str, part: usize, of: usize) {
        if of > 0 {
            self.set(name, part as f64 / of as f64);
        }
    }
}

/// Every trace of a step, those left out of their groups included.
fn all_traces(groups: &[Group]) -> impl Iterator<Item = &Trace> {
    groups.iter().flat_map(|group| group.traces().iter().chain(group.excluded().iter().map(|(trace, _)| trace)))
}

fn sampled_tokens(trace: &Trace) -> usize {
    trace.sampled().map(|(_, node)| node.tokens().len()).sum()
}

/// The groups of each environment.
fn by_env(groups: &[Group]) -> BTreeMap<&str, Vec<usize>> {
    let mut envs: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, group) in groups.iter().enumerate() {
        if let Some(trace) = all_traces(std::slice::from_ref(group)).next() {
            envs.entry(&trace.env).or_default().push(index);
        }
    }
    envs
}
