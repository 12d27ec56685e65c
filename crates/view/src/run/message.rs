//! Messages of a trace, as its environment recorded them.

use serde::Serialize;
use serde_json::Value;

use super::full::{list, text};
use super::words::{Lenient, Origin, Role};
use super::{Node, Run};

/// A message of the conversation.
#[derive(Debug, Clone, Serialize)]
pub struct Message {
    pub role: Lenient<Role>,
    pub content: String,
    pub reasoning: Option<String>,
    pub calls: Vec<Call>,
    /// The tool that answered.
    pub name: Option<String>,
    /// The turn of an assistant's message.
    pub turn: Option<usize>,
}

/// A tool call.
#[derive(Debug, Clone, Serialize)]
pub struct Call {
    pub name: String,
    pub arguments: Value,
}

impl Call {
    pub(super) fn read(value: &Value) -> Self {
        let function = value.get("function").unwrap_or(value);
        let arguments = function.get("arguments").cloned().unwrap_or_default();
        Self { name: text(function, "name").unwrap_or_default(), arguments }
    }
}

impl Message {
    /// True if its text, reasoning or calls contain these words, in any case. A system prompt is not searched.
    pub fn has(&self, words: &str) -> bool {
        if self.role.is(Role::System) {
            return false;
        }
        let words = words.to_lowercase();
        let calls = self.calls.iter().map(|call| format!("{} {}", call.name, call.arguments));
        let texts = [Some(self.content.clone()), self.reasoning.clone(), self.name.clone()];
        texts.into_iter().flatten().chain(calls).any(|text| text.to_lowercase().contains(&words))
    }

    /// True if the agent wrote it.
    pub fn is_agent(&self) -> bool {
        self.role.is(Role::Assistant)
    }

    pub(super) fn read(value: &Value) -> Self {
        let content = match value.get("content") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => {
                let said = parts.iter().map(|part| text(part, "text").unwrap_or_else(|| "[image]".to_owned()));
                said.collect()
            }
            Some(other) => other.to_string(),
        };
        Self {
            role: Lenient::read(value.get("role")).unwrap_or_else(Lenient::missing),
            content,
            reasoning: text(value, "reasoning_content"),
            calls: list(value, "tool_calls").map(Call::read).collect(),
            name: text(value, "name"),
            turn: None,
        }
    }
}

impl Run {
    /// A node as a message, if the environment recorded no conversation.
    pub(super) fn as_message(&self, node: &Node) -> Message {
        let role = match &node.origin {
            Lenient::Known(Origin::Sampled) => Lenient::Known(Role::Assistant),
            Lenient::Known(Origin::Prompt) => Lenient::Known(Role::System),
            Lenient::Known(Origin::Observation) => Lenient::Known(Role::Tool),
            other @ (Lenient::Known(Origin::Forced) | Lenient::Unknown(_)) => Lenient::Unknown(other.to_string()),
        };
        let content = self.tokenizer().and_then(|tokenizer| tokenizer.decode(&node.tokens).ok());
        let content = content
            .unwrap_or_else(|| format!("{} tokens; the run has no tokenizer to read them with", node.tokens.len()));
        Message { role, content, reasoning: None, calls: Vec::new(), name: None, turn: None }
    }
}
