//! A user played by a language model, in tau-bench's four strategies.
//!
//! Differences from upstream, and why:
//! - `react` sent the thought to the agent, because it looked for `Thought:` before `User Response:`. Here only the
//!   text after `User Response:` is said, and a reply without it is sampled again.
//! - `verify` accepted any text containing "true" as a yes, and after three rejections said a message that was missing
//!   from its history. Here the first word decides, and everything said is in the history.
//! - `reflection` kept rejected messages in the history. Here the history contains only what was said.
//! - Opening an environment discarded a completion. Here the first one is the first message.

use async_trait::async_trait;
use hone_trace::{Fault, Seed, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Hands, Prompts, User, UserTurn, broken};
use crate::chat_client::{ChatClient, ChatFault};

/// Strategy by which a user's message is generated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// One sample.
    #[default]
    Llm,
    /// A thought first, which is not said.
    React,
    /// Up to three samples, until a reviewer accepts one; the last one otherwise.
    Verify,
    /// A rejected sample is rewritten once; the first one is said when that is rejected too.
    Reflection,
}

/// Samples per message before a strategy gives up.
const SAMPLES: u32 = 3;

/// A user with an instruction to follow.
#[derive(Debug)]
pub struct LlmUser {
    client: ChatClient,
    strategy: Strategy,
    prompts: Prompts,
    system: String,
    /// The conversation so far, alternating between agent and user.
    history: Vec<Said>,
    seed: Seed,
    asked: u64,
}

#[derive(Debug)]
enum Said {
    Agent(String),
    /// `raw` is the model's text if that is more than what was said.
    User {
        text: String,
        raw: Option<String>,
    },
    /// A use of its tools, as the server reads it: the model's message and the answers.
    Tools(Vec<Value>),
}

/// Consecutive tool uses before a user who never speaks is abandoned.
const ROUNDS: u32 = 30;

impl LlmUser {
    /// The seed goes with every request, for servers that honour it.
    pub fn new(client: ChatClient, strategy: Strategy, prompts: Prompts, instruction: &str, seed: Seed) -> Self {
        let system = prompts.system(strategy == Strategy::React, instruction);
        Self { client, strategy, prompts, system, history: Vec::new(), seed, asked: 0 }
    }

    /// Starts from an earlier conversation: messages of agent and user, in OpenAI's format.
    #[must_use]
    pub fn after(mut self, messages: &[Value]) -> Self {
        for message in messages {
            let text = || message.get("content").and_then(Value::as_str).unwrap_or_default().to_owned();
            match message.get("role").and_then(Value::as_str) {
                Some("assistant") => self.history.push(Said::Agent(text())),
                Some("user") => self.history.push(Said::User { text: text(), raw: None }),
                _ => {}
            }
        }
        self
    }

    fn extra(&mut self) -> Map<String, Value> {
        self.asked += 1;
        // 31 bits: servers differ in how large a seed may be.
        let seed = self.seed.at(self.asked).value() >> 33;
        Map::from_iter([("seed".to_owned(), Value::from(seed))])
    }

    async fn ask(&mut self, messages: Vec<Value>) -> Result<String, Fault> {
        let extra = self.extra();
        let reply = self.client.reply(&messages, extra).await;
        reply.map_err(|ChatFault { what, transient }| broken(what, transient))
    }

    /// The conversation as the server reads it: the user is its assistant.
    fn messages(&self) -> Vec<Value> {
        let mut messages = vec![json!({"role": "system", "content": self.system})];
        for said in &self.history {
            match said {
                Said::Agent(text) => messages.push(json!({"role": "user", "content": text})),
                Said::User { text, raw } => {
                    messages.push(json!({"role": "assistant", "content": raw.as_ref().unwrap_or(text)}));
                }
                Said::Tools(exchange) => messages.extend(exchange.iter().cloned()),
            }
        }
        messages
    }

    /// The next message, after the tools that the model uses first.
    async fn message_with(&mut self, hands: &mut dyn Hands) -> Result<String, Fault> {
        for _ in 0..ROUNDS {
            let mut extra = self.extra();
            extra.insert("tools".to_owned(), json!(hands.tools()));
            let reply = self.client.message(&self.messages(), extra).await;
            let message = reply.map_err(|ChatFault { what, transient }| broken(what, transient))?;
            let calls = message.get("tool_calls").and_then(Value::as_array).cloned().unwrap_or_default();
            if calls.is_empty() {
                let text = message.get("content").and_then(Value::as_str);
                return text.map(str::to_owned).ok_or_else(|| broken("a reply without content", false));
            }
            let mut exchange = vec![message];
            for call in calls {
                let id = call.get("id").cloned().unwrap_or_default();
                // The model's own mistake, which it reads as its tools' answer.
                let answer = match serde_json::from_value::<ToolCall>(call) {
                    Ok(call) => hands.run(&call),
                    Err(error) => format!("Error: {error}"),
                };
                exchange.push(json!({"role": "tool", "tool_call_id": id, "content": answer}));
            }
            self.history.push(Said::Tools(exchange));
        }
        Err(broken(format!("{ROUNDS} uses of tools without a word"), false))
    }

