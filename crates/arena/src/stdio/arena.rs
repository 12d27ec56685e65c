//! Environments behind a command.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use hone_chat::tools::check_tool;
use hone_trace::{Action, Arena, Boundary, Digest, EndState, Env, Episode, Fault, Held, Task, ToolSet, ToolSpec, Turn};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::process::Process;
use super::wire::{self, Opened, Stepped};
use super::worker::{Failed, Worker};
use super::{CommandError, CommandSpec};

/// Opens episodes in the processes of a command.
#[derive(Debug)]
pub struct StdioArena {
    workers: Vec<Arc<Worker>>,
    next: AtomicU64,
    /// Tools whose schemas were found valid.
    valid: Mutex<HashSet<Digest>>,
}

impl StdioArena {
    pub fn new(spec: CommandSpec) -> Result<Self, CommandError> {
        spec.check()?;
        let spec = Arc::new(spec);
        let workers = (0..spec.workers).map(|_| Arc::new(Worker::new(Arc::clone(&spec)))).collect();
        Ok(Self { workers, next: AtomicU64::new(0), valid: Mutex::default() })
    }

    /// The tools, each with a valid schema: their author is at hand to correct them.
    fn tools(&self, tools: Vec<ToolSpec>) -> Result<ToolSet, Fault> {
        let refused = |what: String| Fault::protocol(Boundary::Environment, what);
        let tools = ToolSet::new(tools).map_err(|error| refused(error.to_string()))?;
        let known = || self.valid.lock().unwrap_or_else(PoisonError::into_inner);
        if !known().contains(&tools.digest()) {
            tools.iter().try_for_each(check_tool).map_err(|error| refused(error.to_string()))?;
            known().insert(tools.digest());
        }
        Ok(tools)
    }
}

#[async_trait]
impl Arena for StdioArena {
    async fn open(&self, task: &Task, seed: u64) -> Result<Episode, Fault> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let worker = Arc::clone(&self.workers[number as usize % self.workers.len()]);
        let process = worker.process().await.map_err(fault)?;
        let id = format!("e{number}");
        let mut env = StdioEnv { worker, process, id, facts: Map::new(), stderr: String::new(), closed: false };
        let opened: Opened = env.ask(&wire::open(&env.id, task, seed)).await?;
        env.facts = opened.facts.unwrap_or_default();
        let tools = self.tools(opened.tools)?;
        Ok(Episode { tools, system: opened.system, first: opened.messages, env: Box::new(env) })
    }

    async fn holds(&self) -> Vec<Held> {
        let mut held = Vec::new();
        for worker in &self.workers {
            held.extend(worker.holds().await);
        }
        held
    }
}

/// One episode, in the process it was opened in.
#[derive(Debug)]
struct StdioEnv {
    worker: Arc<Worker>,
    process: Arc<Process>,
    id: String,
    facts: Map<String, Value>,
    /// The process's stderr while this episode was waiting for it.
    stderr: String,
    closed: bool,
}

/// Bytes of stderr an episode keeps.
const STDERR: usize = 8 << 10;

impl StdioEnv {
    async fn ask<T: DeserializeOwned>(&mut self, request: &Value) -> Result<T, Fault> {
        let mark = self.process.said();
        let answer = self.worker.ask(&self.process, request).await;
        let said = self.process.said_since(mark);
        if !said.is_empty() && self.stderr.len() + said.len() <= STDERR {
            self.stderr.extend([said.as_str(), "\n"]);
        }
        serde_json::from_value(Value::Object(answer.map_err(fault)?)).map_err(|error| {
            let op = request.get("op").and_then(Value::as_str).unwrap_or("request");
            let what =
                format!("the answer to {op} has the wrong form: {error}; docs/environments.md shows the right one");
            Fault::protocol(Boundary::Environment, what)
        })
    }
}

#[async_trait]
impl Env for StdioEnv {
    async fn step(&mut self, action: Action) -> Result<Turn, Fault> {
        let stepped: Stepped = self.ask(&wire::step(&self.id, &action)).await?;
        if let Some(facts) = stepped.facts {
            self.facts = facts;
        }
        Ok(Turn { messages: stepped.messages, done: stepped.done, failed: stepped.failed })
    }

    /// Facts of the last answer that had some, and under `stderr` what the process wrote there during the call.
    fn end(&mut self) -> EndState {
        let mut facts = self.facts.clone();
        if !self.stderr.is_empty() {
            facts.entry("stderr").or_insert_with(|| self.stderr.trim_end().into());
        }
        EndState { facts }
    }

    async fn outlives_close(&mut self, action: Action) -> Option<bool> {
        self.close();
        let closed = self.worker.ask(&self.process, &wire::step(&self.id, &action)).await;
        if closed.is_err() {
            return Some(false);
        }
        let never = self.worker.ask(&self.process, &wire::step(NEVER_OPENED, &action)).await;
        never.is_err().then_some(true)
    }
}

/// Id that no episode has.
const NEVER_OPENED: &str = "never-opened";

impl StdioEnv {
    fn close(&mut self) {
        if !std::mem::replace(&mut self.closed, true) {
            self.process.tell(&wire::close(&self.id));
        }
    }
}

impl Drop for StdioEnv {
    fn drop(&mut self) {
        self.close();
    }
}

fn fault(failed: Failed) -> Fault {
    let Failed { what, transient, kind } = failed;
    Fault { transient, kind, ..Fault::new(Boundary::Environment, what) }
}
