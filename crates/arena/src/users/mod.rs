//! User simulators: the agent's conversation partner if a task has a user.
//!
//! A [`User`] receives the agent's message and answers, or ends the conversation. It does not see the agent's tool
//! calls; if the user has tools too ([`Hands`]), it uses them between hearing and answering. A user that breaks is a
//! [`Fault`] of [`Boundary::UserSimulator`]: the episode is excluded, not scored 0.
//!
//! The end of a conversation is tau-bench's convention: the token `###STOP###` in the user's message; tau2 adds
//! `###TRANSFER###` and `###OUT-OF-SCOPE###`.

mod hands;
mod human;
mod llm;
mod prompts;
mod scripted;

use async_trait::async_trait;
use hone_trace::{Boundary, Fault, Task};

pub use hands::Hands;
pub use human::HumanUser;
pub use llm::{LlmUser, Strategy};
pub use prompts::Prompts;
pub use scripted::{Script, ScriptedUser, Topic};

/// The agent's greeting, as simulated users assume it.
pub const GREETING: &str = "Hi! How can I help you today?";

/// User that the agent talks to.
#[async_trait]
pub trait User: Send {
    /// Answer to the agent's message; the first message is [`GREETING`].
    async fn reply(&mut self, agent: &str) -> Result<UserTurn, Fault>;

    /// The same, with the user's own tools available. A user without tools ignores them.
    async fn reply_with(&mut self, agent: &str, hands: &mut dyn Hands) -> Result<UserTurn, Fault> {
        let _ = hands;
        self.reply(agent).await
    }
}

/// Creates the user of an episode from its task and seed.
pub type NewUser = dyn Fn(&Task, u64) -> Result<Box<dyn User>, Fault> + Send + Sync;

/// A turn of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserTurn {
    /// Message without the token that ends the conversation. Empty if there is nothing else.
    pub text: String,
    pub end: Option<UserEnd>,
}

/// Reason why a user ends the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserEnd {
    /// The user got what it wanted, or gave up.
    Stop,
    /// The user was transferred to someone else.
    Transfer,
    /// The user's instruction does not say how to continue.
    OutOfScope,
}

impl UserEnd {
    pub const ALL: [Self; 3] = [Self::Stop, Self::Transfer, Self::OutOfScope];

    pub fn token(self) -> &'static str {
        match self {
            Self::Stop => "###STOP###",
            Self::Transfer => "###TRANSFER###",
            Self::OutOfScope => "###OUT-OF-SCOPE###",
        }
    }
}

impl UserTurn {
    /// Reads a message with or without one of the tokens.
    pub fn read(message: &str) -> Self {
        let end = UserEnd::ALL.into_iter().find(|end| message.contains(end.token()));
        let text = match end {
            Some(end) => message.replace(end.token(), ""),
            None => message.to_owned(),
        };
        Self { text: text.trim().to_owned(), end }
    }
}

fn broken(what: impl Into<String>, transient: bool) -> Fault {
    Fault { transient, ..Fault::new(Boundary::UserSimulator, what) }
}
