//! One episode at an OpenEnv server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hone_arena::rewards::Given;
use hone_trace::{Action, Boundary, EndState, Env, Fault, Message, Task, ToolCall, ToolSpec, Turn};
use reqwest::Method;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::actions::Actions;
use super::arena::Shared;
use super::pool::Place;
use super::socket::Socket;
use super::wire::{Envelope, Said, plain, tool_result};
use super::{OnError, RewardRule, ToolSource, seconds};
use crate::supervise::{Failure, Kind, Patience};

/// Connection of the episode to the server. A socket is taken out during a request, so that an abandoned one is
/// dropped.
#[derive(Debug)]
pub(super) enum Link {
    Ws(Option<Socket>),
    Http,
}

#[derive(Debug)]
pub(super) struct OpenEnvEnv {
    shared: Arc<Shared>,
    place: Option<Place>,
    link: Link,
    actions: Actions,
    key: String,
    /// The tool that gets replies, and its parameter.
    reply: Option<(String, String)>,
    /// Rewards of the steps so far; `None` for `null`.
    rewards: Vec<Option<f64>>,
    why: String,
    done: bool,
}

impl OpenEnvEnv {
    pub(super) fn new(shared: Arc<Shared>, place: Place, link: Link, actions: Actions, task: &Task) -> Self {
        let key = task.key.clone();
        let (rewards, why) = (Vec::new(), String::new());
        Self { shared, place: Some(place), link, actions, key, reply: None, rewards, why, done: false }
    }

    /// Determines which tool gets replies: the recipe's choice, else the server's.
    pub(super) fn offer(&mut self, tools: &[ToolSpec], named: Option<&str>) {
        let wanted = self.shared.spec.reply_tool.as_deref().or(named);
        let tool = tools.iter().find(|tool| Some(tool.name.as_str()) == wanted);
        self.reply = tool.and_then(|tool| Some((tool.name.clone(), tool.parameter_names().next()?.to_owned())));
    }

    /// Sends an action and waits for its result.
    pub(super) async fn act(&mut self, action: Value, what: &str, patience: Patience) -> Result<Said, Failure> {
        let shared = Arc::clone(&self.shared);
        match &mut self.link {
            Link::Http => {
                let body = json!({"action": action, "timeout_s": patience.attempt.as_secs_f64()});
                let ask = || async {
                    let reply = shared.http.send(Method::POST, "step", Some(&body), &[]).await?;
                    if reply.status == 422 {
                        let message = crate::http::excerpt(&reply.body);
                        return Ok(Said::Error { code: "VALIDATION_ERROR".into(), message, details: Map::new() });
                    }
                    Envelope::read(shared.http.read(&reply)?).map(Said::Observation).map_err(Failure::refused)
                };
                shared.server.call(&self.key, what, patience, ask).await
            }
            Link::Ws(_) => self.exchange(&json!({"type": "step", "data": action}), what, patience).await,
        }
    }

    async fn exchange(&mut self, message: &Value, what: &str, patience: Patience) -> Result<Said, Failure> {
        let mut socket = match &mut self.link {
            Link::Ws(socket) => socket.take(),
            Link::Http => None,
        };
        let ask = || {
            let socket = socket.take();
            async move {
                match socket {
                    Some(socket) => socket.ask(message).await,
                    None => Err(Failure::infrastructure("the connection is gone, and the session with it")),
                }
            }
        };
        let (socket, said) = self.shared.server.call(&self.key, what, patience, ask).await?;
        self.link = Link::Ws(Some(socket));
        Ok(said)
    }

    /// A JSON-RPC request within the session.
    pub(super) async fn rpc(&mut self, method: &str, params: Value) -> Result<Value, Failure> {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let patience = Patience::once(seconds(self.shared.spec.deadline_s));
        let answer = match self.link {
            Link::Ws(_) => match self.exchange(&json!({"type": "mcp", "data": request}), method, patience).await? {
                Said::Mcp(answer) => answer,
                Said::Error { code, message, .. } => return Err(Said::failure(&code, &message)),
                other => return Err(Failure::refused(format!("{method} was answered by {other:?}"))),
            },
            Link::Http => {
                let ask = || self.shared.http.json(Method::POST, "mcp", Some(&request));
                self.shared.server.call(&self.key, method, patience, ask).await?
            }
        };
        crate::rpc::result(answer)
    }

    async fn call(&mut self, call: &ToolCall, until: Instant) -> Result<Turn, Fault> {
        let fault = |failure: Failure| failure.fault(Boundary::Environment);
        if self.shared.spec.tools == ToolSource::Mcp {
            let params = json!({"name": call.name, "arguments": call.arguments});
            return match self.rpc("tools/call", params).await {
                Ok(result) => Ok(answer(call, tool_result(&result))),
                // A refused tool call is reported to the agent; a server that is gone is not.
                Err(failure) if failure.kind == Kind::Refused => Ok(answer(call, (failure.what, true))),
                Err(failure) => Err(fault(failure)),
            };
        }
        let Some(action) = self.actions.action(call) else {
            return Ok(answer(call, (format!("there is no tool {:?}", call.name), true)));
        };
        let patience = Patience::once(until.saturating_duration_since(Instant::now()));
        match self.act(action, "step", patience).await.map_err(fault)? {
            Said::Observation(envelope) => Ok(self.observed(call, envelope)),
            Said::Error { code, message, details } => self.refused(call, &code, &message, &details),
            other => Err(Fault::new(Boundary::Environment, format!("a step was answered by {other:?}"))),
        }
    }

