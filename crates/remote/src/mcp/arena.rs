//! Opens episodes at an MCP server, and judges them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hone_trace::{
    Action, Arena, Boundary, EndState, Env, Episode, Fault, Message, Task, ToolCall, ToolSet, ToolSpec, Turn,
};
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::client::Client;
use super::{McpSpec, Place, Verify, seconds};
use crate::openenv::wire::{plain, tool_result};
use crate::supervise::{Failure, Kind, Patience, Server, waits};

/// An MCP server as an arena.
#[derive(Debug)]
pub(super) struct McpArena(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    spec: McpSpec,
    place: Place,
    server: Server,
    sessions: Arc<Semaphore>,
}

/// Attempts at opening a session.
const ATTEMPTS: u32 = 5;

impl McpArena {
    pub(super) fn new(spec: McpSpec, place: Place) -> Self {
        let name = match &place {
            Place::Http(http) => http.name(),
            Place::Command { command, .. } => command.join(" "),
        };
        let sessions = Arc::new(Semaphore::new(spec.sessions));
        Self(Arc::new(Shared { spec, place, server: Server::new(name), sessions }))
    }
}

impl Shared {
    fn is_offered(&self, tool: &ToolSpec) -> bool {
        let spec = &self.spec;
        let own = [&spec.state_tool, &spec.setup_tool].into_iter().flatten().any(|name| *name == tool.name);
        let allowed = spec.allow.is_empty() || spec.allow.contains(&tool.name);
        allowed && !own && !spec.hide.contains(&tool.name)
    }

    async fn start(&self, task: &Task) -> Result<(Client, Vec<ToolSpec>), Failure> {
        let mut client = Client::open(&self.place).await?;
        let mut tools = client.tools().await?;
        tools.retain(|tool| self.is_offered(tool));
        if tools.is_empty() {
            return Err(Failure::refused("the server offers no tools, which leaves the agent nothing to do"));
        }
        if let Some(tool) = &self.spec.setup_tool {
            let arguments = task.extra.get("setup").and_then(Value::as_object).cloned().unwrap_or_default();
            let (text, failed) = tool_result(&client.call(tool, &arguments).await?);
            if failed {
                return Err(Failure::refused(format!("{tool} could not set the task up: {text}")));
            }
        }
        Ok((client, tools))
    }
}

#[async_trait]
impl Arena for McpArena {
    async fn open(&self, task: &Task, _: u64) -> Result<Episode, Fault> {
        let shared = Arc::clone(&self.0);
        let place = {
            let _waiting = waits::enter(shared.server.name(), &task.key, "a free session");
            // The semaphore is never closed.
            Arc::clone(&shared.sessions).acquire_owned().await.ok()
        };
        let deadline = seconds(shared.spec.open_deadline_s);
        let attempts = match shared.place {
            Place::Http(_) => ATTEMPTS,
            // A local program that does not start twice will not start the third time.
            Place::Command { .. } => 2,
        };
        let patience = Patience::retried(deadline, attempts);
        let started = shared.server.call(&task.key, "initialize", patience, || shared.start(task)).await;
        let (client, tools) = started.map_err(|failure| failure.fault(Boundary::Environment))?;
        let tools = ToolSet::new(tools).map_err(|error| Fault::new(Boundary::Environment, error.to_string()))?;
        let parts = [shared.spec.system.as_str(), client.instructions.as_deref().unwrap_or_default()];
        let system = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n");
        let first = vec![Message::user(&task.prompt)];
        let client = Some(client);
        let env =
            McpEnv { shared, client, task: task.clone(), answer: None, correct: None, state: None, _place: place };
        Ok(Episode { tools, system, first, env: Box::new(env) })
    }

    /// The queue has no deadline: every session ends by the deadlines of its calls.
    fn patience(&self, _: &Task) -> Option<Duration> {
        Some(Duration::from_hours(1) + Patience::retried(seconds(self.0.spec.open_deadline_s), ATTEMPTS).total)
    }

    fn trouble(&self) -> Option<String> {
        self.0.server.trouble()
    }
}

#[derive(Debug)]
struct McpEnv {
    shared: Arc<Shared>,
    client: Option<Client>,
    task: Task,
    answer: Option<String>,
    correct: Option<bool>,
    state: Option<Value>,
    _place: Option<OwnedSemaphorePermit>,
}

impl McpEnv {
    /// Calls a tool within the deadline. An abandoned session is dropped.
    async fn call(&mut self, what: &str, name: &str, arguments: &Map<String, Value>) -> Result<(Value, bool), Failure> {
        let mut client = self.client.take();
        let patience = Patience::once(seconds(self.shared.spec.deadline_s));
        let ask = || {
            let client = client.take();
            async move {
                let mut client = client.ok_or_else(|| Failure::infrastructure("the session is gone"))?;
                // A refused call does not end the session; only a failure does.
                match client.call(name, arguments).await {
                    Err(failure) if failure.kind != Kind::Refused => Err(failure),
                    answered => Ok((client, answered)),
                }
            }
        };
        let (client, answered) = self.shared.server.call(&self.task.key, what, patience, ask).await?;
        self.client = Some(client);
        Ok(match answered {
            Ok(result) => {
                let failed = tool_result(&result).1;
                (result, failed)
            }
            Err(refused) => (json!({"content": [{"type": "text", "text": refused.what}]}), true),
        })
    }

    async fn answered(&mut self, call: &ToolCall) -> Result<(Message, bool), Fault> {
        let called = self.call("tools/call", &call.name, &call.arguments).await;
        let (result, failed) = called.map_err(|failure| failure.fault(Boundary::Environment))?;
        let (text, _) = tool_result(&result);
        let text = if failed && !text.starts_with("Error") { format!("Error: {text}") } else { text };
        Ok((Message::tool(&call.name, text), failed))
    }
}

