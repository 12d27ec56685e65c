//! Groups: the traces of one task sampled together, and what each is worth.

use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::trace::Trace;

/// The traces of one task that were sampled together, and those that were left out with the reason.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    traces: Vec<Trace>,
    excluded: Vec<(Trace, String)>,
}

impl Group {
    /// Faulted traces leave the group here: a fault is not a zero among its healthy siblings.
    pub fn new(traces: Vec<Trace>) -> Self {
        let mut group = Self::default();
        for trace in traces {
            match &trace.outcome {
                Outcome::Fault { fault } => {
                    let why = fault.to_string();
                    group.excluded.push((trace, why));
                }
                _ => group.traces.push(trace),
            }
        }
        group
    }

    /// Takes a trace out of the statistics for a reason.
    pub fn exclude(&mut self, index: usize, why: impl Into<String>) {
        if index < self.traces.len() {
            let trace = self.traces.remove(index);
            self.excluded.push((trace, why.into()));
        }
    }

    pub fn traces(&self) -> &[Trace] {
        &self.traces
    }

    /// For what is learned of a trace after it was sampled, such as a reward.
    pub fn traces_mut(&mut self) -> &mut [Trace] {
        &mut self.traces
    }

    pub fn excluded(&self) -> &[(Trace, String)] {
        &self.excluded
    }
}

/// What credit assignment says of one trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Advantage {
    /// One value for every sampled token of the trace.
    Whole { value: f64 },
    /// One value per sampled node.
    PerTurn { values: Vec<f64> },
    /// No signal, and why. Not an advantage of zero: the tokens are not trained.
    None { why: NoSignal },
}

/// Why a trace carries no signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoSignal {
    /// Alone in its group: nothing to compare with.
    Singleton,
    /// Every trace of the group earned the same.
    ZeroVariance,
    /// The trace has no reward.
    Unscored,
    /// The estimator divides by the group's mean reward, which is not above zero.
    NoSuccess,
    /// A length limit cut the episode short, and the recipe does not train on such episodes.
    Overlong,
}
