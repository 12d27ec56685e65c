//! Environment interface: an arena opens episodes, an environment plays one, an estimator credits it.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::group::{Advantage, Group};
use crate::message::Message;
use crate::outcome::{Fault, ParseFailure};
use crate::task::Task;
use crate::tool::{ToolCall, ToolSet};

/// Opens episodes of the tasks it knows.
#[async_trait]
pub trait Arena: Send + Sync {
    async fn open(&self, task: &Task, seed: u64) -> Result<Episode, Fault>;

    /// Longest time that opening can take under the arena's own deadlines, queueing included. Callers wait at least
    /// that long, so that the arena itself reports what is late. `None`: it has no deadlines.
    fn patience(&self, _task: &Task) -> Option<Duration> {
        None
    }

    /// Failure that an opening under way is waiting out, in words: for callers that give up before the arena does.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Resources that the environment holds at this moment, as far as they can be counted from outside. Empty: none can.
    async fn holds(&self) -> Vec<Held> {
        Vec::new()
    }
}

/// Resources of one kind that an environment holds in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Process or server that holds them.
    pub place: String,
    /// Kind in the plural: "open files", "sessions".
    pub kind: &'static str,
    pub count: u64,
    /// Number of them that open episodes account for. `None` where it is not known.
    pub in_use: Option<u64>,
    /// Largest number that the place allows.
    pub limit: Option<u64>,
}

/// Fresh, single-use episode: what the agent sees first, and the environment that answers it.
pub struct Episode {
    pub tools: ToolSet,
    pub system: String,
    pub first: Vec<Message>,
    pub env: Box<dyn Env>,
}

impl std::fmt::Debug for Episode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Episode").field("tools", &self.tools.len()).field("first", &self.first).finish_non_exhaustive()
    }
}

/// Running episode.
#[async_trait]
pub trait Env: Send {
    async fn step(&mut self, action: Action) -> Result<Turn, Fault>;

    /// Ends the episode, however it ended: the last chance to ask for a verdict before [`Env::end`]. Not called after a
    /// fault. An error here is a fault of the episode.
    async fn finish(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    /// End state for the scorers, once the episode is over.
    fn end(&mut self) -> EndState {
        EndState::default()
    }

    /// Seconds of the last step spent waiting for a simulated user, including a step that was abandoned. `None` if no
    /// user was asked.
    fn user_seconds(&self) -> Option<f64> {
        None
    }

    /// Longest time that a step can take under the environment's own deadlines; see [`Arena::patience`].
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// Closes the episode and steps it once more, beside one that was never opened. `Some(true)`: only the closed one is
    /// answered, so that the environment still has it. `None` where that cannot be asked, or both are answered.
    async fn outlives_close(&mut self, _action: Action) -> Option<bool> {
        None
    }
}

/// The agent's action, as parsed by `chat`. A malformed reply is never forwarded as a reply to the user.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Calls(Vec<ToolCall>),
    Reply(String),
    Malformed(ParseFailure),
}

/// The environment's answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Turn {
    pub messages: Vec<Message>,
    pub done: bool,
    /// Number of the action's calls that were answered with an error.
    pub failed: u32,
}

/// End state of an episode, in the environment's own words: final state, verdict parts, transcripts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EndState {
    pub facts: serde_json::Map<String, Value>,
}

/// An advantage estimator. One small file each.
pub trait Credit: Send + Sync {
    /// One entry per trace of every group, in order: an advantage, or the reason why there is none. Some estimators
    /// compare with the whole batch, so all groups are passed at once.
    fn credit(&self, groups: &[Group]) -> Vec<Vec<Advantage>>;
}
