//! Customer service as an environment: a desk, a user to talk to, and the reward at the end.
//!
//! Which user plays is the caller's choice: a script, a model, a person. Episodes end when the user says so or, before
//! tau2, when the agent hands the user over.
//!
//! `end` leaves these facts: `db_match`, `outputs_said`, `changes` made and wanted, `reference_calls`, `writes`,
//! `assertions` for a judge, and `undecided` where a part of the reward is a judge's.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use hone_trace::{Action, Arena, Boundary, EndState, Env, Episode, Fault, Message, Task, ToolCall, ToolSet, Turn};

use super::verdict::{facts, judge};
use super::{Desk, Domain, Kind, Profile, TRANSFER};
use hone_arena::users::{GREETING, NewUser, Script, ScriptedUser, User};

/// Opens episodes at a domain's desk.
pub struct Service {
    domain: Arc<Domain>,
    tools: ToolSet,
    policy: String,
    new_user: Arc<NewUser>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("domain", &self.domain.kind).finish_non_exhaustive()
    }
}

impl Service {
    /// With our own tool descriptions and policy.
    pub fn new(domain: Arc<Domain>, new_user: Arc<NewUser>) -> Result<Self, hone_trace::DuplicateTool> {
        let tools = domain.tools()?;
        let policy = policy(domain.kind).to_owned();
        Ok(Self { domain, tools, policy, new_user })
    }

    /// With the texts of a tau-bench directory, where it has them: `tools.json` and `wiki.md`, or tau2's `policy.md`.
    #[must_use]
    pub(crate) fn with_texts_of(mut self, directory: &Path) -> Self {
        let read = |name: &str| std::fs::read_to_string(directory.join(name)).ok();
        if let Some(policy) = read("wiki.md").or_else(|| read("policy.md")) {
            self.policy = policy;
        }
        if let Some(tools) = read("tools.json").and_then(|text| serde_json::from_str(&text).ok()) {
            self.tools = tools;
        }
        self
    }
}

/// A user that follows the task's script (`user`), or states the task's prompt where it has none.
pub fn scripted_users() -> Arc<NewUser> {
    Arc::new(|task, _| {
        let script = match task.extra.get("user") {
            Some(script) => serde_json::from_value(script.clone()).map_err(|error| {
                Fault::new(Boundary::UserSimulator, format!("task {}: its `user` script: {error}", task.key))
            })?,
            None => Script::plain(task.prompt.clone()),
        };
        Ok(Box::new(ScriptedUser::new(script)) as Box<dyn User>)
    })
}

/// The agent's instructions, where no data set gives them.
pub fn policy(kind: Kind) -> &'static str {
    match kind {
        Kind::Retail => include_str!("retail/policy.md"),
        Kind::Airline => include_str!("airline/policy.md"),
    }
}

#[async_trait]
impl Arena for Service {
    async fn open(&self, task: &Task, seed: u64) -> Result<Episode, Fault> {
        let mut user = (self.new_user)(task, seed)?;
        let opening = user.reply(GREETING).await?;
        let env = ServiceEnv { desk: self.domain.open(), user, task: task.clone(), replies: Vec::new(), asked: None };
        Ok(Episode {
            tools: self.tools.clone(),
            system: self.policy.clone(),
            first: vec![Message::user(opening.text)],
            env: Box::new(env),
        })
    }
}

/// One episode.
struct ServiceEnv {
    desk: Desk,
    user: Box<dyn User>,
    task: Task,
    /// The agent's replies to the user.
    replies: Vec<String>,
    /// Since when the user was asked, and what its answer took; a step that was given up has no answer.
    asked: Option<(Instant, Option<f64>)>,
}

impl ServiceEnv {
    /// Runs calls in order, up to one that ends the episode.
    fn run(&mut self, calls: &[ToolCall]) -> Result<Turn, Fault> {
        let mut turn = Turn::default();
        for call in calls {
            let reply = self.desk.call(call).map_err(|lost| Fault::new(Boundary::Environment, lost.to_string()))?;
            turn.failed += u32::from(reply.failed);
            turn.messages.push(Message::Tool {
                content: reply.text.into(),
                name: Some(call.name.clone()),
                tool_call_id: call.id.clone(),
            });
            if call.name == TRANSFER && self.desk.domain().profile != Profile::Tau2 {
                turn.done = true;
                break;
            }
        }
        Ok(turn)
    }

    async fn say(&mut self, text: String) -> Result<Turn, Fault> {
        let clock = Instant::now();
        self.asked = Some((clock, None));
        let answer = self.user.reply(&text).await?;
        self.asked = Some((clock, Some(clock.elapsed().as_secs_f64())));
        self.replies.push(text);
        let messages = if answer.text.is_empty() { Vec::new() } else { vec![Message::user(answer.text)] };
        Ok(Turn { messages, done: answer.end.is_some(), ..Turn::default() })
    }
}

#[async_trait]
impl Env for ServiceEnv {
    async fn step(&mut self, action: Action) -> Result<Turn, Fault> {
        self.asked = None;
        match action {
            Action::Calls(calls) => self.run(&calls),
            Action::Reply(text) => self.say(text).await,
            // Not forwarded to the user: the agent reads what was wrong with its reply.
            Action::Malformed(failure) => {
                let text = format!("Error: {failure}. {}", failure.hint);
                Ok(Turn { messages: vec![Message::tool("parser", text)], failed: 1, done: false })
            }
        }
    }

    fn user_seconds(&self) -> Option<f64> {
        self.asked.map(|(since, took)| took.unwrap_or_else(|| since.elapsed().as_secs_f64()))
    }

    fn end(&mut self) -> EndState {
        let verdict = judge(&self.desk, &self.task, &self.replies);
        EndState { facts: facts(&self.desk, &self.task, &verdict) }
    }
}