    fn refused(&self, call: &ToolCall, code: &str, message: &str, details: &Map<String, Value>) -> Result<Turn, Fault> {
        match code {
            "VALIDATION_ERROR" => {
                let errors = details.get("errors").map(complaints).unwrap_or_default();
                Ok(answer(call, (format!("{message} {errors}").trim().to_owned(), true)))
            }
            "EXECUTION_ERROR" if self.shared.spec.errors == OnError::Answer => {
                Ok(answer(call, (message.to_owned(), true)))
            }
            // An exception: not transient, so that a fresh environment shows whether the same actions raise it again.
            _ => Err(Said::failure(code, message).fault(Boundary::Environment)),
        }
    }

    fn observed(&mut self, call: &ToolCall, envelope: Envelope) -> Turn {
        self.rewards.push(envelope.reward);
        self.done = envelope.done;
        let own = envelope.metadata.get("hone").and_then(Value::as_object);
        if let Some(components) = own.and_then(|own| own.get("components")).and_then(Value::as_array) {
            self.why = components.iter().map(component).collect::<Vec<_>>().join("; ");
        }
        let told = own.and_then(|own| own.get("messages")).and_then(|told| serde_json::from_value(told.clone()).ok());
        let error = envelope.observation.get("error").filter(|error| !error.is_null());
        let (text, failed) = match (error, envelope.observation.get("result")) {
            (Some(error), _) => (error.get("message").map_or_else(|| plain(error), plain), true),
            (None, Some(result)) if self.actions == Actions::Mcp => tool_result(result),
            _ => (shown(&envelope.observation), false),
        };
        let mut turn = answer(call, (text, failed));
        // A refused call produced no messages: the agent gets the refusal.
        if let Some(messages) = told.filter(|_| error.is_none()) {
            turn.messages = messages;
        }
        turn.done = envelope.done;
        turn
    }

    fn given(&self) -> Given {
        let given: Vec<f64> = self.rewards.iter().copied().flatten().collect();
        let (value, rule) = match self.shared.spec.reward {
            RewardRule::Sum => ((!given.is_empty()).then(|| given.iter().sum()), "the sum"),
            RewardRule::Last => (given.last().copied(), "the last"),
        };
        let steps = self.rewards.len();
        let why = match (value, self.why.is_empty()) {
            (Some(_), false) => format!("given: {}", self.why),
            (Some(_), true) => format!("given: {rule} of {} rewards in {steps} steps", given.len()),
            (None, _) => format!("none of {steps} steps gave a reward"),
        };
        Given { value, why, ended: self.done }
    }
}

#[async_trait]
impl Env for OpenEnvEnv {
    async fn step(&mut self, action: Action) -> Result<Turn, Fault> {
        let until = Instant::now() + seconds(self.shared.spec.deadline_s);
        let calls = match action {
            Action::Calls(calls) => calls,
            Action::Reply(text) => match &self.reply {
                None => return Ok(Turn { done: true, ..Turn::default() }),
                Some((tool, parameter)) => {
                    vec![ToolCall::new(tool, Map::from_iter([(parameter.clone(), text.into())]))]
                }
            },
            Action::Malformed(failure) => {
                let messages = vec![Message::user(format!("{failure}. {}", failure.hint))];
                return Ok(Turn { messages, ..Turn::default() });
            }
        };
        let mut turn = Turn::default();
        for call in &calls {
            let Turn { messages, done, failed } = self.call(call, until).await?;
            turn.messages.extend(messages);
            turn.failed += failed;
            turn.done = done;
            if done {
                break;
            }
        }
        Ok(turn)
    }

    /// `env_reward`, and the rewards of the steps one by one.
    fn end(&mut self) -> EndState {
        let mut end = EndState::default();
        end.facts.insert("env_reward".into(), json!(self.given()));
        end.facts.insert("step_rewards".into(), json!(self.rewards));
        end
    }

    fn patience(&self) -> Option<Duration> {
        Some(seconds(self.shared.spec.deadline_s + 5.0))
    }
}

impl Drop for OpenEnvEnv {
    /// Ends the session before its place is freed, if there is a runtime to do it; otherwise the closed connection ends
    /// it.
    fn drop(&mut self) {
        let (Link::Ws(Some(socket)), place) = (std::mem::replace(&mut self.link, Link::Http), self.place.take()) else {
            return;
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = tokio::time::timeout(Duration::from_secs(2), socket.close()).await;
                drop(place);
            });
        }
    }
}

/// The answer to a call: its text, and whether it is an error.
fn answer(call: &ToolCall, (text, failed): (String, bool)) -> Turn {
    let text = if failed && !text.starts_with("Error") { format!("Error: {text}") } else { text };
    Turn { messages: vec![Message::tool(&call.name, text)], failed: u32::from(failed), done: false }
}

/// An observation as the agent reads it: its only text, or its fields as JSON.
pub(super) fn shown(observation: &Map<String, Value>) -> String {
    let own: Map<String, Value> =
        observation.iter().filter(|(key, _)| *key != "metadata").map(|(k, v)| (k.clone(), v.clone())).collect();
    match own.values().collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        [Value::String(text)] => text.clone(),
        _ => Value::Object(own).to_string(),
    }
}

/// A validator's complaints, one field at a time.
fn complaints(errors: &Value) -> String {
    let one = |error: &Value| {
        let place: Vec<String> = error.get("loc").and_then(Value::as_array).into_iter().flatten().map(plain).collect();
        let what = error.get("msg").map(plain).unwrap_or_default();
        format!("{}: {what}", place.join("."))
    };
    errors.as_array().into_iter().flatten().map(one).collect::<Vec<_>>().join("; ")
}

fn component(component: &Value) -> String {
    let text = |key: &str| component.get(key).map(plain).unwrap_or_default();
    format!("{} {}: {}", text("component"), text("value"), text("why"))
}
