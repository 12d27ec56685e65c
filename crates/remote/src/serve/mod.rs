//! Environment server: OpenEnv's routes and sessions, and MCP, on one port.
//!
//! Information that the protocol lacks is under `metadata.hone`, which other clients ignore: reward components with
//! their reasons, and `terminated` and `truncated` separately. Two tokens keep an agent away from the verifier: the
//! operator's opens sessions, resets and sees rewards; the agent's may only act in a session it is given.

mod access;
mod check;
mod http;
mod play;
mod rpc;
mod schema;
mod sessions;
mod socket;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hone_arena::registry::Environment;
use hone_trace::{Digest, Task, TaskSet, ToolSet};
use jsonschema::Validator;
use serde_json::{Map, Value};

use access::Access;
use sessions::Sessions;

/// Settings of the server.
#[derive(Clone)]
pub struct Options {
    /// Sessions at once.
    pub sessions: usize,
    /// Sessions at once of one client address.
    pub per_client: usize,
    /// Steps of an episode; the one that reaches it truncates it.
    pub max_steps: u64,
    /// True if a step after the end of an episode is an error. The protocol defines none.
    pub strict_end: bool,
    /// Seconds that a session without a connection lives unused.
    pub idle: Duration,
    /// Longest wait for a client to send a body or read an answer: a stalled client holds nothing for longer.
    pub patience: Duration,
    /// Operator's token, with full access. Without any token, everybody has it.
    pub token: Option<String>,
    /// Agent's token: may act in a session and nothing else.
    pub agent_token: Option<String>,
    /// Omits `/reset`, `/step` and `/state`, as OpenEnv's production mode does.
    pub production: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sessions: 1024,
            per_client: 1024,
            max_steps: 100,
            strict_end: false,
            idle: Duration::from_mins(30),
            patience: Duration::from_mins(1),
            token: None,
            agent_token: None,
            production: false,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("sessions", &self.sessions).finish_non_exhaustive()
    }
}

/// An environment with its sessions.
pub struct Host {
    environment: Environment,
    about: String,
    options: Options,
    access: Access,
    sessions: Sessions,
    next: AtomicU64,
    // Std mutex: held for a look-up. Tasks may have their own tools, so the cache is bounded.
    validators: Mutex<HashMap<Digest, Arc<Validators>>>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("environment", &self.environment.name).finish_non_exhaustive()
    }
}

/// Compiled schemas by the tool's name. A tool whose schema does not compile accepts anything.
type Validators = HashMap<String, Validator>;

/// Maximum number of tool sets with cached schemas.
const KEPT: usize = 64;

impl Host {
    /// `about` describes the environment in one line.
    pub fn new(environment: Environment, about: impl Into<String>, options: Options) -> Self {
        let access = Access::new(options.token.clone(), options.agent_token.clone());
        let sessions = Sessions::new(options.sessions, options.per_client, options.idle);
        let (next, validators) = (AtomicU64::new(0), Mutex::default());
        Self { environment, about: about.into(), options, access, sessions, next, validators }
    }

    /// The task of a reset: the named one, or else the next.
    fn task(&self, data: &Map<String, Value>) -> Result<&Task, String> {
        match self.named_task(data)? {
            (_, Some(task)) => Ok(task),
            (split, None) => {
                let number = self.next.fetch_add(1, Ordering::Relaxed) as usize % split.len().max(1);
                split[..].get(number).ok_or_else(|| "the split has no tasks".into())
            }
        }
    }

    /// The split of a reset, and the task in it that it names: by key, by index, or by its seed.
    fn named_task(&self, data: &Map<String, Value>) -> Result<(&TaskSet, Option<&Task>), String> {
        let splits = &self.environment.splits;
        let split = match data.get("split").and_then(Value::as_str) {
            Some(name) => splits.get(name).ok_or_else(|| {
                format!(
                    "there is no split {name:?}; there are {}",
                    splits.keys().cloned().collect::<Vec<_>>().join(", ")
                )
            })?,
            None => splits.values().find(|set| !set.is_empty()).ok_or("the environment has no tasks")?,
        };
        let named = ["task", "task_key", "id", "key"].iter().find_map(|key| data.get(*key).and_then(Value::as_str));
        if let Some(key) = named {
            let found = split.get(key).or_else(|| splits.values().find_map(|set| set.get(key)));
            return found.map(|task| (split, Some(task))).ok_or_else(|| format!("there is no task {key:?}"));
        }
        let number = |key: &str| data.get(key).and_then(Value::as_u64).map(|number| number as usize);
        if let Some(index) = data.get("index").filter(|index| !index.is_null() && !index.is_u64()) {
            return Err(format!("index is a task's number, from 0, found {index}"));
        }
        match (number("index"), number("seed")) {
            (Some(index), _) => match split[..].get(index) {
                Some(task) => Ok((split, Some(task))),
                None => Err(format!("there is no task {index}; the split has {}", split.len())),
            },
            (None, Some(seed)) => Ok((split, split[..].get(seed % split.len().max(1)))),
            (None, None) => Ok((split, None)),
        }
    }

    fn validators(&self, tools: &ToolSet) -> Arc<Validators> {
        let mut kept = self.validators.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.clear();
        }
        let compiled = kept.entry(tools.digest()).or_insert_with(|| {
            let compile = |schema: &Value| jsonschema::validator_for(schema).ok();
            let pairs = tools.iter().filter_map(|tool| Some((tool.name.clone(), compile(tool.parameters.as_ref()?)?)));
            Arc::new(pairs.collect())
        });
        Arc::clone(compiled)
    }
}

/// An unguessable id in the form of a UUID: two hashes under keys from the system's randomness.
pub(crate) fn fresh_id() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    // RandomState is keyed from the system's randomness once per thread; the counter makes ids distinct.
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let bytes = (u128::from(RandomState::new().hash_one((count, 1))) << 64)
        | u128::from(RandomState::new().hash_one((count, 2)));
    // Version 4, variant 1.
    let bits = (bytes & !(0xf << 76) | (4 << 76)) & !(0x3 << 62) | (2 << 62);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Serves until the future is dropped or the listener fails.
pub async fn serve(listener: tokio::net::TcpListener, host: Arc<Host>) -> std::io::Result<()> {
    let service = http::router(host).into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(
        axum::serve::ListenerExt::tap_io(listener, |stream| {
            // Steps are small request-response messages.
            let _ = stream.set_nodelay(true);
        }),
        service,
    )
    .await
}
