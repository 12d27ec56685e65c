//! Lint: checks of a task without playing it.

use std::collections::HashMap;

use hone_trace::Task;
use serde_json::Value;

use super::{Finding, Reason, Rules};
use crate::hash::of_json;
use crate::issue::Cause;
use crate::{Issue, Row};

/// Statistics of the whole set that the checks need.
#[derive(Debug, Default)]
pub struct Lint {
    /// Keys of the first task of each content.
    seen: HashMap<u64, String>,
    /// Tasks, and tasks with a date, by environment.
    dates: HashMap<String, [u64; 2]>,
}

impl Lint {
    /// Statistics of a set, gathered before its tasks are judged.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let mut lint = Self::default();
        for Row { task, .. } in rows {
            lint.seen.entry(content(task)).or_insert_with(|| task.key.clone());
            let [tasks, dated] = lint.dates.entry(task.env.clone()).or_default();
            *tasks += 1;
            *dated += u64::from(has_date(task));
        }
        lint
    }

    /// First fault of a task.
    pub fn check(&self, task: &Task, rules: &Rules) -> Option<(Reason, String)> {
        let first = self.seen.get(&content(task)).filter(|first| **first != task.key);
        if let Some(first) = first {
            return Some((Reason::Duplicate, format!("the same as {first} but for its key; keep one")));
        }
        if let Some(missing) = rules.require_variables.iter().find(|name| !task.variables.contains_key(*name)) {
            return Some((Reason::MissingVariable, format!("it has no {missing}, which the rules require")));
        }
        let [tasks, dated] = self.dates.get(&task.env).copied().unwrap_or_default();
        if !has_date(task) && dated > 0 && dated as f64 >= rules.date_share * tasks as f64 {
            let what = format!(
                "it has no date among its variables, and {dated} of {tasks} tasks of {} have one; add CURRENT_DATE",
                task.env
            );
            return Some((Reason::MissingDate, what));
        }
        None
    }
}

/// Fields about a task's origin, not its content.
const BOOKKEEPING: [&str; 11] = [
    "created_at",
    "updated_at",
    "team_id",
    "metadata",
    "validation",
    "comment",
    "key",
    "verifier_id",
    "version",
    "sha256",
    "runtime_version",
];

/// Content that identifies a task under another key: everything it asks for and is judged by. Tasks with the same
/// prompt may differ only in what the environment is told, such as a number to guess.
fn content(task: &Task) -> u64 {
    let prompt: Vec<&str> = task.prompt.split_whitespace().collect();
    let own = |(name, _): &(&String, &Value)| !BOOKKEEPING.contains(&name.as_str());
    let extra: Vec<_> = task.extra.iter().filter(own).collect();
    let verifier: Vec<_> =
        task.verifier.as_ref().and_then(Value::as_object).into_iter().flatten().filter(own).collect();
    let plain = task.verifier.as_ref().filter(|verifier| !verifier.is_object());
    of_json(&(&task.env, prompt, &task.variables, &task.reference, &task.outputs, extra, verifier, plain))
}

fn has_date(task: &Task) -> bool {
    task.variables.keys().any(|name| name.to_uppercase().split('_').any(|word| word == "DATE" || word == "TODAY"))
}

/// The finding of a row that could not be read.
pub fn rejected_row(issue: &Issue) -> Finding {
    let field = if issue.field.is_empty() { String::new() } else { format!("{}: ", issue.field) };
    Finding {
        key: issue.key.clone().unwrap_or_else(|| format!("line {}", issue.line)),
        env: String::new(),
        rejected: Some(match issue.cause {
            Cause::Duplicate => Reason::Duplicate,
            Cause::Form => Reason::WrongSchema,
        }),
        detail: format!("{}:{}: {field}{}; {}", issue.file, issue.line, issue.reason, issue.fix),
        labels: Vec::new(),
        before: None,
        after: None,
        solved: None,
        traces: Vec::new(),
    }
}
