//! Typed messages in the form chat templates read: OpenAI's, with calls wrapped and arguments as an object.

use hone_trace::{Message, ToolCall, ToolSet, ToolSpec};
use serde_json::{Map, Value as Json, json};

use crate::template::{ChatTemplate, Clock, TemplateError, TemplateInput};

/// Form in which a template takes the arguments of earlier calls. Most take an object and serialise it themselves; some
/// concatenate a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arguments {
    Object,
    Text,
}

/// A message as a template sees it.
pub fn to_template(message: &Message) -> Json {
    with_arguments(message, Arguments::Object)
}

impl ChatTemplate {
    /// Transcript of a finished conversation with its tools, without a generation prompt: text to train a tokenizer on. A
    /// template that writes the date takes it from the host.
    pub fn transcript(&self, messages: &[Message], tools: &ToolSet) -> Result<String, TemplateError> {
        let messages: Vec<Json> = messages.iter().map(to_template).collect();
        let tools: Vec<Json> = tools.iter().map(ToolSpec::to_openai).collect();
        self.render(&TemplateInput {
            messages: &messages,
            tools: Some(&tools),
            documents: None,
            add_generation_prompt: false,
            variables: &Map::new(),
            clock: Clock::host(),
        })
    }
}

pub(crate) fn with_arguments(message: &Message, arguments: Arguments) -> Json {
    let mut fields = Map::new();
    fields.insert("role".into(), message.role().into());
    let content = message.content().map_or(Json::Null, |content| json!(content));
    fields.insert("content".into(), content);
    match message {
        Message::Assistant { reasoning, tool_calls, .. } => {
            if let Some(reasoning) = reasoning {
                fields.insert("reasoning_content".into(), reasoning.as_str().into());
            }
            if !tool_calls.is_empty() {
                let calls = tool_calls.iter().map(|call| wrap(call, arguments)).collect();
                fields.insert("tool_calls".into(), Json::Array(calls));
            }
        }
        Message::Tool { name, tool_call_id, .. } => {
            for (key, value) in [("name", name), ("tool_call_id", tool_call_id)] {
                if let Some(value) = value {
                    fields.insert(key.into(), value.as_str().into());
                }
            }
        }
        Message::System { .. } | Message::User { .. } => {}
    }
    Json::Object(fields)
}

fn wrap(call: &ToolCall, arguments: Arguments) -> Json {
    let arguments = match arguments {
        Arguments::Object => Json::Object(call.arguments.clone()),
        Arguments::Text => Json::Object(call.arguments.clone()).to_string().into(),
    };
    let mut wrapped = Map::new();
    wrapped.insert("type".into(), "function".into());
    if let Some(id) = &call.id {
        wrapped.insert("id".into(), id.as_str().into());
    }
    wrapped.insert("function".into(), json!({ "name": call.name, "arguments": arguments }));
    Json::Object(wrapped)
}
