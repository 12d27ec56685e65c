//! Oracle episodes: the demonstrator needs no model, because it knows the solution.
//!
//! They play through the same driver as the policy does, so their traces have the same tokens a policy would see.

use std::sync::Arc;

use hone_arena::rollout::{Rollouts, Slot};
use hone_arena::solution::{Move, demonstration, solution};
use hone_trace::scripted::ScriptedSampler;
use hone_trace::{Digest, PolicyVersion, Seed, Task, ToolSet, Trace, did_you_mean};

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
            Move::Call(call) if !episode.tools.iter().any(|tool| tool.name == call.name) => {
                return Err(no_such_tool(task, &call.name, &episode.tools));
            }
            Move::Call(call) => setup.format.render_calls(std::slice::from_ref(call), &tools)?,
            Move::Say(text) => text.clone(),
        });
    }
    play(setup, rollouts, task, &replies).await
}

/// A reference that calls what its environment does not offer.
fn no_such_tool(task: &Task, call: &str, tools: &ToolSet) -> SetupError {
    let names = || tools.iter().map(|tool| tool.name.as_str());
    let near = did_you_mean(call, names());
    SetupError::NoSuchTool {
        task: task.key.clone(),
        call: call.to_owned(),
        advice: format!("{near}the tools are {}", names().collect::<Vec<_>>().join(", ")),
    }
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

#[cfg(test)]
mod tests {
    use hone_trace::ToolSpec;

    use super::*;

    #[test]
    fn a_reference_to_no_tool_names_the_task_and_the_tools() {
        let tools = ["look", "water"].map(|name| ToolSpec::new(name, "", serde_json::json!({"type": "object"})));
        let tools = ToolSet::new(tools.to_vec()).unwrap();
        let error = no_such_tool(&Task::new("garden-7", "garden", "p"), "watr", &tools).to_string();
        let expected = "the reference of task garden-7 calls \"watr\", which its environment does not offer; did you mean \
                        \"water\"? the tools are look, water";
        assert_eq!(error, expected);
    }
}
