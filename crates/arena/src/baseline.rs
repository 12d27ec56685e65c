//! Baselines: policies without a model. The reward of the best one is a floor for every trained policy.
//!
//! A world in which one keyword solves the task measures nothing; a baseline shows that before a training run does. An
//! environment declares its own scripted policies ([`crate::registry::Environment::baselines`]); [`DoNothing`] and
//! [`RandomCaller`] play everywhere.

mod random;

use std::sync::Arc;

use hone_trace::{
    Action, Arena, Digest, EndState, Fault, Limit, Message, Node, Outcome, PolicyVersion, Reward, Sampled,
    SamplingParams, Seed, Task, ToolSet, Trace, TraceBuilder, TraceHead, TurnRecord,
};

pub use random::RandomCaller;

use crate::rewards::Rubric;
use crate::solution::DONE;

/// Policy without a model; its reward is a floor for every trained policy.
pub trait Baseline: Send + Sync + std::fmt::Debug {
    fn name(&self) -> &str;
    /// The next action, from the tools on offer and everything said so far (system, first messages, its own turns,
    /// answers).
    fn act(&self, tools: &ToolSet, said: &[Message], seed: Seed) -> Action;
}

/// Baseline that only says it is done.
#[derive(Debug, Clone, Copy, Default)]
pub struct DoNothing;

impl Baseline for DoNothing {
    fn name(&self) -> &'static str {
        "does nothing"
    }

    fn act(&self, _tools: &ToolSet, _said: &[Message], _seed: Seed) -> Action {
        Action::Reply(DONE.into())
    }
}

/// A scripted policy by name and function: enough for most environments.
#[derive(Clone, Copy)]
pub struct Script {
    pub name: &'static str,
    pub act: fn(&ToolSet, &[Message], Seed) -> Action,
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Script").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Baseline for Script {
    fn name(&self) -> &str {
        self.name
    }

    fn act(&self, tools: &ToolSet, said: &[Message], seed: Seed) -> Action {
        (self.act)(tools, said, seed)
    }
}

/// The baselines of every environment.
pub fn everywhere() -> [Arc<dyn Baseline>; 2] {
    [Arc::new(DoNothing), Arc::new(RandomCaller::default())]
}

/// Plays one episode without a model and scores it: every component of the rubric, the total last.
pub async fn play(
    arena: &dyn Arena,
    rubric: &Rubric,
    task: &Task,
    baseline: &dyn Baseline,
    max_turns: u32,
    seed: Seed,
) -> Result<Vec<Reward>, Fault> {
    let mut episode = arena.open(task, seed.with("env").value()).await?;
    let mut said = vec![Message::system(episode.system)];
    said.append(&mut episode.first);
    let mut record = Record::new(task, episode.tools);
    let mut outcome = Outcome::Truncated { limit: Limit::Turns };
    for turn in 0..max_turns {
        let action = baseline.act(&record.tools, &said, seed.with("act").at(u64::from(turn)));
        said.push(spoken(&action));
        let answer = episode.env.step(action.clone()).await?;
        record.turn(action, answer.failed)?;
        said.extend(answer.messages);
        if answer.done {
            outcome = Outcome::Finished;
            break;
        }
    }
    episode.env.finish().await?;
    let mut end = episode.env.end();
    if let Ok(messages) = serde_json::to_value(&said) {
        end.facts.entry("messages").or_insert(messages);
    }
    Ok(record.score(rubric, outcome, &end).await)
}

fn spoken(action: &Action) -> Message {
    match action {
        Action::Calls(calls) => Message::calls(calls.clone()),
        Action::Reply(text) => Message::assistant(text),
        Action::Malformed(failure) => Message::assistant(&failure.message),
    }
}

/// Trace of an episode that no model sampled: turns without tokens, so that components see it like a policy's.
struct Record {
    tools: Arc<ToolSet>,
    trace: TraceBuilder,
    version: PolicyVersion,
}

impl Record {
    fn new(task: &Task, tools: ToolSet) -> Self {
        let tools = Arc::new(tools);
        let head = TraceHead {
            task: task.key.clone(),
            env: task.env.clone(),
            replica: 0,
            seed: 0,
            tools: Arc::clone(&tools),
            sampling: SamplingParams::default(),
        };
        let version = PolicyVersion { run: "baseline".into(), step: 0, weights: Digest::of(b"baseline") };
        Self { tools, trace: TraceBuilder::new(head, Vec::new()), version }
    }

    fn turn(&mut self, action: Action, failed: u32) -> Result<(), Fault> {
        let node = Node::sampled(Vec::new(), Sampled::by(self.version.clone(), Vec::new()))
            .map_err(|error| Fault::new(hone_trace::Boundary::Hone, error.to_string()))?;
        self.trace.push(node);
        let (calls, failure) = match action {
            Action::Calls(calls) => (calls, None),
            Action::Reply(_) => (Vec::new(), None),
            Action::Malformed(failure) => (Vec::new(), Some(failure)),
        };
        let executed = calls.len() as u32;
        self.trace.record(TurnRecord { calls, executed, failed, failure, ..TurnRecord::default() });
        Ok(())
    }

    async fn score(self, rubric: &Rubric, outcome: Outcome, end: &EndState) -> Vec<Reward> {
        let trace: Trace = self.trace.finish(outcome);
        let card = rubric.score(&trace, end).await;
        card.components.into_iter().chain([card.total]).collect()
    }
}
