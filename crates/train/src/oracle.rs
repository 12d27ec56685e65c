//! Oracle episodes: the demonstrator needs no model, because it knows the solution.
//!
//! They play through the same driver as the policy does, so their traces have the same tokens a policy would see.

use std::sync::Arc;

use hone_arena::rollout::{Rollouts, Slot};
use hone_arena::solution::{Move, demonstration, solution};
use hone_trace::scripted::ScriptedSampler;
use hone_trace::{Digest, PolicyVersion, Seed, Task, Trace};

use crate::setup::{Setup, SetupError};

/// Source of demonstrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The task's solution.
    Solution,
    /// An imperfect demonstration if the task has one, else its solution.
    Demonstration,
}

/// Plays the demonstration of a task, one call or reply per turn, in the model's own call format.
pub(crate) async fn demonstrator(
    setup: &Setup,
    rollouts: &Rollouts,
    task: &Task,
    shown: Shown,
) -> Result<Trace, SetupError> {
    let moves = match shown {
        Shown::Solution => solution(task),
        Shown::Demonstration => demonstration(task),
    };
    let moves = moves.ok_or_else(|| SetupError::NoSolution(task.key.clone()))?;
    let episode = setup.arena.open(task, 0).await?;
    let tools = rollouts.toolbox(&episode.tools)?;
    let mut replies = Vec::new();
    for step in &moves {
        replies.push(match step {
            Move::Call(call) => setup.format.render_calls(std::slice::from_ref(call), &tools)?,
            Move::Say(text) => text.clone(),
        });
    }
    play(setup, rollouts, task, &replies).await
}

async fn play(setup: &Setup, rollouts: &Rollouts, task: &Task, replies: &[String]) -> Result<Trace, SetupError> {
    let mut script = Vec::new();
    for reply in replies {
        let mut ids = setup.renderer.tokenizer().encode(reply)?;
        ids.push(setup.end_of_turn);
        script.push(ids);
    }
    let version = PolicyVersion { run: "oracle".into(), step: 0, weights: Digest::of(b"oracle") };
    let sampler = Arc::new(ScriptedSampler::new(version, script));
    let seed = Seed::root(0).with("oracle").with(&task.key).value();
    Ok(rollouts.with_sampler(sampler).play(Slot { task, replica: 0, seed }).await)
}
