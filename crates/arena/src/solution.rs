//! Solutions as behaviour: a task's reference calls, and the replies between them.
//!
//! A task lists what to say under `says`: `[{"before": 2, "text": "…"}]` is said before the third call; if `before` is
//! the number of calls, after the last. A task without it is closed by its outputs, or by "Done.". Oracles and
//! imitation use this; an agent that called without speaking would use values it was never given.

use hone_trace::{Task, ToolCall};
use serde::{Deserialize, Serialize};

/// One move of the agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Move {
    Call(ToolCall),
    Say(String),
}

/// Something said, and the reference call it comes before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Say {
    pub before: usize,
    pub text: String,
}

/// The key of a task's [`Say`]s.
pub const SAYS: &str = "says";

/// Key for the calls of an imperfect demonstrator, for a task that has them: imitation uses them instead of the
/// reference.
pub const DEMONSTRATION: &str = "demonstration";

/// Demonstrator that imitation learns from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Demonstrator {
    /// Always right.
    #[default]
    Oracle,
    /// Competent but often careless: see the `novice.rs` of each environment that has one.
    Novice,
}

/// The reply of an agent that has nothing to tell.
pub const DONE: &str = "Done.";

/// The moves of a perfect episode; `None` if the task has no reference, or its `says` cannot be read.
pub fn solution(task: &Task) -> Option<Vec<Move>> {
    moves(task, task.reference.as_ref()?)
}

/// The moves to imitate: the task's demonstration if it has one, else its solution.
pub fn demonstration(task: &Task) -> Option<Vec<Move>> {
    match task.extra.get(DEMONSTRATION) {
        Some(calls) => moves(task, &serde_json::from_value::<Vec<ToolCall>>(calls.clone()).ok()?),
        None => solution(task),
    }
}

fn moves(task: &Task, calls: &[ToolCall]) -> Option<Vec<Move>> {
    let says = match task.extra.get(SAYS) {
        Some(says) => serde_json::from_value(says.clone()).ok()?,
        None => vec![Say { before: calls.len(), text: closing(task) }],
    };
    let said = |at: usize| {
        says.iter()
            .filter(move |say: &&Say| say.before == at)
            .map(|say| Move::Say(say.text.clone()))
            .collect::<Vec<_>>()
    };
    let mut moves = Vec::with_capacity(calls.len() + says.len());
    for (at, call) in calls.iter().enumerate() {
        moves.extend(said(at));
        moves.push(Move::Call(call.clone()));
    }
    moves.extend(said(calls.len()));
    Some(moves)
}

fn closing(task: &Task) -> String {
    if task.outputs.is_empty() { DONE.into() } else { format!("{DONE} {}", task.outputs.join(", ")) }
}