    /// A fresh message of the user.
    async fn sample(&mut self) -> Result<String, Fault> {
        self.ask(self.messages()).await
    }

    async fn review(&mut self, message: &str) -> Result<bool, Fault> {
        let prompt = self.prompts.verify(&self.transcript(), message);
        Ok(says_true(&self.ask(vec![json!({"role": "user", "content": prompt})]).await?))
    }

    async fn rewrite(&mut self, message: &str) -> Result<Option<String>, Fault> {
        let prompt = self.prompts.reflect(&self.transcript(), message);
        let reply = self.ask(vec![json!({"role": "user", "content": prompt})]).await?;
        Ok(after_marker(&reply, "Response:"))
    }

    fn transcript(&self) -> String {
        let lines = self.history.iter().filter_map(|said| match said {
            Said::Agent(text) => Some(format!("Agent: {text}")),
            Said::User { text, .. } => Some(format!("Customer: {text}")),
            Said::Tools(_) => None,
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The next message, and the model's full text if that is more.
    async fn message(&mut self) -> Result<(String, Option<String>), Fault> {
        match self.strategy {
            Strategy::Llm => Ok((self.sample().await?, None)),
            Strategy::React => {
                for _ in 0..SAMPLES {
                    let raw = self.sample().await?;
                    if let Some(said) = after_marker(&raw, "User Response:") {
                        return Ok((said, Some(raw)));
                    }
                }
                Err(broken(format!("{SAMPLES} replies without \"User Response:\""), true))
            }
            Strategy::Verify => {
                let mut message = self.sample().await?;
                for _ in 1..SAMPLES {
                    if self.review(&message).await? {
                        break;
                    }
                    message = self.sample().await?;
                }
                Ok((message, None))
            }
            Strategy::Reflection => {
                let first = self.sample().await?;
                if self.review(&first).await? {
                    return Ok((first, None));
                }
                match self.rewrite(&first).await? {
                    Some(second) if self.review(&second).await? => Ok((second, None)),
                    _ => Ok((first, None)),
                }
            }
        }
    }
}

#[async_trait]
impl User for LlmUser {
    async fn reply(&mut self, agent: &str) -> Result<UserTurn, Fault> {
        self.history.push(Said::Agent(agent.to_owned()));
        match self.message().await {
            Ok((text, raw)) => {
                let turn = UserTurn::read(&text);
                self.history.push(Said::User { text, raw });
                Ok(turn)
            }
            Err(fault) => {
                // After a fault the same words are asked again: they enter the history once.
                self.history.pop();
                Err(fault)
            }
        }
    }

    /// A model with tools samples plainly, whatever its strategy: the reviewers see no tools.
    async fn reply_with(&mut self, agent: &str, hands: &mut dyn Hands) -> Result<UserTurn, Fault> {
        if hands.tools().iter().next().is_none() {
            return self.reply(agent).await;
        }
        let before = self.history.len();
        self.history.push(Said::Agent(agent.to_owned()));
        match self.message_with(hands).await {
            Ok(text) => {
                let turn = UserTurn::read(&text);
                self.history.push(Said::User { text, raw: None });
                Ok(turn)
            }
            Err(fault) => {
                self.history.truncate(before);
                Err(fault)
            }
        }
    }
}

/// Text after the last occurrence of a marker, if there is any.
fn after_marker(text: &str, marker: &str) -> Option<String> {
    let (_, said) = text.rsplit_once(marker)?;
    let said = said.trim();
    (!said.is_empty()).then(|| said.to_owned())
}

fn says_true(verdict: &str) -> bool {
    let first = verdict.split(|c: char| !c.is_alphabetic()).find(|word| !word.is_empty());
    first.is_some_and(|word| word.eq_ignore_ascii_case("true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thought_is_never_said() {
        let reply = "Thought:\nI should not tell my User id yet.\n\nUser Response:\nHello, I need help.";
        assert_eq!(after_marker(reply, "User Response:").as_deref(), Some("Hello, I need help."));
        assert_eq!(after_marker("Thought: hm", "User Response:"), None);
        assert_eq!(after_marker("User Response:  \n", "User Response:"), None);
    }

    #[test]
    fn the_first_word_decides() {
        assert!(says_true(" True."));
        assert!(!says_true("False: it is not true"));
        assert!(!says_true("untrue") && !says_true("") && !says_true("It is true"));
    }
}
