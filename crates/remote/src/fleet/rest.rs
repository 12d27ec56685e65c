//! Fleet's REST API: instances by id, and all instances of a run.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::FleetSpec;
use super::task::FleetTask;
use crate::http::{Http, Reply};
use crate::mcp::seconds;
use crate::supervise::{Failure, Patience, Server};

/// The orchestrator.
#[derive(Debug)]
pub(super) struct Orchestrator {
    pub(super) http: Http,
    pub(super) server: Server,
    /// Id of this run, which every instance carries.
    pub(super) run_id: String,
}

/// A rented instance.
#[derive(Debug, Clone)]
pub(super) struct Instance {
    pub(super) id: String,
    pub(super) root: String,
}

/// Attempts at idempotent requests.
const ATTEMPTS: u32 = 5;
/// Time for a small request.
const SHORT: Duration = Duration::from_secs(30);
/// Polling interval while an instance starts.
const POLL: Duration = Duration::from_secs(2);

impl Orchestrator {
    /// Creates an instance for a task and waits until it runs. The request keeps its id over retries, so that a lost answer
    /// rents no second instance.
    pub(super) async fn create(&self, spec: &FleetSpec, task: &FleetTask, request: &str) -> Result<Instance, Failure> {
        let body = self.body(spec, task);
        let total = seconds(spec.create_deadline_s);
        let patience = Patience { total, attempt: total, attempts: ATTEMPTS };
        let ask = || async {
            let headers = [("x-request-id", request)];
            let reply = self.http.send(Method::POST, "v1/env/instances", Some(&body), &headers).await?;
            self.started(&reply).await
        };
        self.server.call(&task.key, "create instance", patience, ask).await
    }

    fn body(&self, spec: &FleetSpec, task: &FleetTask) -> Value {
        let mut body = Map::new();
        let mut put = |key: &str, value: Value| {
            if !value.is_null() {
                body.insert(key.to_owned(), value);
            }
        };
        put("env_key", task.env_id.clone().into());
        put("env_version", task.version.clone().into());
        put("data_key", task.data_id.clone().into());
        put("data_version", task.data_version.clone().into());
        put("region", spec.region.clone().into());
        put("run_id", self.run_id.clone().into());
        put(
            "env_variables",
            if task.env_variables.is_empty() { Value::Null } else { task.env_variables.clone().into() },
        );
        put("image_type", if task.modality == "computer_use" { "mcp".into() } else { Value::Null });
        put("created_from", "hone".into());
        put("ttl_seconds", spec.ttl_s.into());
        put("heartbeat_interval", spec.heartbeat_s.into());
        put("max_wait_seconds", (spec.create_deadline_s - 30.0).max(1.0).into());
        body.into()
    }

    async fn started(&self, reply: &Reply) -> Result<Instance, Failure> {
        let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
        let said = answer.to_string();
        let mut instance = match reply.status {
            StatusCode::CONFLICT => {
                let id = answer.get("instance_id").or_else(|| answer.pointer("/detail/instance_id"));
                let id = id.and_then(Value::as_str).ok_or_else(|| Failure::refused(format!("409: {said}")))?;
                self.look(id).await?
            }
            status if status.is_success() => answer,
            _ if said.contains("instance_limit_exceeded") || said.contains("too many in-flight") => {
                return Err(Failure::busy(self.http.redacted(said)));
            }
            _ if is_passing(&said) => return Err(Failure::infrastructure(self.http.redacted(said))),
            _ => return self.http.read(reply).and_then(|_| Err(Failure::refused("no instance"))),
        };
        loop {
            let text = |path: &str| instance.pointer(path).and_then(Value::as_str);
            let id = text("/instance_id").ok_or_else(|| Failure::refused("an instance without an id"))?.to_owned();
            match (text("/status").unwrap_or("running"), text("/urls/root")) {
                ("running", Some(root)) => return Ok(Instance { id, root: root.to_owned() }),
                ("pending" | "running", _) => {
                    tokio::time::sleep(POLL).await;
                    instance = self.look(&id).await?;
                }
                (status, _) => {
                    self.delete(&id).await;
                    return Err(Failure::infrastructure(format!("instance {id} came up as {status}")));
                }
            }
        }
    }

    /// Instances of this run that the orchestrator still has. `None` where it does not say.
    pub(super) async fn count(&self) -> Option<u64> {
        let path = format!("v1/env/instances?run_id={}", self.run_id);
        let listed = tokio::time::timeout(SHORT, self.http.json(Method::GET, &path, None)).await.ok()?.ok()?;
        let all = listed.as_array().or_else(|| listed.get("instances").and_then(Value::as_array))?;
        let own = |one: &&Value| one.get("run_id").is_none_or(|run| run.as_str() == Some(self.run_id.as_str()));
        let lives =
            |one: &&Value| matches!(one.get("status").and_then(Value::as_str), None | Some("pending" | "running"));
        Some(all.iter().filter(own).filter(lives).count() as u64)
    }

    async fn look(&self, id: &str) -> Result<Value, Failure> {
        self.http.json(Method::GET, &format!("v1/env/instances/{id}"), None).await
    }

    /// Resets an instance that is already fresh; a failure is no reason to discard it.
    pub(super) async fn reset(&self, manager: &Http, key: &str, seed: u64) {
        let body = json!({"seed": seed});
        let ask = || manager.json(Method::POST, "api/v1/env/reset", Some(&body));
        let patience = Patience::once(Duration::from_secs(10));
        // A separate server entry: a failing instance does not open the orchestrator's circuit breaker.
        let _ = Server::new(manager.name()).call(key, "reset", patience, ask).await;
    }

    pub(super) async fn heartbeat(&self, id: &str) {
        let path = format!("v1/env/instances/{id}/heartbeat");
        let _ = tokio::time::timeout(SHORT, self.http.send(Method::POST, &path, Some(&json!({})), &[])).await;
    }

    /// Deletes an instance. One that cannot be deleted now is deleted with its run.
    pub(super) async fn delete(&self, id: &str) {
        let path = format!("v1/env/instances/{id}");
        let ask = || async {
            let reply = self.http.send(Method::DELETE, &path, None, &[]).await?;
            if reply.status.is_success() || reply.status == StatusCode::NOT_FOUND {
                return Ok(());
            }
            self.http.read(&reply).map(drop)
        };
        let _ = self.server.call(id, "delete instance", Patience::retried(SHORT, 3), ask).await;
    }

    /// Deletes everything of the run.
    pub(super) async fn delete_run(&self) {
        let path = format!("v1/env/instances/batch?run_id={}", self.run_id);
        // A separate circuit breaker: the final cleanup must not wait for a pause.
        let server = Server::new(self.http.name());
        let ask = || async {
            let reply = self.http.send(Method::DELETE, &path, None, &[]).await?;
            if reply.status.is_success() { Ok(()) } else { self.http.read(&reply).map(drop) }
        };
        let _ = server.call(&self.run_id, "delete run", Patience::retried(Duration::from_secs(5), 4), ask).await;
    }
}

/// Messages of transient creation failures.
fn is_passing(said: &str) -> bool {
    let said = said.to_lowercase();
    ["health check", "timeout", "connection", "temporarily", "\"retryable\":true", "\"retryable\": true", "rate limit"]
        .iter()
        .any(|words| said.contains(words))
}

impl crate::supervise::cleanup::Release for Orchestrator {
    fn release(self: Arc<Self>) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            // Connections of a runtime that is gone are useless.
            let fresh =
                Self { http: self.http.fresh(), server: Server::new(self.http.name()), run_id: self.run_id.clone() };
            fresh.delete_run().await;
        })
    }
}
