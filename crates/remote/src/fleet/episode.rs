//! One episode on a rented instance, and its verdict.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hone_arena::rewards::Given;
use hone_trace::{Action, Boundary, EndState, Env, Fault, Message, ToolCall, Turn};
use indexmap::IndexMap;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::arena::{SUBMIT, Shared};
use super::rest::Orchestrator;
use super::task::FleetTask;
use super::verdict::Judged;
use crate::http::Http;
use crate::mcp::client::Client;
use crate::mcp::{Place, seconds};
use crate::openenv::wire::{plain, tool_result};
use crate::supervise::{Failure, Kind, Patience, Server};

/// Time for one operation of an instance.
const OPERATION: Duration = Duration::from_mins(1);
const CALL_ATTEMPTS: u32 = 8;

/// An instance that is kept alive while this lives and deleted when it is dropped.
#[derive(Debug)]
pub(super) struct Rented {
    orchestrator: Arc<Orchestrator>,
    id: String,
    place: Option<OwnedSemaphorePermit>,
    heart: tokio::task::JoinHandle<()>,
}

impl Rented {
    pub(super) fn new(
        orchestrator: Arc<Orchestrator>,
        id: String,
        place: Option<OwnedSemaphorePermit>,
        every_s: u64,
    ) -> Self {
        let (of, instance) = (Arc::clone(&orchestrator), id.clone());
        let heart = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(every_s)).await;
                of.heartbeat(&instance).await;
            }
        });
        Self { orchestrator, id, place, heart }
    }
}

impl Drop for Rented {
    fn drop(&mut self) {
        self.heart.abort();
        let (orchestrator, id, place) = (Arc::clone(&self.orchestrator), self.id.clone(), self.place.take());
        // Without a runtime it is deleted with the rest of its run.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                orchestrator.delete(&id).await;
                drop(place);
            });
        }
    }
}

#[derive(Debug)]
pub(super) struct FleetEnv {
    shared: Arc<Shared>,
    server: Server,
    instance: Http,
    rented: Rented,
    owners: IndexMap<String, Place>,
    task: FleetTask,
    answer: Option<String>,
    judged: Option<Judged>,
}

impl FleetEnv {
    pub(super) fn new(
        shared: Arc<Shared>,
        server: Server,
        instance: Http,
        rented: Rented,
        owners: IndexMap<String, Place>,
        task: FleetTask,
    ) -> Self {
        Self { shared, server, instance, rented, owners, task, answer: None, judged: None }
    }

    async fn call(&self, call: &ToolCall) -> Result<(String, bool), Fault> {
        let Some(place) = self.owners.get(&call.name) else {
            return Ok((format!("there is no tool {:?}", call.name), true));
        };
        let total = seconds(self.shared.spec.deadline_s);
        // Not retried if it may have been executed: only opening a session is.
        let opened = Patience { total, attempt: OPERATION.min(total), attempts: CALL_ATTEMPTS };
        let fault = |failure: Failure| failure.fault(Boundary::Environment);
        let client = self.server.call(&self.task.key, "initialize", opened, || Client::open(place)).await;
        let mut client = Some(client.map_err(fault)?);
        let patience = Patience::once(OPERATION.min(total));
        let ask = || {
            let client = client.take();
            async move {
                let mut client = client.ok_or_else(|| Failure::infrastructure("the session is gone"))?;
                let called = client.call(&call.name, &call.arguments).await;
                client.close().await;
                called
            }
        };
        match self.server.call(&self.task.key, "tools/call", patience, ask).await {
            Ok(result) => Ok(outcome(&result)),
            Err(failure) if failure.kind == Kind::Refused => Ok((failure.what, true)),
            Err(failure) => Err(fault(failure)),
        }
    }

