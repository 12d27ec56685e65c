//! Players: policies that act on text. A known solution, a scripted policy, a model behind an API, each played and
//! scored like any policy, into a trace without tokens.

mod remote;

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use hone_trace::{
    Action, Arena, Boundary, Digest, EndState, Fault, Limit, Message, Node, Outcome, PolicyVersion, Sampled,
    SamplingParams, Seed, Task, Timings, ToolSet, Trace, TraceBuilder, TraceHead, TurnRecord, Usage,
};

use crate::baseline::Baseline;
use crate::rewards::Rubric;
use crate::solution::{DONE, Move};

pub use remote::Remote;

/// One turn of a player.
#[derive(Debug, Clone, PartialEq)]
pub struct Acted {
    pub action: Action,
    /// The turn as it was written, reasoning included; absent: derived from the action.
    pub message: Option<Message>,
    pub usage: Option<Usage>,
    /// True if the reply was truncated at its token limit: it is not executed, and ends the episode.
    pub cut: bool,
}

impl From<Action> for Acted {
    fn from(action: Action) -> Self {
        Self { action, message: None, usage: None, cut: false }
    }
}

/// A policy that acts on text.
#[async_trait]
pub trait Player: Send + Sync {
    /// The next action, from the tools on offer and everything said so far (system, first messages, its own turns, answers).
    async fn act(&self, tools: &ToolSet, said: &[Message], seed: Seed) -> Result<Acted, Fault>;

    /// Name used in traces.
    fn name(&self) -> String;
}

/// A baseline as a player.
#[derive(Debug, Clone)]
pub struct Scripted(pub Arc<dyn Baseline>);

#[async_trait]
impl Player for Scripted {
    async fn act(&self, tools: &ToolSet, said: &[Message], seed: Seed) -> Result<Acted, Fault> {
        Ok(self.0.act(tools, said, seed).into())
    }

    fn name(&self) -> String {
        self.0.name().to_owned()
    }
}

/// Player that knows the solution; says "Done." when its moves are over.
#[derive(Debug, Clone)]
pub struct Moves(pub Vec<Move>);

#[async_trait]
impl Player for Moves {
    async fn act(&self, _tools: &ToolSet, said: &[Message], _seed: Seed) -> Result<Acted, Fault> {
        let acted = said.iter().filter(|message| matches!(message, Message::Assistant { .. })).count();
        let action = match self.0.get(acted) {
            Some(Move::Call(call)) => Action::Calls(vec![call.clone()]),
            Some(Move::Say(text)) => Action::Reply(text.clone()),
            None => Action::Reply(DONE.into()),
        };
        Ok(action.into())
    }

    fn name(&self) -> String {
        "oracle".into()
    }
}

/// Identity of an episode, and its limits.
#[derive(Debug, Clone, Copy)]
pub struct Sitting {
    pub replica: u32,
    pub seed: Seed,
    pub max_turns: u32,
}

/// Plays one episode and scores it: every component of the rubric, the total last, and the facts the environment left.
/// Always returns a trace: a failure is its outcome.
pub async fn play(arena: &dyn Arena, rubric: &Rubric, task: &Task, player: &dyn Player, sitting: Sitting) -> Trace {
    let mut tools = ToolSet::none();
    let (record, end) = match arena.open(task, sitting.seed.with("env").value()).await {
        Err(fault) => (Record::new(task, tools, player, sitting).finish(Outcome::Fault { fault }), EndState::default()),
        Ok(episode) => {
            tools = episode.tools.clone();
            let mut record = Record::new(task, tools, player, sitting);
            let (outcome, end) = turns(episode, &mut record, player, sitting).await;
            (record.finish(outcome), end)
        }
    };
    let mut trace = record;
    let card = rubric.score(&trace, &end).await;
    trace.rewards = card.components.into_iter().chain([card.total]).collect();
    trace.facts = end.facts;
    trace
}

