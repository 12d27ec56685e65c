//! Groups: the traces of one task sampled together, and their advantages.

use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::trace::Trace;

/// The traces of one task that were sampled together, and those that broke.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    traces: Vec<Trace>,
    faulted: Vec<Trace>,
}

impl Group {
    /// Faulted traces leave the group here: a fault is not a zero among its healthy siblings.
    pub fn new(traces: Vec<Trace>) -> Self {
        let (faulted, traces) = traces.into_iter().partition(|trace| matches!(trace.outcome, Outcome::Fault { .. }));
        Self { traces, faulted }
    }

    pub fn traces(&self) -> &[Trace] {
        &self.traces
    }

    /// Mutable traces, for values known only after sampling, such as a reward.
    pub fn traces_mut(&mut self) -> &mut [Trace] {
        &mut self.traces
    }

    /// Traces broken by something outside the policy; their outcomes name the cause. They are excluded from all
    /// statistics.
    pub fn faulted(&self) -> &[Trace] {
        &self.faulted
    }

    /// Every trace that was played.
    pub fn all(&self) -> impl Iterator<Item = &Trace> {
        self.traces.iter().chain(&self.faulted)
    }
}

/// Advantage of one trace, or the reason why it has none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Advantage {
    /// One value for every sampled token of the trace.
    Whole { value: f64 },
    /// One value per sampled node.
    PerTurn { values: Vec<f64> },
    /// One value for every sampled token except those of the spans, which have their own.
    Spans { value: f64, spans: Vec<Span> },
    /// No signal, and why. Not an advantage of zero: the tokens are not trained.
    None { why: NoSignal },
}

/// Advantage of a run of tokens, counted among the sampled tokens of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Span {
    pub start: usize,
    /// First token after the span.
    pub end: usize,
    pub value: f64,
}

impl Advantage {
    /// The values it contains.
    pub fn values(&self) -> Vec<f64> {
        match self {
            Self::Whole { value } => vec![*value],
            Self::PerTurn { values } => values.clone(),
            Self::Spans { value, spans } => [*value].into_iter().chain(spans.iter().map(|span| span.value)).collect(),
            Self::None { .. } => Vec::new(),
        }
    }

    /// One value per sampled token of a trace whose turns have these lengths. `None` without signal. Turns beyond the
    /// last value of `PerTurn` have no value either.
    pub fn per_token(&self, turns: impl IntoIterator<Item = usize>) -> Option<Vec<f64>> {
        let turns = turns.into_iter();
        match self {
            Self::None { .. } => None,
            Self::Whole { value } => Some(vec![*value; turns.sum()]),
            Self::PerTurn { values } => {
                Some(turns.zip(values).flat_map(|(tokens, value)| std::iter::repeat_n(*value, tokens)).collect())
            }
            Self::Spans { value, spans } => {
                let mut values = vec![*value; turns.sum()];
                for Span { start, end, value } in spans {
                    let end = (*end).min(values.len());
                    values[(*start).min(end)..end].fill(*value);
                }
                Some(values)
            }
        }
    }
}

/// Reason why a trace carries no signal.
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

/// Training record of a trace, stored beside it: every sampled token shows whether it was trained, and if not, why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lesson {
    pub advantage: Advantage,
    /// Logprobs of the learner, of every sampled token when it first saw it. Empty if no optimizer step saw
    /// the trace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<f32>,
    /// Entropy of the distribution every sampled token was drawn from, computed by the learner, to four decimals. Empty
    /// if the learner does not report it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entropies: Vec<f32>,
    /// One letter per sampled token, see [`Fate`]. Empty when `logprobs` is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fates: String,
}

/// Training outcome of a sampled token of a trace with an advantage. A token that was seen several times has the last
/// outcome in this order that applied to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// The advantage is 0.
    Zero,
    Trained,
    /// Excluded by an off-policy correction or a mask.
    Masked,
    /// The clip set its gradient to zero.
    Clipped,
    /// The optimizer step was not taken, or was undone.
    Skipped,
}

impl Fate {
    pub fn letter(self) -> char {
        match self {
            Self::Zero => 'z',
            Self::Trained => 't',
            Self::Masked => 'm',
            Self::Clipped => 'c',
            Self::Skipped => 's',
        }
    }

    pub fn from_letter(letter: char) -> Option<Self> {
        [Self::Zero, Self::Trained, Self::Masked, Self::Clipped, Self::Skipped]
            .into_iter()
            .find(|fate| fate.letter() == letter)
    }
}
