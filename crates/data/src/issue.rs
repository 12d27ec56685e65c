//! Issues: rows that were dropped or repaired, each with its place, reason and fix.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Outcome for the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IssueKind {
    Dropped,
    Repaired,
}

/// Cause of an issue, as far as it matters to readers of the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Cause {
    #[default]
    Form,
    /// A task with the same key was read before.
    Duplicate,
}

/// Row that was dropped or repaired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    pub kind: IssueKind,
    pub file: String,
    /// First line of the row, counted from 1; in a parquet file, the row's number.
    pub line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Empty: the row as a whole.
    pub field: String,
    pub reason: String,
    pub fix: String,
    #[serde(skip)]
    pub(crate) cause: Cause,
}

impl Issue {
    /// `tasks.jsonl:17: env_variables of task a: …; fix`.
    pub fn line(&self) -> String {
        let field = if self.field.is_empty() { String::new() } else { format!("{}: ", self.field) };
        let key = self.key.as_ref().filter(|key| !key.is_empty());
        let key = key.map(|key| format!(" [{key}]")).unwrap_or_default();
        let kind = match self.kind {
            IssueKind::Dropped => "dropped",
            IssueKind::Repaired => "repaired",
        };
        format!("{}:{}: {kind}{key}: {field}{}; {}", self.file, self.line, self.reason, self.fix)
    }
}

/// Issues of a reading: all of them counted, the first few of each kind kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Issues {
    pub dropped: u64,
    pub repaired: u64,
    /// Count by kind and field.
    pub counts: BTreeMap<String, u64>,
    /// The first of each kind, in order.
    pub examples: Vec<Issue>,
}

/// Examples kept per kind.
const EXAMPLES: u64 = 5;

impl Issues {
    pub fn add(&mut self, issue: Issue) {
        let (total, word) = match issue.kind {
            IssueKind::Dropped => (&mut self.dropped, "dropped"),
            IssueKind::Repaired => (&mut self.repaired, "repaired"),
        };
        *total += 1;
        let field = if issue.field.is_empty() { "row" } else { &issue.field };
        let count = self.counts.entry(format!("{word}: {field}")).or_default();
        *count += 1;
        if *count <= EXAMPLES {
            self.examples.push(issue);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.dropped + self.repaired == 0
    }

    /// For people: counts, then examples.
    pub fn text(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        let plural = |number: u64, one: &str, more: &str| format!("{number} {}", if number == 1 { one } else { more });
        let dropped = plural(self.dropped, "row dropped", "rows dropped");
        let mut text = format!("{dropped}, {}\n", plural(self.repaired, "repair", "repairs"));
        for issue in &self.examples {
            text += &format!("  {}\n", hone_trace::clean_line(&issue.line()));
        }
        let shown = self.examples.len() as u64;
        let more = self.dropped + self.repaired - shown;
        if more > 0 {
            text += &format!("  … and {more} more; --issues FILE writes all of them\n");
        }
        text
    }
}
