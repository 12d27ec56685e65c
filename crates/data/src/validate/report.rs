//! Report of a validation.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Finding, Label, Reason};
use crate::table::{Table, count};

/// Kept and rejected, by reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Tally {
    pub tasks: u64,
    pub kept: u64,
    pub no_op: u64,
    pub rejected: BTreeMap<Reason, u64>,
}

/// All findings, counted by environment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    pub all: Tally,
    pub environments: BTreeMap<String, Tally>,
    /// Rejected tasks, in the set's order.
    pub rejected: Vec<Finding>,
}

impl Tally {
    fn add(&mut self, finding: &Finding) {
        self.tasks += 1;
        match finding.rejected {
            Some(reason) => *self.rejected.entry(reason).or_default() += 1,
            None => self.kept += 1,
        }
        self.no_op += u64::from(finding.labels.contains(&Label::NoOp));
    }
}

impl Report {
    pub fn of<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Self {
        let mut report = Self::default();
        for finding in findings {
            report.all.add(finding);
            let env = if finding.env.is_empty() { "(not read)" } else { &finding.env };
            report.environments.entry(env.to_owned()).or_default().add(finding);
            if finding.rejected.is_some() {
                report.rejected.push(finding.clone());
            }
        }
        report
    }

    pub fn table(&self) -> Table {
        let mut table = Table::new(["environment", "tasks", "kept", "no-op", "rejected"]);
        let row = |name: &str, tally: &Tally| {
            let numbers = [tally.tasks, tally.kept, tally.no_op, tally.rejected.values().sum()];
            std::iter::once(name.to_owned()).chain(numbers.map(count)).collect::<Vec<_>>()
        };
        for (name, tally) in &self.environments {
            table.row(row(name, tally));
        }
        table.row(row("all", &self.all));
        table
    }

    pub fn reasons(&self) -> Table {
        let mut table = Table::new(["reason", "tasks"]);
        for (reason, number) in &self.all.rejected {
            table.row([reason.words().to_owned(), count(*number)]);
        }
        table
    }

    pub fn markdown(&self) -> String {
        let mut page = format!("# Validation\n\n{}", self.table().markdown());
        if self.rejected.is_empty() {
            return page + "\nNo task was rejected.\n";
        }
        page += &format!("\n## Rejected\n\n{}\n", self.reasons().markdown());
        page += "Traces are numbers in this directory, which is a run directory.\n\n";
        let mut table = Table::new(["task", "reason", "what", "traces"]);
        for finding in &self.rejected {
            let reason = finding.rejected.map_or("", Reason::words);
            let traces: Vec<String> = finding.traces.iter().map(u64::to_string).collect();
            let one_line = |text: &str| text.replace(['\n', '\r'], " ");
            table.row([one_line(&finding.key), reason.to_owned(), one_line(&finding.detail), traces.join(", ")]);
        }
        page + &table.markdown()
    }
}
