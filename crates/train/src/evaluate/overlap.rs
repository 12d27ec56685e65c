//! Overlap of held-out and training tasks, by content.
//!
//! Keys are useless here: they carry the split's name. The comparison is of prompts and reference calls.

use std::collections::HashSet;

use hone_trace::Task;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Overlap {
    /// Held-out tasks compared.
    pub held_out: usize,
    /// Share of them whose prompt is a training task's, word for word. Also `None` if all training tasks have the same
    /// prompt, which says nothing about them: numbered tasks of a program that generates its own worlds.
    pub prompts: Option<f64>,
    /// Share of those with reference calls whose calls, arguments included, are a training task's.
    pub calls: Option<f64>,
    /// Share whose prompt and calls together are one training task's; `None` with the prompts, and in older records.
    #[serde(default)]
    pub tasks: Option<f64>,
}

impl Overlap {
    pub fn of(tasks: &[Task], held_out: &[Task]) -> Self {
        let prompts: HashSet<&str> = tasks.iter().map(|task| task.prompt.as_str()).collect();
        let known: HashSet<String> = tasks.iter().filter_map(calls).collect();
        let wanted: Vec<String> = held_out.iter().filter_map(calls).collect();
        let whole: HashSet<(&str, Option<String>)> = tasks.iter().map(|task| (&*task.prompt, calls(task))).collect();
        let share = |part: usize, of: usize| (of > 0).then(|| part as f64 / of as f64);
        let telling = prompts.len() > 1 || tasks.len() < 2;
        let of_held_out = |shared: &dyn Fn(&Task) -> bool| {
            let count = telling.then(|| held_out.iter().filter(|task| shared(task)).count())?;
            share(count, held_out.len())
        };
        Self {
            held_out: held_out.len(),
            prompts: of_held_out(&|task| prompts.contains(&*task.prompt)),
            tasks: of_held_out(&|task| whole.contains(&(&*task.prompt, calls(task)))),
            calls: share(wanted.iter().filter(|calls| known.contains(*calls)).count(), wanted.len()),
        }
    }
}

/// Reference calls in canonical form, independent of argument order.
fn calls(task: &Task) -> Option<String> {
    let calls = task.reference.as_ref()?.iter().map(|call| {
        let mut arguments: Vec<(&String, String)> =
            call.arguments.iter().map(|(name, value)| (name, value.to_string())).collect();
        arguments.sort();
        format!("{}{arguments:?}", call.name)
    });
    Some(calls.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use hone_trace::ToolCall;
    use serde_json::json;

    use super::*;

    fn task(key: &str, prompt: &str, arguments: Option<serde_json::Value>) -> Task {
        let mut task = Task::new(key, "e", prompt);
        task.reference = arguments.map(|value| vec![ToolCall::new("f", value.as_object().cloned().unwrap())]);
        task
    }

    #[test]
    fn content_is_compared_and_not_keys() {
        let training = [
            task("train-1", "Cancel it.", Some(json!({"a": 1, "b": 2}))),
            task("same", "Hello.", Some(json!({"a": 3}))),
        ];
        let held_out = [
            task("held-out-1", "Cancel it.", Some(json!({"b": 2, "a": 1}))),
            task("same", "Something else.", Some(json!({"a": 4}))),
            task("held-out-3", "Hello.", None),
        ];
        let found = Overlap::of(&training, &held_out);
        let third = Some(1.0 / 3.0);
        assert_eq!(found, Overlap { held_out: 3, prompts: Some(2.0 / 3.0), calls: Some(0.5), tasks: third });
        let numbered = [task("train-1", "Begin.", None), task("train-2", "Begin.", None)];
        assert_eq!(Overlap::of(&numbered, &[task("held-out-1", "Begin.", None)]).prompts, None);
        let nothing = Overlap::of(&training, &[]);
        assert_eq!((nothing.prompts, nothing.calls), (None, None));
    }
}
