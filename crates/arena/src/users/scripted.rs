//! A user that follows a script: deterministic, free, fast enough for ten thousand episodes.
//!
//! A state machine over the task's goals and what the user knows. In response to the agent it
//! 1. confirms, if the agent asks for a yes or no (or declines, if the script says so),
//! 2. tells what it knows about the topics the agent asks for,
//! 3. moves on to its next goal when the agent reports a result or asks whether there is anything else, and ends after
//!    the last,
//! 4. says that it does not know, to any other question.
//!
//! A user with tools first runs those that the agent names, and reports what they show.
//!
//! The user leaves an agent that makes no progress after a few turns. It matches words, not meaning: scripts come from
//! the generators, whose wording it knows, or from [`Script::plain`].

use async_trait::async_trait;
use hone_trace::Fault;
use serde::{Deserialize, Serialize};

use super::hands::calls_in;
use super::{GREETING, Hands, User, UserEnd, UserTurn};

/// A scripted user's goals and knowledge. A task carries it as `user`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Requests, one after the other, in the user's own words.
    pub goals: Vec<String>,
    /// Topics the user can answer questions about.
    #[serde(default)]
    pub knows: Vec<Topic>,
    /// Words in a request for confirmation that make the user say no.
    #[serde(default)]
    pub declines: Vec<String>,
}

/// Something the user knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topic {
    /// Words that ask for this, any of them, lower case.
    pub asked: Vec<String>,
    pub answer: String,
}

impl Script {
    /// One goal, stated in full: for instructions that no generator wrote. The user answers any question by repeating
    /// it.
    pub fn plain(instruction: impl Into<String>) -> Self {
        Self { goals: vec![instruction.into()], ..Self::default() }
    }
}

/// Turns without progress before the user leaves.
const PATIENCE: u32 = 4;

/// A user that follows a [`Script`].
#[derive(Debug)]
pub struct ScriptedUser {
    script: Script,
    /// The goal being pursued; the number of goals once all are done.
    goal: usize,
    stuck: u32,
}

impl ScriptedUser {
    pub fn new(script: Script) -> Self {
        Self { script, goal: 0, stuck: 0 }
    }

    fn answer(&mut self, agent: &str) -> UserTurn {
        let heard = agent.to_lowercase();
        if agent == GREETING {
            return self.state_goal();
        }
        if has_any(&heard, CONFIRMATIONS) {
            self.stuck += 1;
            let declined = self.script.declines.iter().any(|word| heard.contains(&word.to_lowercase()));
            return self.say(if declined { "No, please do not do that." } else { "Yes, please go ahead." });
        }
        let asked: Vec<&str> = self
            .script
            .knows
            .iter()
            .filter(|topic| topic.asked.iter().any(|word| has_word(&heard, word)))
            .map(|topic| topic.answer.as_str())
            .collect();
        if !asked.is_empty() && has_any(&heard, REQUESTS) {
            let answer = asked.join(" ");
            self.stuck += 1;
            return self.say(&answer);
        }
        if has_any(&heard, RESULTS) {
            self.goal += 1;
            self.stuck = 0;
            return self.state_goal();
        }
        self.stuck += 1;
        if self.script.knows.is_empty() {
            return self.say(&self.current_goal());
        }
        let text = if heard.contains('?') { "I do not know that.".to_owned() } else { self.current_goal() };
        self.say(&text)
    }

    fn current_goal(&self) -> String {
        self.script.goals.get(self.goal).cloned().unwrap_or_default()
    }

    /// The current goal, or the end if there is none left.
    fn state_goal(&self) -> UserTurn {
        match self.script.goals.get(self.goal) {
            Some(goal) => UserTurn { text: goal.clone(), end: None },
            None => UserTurn { text: String::new(), end: Some(UserEnd::Stop) },
        }
    }

    fn say(&self, text: &str) -> UserTurn {
        let end = (self.stuck > PATIENCE).then_some(UserEnd::Stop);
        UserTurn { text: text.to_owned(), end }
    }
}

#[async_trait]
impl User for ScriptedUser {
    async fn reply(&mut self, agent: &str) -> Result<UserTurn, Fault> {
        Ok(self.answer(agent))
    }

    async fn reply_with(&mut self, agent: &str, hands: &mut dyn Hands) -> Result<UserTurn, Fault> {
        let calls = calls_in(agent, hands.tools());
        if calls.is_empty() {
            return Ok(self.answer(agent));
        }
        let shown: Vec<_> = calls.iter().map(|call| format!("{}: {}", call.name, hands.run(call))).collect();
        self.stuck = 0;
        Ok(self.say(&shown.join("\n")))
    }
}

/// Phrases with which an agent asks for a yes.
const CONFIRMATIONS: &[&str] = &[
    "(yes/no)",
    "yes or no",
    "do you confirm",
    "please confirm",
    "can you confirm",
    "could you confirm",
    "shall i proceed",
    "should i proceed",
    "would you like me to proceed",
    "do you want me to",
    "is this correct",
    "is that correct",
    "would you like to proceed",
];
/// Phrases with which an agent asks for something.
const REQUESTS: &[&str] = &["?", "please", "provide", "tell me", "i need", "share"];
/// Phrases with which an agent reports that something is settled, one way or the other.
const RESULTS: &[&str] = &[
    "anything else",
    "what else",
    "something else",
    "has been",
    "have been",
    "successfully",
    "done.",
    "is done",
    "all set",
    "completed",
    "transferred",
    "unable to",
    "not possible",
    "cannot",
    "can't",
];

fn has_any(heard: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| heard.contains(phrase))
}

/// True if a word or phrase occurs in a text as a whole.
fn has_word(heard: &str, word: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    heard
        .match_indices(word)
        .any(|(at, _)| edge(heard[..at].chars().next_back()) && edge(heard[at + word.len()..].chars().next()))
}
