//! Checks while a run is under way, one file each: over the numbers of the first and the newest steps, in microseconds.

use std::collections::{BTreeSet, VecDeque};

use hone_trace::entries;
use hone_train::ledger::Ledger;
use hone_train::ledger::names::Name;
use hone_train::recipe::Recipe;

use crate::check::{Check, Looked};
use crate::diagnosis::Named;

entries! {
    /// Live checks, causes before consequences.
    pub static LIVE: [Check<Live>];
    mod faulted: CHECK;
    mod parse_failures: CHECK;
    mod no_signal: CHECK;
    mod success_cliff: CHECK;
    mod logprob_mismatch: CHECK;
    mod gradients: CHECK;
    mod kl_runaway: CHECK;
    mod entropy_collapse: CHECK;
    mod dead_component: CHECK;
    mod length_drift: CHECK;
    mod staleness: CHECK;
}

/// Steps at each end that are compared.
const WINDOW: usize = 8;
/// Newest steps that are kept: enough for two windows.
const KEPT: usize = 2 * WINDOW;

/// A run under way, as far as it is remembered: its first steps and its newest.
#[derive(Debug)]
pub struct Live {
    weights: Vec<(String, f64)>,
    early: Vec<Ledger>,
    late: VecDeque<Ledger>,
    seen: usize,
    said: BTreeSet<&'static str>,
    waived: BTreeSet<String>,
    /// Best mean success of a window, so far.
    best: Option<f64>,
}

impl Live {
    pub fn new(recipe: &Recipe) -> Self {
        let rubric = recipe.rubric.build().ok();
        let weights = rubric.iter().flat_map(hone_arena::rewards::Rubric::weights);
        Self {
            weights: weights
                .filter(|(_, weight)| *weight != 0.0)
                .map(|(name, weight)| (name.to_owned(), weight))
                .collect(),
            early: Vec::new(),
            late: VecDeque::new(),
            seen: 0,
            said: BTreeSet::new(),
            waived: recipe.doctor.waive.keys().cloned().collect(),
            best: None,
        }
    }

    fn remember(&mut self, ledger: &Ledger) {
        self.seen += 1;
        if self.early.len() < WINDOW {
            self.early.push(ledger.clone());
        }
        self.late.push_back(ledger.clone());
        if self.late.len() > KEPT {
            self.late.pop_front();
        }
        if self.seen >= WINDOW {
            let now = self.late(hone_train::ledger::names::REWARD_SUCCESS_RATE);
            self.best = self.best.into_iter().chain(now).reduce(f64::max);
        }
    }

    /// Takes a step in, and returns the findings that are new.
    pub fn see(&mut self, ledger: &Ledger) -> Vec<Named> {
        self.remember(ledger);
        let mut found = Vec::new();
        for check in LIVE.iter().filter(|check| !self.waived.contains(check.name)) {
            if self.said.contains(check.name) {
                continue;
            }
            if let Ok(Looked::Found(finding)) = (check.look)(self) {
                found.push(Named {
                    check: check.name,
                    finding,
                    remedy: check.fix,
                    waived: None,
                    consequences: Vec::new(),
                });
            }
        }
        self.said.extend(found.iter().map(|named| named.check));
        found
    }

    /// Steps so far.
    pub fn seen(&self) -> usize {
        self.seen
    }

    fn weights(&self) -> &[(String, f64)] {
        &self.weights
    }

    /// The newest step's value.
    fn last(&self, metric: impl Into<Name>) -> Option<f64> {
        self.late.back()?.get(metric)
    }

    fn early(&self, metric: impl Into<Name>) -> Option<f64> {
        mean(self.early.iter(), metric.into())
    }

    /// The mean of the newest window.
    fn late(&self, metric: impl Into<Name>) -> Option<f64> {
        mean(self.late.iter().rev().take(WINDOW), metric.into())
    }

    /// The first and the newest window, once they do not overlap.
    fn ends(&self, metric: impl Into<Name>) -> Option<(f64, f64)> {
        let metric = metric.into();
        if self.seen < 2 * WINDOW {
            return None;
        }
        Some((self.early(metric.clone())?, self.late(metric)?))
    }

    /// True when success is under half of the best window's, which was over 20 %.
    fn collapsed(&self, success: f64) -> bool {
        self.best.is_some_and(|best| best > 0.2 && success < 0.5 * best)
    }

    /// The best window of success so far, and the mean of the newest half window.
    fn peak(&self, metric: impl Into<Name>) -> Option<(f64, f64)> {
        let now = mean(self.late.iter().rev().take(WINDOW / 2), metric.into())?;
        (self.seen >= 2 * WINDOW).then_some((self.best?, now))
    }
}

/// The mean over the steps that have the metric.
fn mean<'a>(steps: impl Iterator<Item = &'a Ledger>, metric: Name) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0usize);
    for value in steps.filter_map(|ledger| ledger.get(metric.clone())) {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / count as f64)
}
