//! A diagnosis: findings by cost, symptoms under their causes, waivers beside what they excuse.

use std::collections::BTreeMap;
use std::path::Path;

use hone_trace::rundir::RunDirError;
use hone_train::report::ReportError;
use serde::Serialize;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::CHECKS;
use crate::run::Run;

/// The check over the records themselves.
const RECORDS: &str = "records";

/// Diagnosis of a run or a recipe.
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
    /// Default fix of the check; the finding's own, where it has one, is more specific.
    pub remedy: &'static str,
    /// The recipe's reason for waiving it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waived: Option<String>,
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

impl Named {
    fn is_error(&self) -> bool {
        self.finding.severity == Severity::Error && self.waived.is_none()
    }

    /// Fix of this finding.
    pub fn fix(&self) -> &str {
        self.finding.fix.as_deref().unwrap_or(self.remedy)
    }
}

impl Diagnosis {
    /// An unwaived fault that makes the run worthless or its numbers untrue.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(Named::is_error)
    }

    /// The finding of a check, among causes and consequences.
    pub fn found(&self, check: &str) -> Option<&Named> {
        let all = self.findings.iter().flat_map(|named| std::iter::once(named).chain(&named.consequences));
        all.into_iter().find(|named| named.check == check)
    }

    /// Excuses what the recipe waives, by the name of the check. What follows from a waived finding is excused with it.
    #[must_use]
    pub fn waive(mut self, waivers: &BTreeMap<String, String>) -> Self {
        for named in &mut self.findings {
            named.waived = waivers.get(named.check).cloned();
        }
        self
    }
}

/// The diagnosis of a run directory, with the recipe's waivers. Records that cannot be read are a finding, too.
pub fn examine(directory: &Path) -> Result<Diagnosis, ReportError> {
    match Run::read(directory) {
        Ok(run) => Ok(diagnose(CHECKS, &run)?.waive(&run.recipe.doctor.waive)),
        Err(ReportError::Run(RunDirError::Damaged { path, record, what })) => {
            Ok(unreadable(&format!("{}, record {record}: {what}", path.display())))
        }
        Err(error) => Err(error),
    }
}

/// One finding: the check over the records themselves. The others need records that can be read.
fn unreadable(words: &str) -> Diagnosis {
    let mut diagnosis = Diagnosis::default();
    for check in CHECKS {
        if check.name == RECORDS {
            let mut lines = words.lines().map(str::to_owned);
            let finding = Finding::new(Severity::Error, lines.next().unwrap_or_default()).lines(lines);
            diagnosis.findings.push(Named {
                check: check.name,
                finding,
                remedy: check.fix,
                waived: None,
                consequences: Vec::new(),
            });
        } else {
            diagnosis.skipped.push(Skipped { check: check.name, needs: "records that can be read".into() });
        }
    }
    diagnosis
}

/// Runs every check. A symptom is attributed to the worst cause that explains it and is at least as severe; among
/// equals, to the first in the list.
pub fn diagnose<S>(checks: &[Check<S>], subject: &S) -> Result<Diagnosis, RunDirError> {
    let mut diagnosis = Diagnosis::default();
    let mut found: Vec<(&Check<S>, Finding)> = Vec::new();
    for check in checks {
        // Records that one check cannot read are no reason to leave the others out; `records` says what is damaged.
        let looked = match (check.look)(subject) {
            Ok(looked) => looked,
            Err(error) => Looked::Skipped(format!("records that can be read ({error})")),
        };
        match looked {
            Looked::Healthy => diagnosis.healthy.push(check.name),
            Looked::Skipped(needs) => diagnosis.skipped.push(Skipped { check: check.name, needs }),
            Looked::Found(finding) => found.push((check, finding)),
        }
    }
    let cause = |(check, finding): &(&Check<S>, Finding)| {
        let explains = |(other, worse): &(&Check<S>, Finding)| {
            other.explains.contains(&check.name) && worse.severity <= finding.severity && other.name != check.name
        };
        let causes = (0..found.len()).filter(|&place| explains(&found[place]));
        causes.min_by_key(|&place| (found[place].1.severity, place))
    };
    let causes = without_circles(found.iter().map(cause).collect());
    let named = |(check, finding): &(&Check<S>, Finding)| Named {
        check: check.name,
        finding: finding.clone(),
        remedy: check.fix,
        waived: None,
        consequences: Vec::new(),
    };
    for (place, one) in found.iter().enumerate() {
        if causes[place].is_none() {
            let follow = (0..found.len()).filter(|&other| root(&causes, other) == place && other != place);
            let consequences = follow.map(|other| named(&found[other])).collect();
            diagnosis.findings.push(Named { consequences, ..named(one) });
        }
    }
    // Of equal severity, the cause of most costs most; else the pipeline's order.
    diagnosis.findings.sort_by_key(|named| (named.finding.severity, std::cmp::Reverse(named.consequences.len())));
    Ok(diagnosis)
}

/// Causes of which none is its own: of checks that explain each other, the first in the list is the root.
fn without_circles(mut causes: Vec<Option<usize>>) -> Vec<Option<usize>> {
    for place in 0..causes.len() {
        let mut at = place;
        for _ in 0..causes.len() {
            match causes[at] {
                Some(cause) if cause == place => {
                    causes[place] = None;
                    break;
                }
                Some(cause) => at = cause,
                None => break,
            }
        }
    }
    causes
}

/// The end of the chain of causes.
fn root(causes: &[Option<usize>], mut place: usize) -> usize {
    while let Some(cause) = causes[place] {
        place = cause;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A finding is never lost because two checks explain each other.
    #[test]
    fn a_circle_has_a_root() {
        assert_eq!(without_circles(vec![Some(1), Some(0), Some(1)]), [None, Some(0), Some(1)]);
        assert_eq!(without_circles(vec![None, Some(2), Some(3), Some(1)]), [None, None, Some(3), Some(1)]);
        assert_eq!(root(&without_circles(vec![Some(1), Some(0), Some(1)]), 2), 0);
    }
}