async fn turns(
    episode: hone_trace::Episode,
    record: &mut Record,
    player: &dyn Player,
    sitting: Sitting,
) -> (Outcome, EndState) {
    let hone_trace::Episode { tools, system, first, mut env } = episode;
    let mut said = vec![Message::system(system)];
    said.extend(first);
    let mut outcome = Outcome::Truncated { limit: Limit::Turns };
    for turn in 0..sitting.max_turns {
        let seed = sitting.seed.with("act").at(u64::from(turn));
        let step = async {
            let clock = Instant::now();
            let acted = player.act(&tools, &said, seed).await?;
            let mut timings = Timings { sampler: Some(clock.elapsed().as_secs_f64()), ..Timings::default() };
            let (cut, usage) = (acted.cut, acted.usage);
            let message = acted.message.unwrap_or_else(|| spoken(acted.action.clone()));
            if cut {
                record.turn(None, TurnRecord { timings, usage, ..TurnRecord::default() })?;
                return Ok((message, None));
            }
            let clock = Instant::now();
            let answer = env.step(acted.action.clone()).await?;
            timings.environment = Some(clock.elapsed().as_secs_f64());
            let failed = answer.failed;
            record.turn(Some(acted.action), TurnRecord { failed, timings, usage, ..TurnRecord::default() })?;
            Ok::<_, Fault>((message, Some(answer)))
        };
        match step.await {
            Err(fault) => {
                outcome = Outcome::Fault { fault };
                break;
            }
            Ok((message, None)) => {
                said.push(message);
                outcome = Outcome::Truncated { limit: Limit::ReplyTokens };
                break;
            }
            Ok((message, Some(answer))) => {
                said.push(message);
                said.extend(answer.messages);
                if answer.done {
                    outcome = Outcome::Finished;
                    break;
                }
            }
        }
    }
    let mut end = env.end();
    if let Ok(messages) = serde_json::to_value(&said) {
        end.facts.entry("messages").or_insert(messages);
    }
    (outcome, end)
}

fn spoken(action: Action) -> Message {
    match action {
        Action::Calls(calls) => Message::calls(calls),
        Action::Reply(text) => Message::assistant(text),
        Action::Malformed(failure) => Message::assistant(failure.message),
    }
}

/// Trace of an episode that no model sampled: turns without tokens, so that components see it like a policy's.
struct Record {
    trace: TraceBuilder,
    version: PolicyVersion,
}

impl Record {
    fn new(task: &Task, tools: ToolSet, player: &dyn Player, sitting: Sitting) -> Self {
        let head = TraceHead {
            task: task.key.clone(),
            env: task.env.clone(),
            replica: sitting.replica,
            seed: sitting.seed.value(),
            tools: Arc::new(tools),
            sampling: SamplingParams::default(),
        };
        let name = player.name();
        let version = PolicyVersion { weights: Digest::of(name.as_bytes()), run: name.into(), step: 0 };
        Self { trace: TraceBuilder::new(head, Vec::new()), version }
    }

    /// `action`: the action that was executed.
    fn turn(&mut self, action: Option<Action>, turn: TurnRecord) -> Result<(), Fault> {
        let node = Node::sampled(Vec::new(), Sampled::by(self.version.clone(), Vec::new()))
            .map_err(|error| Fault::new(Boundary::Hone, error.to_string()))?;
        self.trace.push(node);
        let (calls, failure) = match action {
            Some(Action::Calls(calls)) => (calls, None),
            Some(Action::Malformed(failure)) => (Vec::new(), Some(failure)),
            Some(Action::Reply(_)) | None => (Vec::new(), None),
        };
        let executed = calls.len() as u32;
        self.trace.record(TurnRecord { calls, executed, failure, ..turn });
        Ok(())
    }

    fn finish(self, outcome: Outcome) -> Trace {
        self.trace.finish(outcome)
    }
}
