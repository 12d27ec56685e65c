//! Worked calls in the system prompt: `prompt.examples = k`.
//!
//! The calls are oracle calls of other tasks of the same environment, written in the model's own format and read back
//! against the offered schemas before they are shown: a wrong example teaches a wrong call. Requests are not shown, only
//! calls, because behind a simulated user a task's prompt is that user's script.

use std::collections::HashSet;

use hone_trace::{Seed, Task, ToolSet};

use crate::parse::{BadSchema, Format, Toolbox};

/// A section of the system prompt with worked calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examples {
    /// Format guidance and the calls; empty for k = 0.
    pub section: String,
    /// Keys of the tasks the calls come from, in order.
    pub used: Vec<String>,
    /// Tasks skipped because one of their calls could not be shown, with the reason.
    pub skipped: Vec<(String, String)>,
}

/// Reason why examples cannot be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExamplesError {
    #[error(transparent)]
    Schema(#[from] BadSchema),
    #[error(
        "prompt.examples = {wanted}, but only {found} valid calls exist in the reference solutions of other tasks of \
         {env}{}. Lower prompt.examples or add tasks with reference calls",
        skipped.first().map_or_else(String::new, |(key, why)| format!(" ({key}: {why})"))
    )]
    TooFew { wanted: usize, found: usize, env: String, skipped: Vec<(String, String)> },
}

/// Chooses `k` worked calls for a task and writes them. The choice depends only on the seed and the task; calls of
/// tools not yet shown come first.
pub fn examples(
    format: Format,
    task: &Task,
    pool: &[Task],
    tools: &ToolSet,
    k: usize,
    seed: Seed,
) -> Result<Examples, ExamplesError> {
    if k == 0 {
        return Ok(Examples { section: String::new(), used: Vec::new(), skipped: Vec::new() });
    }
    let toolbox = Toolbox::new(tools)?;
    let mut others: Vec<&Task> = pool.iter().filter(|other| other.env == task.env && other.key != task.key).collect();
    seed.with("prompt examples").with(&task.key).rng().shuffle(&mut others);

    let (mut shown, mut rest, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    for other in others {
        for call in other.reference.iter().flatten() {
            match format.render_calls(std::slice::from_ref(call), &toolbox) {
                Ok(text) if seen.insert(call.name.clone()) => shown.push((other, text)),
                Ok(text) => rest.push((other, text)),
                Err(error) => skipped.push((other.key.clone(), error.to_string())),
            }
        }
        if shown.len() >= k {
            break;
        }
    }
    shown.extend(rest);
    shown.truncate(k);
    if shown.len() < k {
        return Err(ExamplesError::TooFew { wanted: k, found: shown.len(), env: task.env.clone(), skipped });
    }
    let texts: Vec<&str> = shown.iter().map(|(_, text)| text.as_str()).collect();
    let used = shown.iter().map(|(other, _)| other.key.clone()).collect();
    Ok(Examples { section: section(format, &texts), used, skipped })
}

fn section(format: Format, calls: &[&str]) -> String {
    let mut section =
        format!("# Calling tools\n\n{}\n\nCalls from other tasks, as examples of the form:", format.guidance());
    for call in calls {
        section.push_str("\n\n");
        section.push_str(call);
    }
    section
}
