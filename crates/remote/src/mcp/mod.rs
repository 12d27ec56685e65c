//! MCP servers as environments: any server's tools, with a verifier given by the recipe.
//!
//! The client is our own: JSON-RPC over streamable HTTP or stdio, `initialize`, `tools/list` and `tools/call`. The official
//! SDK would bring some forty crates for that.

mod arena;
pub(crate) mod client;
mod pipe;
mod sse;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hone_arena::documented;
use hone_arena::registry::{Counts, EnvOptions, Environment, RegistryError, TaskFile};
use hone_arena::users::NewUser;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::http::{Credentials, Http};
use crate::tasks;

use arena::McpArena;

documented! {
    /// `[env]` with `kind = "mcp"`.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct McpSpec {
        /// `mcp`.
        pub kind: String,
        /// Name of your choice, which its tasks carry.
        pub name: String,
        /// The server's endpoint, for streamable HTTP: `http://localhost:8000/mcp`. Either this or `command`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub url: Option<String>,
        /// A program that speaks MCP over stdin and stdout, and its arguments: one process for each episode.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub command: Vec<String>,
        /// Working directory of the program; absent: that of Hone, and in a recipe the recipe's own directory.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub directory: Option<PathBuf> where home_of("command"),
        /// Names of variables that the program gets beside the usual ones.
        pub variables: Vec<String>,
        /// Name of the environment variable whose value is sent as `Authorization: Bearer …`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub bearer_env: Option<String>,
        /// Further headers: name of the header to name of the environment variable that holds its value.
        #[serde(skip_serializing_if = "IndexMap::is_empty")]
        pub headers: IndexMap<String, String>,
        /// Tools that the agent is offered; empty: all.
        pub allow: Vec<String>,
        /// Tools hidden from the agent. `state_tool` and `setup_tool` never are.
        pub hide: Vec<String>,
        /// Verification of an episode: `answer` compares the final reply with the task's `answer`; `state` calls
        /// `state_tool` and compares with the task's `expected`; `rubric` leaves it to the recipe's components
        /// (`command`, `judge`, …).
        pub verify: Verify,
        /// The tool whose result is the final state.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub state_tool: Option<String>,
        /// Its arguments; a task's `state_arguments` override them.
        #[serde(skip_serializing_if = "Map::is_empty")]
        pub state_arguments: Map<String, Value>,
        /// A tool that is called with the task's `setup` before the agent begins, for servers that keep state.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub setup_tool: Option<String>,
        /// The system prompt; the server's instructions follow it.
        pub system: String,
        /// The prompt of numbered tasks.
        pub prompt: String,
        /// Concurrent sessions.
        pub sessions: usize where whole(1, 4_096),
        /// Seconds for one call.
        pub deadline_s: f64 where over(0.0, 86_400.0),
        /// Seconds for starting or connecting.
        pub open_deadline_s: f64 where over(0.0, 86_400.0),
        /// JSON lines of tasks, `key` and `prompt` at least. Absent: numbered tasks that all say `prompt`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub task_file: Option<PathBuf> where path(),
        /// Training tasks; with a file, the maximum.
        pub tasks: usize where whole(1, 1_000_000),
        /// Tasks that are evaluated on and never trained on.
        pub held_out: usize where whole(0, 1_000_000),
        /// Seed of the tasks.
        pub seed: u64 where seed(),
    }
}

impl Default for McpSpec {
    fn default() -> Self {
        Self {
            kind: "mcp".into(),
            name: "mcp".into(),
            url: None,
            command: Vec::new(),
            directory: None,
            variables: Vec::new(),
            bearer_env: None,
            headers: IndexMap::new(),
            allow: Vec::new(),
            hide: Vec::new(),
            verify: Verify::Answer,
            state_tool: None,
            state_arguments: Map::new(),
            setup_tool: None,
            system: String::new(),
            prompt: String::new(),
            sessions: 16,
            deadline_s: 60.0,
            open_deadline_s: 60.0,
            task_file: None,
            tasks: 1024,
            held_out: 64,
            seed: 1,
        }
    }
}

/// Verification of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    Answer,
    State,
    Rubric,
}

/// Location of the server.
#[derive(Debug, Clone)]
pub enum Place {
    Http(Http),
    Command { command: Vec<String>, directory: Option<PathBuf>, variables: Vec<String> },
}

impl McpSpec {
    fn wrong(&self, what: impl Into<String>) -> RegistryError {
        RegistryError::Options { name: self.name.clone(), what: what.into() }
    }

    fn place(&self) -> Result<Place, RegistryError> {
        match (&self.url, self.command.as_slice()) {
            (Some(url), []) => {
                let credentials = Credentials { bearer_env: self.bearer_env.as_deref(), headers: Some(&self.headers) };
                Ok(Place::Http(Http::new(url, &credentials).map_err(|what| self.wrong(what))?))
            }
            (None, [_, ..]) => {
                if let Some(name) = hone_arena::children::missing(&self.variables) {
                    return Err(
                        self.wrong(format!("variables names {name}, which is not set; set it, or leave it out"))
                    );
                }
                let (directory, variables) = (self.directory.clone(), self.variables.clone());
                Ok(Place::Command { command: self.command.clone(), directory, variables })
            }
            _ => Err(self
                .wrong("there must be `url` or `command`, one of the two; write url = \"http://localhost:8000/mcp\"")),
        }
    }

    fn check(&self) -> Result<(), RegistryError> {
        if self.verify == Verify::State && self.state_tool.is_none() {
            return Err(
                self.wrong("verify = \"state\" needs `state_tool`, the tool that says the final state; name it")
            );
        }
        if self.verify != Verify::Rubric && self.task_file.is_none() {
            return Err(self.wrong(
                "what is right must be known; give a `task_file` whose tasks have an `answer` (or `expected`), or \
                 verify = \"rubric\" with components of your own",
            ));
        }
        if !(1..=4096).contains(&self.sessions) {
            return Err(self.wrong(format!(
                "sessions must be between 1 and 4096, found {}; set how many may be open at once",
                self.sessions
            )));
        }
        for (name, value) in [("deadline_s", self.deadline_s), ("open_deadline_s", self.open_deadline_s)] {
            if !(value > 0.0 && value <= 86_400.0) {
                return Err(self.wrong(format!(
                    "{name} must be over 0 and at most 86400 seconds, found {value}; set it to seconds, such as 60"
                )));
            }
        }
        Ok(())
    }
}

pub(crate) fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or(Duration::ZERO)
}

impl EnvOptions for McpSpec {
    fn name(&self) -> &str {
        &self.name
    }

    fn split_lock(&self) -> Option<PathBuf> {
        self.task_file.as_deref().and_then(TaskFile::lock_of)
    }

    fn counts(&self) -> Counts {
        Counts { tasks: self.tasks, held_out: self.held_out, seed: self.seed }
    }

    fn open(&self, _: Option<Arc<NewUser>>) -> Result<Environment, RegistryError> {
        let place = self.place()?;
        self.check()?;
        let splits = tasks::splits(&self.name, &self.prompt, self.task_file.as_deref(), self.counts())?;
        Ok(Environment {
            name: self.name.clone(),
            arena: Arc::new(McpArena::new(self.clone(), place)),
            splits,
            rubric: self.rubric().build()?,
            baselines: Vec::new(),
        })
    }
}
