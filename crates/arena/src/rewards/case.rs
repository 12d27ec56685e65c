//! The case: one answer and everything it can be compared with, as components see it.
//!
//! A case is read from a line of recorded completions, or built from a trace and the facts its environment left. The
//! keys are the same in both, so a component scores a recording exactly as it scored the rollout.

use hone_trace::{EndState, Message, Outcome, ToolCall, ToolSet, Trace, TurnRecord};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::env_reward::Given;
use super::state_diff::Change;

/// Input of a component. Everything is optional: a component that lacks something says so and stays unscored.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Case {
    pub id: Value,
    /// The policy's text: the whole reply, or the last one of an episode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion: Option<String>,
    /// Ids the policy sampled, all turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Vec<u32>>,
    /// The conversation, system prompt first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<Message>>,
    /// Reading of each reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<Vec<TurnRecord>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolSet>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,

    /// Texts a perfect answer would give. Several: the best match counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<Texts>,
    /// The question (for triage: the ticket).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Gold ids: those a perfect answer cites. Empty: there is nothing to cite, and escalating is right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gold_ids: Option<Vec<String>>,
    /// Articles the agent was shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// True when the answer is right, by a test that does not look at the stated confidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correct: Option<bool>,
    /// The reward that the environment gave itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env_reward: Option<Given>,

    /// True when the final state is the reference's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub db_match: Option<bool>,
    /// Outputs the task asks for, each with whether the agent said it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs_said: Option<IndexMap<String, bool>>,
    /// Further conditions of the task's reward, by name, and whether they hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<IndexMap<String, bool>>,
    /// Outputs the task asks for; used with `messages` if `outputs_said` is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Vec<String>>,
    /// Statements that must be true of the conversation, in words for a judge. Empty: the task states nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assertions: Option<Vec<String>>,
    /// Changes made and changes wanted, if the environment tracks them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// Whole states, for an environment that does not track changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub states: Option<States>,
    /// The calls of a perfect episode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_calls: Option<Vec<ToolCall>>,
    /// Names of the tools that change state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<Vec<String>>,

    /// Names of all facts, those that no component reads included.
    #[serde(skip)]
    pub names: Vec<String>,
}

/// One text or several.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "TextsForm", into = "Vec<String>")]
pub struct Texts(pub Vec<String>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
enum TextsForm {
    One(String),
    Many(Vec<String>),
}

impl From<TextsForm> for Texts {
    fn from(form: TextsForm) -> Self {
        match form {
            TextsForm::One(text) => Self(vec![text]),
            TextsForm::Many(texts) => Self(texts),
        }
    }
}

impl From<Texts> for Vec<String> {
    fn from(Texts(texts): Texts) -> Self {
        texts
    }
}

/// Documents shown to the agent: ids with their texts (`{"KB-1": "…"}`), or just ids (`["KB-1"]`).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected ids with their texts, or a list of ids")]
pub enum Context {
    Texts(IndexMap<String, String>),
    Ids(Vec<String>),
}

impl Context {
    pub fn contains(&self, id: &str) -> bool {
        match self {
            Self::Texts(texts) => texts.contains_key(id),
            Self::Ids(ids) => ids.iter().any(|known| known == id),
        }
    }
}

/// Changes of state against the episode's start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Changes {
    pub made: Vec<Change>,
    pub wanted: Vec<Change>,
}

/// Three whole states.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct States {
    pub initial: Value,
    pub r#final: Value,
    pub reference: Value,
}

impl Case {
    /// Case of an episode: the environment's facts, overridden by the trace's own (ids, turns, tools, outcome).
    ///
    /// The text view comes from the facts (`messages`, `completion`): a trace holds ids, and nothing here decodes.
    pub fn of(trace: &Trace, end: &EndState) -> Result<Self, String> {
        if let Outcome::Fault { fault } = &trace.outcome {
            return Err(format!("fault: {fault}"));
        }
        let mut case = Self::read(Value::Object(end.facts.clone()))?;
        case.id = format!("{}/{}", trace.task, trace.replica).into();
        case.tokens = Some(trace.sampled().flat_map(|(_, node)| node.tokens().iter().copied()).collect());
        case.turns = Some(trace.turns.clone());
        case.tools = Some(ToolSet::clone(trace.tools()));
        case.outcome = Some(trace.outcome.clone());
        Ok(case)
    }

    /// A case from its JSON form.
    pub fn read(form: Value) -> Result<Self, String> {
        let names = form.as_object().into_iter().flat_map(Map::keys).cloned().collect();
        let mut case: Self = Self::deserialize(&form)
            .map_err(|error| format!("bad_case: {}; `hone score --help` has the keys", misfit(form, &error)))?;
        case.names = names;
        if case.completion.is_none() {
            case.completion = case.messages.as_deref().and_then(last_reply);
        }
        Ok(case)
    }

    /// The number of ids the policy sampled.
    pub fn length(&self) -> Option<usize> {
        self.tokens.as_ref().map(Vec::len)
    }
}

/// serde's error, with the key whose value does not fit.
fn misfit(form: Value, error: &serde_json::Error) -> String {
    let Value::Object(form) = form else { return error.to_string() };
    let alone = |(name, value): (String, Value)| {
        let error = serde_json::from_value::<Case>(Map::from_iter([(name.clone(), value)]).into()).err()?;
        let error = error.to_string();
        let advice = if error.ends_with("expected a boolean") { ", so send true or false" } else { "" };
        Some(format!("`{name}`: {error}{advice}"))
    };
    form.into_iter().find_map(alone).unwrap_or_else(|| error.to_string())
}

/// The text of the last assistant message that has any.
fn last_reply(messages: &[Message]) -> Option<String> {
    messages.iter().rev().find_map(|message| match message {
        Message::Assistant { content: Some(content), .. } => Some(content.text()),
        _ => None,
    })
}
