//! Faults of a step: counted by the part that broke, recorded, and tolerated for a while.

use std::collections::BTreeMap;
use std::fmt;

use hone_arena::rollout::CRASH;
use hone_trace::{Group, Limit, Outcome, Trace};
use serde_json::Value;

use crate::events::{Counted, Event};
use crate::update::Learned;

/// Faults among one step's episodes.
#[derive(Debug, Default)]
pub struct Faults {
    episodes: usize,
    faulted: usize,
    scored: usize,
    /// By boundary: count, and the first error message.
    by: BTreeMap<String, Counted>,
    /// By component: number of unscored episodes, and the first reason.
    unscored: BTreeMap<String, Counted>,
    first: Option<String>,
}

/// Episodes that something outside the policy broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broke {
    pub broken: usize,
    pub episodes: usize,
    /// Boundary of the first fault, and its message.
    pub first: String,
}

impl Broke {
    /// Faults of recorded episodes, if some broke.
    pub fn of(groups: &[Group]) -> Option<Self> {
        Faults::of(groups).broke()
    }

    /// Nearly all episodes, or nearly all of those that acted if they are not few: they broke, or their first call crashed the
    /// environment. One policy may find a call that crashes a tool; an environment that crashes at every first call is broken.
    pub(crate) fn nearly_all<'a>(traces: impl Iterator<Item = &'a Trace>) -> Option<Self> {
        let none = || Self { broken: 0, episodes: 0, first: String::new() };
        let (mut all, mut acted) = (none(), none());
        for trace in traces {
            let words = match &trace.outcome {
                Outcome::Fault { fault } => Some(fault.to_string()),
                Outcome::Truncated { limit: Limit::CrashingCall } if trace.turns.len() <= 1 => {
                    Some(trace.facts.get(CRASH).and_then(Value::as_str).unwrap_or_default().to_owned())
                }
                _ => None,
            };
            if trace.turns.first().is_some_and(|turn| !turn.calls.is_empty()) {
                acted.count(words.as_deref());
            }
            all.count(words.as_deref());
        }
        let few = FEW * (acted.episodes as f64) < all.episodes as f64;
        [Some(all), Some(acted).filter(|_| !few)].into_iter().flatten().find(Self::is_nearly_all)
    }

    fn count(&mut self, words: Option<&str>) {
        self.episodes += 1;
        let Some(words) = words else { return };
        if self.broken == 0 {
            words.clone_into(&mut self.first);
        }
        self.broken += 1;
    }

    fn is_nearly_all(&self) -> bool {
        self.broken > 0 && NEARLY_ALL * self.episodes as f64 <= self.broken as f64
    }
}

/// Share of broken episodes that leaves nothing to measure.
const NEARLY_ALL: f64 = 0.9;
/// Episodes for each that acted, beyond which those that acted say little about the environment.
const FEW: f64 = 2.0;

impl fmt::Display for Broke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} episodes broke; the first: {}", self.broken, self.episodes, self.first)
    }
}

impl Faults {
    pub fn of(groups: &[Group]) -> Self {
        let mut faults = Self::default();
        for trace in groups.iter().flat_map(Group::all) {
            faults.episodes += 1;
            if let Outcome::Fault { fault } = &trace.outcome {
                faults.faulted += 1;
                count(&mut faults.by, fault.boundary.to_string(), &fault.what);
                faults.first.get_or_insert_with(|| fault.to_string());
                continue;
            }
            let total = trace.reward(hone_arena::rewards::TOTAL);
            faults.scored += usize::from(total.is_some());
            for reward in trace.rewards.iter().filter(|reward| reward.value().is_none()) {
                count(&mut faults.unscored, reward.component.clone(), reward.why());
            }
        }
        faults
    }

    /// The broken episodes, if any.
    pub fn broke(&self) -> Option<Broke> {
        let first = self.first.clone()?;
        Some(Broke { broken: self.faulted, episodes: self.episodes, first })
    }

    /// The event of the step, if something broke.
    pub fn event(&self, step: u64, learned: &Learned) -> Option<Event> {
        let skipped_optimizer_steps = learned.skipped();
        if self.by.is_empty() && self.unscored.is_empty() && skipped_optimizer_steps.is_empty() {
            return None;
        }
        let (faults, unscored) = (self.by.clone(), self.unscored.clone());
        Some(Event::Faults { step, episodes: self.episodes, faults, unscored, skipped_optimizer_steps })
    }

    /// Reason why nothing could be learned from the step, if that is not due to the policy.
    pub(crate) fn nothing_learned(&self, learned: &Learned) -> Option<String> {
        // A few that ended without an action may be left.
        let most_broke = learned.optimized.is_empty() && 2 * self.faulted > self.episodes;
        if self.episodes > 0 && (self.faulted == self.episodes || most_broke) {
            let (who, most) = self.by.iter().max_by_key(|(_, counted)| counted.episodes)?;
            let how_many = match self.episodes - self.faulted {
                0 => "every episode broke".to_owned(),
                _ => format!("{} of {} episodes broke", self.faulted, self.episodes),
            };
            return Some(format!("{how_many}. {who}: {}", most.first));
        }
        if self.episodes > 0 && self.scored == 0 {
            let first = self.unscored.iter().map(|(name, counted)| format!("{name}: {}", counted.first)).next();
            return Some(format!("no episode was scored. {}", first.unwrap_or_default()));
        }
        let skipped = learned.skipped();
        let all_skipped = !skipped.is_empty() && skipped.len() == learned.optimized.len();
        all_skipped.then(|| {
            let first = skipped.first().cloned().unwrap_or_default();
            format!("every optimizer step was skipped: {first}. Lower train.learning_rate, or look at the rewards")
        })
    }
}

/// Counts one more episode of a kind; keeps the first message.
fn count(counted: &mut BTreeMap<String, Counted>, kind: String, what: &str) {
    let entry = counted.entry(kind).or_insert_with(|| Counted { episodes: 0, first: what.to_owned() });
    entry.episodes += 1;
}
