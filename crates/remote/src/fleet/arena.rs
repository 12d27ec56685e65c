//! Opens episodes on rented instances.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use hone_trace::{Arena, Boundary, Episode, Fault, Held, Message, Task, ToolSet, ToolSpec};
use indexmap::IndexMap;
use serde_json::json;
use tokio::sync::Semaphore;

use super::FleetSpec;
use super::episode::{FleetEnv, Rented};
use super::rest::Orchestrator;
use super::task::FleetTask;
use crate::http::Http;
use crate::mcp::client::Client;
use crate::mcp::{Place, seconds};
use crate::supervise::cleanup::{self, Registered};
use crate::supervise::{Failure, Patience, Server, waits};

/// Fleet as an arena. Dropping it deletes whatever its episodes have left behind.
#[derive(Debug)]
pub(super) struct FleetArena(Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) spec: FleetSpec,
    pub(super) orchestrator: Arc<Orchestrator>,
    places: Arc<Semaphore>,
    requests: AtomicU64,
    _registered: Registered,
}

/// The tool that submits an answer. It is implemented here: the platform has none.
pub(super) const SUBMIT: &str = "submit_final_answer";
/// Endpoints of an instance that have tools; the first owner of a name counts.
const ENDPOINTS: [&str; 2] = ["mcp", "api/v1/mcp"];
/// Deadline of one tool listing, and number of attempts.
const LIST: Duration = Duration::from_mins(1);
const LIST_ATTEMPTS: u32 = 8;

impl FleetArena {
    pub(super) fn new(spec: FleetSpec, http: Http) -> Self {
        let run_id = format!("hone-{}", crate::serve::fresh_id());
        let orchestrator = Arc::new(Orchestrator { server: Server::new(http.name()), http, run_id });
        let registered = cleanup::register(Arc::clone(&orchestrator) as Arc<dyn cleanup::Release>);
        let places = Arc::new(Semaphore::new(spec.instances));
        Self(Arc::new(Shared { spec, orchestrator, places, requests: AtomicU64::new(0), _registered: registered }))
    }
}

impl Shared {
    /// The tools of an instance with the endpoint that owns each.
    async fn tools(
        &self,
        instance: &Http,
        fleet: &FleetTask,
    ) -> Result<(Vec<ToolSpec>, IndexMap<String, Place>), Failure> {
        let (mut tools, mut owners) = (Vec::new(), IndexMap::new());
        let mut last = None;
        for endpoint in ENDPOINTS {
            let place = Place::Http(instance.at(&format!("{}/{endpoint}", instance.name()))?);
            match list(&place).await {
                Err(failure) => last = Some(failure),
                Ok(listed) => {
                    for tool in listed.into_iter().filter(|tool| fleet.offers(&tool.name)) {
                        if !owners.contains_key(&tool.name) {
                            owners.insert(tool.name.clone(), place.clone());
                            tools.push(tool);
                        }
                    }
                }
            }
        }
        match (tools.is_empty(), last) {
            (false, _) => Ok((tools, owners)),
            // The instance's tools are not up yet: retry.
            (true, failure) => {
                let why = failure.map_or_else(|| "it lists none".to_owned(), |failure| failure.what);
                Err(Failure::infrastructure(format!("no tools: {why}")))
            }
        }
    }
}

async fn list(place: &Place) -> Result<Vec<ToolSpec>, Failure> {
    let mut client = Client::open(place).await?;
    let tools = client.tools().await;
    client.close().await;
    tools
}

#[async_trait]
impl Arena for FleetArena {
    async fn open(&self, task: &Task, seed: u64) -> Result<Episode, Fault> {
        let shared = &self.0;
        let wrong = |what: String| Fault::new(Boundary::Environment, format!("task {}: {what}", task.key));
        let fleet = FleetTask::of(task).map_err(wrong)?;
        let orchestrator = &shared.orchestrator;
        let place = {
            let _waiting = waits::enter(orchestrator.server.name(), &task.key, "a free instance");
            Arc::clone(&shared.places).acquire_owned().await.ok()
        };
        let number = shared.requests.fetch_add(1, Ordering::Relaxed);
        let request = format!("{}-{number}", orchestrator.run_id);
        let fault = |failure: Failure| failure.fault(Boundary::Environment);
        let created = orchestrator.create(&shared.spec, &fleet, &request).await.map_err(fault)?;
        // From here on the instance is deleted whatever happens.
        let rented = Rented::new(Arc::clone(orchestrator), created.id, place, shared.spec.heartbeat_s);
        let instance = orchestrator.http.at(&created.root).map_err(fault)?;
        orchestrator.reset(&instance, &task.key, seed).await;
        let server = Server::new(instance.name());
        let patience = Patience::retried(LIST, LIST_ATTEMPTS);
        let listed = server.call(&task.key, "tools/list", patience, || shared.tools(&instance, &fleet)).await;
        let (mut tools, owners) = listed.map_err(fault)?;
        if fleet.submits() {
            tools.retain(|tool| tool.name != SUBMIT);
            tools.push(submit());
        }
        let tools = ToolSet::new(tools).map_err(|error| wrong(error.to_string()))?;
        let first = vec![Message::user(&fleet.prompt)];
        let env = FleetEnv::new(Arc::clone(shared), server, instance, rented, owners, fleet);
        Ok(Episode { tools, system: shared.spec.system.clone(), first, env: Box::new(env) })
    }

    fn patience(&self, _: &Task) -> Option<Duration> {
        let spec = &self.0.spec;
        // The queue is bounded by the deadlines of the episodes ahead.
        let hour = Duration::from_hours(1);
        Some(hour + seconds(spec.create_deadline_s) + Patience::retried(LIST, LIST_ATTEMPTS).total)
    }

    async fn holds(&self) -> Vec<Held> {
        let shared = &self.0;
        let in_use = shared.spec.instances.saturating_sub(shared.places.available_permits()) as u64;
        let held = |count| Held {
            place: shared.orchestrator.http.name(),
            kind: "instances",
            count,
            in_use: Some(in_use),
            limit: None,
        };
        shared.orchestrator.count().await.map(held).into_iter().collect()
    }

    fn trouble(&self) -> Option<String> {
        self.0.orchestrator.server.trouble()
    }
}

fn submit() -> ToolSpec {
    ToolSpec::new(
        SUBMIT,
        "Hand in the final answer. This ends the task.",
        json!({
            "type": "object",
            "properties": {"answer": {"type": "string", "description": "The final answer"}},
            "required": ["answer"],
        }),
    )
}
