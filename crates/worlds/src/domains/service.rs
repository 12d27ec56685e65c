//! Customer service as an environment: a desk, a user to talk to, and the reward at the end.
//!
//! The caller chooses the user: a script, a model, a person. Episodes end when the user says so or, before tau2, when
//! the agent transfers the user. In tau2's solo mode there is no user: the agent gets a ticket, also has the user's
//! tools, and ends the episode itself.
//!
//! `end` leaves these facts: `db_match`, `outputs_said`, `conditions` of the task, `changes` made and wanted,
//! `reference_calls`, `writes`, `assertions` for a judge, and `undecided` if a judge decides part of the reward.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use hone_trace::{
    Action, Arena, Boundary, DuplicateTool, EndState, Env, Episode, Fault, Message, Task, ToolCall, ToolSet, Turn,
};

use super::initial::History;
use super::prompt::{Texts, done};
use super::verdict::{facts, judge};
use super::{Desk, Domain, Profile, Requestor, TRANSFER};
use hone_arena::users::{GREETING, Hands, NewUser, Script, ScriptedUser, User, UserTurn};

pub use super::prompt::{STOP, policy};

/// Opens episodes at a domain's desk.
pub struct Service {
    domain: Arc<Domain>,
    tools: ToolSet,
    user_tools: ToolSet,
    texts: Texts,
    new_user: Arc<NewUser>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("domain", &self.domain.kind).finish_non_exhaustive()
    }
}

impl Service {
    /// Uses our own tool descriptions and policy.
    pub fn new(domain: Arc<Domain>, new_user: Arc<NewUser>) -> Result<Self, DuplicateTool> {
        let user_tools = domain.user_tools()?;
        let mut tools = domain.tools()?;
        if domain.solo {
            tools = ToolSet::new(tools.iter().chain(user_tools.iter()).cloned().chain([done()]).collect())?;
        }
        let texts = Texts::own(&domain);
        Ok(Self { domain, tools, user_tools, texts, new_user })
    }

    /// Uses the texts of a tau-bench directory, if it has them: `tools.json` and `wiki.md`, or tau2's policies, with
    /// `tools.json`, `user_tools.json`, `solo_tools.json` and the instructions as `scripts/export_tau2.py` writes them.
    #[must_use]
    pub fn with_texts_of(mut self, directory: &Path) -> Self {
        self.texts.read(&self.domain, directory);
        let tools = |name: &str| {
            let text = std::fs::read_to_string(directory.join(name)).ok()?;
            serde_json::from_str(&text).ok()
        };
        if let Some(tools) = tools(if self.domain.solo { "solo_tools.json" } else { "tools.json" }) {
            self.tools = tools;
        }
        if let Some(tools) = tools("user_tools.json") {
            self.user_tools = tools;
        }
        self
    }

    /// The user's tools in an episode of a task, which may exclude some of them.
    fn user_tools_of(&self, task: &Task) -> Result<ToolSet, Fault> {
        let Some(names) = task.extra.get("user_tools").and_then(serde_json::Value::as_array) else {
            return Ok(self.user_tools.clone());
        };
        let named = |name: &str| names.iter().any(|own| own.as_str() == Some(name));
        let kept = self.user_tools.iter().filter(|tool| named(&tool.name)).cloned().collect();
        ToolSet::new(kept).map_err(|error| Fault::new(Boundary::Environment, error.to_string()))
    }
}

/// A user that follows the task's script (`user`), or states the task's prompt if it has none.
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

#[async_trait]
impl Arena for Service {
    async fn open(&self, task: &Task, seed: u64) -> Result<Episode, Fault> {
        let beginning = self
            .domain
            .begin(task)
            .map_err(|what| Fault::new(Boundary::Environment, format!("task {} cannot begin: {what}", task.key)))?;
        let user = if self.domain.solo { None } else { Some((self.new_user)(task, seed)?) };
        let History { messages, replies, to_user } = beginning.history;
        let mut env = ServiceEnv {
            desk: beginning.desk,
            user,
            user_tools: self.user_tools_of(task)?,
            task: task.clone(),
            replies,
            asked: None,
        };
        let mut first = messages;
        let greeting = (first.is_empty() && !self.domain.solo).then(|| GREETING.to_owned());
        if greeting.is_some() && self.domain.profile == Profile::Tau2 {
            first.push(Message::assistant(GREETING));
        }
        if let Some(text) = greeting.or(to_user) {
            first.push(Message::user(env.ask(&text).await?.text));
        }
        let system = self.texts.system(&self.domain, task);
        Ok(Episode { tools: self.tools.clone(), system, first, env: Box::new(env) })
    }
}

/// One episode.
struct ServiceEnv {
    desk: Desk,
    /// `None` in solo mode.
    user: Option<Box<dyn User>>,
    user_tools: ToolSet,
    task: Task,
    /// The agent's replies to the user.
    replies: Vec<String>,
    /// Time at which the user was asked, and duration of the answer; `None` inside if the step was abandoned.
    asked: Option<(Instant, Option<f64>)>,
}

/// The user's tools on an episode's desk.
struct Phone<'a> {
    desk: &'a mut Desk,
    tools: &'a ToolSet,
}

impl Hands for Phone<'_> {
    fn tools(&self) -> &ToolSet {
        self.tools
    }

    fn run(&mut self, call: &ToolCall) -> String {
        self.desk.call_by(Requestor::User, call).map_or_else(|lost| format!("Error: {lost}"), |reply| reply.text)
    }
}

impl ServiceEnv {
    /// Runs calls in order, up to one that ends the episode.
    fn run(&mut self, calls: &[ToolCall]) -> Result<Turn, Fault> {
        let mut turn = Turn::default();
        // In solo mode a message that stops does nothing else, even if it contains further calls.
        if self.user.is_none() && calls.iter().any(|call| call.name == STOP) {
            turn.done = true;
            return Ok(turn);
        }
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

    /// The user's answer, including use of the user's tools.
    async fn ask(&mut self, text: &str) -> Result<UserTurn, Fault> {
        let Some(user) = &mut self.user else {
            return Err(Fault::new(Boundary::Environment, "nobody is there to talk to in solo mode"));
        };
        let mut phone = Phone { desk: &mut self.desk, tools: &self.user_tools };
        user.reply_with(text, &mut phone).await
    }

    async fn say(&mut self, text: String) -> Result<Turn, Fault> {
        let clock = Instant::now();
        self.asked = Some((clock, None));
        let answer = self.ask(&text).await?;
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
            Action::Reply(_) if self.user.is_none() => Ok(corrected(
                "Error: nobody reads a message here. Call a tool, or call `done` when the ticket is solved.".into(),
            )),
            Action::Reply(text) => self.say(text).await,
            // Not forwarded to the user: the agent is told what was wrong with its reply.
            Action::Malformed(failure) => Ok(corrected(format!("Error: {failure}. {}", failure.hint))),
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

/// A turn that tells the agent what was wrong with its reply.
fn corrected(text: String) -> Turn {
    Turn { messages: vec![Message::tool("parser", text)], failed: 1, done: false }
}
