//! A diagnosis: findings by cost, symptoms under their causes.

use hone_trace::rundir::RunDirError;
use serde::Serialize;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

/// All that the doctor has to say of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Diagnosis {
    /// Root causes, worst first.
    pub findings: Vec<Named>,
    pub skipped: Vec<Skipped>,
    /// Checks that found nothing wrong.
    pub healthy: Vec<&'static str>,
}

/// A finding with the name of its check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Named {
    pub check: &'static str,
    #[serde(flatten)]
    pub finding: Finding,
    /// Findings that follow from this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<Named>,
}

/// A check that could not be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    pub check: &'static str,
    pub needs: String,
}

impl Diagnosis {
    /// A fault that makes the run worthless or its numbers untrue.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|named| named.finding.severity == Severity::Error)
    }

    /// The finding of a check, among causes and consequences.
    pub fn found(&self, check: &str) -> Option<&Named> {
        let all = self.findings.iter().flat_map(|named| std::iter::once(named).chain(&named.consequences));
        all.into_iter().find(|named| named.check == check)
    }
}

/// Makes every check. A symptom goes to the first cause in the list that explains it and is no less severe.
pub fn diagnose(checks: &[Check], run: &Run) -> Result<Diagnosis, RunDirError> {
    let mut diagnosis = Diagnosis::default();
    let mut found: Vec<(&Check, Finding)> = Vec::new();
    for check in checks {
        match (check.look)(run)? {
            Looked::Healthy => diagnosis.healthy.push(check.name),
            Looked::Skipped(needs) => diagnosis.skipped.push(Skipped { check: check.name, needs }),
            Looked::Found(finding) => found.push((check, finding)),
        }
    }
    let cause = |(check, finding): &(&Check, Finding)| {
        found.iter().position(|(other, worse)| {
            other.explains.contains(&check.name) && worse.severity <= finding.severity && other.name != check.name
        })
    };
    let causes: Vec<Option<usize>> = found.iter().map(cause).collect();
    let named = |(check, finding): &(&Check, Finding)| Named {
        check: check.name,
        finding: finding.clone(),
        consequences: Vec::new(),
    };
    for (place, one) in found.iter().enumerate() {
        if causes[place].is_none() {
            let follow = (0..found.len()).filter(|&other| root(&causes, other) == place && other != place);
            let consequences = follow.map(|other| named(&found[other])).collect();
            diagnosis.findings.push(Named { consequences, ..named(one) });
        }
    }
    diagnosis.findings.sort_by_key(|named| named.finding.severity);
    Ok(diagnosis)
}

/// The end of the chain of causes. A circle ends where it was entered for the last time.
fn root(causes: &[Option<usize>], mut place: usize) -> usize {
    for _ in 0..causes.len() {
        match causes[place] {
            Some(cause) => place = cause,
            None => break,
        }
    }
    place
}
