//! Opens episodes at an OpenEnv server.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hone_trace::{Arena, Boundary, Episode, Fault, Held, Message, Seed, Task, ToolSet, ToolSpec};
use reqwest::Method;
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;

use super::actions::{self, Actions};
use super::env::{Link, OpenEnvEnv};
use super::pool::Pool;
use super::socket::Socket;
use super::wire::{Envelope, Said};
use super::{OpenEnvSpec, ToolSource, Transport, seconds};
use crate::http::Http;
use crate::supervise::{Failure, Patience, Server, waits};

/// An OpenEnv server as an arena.
#[derive(Debug)]
pub(super) struct OpenEnvArena(Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) spec: OpenEnvSpec,
    pub(super) http: Http,
    pub(super) server: Server,
    pool: Arc<Pool>,
    actions: OnceCell<Actions>,
    /// Sessions that the server counted when it last had no room, beside those of this run. Std mutex: held for a copy.
    crowded: Mutex<Option<Held>>,
}

/// Attempts at idempotent requests.
const ATTEMPTS: u32 = 5;

impl OpenEnvArena {
    pub(super) fn new(spec: OpenEnvSpec, http: Http) -> Self {
        let server = Server::new(http.name());
        let pool = Arc::new(Pool::new(spec.sessions));
        Self(Arc::new(Shared { spec, http, server, pool, actions: OnceCell::new(), crowded: Mutex::default() }))
    }
}

fn fault(failure: Failure) -> Fault {
    failure.fault(Boundary::Environment)
}

impl Shared {
    /// The action schema, requested once.
    async fn actions(&self) -> Result<&Actions, Failure> {
        self.actions
            .get_or_try_init(|| async {
                let patience = Patience::retried(seconds(self.spec.open_deadline_s), ATTEMPTS);
                let ask = || self.http.json(Method::GET, "schema", None);
                let schema = self.server.call(&self.spec.name, "GET /schema", patience, ask).await?;
                Actions::read(schema.get("action").unwrap_or(&Value::Null)).map_err(Failure::refused)
            })
            .await
    }

    /// A connection that has been reset.
    async fn reset(&self, data: &Value) -> Result<(Link, Envelope), Failure> {
        if self.spec.transport == Transport::Http {
            let envelope = self.http.json(Method::POST, "reset", Some(data)).await?;
            return Ok((Link::Http, Envelope::read(envelope).map_err(Failure::refused)?));
        }
        let socket = Socket::connect(&self.http, "ws").await?;
        let (socket, said) = socket.ask(&json!({"type": "reset", "data": data})).await?;
        match said {
            Said::Observation(envelope) => {
                self.crowded.lock().unwrap_or_else(PoisonError::into_inner).take();
                Ok((Link::Ws(Some(socket)), envelope))
            }
            Said::Error { code, message, details } => {
                let number = |key: &str| details.get(key).and_then(Value::as_u64);
                // This one has a place of the pool and no session.
                let in_use = self.pool.in_use().saturating_sub(1) as u64;
                if let (Some(count), limit) = (number("active_sessions"), number("max_sessions")) {
                    let place = self.server.name().to_owned();
                    let held = Held { place, kind: "sessions", count, in_use: Some(in_use), limit };
                    *self.crowded.lock().unwrap_or_else(PoisonError::into_inner) = Some(held);
                }
                if let Some(most) = number("max_sessions") {
                    self.pool.shrink(most as usize);
                }
                Err(Said::failure(&code, &message))
            }
            other => Err(Failure::refused(format!("a reset was answered by {other:?}"))),
        }
    }

    async fn tools(&self, actions: &Actions, env: &mut OpenEnvEnv) -> Result<Vec<ToolSpec>, Failure> {
        let listed = match (actions, self.spec.tools) {
            (Actions::Typed(types), ToolSource::Auto) => {
                return Ok(types.iter().map(|kind| kind.tool.clone()).collect());
            }
            (Actions::Mcp, ToolSource::Auto) => {
                let patience = Patience::once(seconds(self.spec.deadline_s));
                match env.act(json!({"type": "list_tools"}), "list_tools", patience).await? {
                    Said::Observation(envelope) => envelope.observation.get("tools").cloned().unwrap_or_default(),
                    Said::Error { code, message, .. } => return Err(Said::failure(&code, &message)),
                    other => return Err(Failure::refused(format!("list_tools was answered by {other:?}"))),
                }
            }
            (_, ToolSource::Mcp) => env.rpc("tools/list", json!({})).await?.get("tools").cloned().unwrap_or_default(),
        };
        let tools = actions::tools(&listed).map_err(Failure::refused)?;
        if tools.is_empty() {
            return Err(Failure::refused("the server lists no tools, which leaves the agent nothing to do"));
        }
        Ok(tools)
    }
}