    /// Runs the verifier; retries if it did not run.
    async fn judge(&self) -> Judged {
        let mut judged = Judged::Unknown("the task has no verifier".into());
        let mut pause = Duration::from_secs(3);
        for attempt in 0..self.shared.spec.verifier_attempts.max(1) {
            if attempt > 0 {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            judged = match self.execute().await {
                Ok(answer) => Judged::read(&answer, self.shared.spec.partial_reward),
                Err(failure) => Judged::Unknown(failure.what),
            };
            if matches!(judged, Judged::Score { .. }) {
                break;
            }
        }
        judged
    }

    async fn execute(&self) -> Result<Value, Failure> {
        let deadline = seconds(self.shared.spec.verifier_deadline_s);
        // The server gets a slightly shorter deadline, so that it answers before we give up.
        let patience = Patience::once(deadline + Duration::from_secs(5));
        let orchestrator = &self.shared.orchestrator;
        if let Some(code) = &self.task.verifier_func {
            let body = json!({
                "function_code": code,
                "function_name": function_name(code),
                "text_solution": self.answer,
            });
            let path = "api/v1/env/execute_verifier_function";
            let ask = || self.instance.json(Method::POST, path, Some(&body));
            self.server.call(&self.task.key, "verifier", patience, ask).await
        } else {
            let body = json!({
                "key": self.task.verifier_id,
                "sha256": self.task.verifier_sha,
                "args_array": [{"env": self.rented.id}, {"final_answer": self.answer}],
                "timeout": deadline.as_secs().clamp(1, 300),
                "region": self.shared.spec.region,
                "verifier_runtime_version": self.task.verifier_runtime_version,
            });
            let ask = || orchestrator.http.json(Method::POST, "v1/verifiers/execute", Some(&body));
            orchestrator.server.call(&self.task.key, "verifier", patience, ask).await
        }
    }
}

#[async_trait]
impl Env for FleetEnv {
    async fn step(&mut self, action: Action) -> Result<Turn, Fault> {
        let calls = match action {
            Action::Calls(calls) => calls,
            Action::Reply(text) => {
                self.answer = Some(text);
                return Ok(Turn { done: true, ..Turn::default() });
            }
            Action::Malformed(failure) => {
                let messages = vec![Message::user(format!("{failure}. {}", failure.hint))];
                return Ok(Turn { messages, ..Turn::default() });
            }
        };
        let mut turn = Turn::default();
        for call in &calls {
            if call.name == SUBMIT && self.task.submits() {
                self.answer = call.arguments.get("answer").map(plain);
                turn.done = true;
                break;
            }
            let (text, failed) = self.call(call).await?;
            let text = if failed && !text.starts_with("Error") { format!("Error: {text}") } else { text };
            turn.messages.push(Message::tool(&call.name, text));
            turn.failed += u32::from(failed);
        }
        Ok(turn)
    }

    /// The verifier runs however the episode ended: a truncated one may have done its work.
    async fn finish(&mut self) -> Result<(), Fault> {
        self.judged = Some(self.judge().await);
        Ok(())
    }

    fn end(&mut self) -> EndState {
        let given = match &self.judged {
            Some(Judged::Score { value, why }) => Given { value: Some(*value), why: why.clone(), ended: true },
            Some(Judged::Unknown(why)) => Given { value: None, why: format!("verifier_unknown: {why}"), ended: true },
            None => Given { value: None, why: "the verifier was not asked".into(), ended: true },
        };
        let mut end = EndState::default();
        end.facts.insert("env_reward".into(), json!(given));
        end.facts.insert("fleet_env".into(), self.task.env_id.clone().into());
        end.facts.extend(self.answer.clone().map(|answer| ("completion".to_owned(), answer.into())));
        end
    }

    fn patience(&self) -> Option<Duration> {
        let spec = &self.shared.spec;
        let verifier = (seconds(spec.verifier_deadline_s) + Duration::from_secs(5)) * spec.verifier_attempts.max(1);
        let pauses = Duration::from_secs(3) * 2u32.saturating_pow(spec.verifier_attempts.min(8));
        Some((verifier + pauses).max((seconds(spec.deadline_s) + OPERATION) * 8))
    }
}

/// A tool's text and whether it is an error, by every sign that Fleet's tools give.
fn outcome(result: &Value) -> (String, bool) {
    let (text, failed) = tool_result(result);
    let parsed: Value = serde_json::from_str(&text).unwrap_or_default();
    let signs = parsed.get("status").and_then(Value::as_str) == Some("failed")
        || parsed.get("isError").and_then(Value::as_bool) == Some(true)
        || text.starts_with("Error:");
    (text, failed || signs)
}

/// The name of the first function that a source defines.
fn function_name(code: &str) -> Option<&str> {
    let line = code.lines().find_map(|line| line.strip_prefix("def ").or_else(|| line.strip_prefix("async def ")))?;
    line.split('(').next().map(str::trim)
}
