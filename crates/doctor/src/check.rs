//! A check: one fault, how it is measured, and how to fix it.

use hone_trace::rundir::RunDirError;
use serde::Serialize;

use crate::run::Run;

/// One fault to look for in `S`: a run's records, a probe before a run, or a run under way.
#[derive(Debug)]
pub struct Check<S = Run> {
    /// In snake case, as users name it.
    pub name: &'static str,
    /// The fault, in a sentence.
    pub what: &'static str,
    /// The measurement, thresholds included.
    pub measure: &'static str,
    /// Remedy.
    pub fix: &'static str,
    /// Checks whose findings follow from this one's.
    pub explains: &'static [&'static str],
    pub look: fn(&S) -> Result<Looked, RunDirError>,
}

// Not derived: a check is copied whatever `S` is.
impl<S> Clone for Check<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Check<S> {}

/// Result of a check.
#[derive(Debug, Clone, PartialEq)]
pub enum Looked {
    Healthy,
    /// The records do not have what the check needs, which is named.
    Skipped(String),
    Found(Finding),
}

impl Looked {
    pub fn skipped(needs: impl Into<String>) -> Result<Self, RunDirError> {
        Ok(Self::Skipped(needs.into()))
    }
}

/// A fault that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[must_use]
pub struct Finding {
    pub severity: Severity,
    pub confidence: Confidence,
    /// The fault in this run, in a sentence with its numbers.
    pub says: String,
    #[serde(flatten)]
    pub evidence: Evidence,
    /// Remedy for this run. Absent: the check's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// The facts a finding rests on.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Evidence {
    /// Lines of arithmetic or quotation.
    pub lines: Vec<String>,
    /// Traces that show it, by number.
    pub traces: Vec<u64>,
}

/// The cost of a fault, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The run teaches nothing, or its numbers do not mean what they say.
    Error,
    /// Time or signal is lost, or a claim needs a caveat.
    Warning,
    /// Worth knowing.
    Note,
}

/// Strength of the evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Measured directly, or true by construction.
    Certain,
    /// Estimated from a sample, or one of few explanations.
    Likely,
    /// A small sample, or one of many explanations.
    Possible,
}

impl Confidence {
    pub fn word(self) -> &'static str {
        match self {
            Self::Certain => "certain",
            Self::Likely => "likely",
            Self::Possible => "possible",
        }
    }
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl Finding {
    pub fn new(severity: Severity, says: impl Into<String>) -> Self {
        let says = says.into();
        Self { severity, confidence: Confidence::Certain, says, evidence: Evidence::default(), fix: None }
    }

    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.evidence.lines.push(line.into());
        self
    }

    pub fn lines(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.evidence.lines.extend(lines);
        self
    }

    /// Evidence that is an estimate.
    pub fn likely(mut self) -> Self {
        self.confidence = Confidence::Likely;
        self
    }

    /// Evidence that other causes could leave too.
    pub fn possible(mut self) -> Self {
        self.confidence = Confidence::Possible;
        self
    }

    /// At most three, each once: enough to look at.
    pub fn traces(mut self, traces: impl IntoIterator<Item = u64>) -> Self {
        let shown = &mut self.evidence.traces;
        for trace in traces {
            if shown.len() == 3 {
                break;
            }
            if !shown.contains(&trace) {
                shown.push(trace);
            }
        }
        self
    }

    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

impl From<Finding> for Result<Looked, RunDirError> {
    fn from(finding: Finding) -> Self {
        Ok(Looked::Found(finding))
    }
}
