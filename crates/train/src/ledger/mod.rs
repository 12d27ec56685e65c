//! Signal ledger: which tokens of a step were trained, what the episodes earned, and the results of learning.
//!
//! Each stage of a step returns its [`Metrics`]; merged they are the [`Ledger`], one line of metrics.jsonl. Every name
//! is documented in [`names`], from which docs/metrics.md is generated. An unknown value is absent, never 0. Everything
//! that depends on the wall clock is under `timing/`: on the CPU the rest of a resumed run is bit-identical.

mod arguments;
mod episodes;
mod fate;
mod learning;
mod metrics;
pub mod names;
mod rewards;
mod spread;
mod tokens;

use std::collections::BTreeMap;

use hone_arena::rewards::Rubric;
use hone_trace::{Advantage, Group, Trace};
use serde_json::{Map, Value};

use crate::recipe::Recipe;

pub use fate::{TokenFate, TokenTotals};
pub use learning::{Optimized, Pass, learning, visits};
pub use metrics::Metrics;
use names::Name;
use spread::Spread;
pub use tokens::{Account, Visits};

/// Reward scheme: the components of the total, and the one that defines success.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scheme {
    /// Components and their weights in the total.
    pub weights: Vec<(String, f64)>,
    /// The component whose value of 1 is success.
    pub success: String,
    /// True when credit normalises each component by itself (GDPO) instead of comparing totals.
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
            normalised: recipe.credit.estimator().is_ok_and(|estimator| estimator.by_component),
            arguments: arguments.collect(),
        }
    }
}

/// Ledger of one step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ledger {
    pub step: u64,
    metrics: Metrics,
}

/// Metrics of sampling and credit.
pub fn credited(groups: &[Group], advantages: &[Vec<Advantage>], scheme: &Scheme) -> Metrics {
    let mut metrics = episodes::episodes(groups);
    metrics.merge(rewards::components(groups));
    metrics.merge(rewards::shares(groups, advantages, scheme));
    metrics.merge(rewards::signal(groups, advantages, scheme));
    metrics.merge(arguments::arguments(groups, advantages, scheme));
    metrics
}

/// Seconds of a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// Playing and scoring, or waiting for it.
    pub generate: f64,
    pub step: f64,
    /// Sampling overlapped with the rest of the step.
    pub ahead: bool,
    /// Writing the newest checkpoint.
    pub checkpoint: f64,
}

impl Timing {
    pub(crate) fn metrics(self, sampled_tokens: usize) -> Metrics {
        let mut metrics = Metrics::default();
        metrics.set(names::TIMING_GENERATE, self.generate);
        metrics.set(names::TIMING_POLICY_TRAIN, self.step - self.generate);
        metrics.set(names::TIMING_STEP, self.step);
        metrics.set(names::TIMING_SAVE_CHECKPOINTS, self.checkpoint);
        let sampling = if self.ahead { self.step } else { self.generate };
        if sampling > 0.0 {
            metrics.set(names::TIMING_SAMPLED_TOKENS_PER_SECOND, sampled_tokens as f64 / sampling);
        }
        metrics
    }
}

impl Ledger {
    /// The metrics of all stages of a step.
    pub fn of(step: u64, stages: impl IntoIterator<Item = Metrics>) -> Self {
        let mut metrics = Metrics::default();
        metrics.set(names::TRAINER_GLOBAL_STEP, step as f64);
        stages.into_iter().for_each(|stage| metrics.merge(stage));
        Self { step, metrics }
    }

    pub fn get(&self, name: impl Into<Name>) -> Option<f64> {
        self.metrics.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.metrics.iter()
    }

    /// The components that were scored in this step, the total last.
    pub fn component_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.iter().filter_map(|(name, _)| names::BATCH_REWARD_COMPONENT.part(name)).collect();
        names.sort_by_key(|name| (*name == hone_arena::rewards::TOTAL, *name));
        names
    }

    /// The line of metrics.jsonl.
    pub fn to_map(&self) -> Map<String, Value> {
        let metrics = self.iter().map(|(name, value)| (name.to_owned(), value.into()));
        std::iter::once(("step".to_owned(), self.step.into())).chain(metrics).collect()
    }

    /// A step as recorded. `None` for a line without a step.
    pub fn from_map(line: &Map<String, Value>) -> Option<Self> {
        let step = line.get("step")?.as_u64()?;
        let numbers = line.iter().filter(|(name, _)| *name != "step");
        let numbers = numbers.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
        Some(Self { step, metrics: Metrics::recorded(numbers) })
    }
}

fn sampled_tokens(trace: &Trace) -> usize {
    trace.sampled().map(|(_, node)| node.tokens().len()).sum()
}

/// The groups of each environment.
fn by_env(groups: &[Group]) -> BTreeMap<&str, Vec<usize>> {
    let mut envs: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, group) in groups.iter().enumerate() {
        if let Some(trace) = group.all().next() {
            envs.entry(&trace.env).or_default().push(index);
        }
    }
    envs
}
