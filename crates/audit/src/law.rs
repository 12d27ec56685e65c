//! A law: a property that rewards keep, checked over what was played.

use serde::Serialize;

use crate::evidence::Evidence;

/// One law of rewards.
pub trait Law: Sync + std::fmt::Debug {
    fn about(&self) -> LawText;

    fn check(&self, evidence: &Evidence) -> Checked;
}

/// A law's name and words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LawText {
    /// In snake case.
    pub name: &'static str,
    /// The law, in a sentence.
    pub law: &'static str,
    /// The measurement, thresholds included.
    pub measure: &'static str,
    /// The way out, in the recipe's own words.
    pub repair: &'static str,
    /// Laws that break as a consequence when this one does.
    pub explains: &'static [&'static str],
}

/// Outcome of a law.
#[derive(Debug, Clone, PartialEq)]
pub enum Checked {
    Holds,
    /// The tasks or the rubric have not what it takes, which is named.
    Skipped(String),
    Broken(Vec<Breach>),
}

impl Checked {
    pub(crate) fn of(breaches: Vec<Breach>) -> Self {
        if breaches.is_empty() { Self::Holds } else { Self::Broken(breaches) }
    }
}

/// One way in which a law is broken.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Breach {
    pub severity: Severity,
    /// The component, or `total`.
    pub component: String,
    /// The breach in a sentence with its numbers.
    pub says: String,
    /// Arithmetic and quotations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
}

impl Breach {
    pub(crate) fn new(severity: Severity, component: &str, says: impl Into<String>) -> Self {
        Self { severity, component: component.to_owned(), says: says.into(), lines: Vec::new() }
    }

    #[must_use]
    pub(crate) fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }
}

/// The cost of a breach, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The policy is paid for what it must not do.
    Error,
    /// Signal is lost, or a component means less than it says.
    Warning,
    /// A component that pays nothing would break the law if it did.
    Note,
}

/// An error where the component is paid, else a note.
pub(crate) fn if_paid(evidence: &Evidence, component: &str) -> Severity {
    if evidence.paid().any(|paid| paid == component) { Severity::Error } else { Severity::Note }
}
