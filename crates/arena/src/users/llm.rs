//! A user played by a language model, in tau-bench's four strategies.
//!
//! Differences from upstream, and what they cost there:
//! - `react` sent the thought to the agent, because it looked for `Thought:` before `User Response:`. Here only what
//!   follows `User Response:` is said, and a reply without it is sampled again.
//! - `verify` took any text with "true" in it for a yes, and after three rejections said a message it did not remember.
//!   Here the first word decides, and what was said is always remembered.
//! - `reflection` kept rejected messages in the history. Here the history is what was said.
//! - Opening an environment threw a completion away. Here the first one is the first message.

use async_trait::async_trait;
use hone_trace::{Fault, Seed};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Prompts, User, UserTurn, broken};
use crate::chat_client::{ChatClient, ChatFault};

/// Strategy by which a user's message is made.
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
    /// The conversation so far, agent and user in turn. `raw` is the model's text where that is more than it said.
    history: Vec<Said>,
    seed: Seed,
    asked: u64,
}

#[derive(Debug)]
struct Said {
    agent: bool,
    text: String,
    raw: Option<String>,
}

impl LlmUser {
    /// The seed goes with every request, for servers that honour it.
    pub fn new(client: ChatClient, strategy: Strategy, prompts: Prompts, instruction: &str, seed: Seed) -> Self {
        let system = prompts.system(strategy == Strategy::React, instruction);
        Self { client, strategy, prompts, system, history: Vec::new(), seed, asked: 0 }
    }

    async fn ask(&mut self, messages: Vec<Value>) -> Result<String, Fault> {
        self.asked += 1;
        // 31 bits: servers differ in how large a seed may be.
        let seed = self.seed.at(self.asked).value() >> 33;
        let extra = Map::from_iter([("seed".to_owned(), Value::from(seed))]);
        let reply = self.client.reply(&messages, extra).await;
        reply.map_err(|ChatFault { what, transient }| broken(what, transient))
    }

    /// A fresh message of the user.
    async fn sample(&mut self) -> Result<String, Fault> {
        let mut messages = vec![json!({"role": "system", "content": self.system})];
        for said in &self.history {
            let role = if said.agent { "user" } else { "assistant" };
            messages.push(json!({"role": role, "content": said.raw.as_ref().unwrap_or(&said.text)}));
        }
        self.ask(messages).await
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
        let lines = self.history.iter().map(|said| {
            let who = if said.agent { "Agent" } else { "Customer" };
            format!("{who}: {}", said.text)
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The next message, and the model's text for it where that is more.
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
        self.history.push(Said { agent: true, text: agent.to_owned(), raw: None });
        match self.message().await {
            Ok((text, raw)) => {
                let turn = UserTurn::read(&text);
                self.history.push(Said { agent: false, text, raw });
                Ok(turn)
            }
            Err(fault) => {
                // Asked again after a fault, the user hears the same words once.
                self.history.pop();
                Err(fault)
            }
        }
    }
}

/// The text after the last occurrence of a marker, where there is some.
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
