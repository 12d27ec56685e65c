//! Episodes of policies that need no model: the oracle, who knows the solution, and the one who does nothing.
//!
//! They play through the same driver as the policy does, so their traces have the same tokens a policy would see.

use std::sync::Arc;

use hone_arena::rollout::{Rollouts, Slot};
use hone_trace::scripted::ScriptedSampler;
use hone_trace::{Digest, PolicyVersion, Seed, Task, Trace};

use crate::setup::{Setup, SetupError};

/// What they say when they are done.
const DONE: &str = "Done.";

/// Plays a task's reference calls, one a turn, in the model's own call format.
pub async fn oracle(setup: &Setup, rollouts: &Rollouts, task: &Task) -> Result<Trace, SetupError> {
    let episode = setup.arena.open(task, 0).await?;
    let tools = rollouts.toolbox(&episode.tools)?;
    let mut replies = Vec::new();
    for call in task.reference.iter().flatten() {
        replies.push(setup.format.render_calls(std::slice::from_ref(call), &tools)?);
    }
    replies.push(DONE.into());
    play(setup, rollouts, task, &replies).await
}

/// Says it is done and does nothing.
pub async fn idle(setup: &Setup, rollouts: &Rollouts, task: &Task) -> Result<Trace, SetupError> {
    play(setup, rollouts, task, &[DONE.into()]).await
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