#[async_trait]
impl Env for McpEnv {
    async fn step(&mut self, action: Action) -> Result<Turn, Fault> {
        match action {
            Action::Calls(calls) => {
                let mut turn = Turn::default();
                for call in &calls {
                    let (message, failed) = self.answered(call).await?;
                    turn.messages.push(message);
                    turn.failed += u32::from(failed);
                }
                Ok(turn)
            }
            Action::Reply(text) => {
                self.answer = Some(text);
                Ok(Turn { done: true, ..Turn::default() })
            }
            Action::Malformed(failure) => {
                let messages = vec![Message::user(format!("{failure}. {}", failure.hint))];
                Ok(Turn { messages, ..Turn::default() })
            }
        }
    }

    async fn finish(&mut self) -> Result<(), Fault> {
        match self.shared.spec.verify {
            Verify::Rubric => {}
            // A missing answer is a wrong answer.
            Verify::Answer => {
                if let Some(right) = self.task.extra.get("answer") {
                    let said = self.answer.as_deref().unwrap_or_default();
                    self.correct = Some(self.answer.is_some() && matches(said, right));
                }
            }
            Verify::State => {
                let Some(tool) = self.shared.spec.state_tool.clone() else { return Ok(()) };
                let mut arguments = self.shared.spec.state_arguments.clone();
                let own = self.task.extra.get("state_arguments").and_then(Value::as_object).cloned();
                arguments.extend(own.unwrap_or_default());
                let asked = self.call("state", &tool, &arguments).await;
                let (result, failed) = asked.map_err(|failure| failure.fault(Boundary::Verifier))?;
                if failed {
                    let what = format!("{tool}: {}", tool_result(&result).0);
                    return Err(Fault::new(Boundary::Verifier, what));
                }
                let state = state(&result);
                self.correct = self.task.extra.get("expected").map(|expected| contains(&state, expected));
                self.state = Some(state);
            }
        }
        Ok(())
    }

    /// `correct` if the task defines it, `completion` and, if it was requested, `state`.
    fn end(&mut self) -> EndState {
        let mut end = EndState::default();
        end.facts.extend(self.correct.map(|correct| ("correct".to_owned(), correct.into())));
        end.facts.extend(self.answer.clone().map(|answer| ("completion".to_owned(), answer.into())));
        end.facts.extend(self.state.clone().map(|state| ("state".to_owned(), state)));
        end
    }

    fn patience(&self) -> Option<Duration> {
        // Several calls of one action, one after the other.
        Some(seconds(self.shared.spec.deadline_s * 8.0 + 5.0))
    }

    async fn outlives_close(&mut self, _: Action) -> Option<bool> {
        let mut client = self.client.take()?;
        tokio::time::timeout(seconds(self.shared.spec.deadline_s), client.outlives_close()).await.ok().flatten()
    }
}

impl Drop for McpEnv {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = tokio::time::timeout(Duration::from_secs(5), client.close()).await;
            });
        }
    }
}

/// True if a reply gives the answer: the same text ignoring case and spaces or, for a number, the last number in it. A
/// list of answers accepts any of them.
fn matches(said: &str, right: &Value) -> bool {
    let normal = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    match right {
        Value::Array(several) => several.iter().any(|one| matches(said, one)),
        Value::Number(number) => {
            let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E' | ',');
            let mut words =
                said.split(|c: char| !is_part(c)).filter(|word| word.contains(|c: char| c.is_ascii_digit()));
            let last = words.next_back().map(|word| word.trim_end_matches(['.', ',']).replace(',', ""));
            last.and_then(|word| word.parse::<f64>().ok()).is_some_and(|found| Some(found) == number.as_f64())
        }
        other => normal(said).trim_end_matches('.') == normal(&plain(other)).trim_end_matches('.'),
    }
}

/// State in a tool's result: its structured content, else its text, parsed as JSON if possible.
fn state(result: &Value) -> Value {
    for key in ["structuredContent", "structured_content"] {
        if let Some(content) = result.get(key).filter(|content| !content.is_null()) {
            return content.clone();
        }
    }
    let (text, _) = tool_result(result);
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

/// True if a state contains everything expected: objects may have more keys, everything else must be equal.
fn contains(state: &Value, expected: &Value) -> bool {
    match (state, expected) {
        (Value::Object(state), Value::Object(expected)) => {
            expected.iter().all(|(key, value)| state.get(key).is_some_and(|found| contains(found, value)))
        }
        (Value::Array(state), Value::Array(expected)) => {
            state.len() == expected.len() && state.iter().zip(expected).all(|(a, b)| contains(a, b))
        }
        (state, expected) => state == expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_matched_by_what_it_says() {
        for (said, right, is) in [
            ("Paris", json!("paris"), true),
            (" The  answer. ", json!("the answer"), true),
            ("It is Paris", json!("Paris"), false),
            ("so 3 + 4 = 7.", json!(7), true),
            ("1,234 units", json!(1234), true),
            ("7 or 8", json!(7), false),
            ("", json!(7), false),
            ("b", json!(["a", "b"]), true),
        ] {
            assert_eq!(matches(said, &right), is, "{said:?} {right}");
        }
    }

    #[test]
    fn a_state_may_say_more_than_is_expected() {
        assert!(contains(&json!({"a": 1, "b": [1, {"c": 2, "d": 3}]}), &json!({"b": [1, {"c": 2}]})));
        assert!(!contains(&json!({"a": 1}), &json!({"b": 1})));
        assert!(!contains(&json!([1, 2]), &json!([1])));
    }
}