#[async_trait]
impl Arena for OpenEnvArena {
    async fn open(&self, task: &Task, seed: u64) -> Result<Episode, Fault> {
        let shared = &self.0;
        let spec = &shared.spec;
        let place = {
            let _waiting = waits::enter(shared.server.name(), &task.key, "a free session");
            tokio::time::timeout(seconds(spec.queue_s), shared.pool.place()).await.map_err(|_| {
                let what = format!("no session of {} became free within {} s", shared.server.name(), spec.queue_s);
                Fault::transient(Boundary::Environment, what)
            })?
        };
        let actions = shared.actions().await.map_err(fault)?.clone();
        let data = reset_data(task, seed);
        let deadline = seconds(spec.open_deadline_s);
        let patience = Patience { total: seconds(spec.queue_s), attempt: deadline, attempts: ATTEMPTS };
        let (link, envelope) =
            shared.server.call(&task.key, "reset", patience, || shared.reset(&data)).await.map_err(fault)?;
        let mut env = OpenEnvEnv::new(Arc::clone(shared), place, link, actions.clone(), task);
        let tools = shared.tools(&actions, &mut env).await.map_err(fault)?;
        let own = envelope.metadata.get("hone").and_then(Value::as_object).cloned().unwrap_or_default();
        env.offer(&tools, own.get("reply_tool").and_then(Value::as_str));
        let tools = ToolSet::new(tools).map_err(|error| Fault::new(Boundary::Environment, error.to_string()))?;
        let system = match own.get("system").and_then(Value::as_str) {
            Some(system) => system.to_owned(),
            None => spec.system.clone(),
        };
        Ok(Episode { tools, system, first: first(task, &own, &envelope), env: Box::new(env) })
    }

    fn patience(&self, _: &Task) -> Option<Duration> {
        let spec = &self.0.spec;
        // The queue, the schema, the reset with its own queue, and the tools.
        let schema = Patience::retried(seconds(spec.open_deadline_s), ATTEMPTS).total;
        Some(seconds(2.0 * spec.queue_s + spec.deadline_s + 5.0) + schema)
    }

    /// Count that the server gave when it last had no room: it has no route that lists its sessions.
    async fn holds(&self) -> Vec<Held> {
        self.0.crowded.lock().unwrap_or_else(PoisonError::into_inner).clone().into_iter().collect()
    }

    fn trouble(&self) -> Option<String> {
        self.0.server.trouble()
    }
}

/// The data of a reset: the task's own, with a seed. Episodes of one task share it, so that they start in the same
/// state.
fn reset_data(task: &Task, seed: u64) -> Value {
    let mut data = match task.extra.get("reset") {
        Some(Value::Object(reset)) => reset.clone(),
        _ => Map::new(),
    };
    let own = Seed::root(0).with(&task.key).value() % (1 << 30);
    data.entry("seed").or_insert_with(|| own.into());
    let episode: String = format!("{}-{seed:x}", task.key).chars().take(255).collect();
    data.entry("episode_id").or_insert_with(|| episode.into());
    Value::Object(data)
}

/// First messages for the agent: the server's own, or the task's prompt with the observation of the reset.
fn first(task: &Task, own: &Map<String, Value>, envelope: &Envelope) -> Vec<Message> {
    if let Some(messages) = own.get("messages").and_then(|messages| serde_json::from_value(messages.clone()).ok()) {
        return messages;
    }
    let shown = super::env::shown(&envelope.observation);
    let parts: Vec<&str> = [task.prompt.as_str(), &shown].into_iter().filter(|part| !part.is_empty()).collect();
    vec![Message::user(if parts.is_empty() { "Begin.".to_owned() } else { parts.join("\n\n") })]
}
