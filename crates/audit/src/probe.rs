//! A probe: a policy that needs no model, and what it would have to be paid for.

use serde::Serialize;

use crate::scene::Scene;

/// One way to act that says something about the rewards. It replies in text; what becomes of the text is up to the
/// recipe's own parser, environment and rubric.
pub trait Probe: Sync + std::fmt::Debug {
    fn about(&self) -> About;

    /// The episodes to play of a task. None where the task has nothing the probe could use.
    fn variants(&self, scene: &Scene) -> Vec<Variant>;
}

/// A probe's name and purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// In snake case.
    pub name: &'static str,
    /// The policy, in a sentence.
    pub what: &'static str,
    /// The fault it uncovers, in a sentence.
    pub finds: &'static str,
}

/// One episode of a probe: everything it replies, in order. Afterwards it says that it is done.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    pub label: String,
    pub role: Role,
    /// The sweep it is a point of, and its place there.
    pub(crate) point: Option<(Sweep, f64)>,
    /// Set where a law asks for this episode; its label is for people.
    pub(crate) mark: Option<Mark>,
    pub replies: Vec<String>,
}

impl Variant {
    pub(crate) fn new(label: impl Into<String>, role: Role, replies: Vec<String>) -> Self {
        Self { label: label.into(), role, point: None, mark: None, replies }
    }

    #[must_use]
    pub(crate) fn at(mut self, sweep: Sweep, place: f64) -> Self {
        self.point = Some((sweep, place));
        self
    }

    #[must_use]
    pub(crate) fn marked(mut self, mark: Mark) -> Self {
        self.mark = Some(mark);
        self
    }
}

/// The claim an episode has to reward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The task's own solution.
    Oracle,
    /// The solution in another form: longer, with citations repeated.
    Dressed,
    /// The solution with one thing wrong in it.
    Defect,
    /// The solution, cut off or malformed.
    Broken,
    /// Worthless: reads nothing and solves nothing.
    Junk,
}

/// Episodes that laws compare with others, one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Nothing is said: the zero of the scale on which junk is measured.
    EmptyReply,
    /// Everything shown is cited, with confidence 0, under filler of the solution's length.
    EverythingCited,
    /// The same text and confidence with nothing cited.
    NothingCited,
    /// The solution with a fault of form that can be repaired.
    Repairable,
    /// The solution with one thing wrong in it, as the `defect` probe makes it.
    OneWrong,
}

/// Episodes that differ in one thing only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sweep {
    /// Words of filler.
    FillerWords,
    /// Words of filler after the solution.
    PaddingWords,
    /// Stated confidence on the right answer.
    ConfidenceRight,
    /// Stated confidence on a wrong answer.
    ConfidenceWrong,
    /// Of the right citations, how many are given.
    RightCitations,
    /// Wrong citations beside the right ones.
    WrongCitations,
    /// Repetitions of each right citation.
    RepeatedCitations,
    /// Different contents in one valid form.
    Contents,
}
