//! OpenEnv servers as environments: `/ws` sessions, or plain HTTP if the environment keeps no state.
//!
//! Tools come from the server: its MCP tools through step actions, or one tool for each action type of its schema. Reward
//! and `done` come from the envelope; `null` is no reward. An episode holds one session, and with it one place of the pool.

pub mod actions;
mod arena;
mod env;
mod pool;
pub mod socket;
mod task_api;
pub mod wire;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hone_arena::documented;
use hone_arena::registry::{Counts, EnvOptions, Environment, RegistryError, TaskFile};
use hone_arena::rewards::spec::RubricSpec;
use hone_arena::users::NewUser;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Map;

use crate::http::{Credentials, Http};
use crate::tasks;

use arena::OpenEnvArena;

documented! {
    /// `[env]` with `kind = "openenv"`.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct OpenEnvSpec {
        /// `openenv`.
        pub kind: String,
        /// Name of your choice, which its tasks carry.
        pub name: String,
        /// The server's address: `http://localhost:8000`, `https://owner-space.hf.space`.
        pub url: String where open().needed(),
        /// Name of the environment variable whose value is sent as `Authorization: Bearer …`, as private Spaces
        /// require.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub bearer_env: Option<String>,
        /// Further headers: name of the header to name of the environment variable that holds its value.
        #[serde(skip_serializing_if = "IndexMap::is_empty")]
        pub headers: IndexMap<String, String>,
        /// `ws`: a session for each episode. `http`: `/reset` and `/step`, for environments that keep no state between them.
        pub transport: Transport,
        /// `auto`: MCP tools through step actions if the action schema is MCP's, else one tool per action type. `mcp`:
        /// `tools/call` messages, which the server does not reward.
        pub tools: ToolSource,
        /// An episode's reward: the `sum` of those its steps gave, or the `last`.
        pub reward: RewardRule,
        /// Treatment of an exception in the environment: a `fault` of the episode, retried and excluded if it does not
        /// recur, or the `answer` to the call.
        pub errors: OnError,
        /// The tool that gets a reply without a call, as its first argument. Absent: what the server names, else a reply
        /// ends the episode.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub reply_tool: Option<String>,
        /// The system prompt, if the server gives none.
        pub system: String,
        /// The prompt of numbered tasks; the observation of the reset follows it.
        pub prompt: String,
        /// Concurrent sessions: the server's `max_concurrent_envs`. Lowered if the server says that it has fewer.
        pub sessions: usize where whole(1, 4_096),
        /// Seconds for one step.
        pub deadline_s: f64 where over(0.0, 86_400.0),
        /// Seconds for connecting and resetting.
        pub open_deadline_s: f64 where over(0.0, 86_400.0),
        /// Seconds that an episode waits for a free session.
        pub queue_s: f64 where real(0.0, 86_400.0),
        /// JSON lines of tasks, `key` and `prompt` at least; a task's `reset` table goes into its reset. Absent: numbered tasks
        /// with a `seed` each.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub task_file: Option<PathBuf> where path(),
        /// A split of the server's Task API to train on, instead of numbered tasks.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub split: Option<String>,
        /// A split of the Task API that is held out. Absent: the last `held_out` tasks of `split`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub held_out_split: Option<String>,
        /// Training tasks; with a file or a split, the maximum.
        pub tasks: usize where whole(1, 1_000_000),
        /// Tasks that are evaluated on and never trained on.
        pub held_out: usize where whole(0, 1_000_000),
        /// Seed of the tasks.
        pub seed: u64 where seed(),
    }
}

impl Default for OpenEnvSpec {
    fn default() -> Self {
        Self {
            kind: "openenv".into(),
            name: "openenv".into(),
            url: String::new(),
            bearer_env: None,
            headers: IndexMap::new(),
            transport: Transport::Ws,
            tools: ToolSource::Auto,
            reward: RewardRule::Sum,
            errors: OnError::Fault,
            reply_tool: None,
            system: String::new(),
            prompt: String::new(),
            sessions: 16,
            deadline_s: 60.0,
            open_deadline_s: 60.0,
            queue_s: 600.0,
            task_file: None,
            split: None,
            held_out_split: None,
            tasks: 1024,
            held_out: 64,
            seed: 1,
        }
    }
}

/// Transport between an episode and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    Ws,
    Http,
}

/// Source of the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSource {
    Auto,
    Mcp,
}

/// Aggregation of the rewards of an episode's steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardRule {
    Sum,
    Last,
}

/// Treatment of an exception in the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    Fault,
    Answer,
}

impl OpenEnvSpec {
    fn wrong(&self, what: impl Into<String>) -> RegistryError {
        RegistryError::Options { name: self.name.clone(), what: what.into() }
    }

    fn check(&self) -> Result<(), RegistryError> {
        if self.url.is_empty() {
            return Err(self.wrong("`url` is missing; give the server's address: url = \"http://localhost:8000\""));
        }
        if !(1..=4096).contains(&self.sessions) {
            return Err(self.wrong(format!(
                "sessions must be between 1 and 4096, found {}; set how many may be open at once",
                self.sessions
            )));
        }
        let limits =
            [("deadline_s", self.deadline_s), ("open_deadline_s", self.open_deadline_s), ("queue_s", self.queue_s)];
        match limits.into_iter().find(|(_, value)| !(*value > 0.0 && *value <= 86_400.0)) {
            Some((name, value)) => Err(self.wrong(format!(
                "{name} must be over 0 and at most 86400 seconds, found {value}; set it to seconds, such as 60"
            ))),
            None => Ok(()),
        }
    }

    fn http(&self) -> Result<Http, RegistryError> {
        let credentials = Credentials { bearer_env: self.bearer_env.as_deref(), headers: Some(&self.headers) };
        Http::new(&self.url, &credentials).map_err(|what| self.wrong(what))
    }
}

fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or(Duration::ZERO)
}

impl EnvOptions for OpenEnvSpec {
    fn name(&self) -> &str {
        &self.name
    }

    fn split_lock(&self) -> Option<PathBuf> {
        self.task_file.as_deref().and_then(TaskFile::lock_of)
    }

    fn counts(&self) -> Counts {
        Counts { tasks: self.tasks, held_out: self.held_out, seed: self.seed }
    }

    fn rubric(&self) -> RubricSpec {
        RubricSpec::single("env_reward", Map::new())
    }

    fn open(&self, _: Option<Arc<NewUser>>) -> Result<Environment, RegistryError> {
        self.check()?;
        let http = self.http()?;
        let splits = match &self.split {
            Some(split) => task_api::splits(self, &http, split)?,
            None => tasks::splits(&self.name, &self.prompt, self.task_file.as_deref(), self.counts())?,
        };
        Ok(Environment {
            name: self.name.clone(),
            arena: Arc::new(OpenEnvArena::new(self.clone(), http)),
            splits,
            rubric: self.rubric().build()?,
            baselines: Vec::new(),
        })
    }
}
