//! Messages: the text view of a conversation, as environments and chat templates speak it.
//!
//! A message never reaches the loss. It is rendered to ids once, and the ids are the record.

use serde::{Deserialize, Serialize};

use crate::tool::ToolCall;

/// One turn of a conversation. The serde form is OpenAI's chat message with `reasoning_content`:
/// `{"role": "assistant", "content": …, "reasoning_content": …, "tool_calls": […]}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    System {
        content: Content,
    },
    User {
        content: Content,
    },
    Assistant {
        /// `None` is not the empty string: templates distinguish them.
        #[serde(default)]
        content: Option<Content>,
        #[serde(default, rename = "reasoning_content", skip_serializing_if = "Option::is_none")]
        reasoning: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    Tool {
        content: Content,
        /// The tool that answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<String>,
    },
}

impl Message {
    pub fn system(text: impl Into<String>) -> Self {
        Self::System { content: Content::Text(text.into()) }
    }

    pub fn user(text: impl Into<String>) -> Self {
        Self::User { content: Content::Text(text.into()) }
    }

    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant { content: Some(Content::Text(text.into())), reasoning: None, tool_calls: Vec::new() }
    }

    pub fn calls(tool_calls: Vec<ToolCall>) -> Self {
        Self::Assistant { content: None, reasoning: None, tool_calls }
    }

    pub fn tool(name: impl Into<String>, result: impl Into<String>) -> Self {
        Self::Tool { content: Content::Text(result.into()), name: Some(name.into()), tool_call_id: None }
    }

    pub fn role(&self) -> &'static str {
        match self {
            Self::System { .. } => "system",
            Self::User { .. } => "user",
            Self::Assistant { .. } => "assistant",
            Self::Tool { .. } => "tool",
        }
    }

    pub fn content(&self) -> Option<&Content> {
        match self {
            Self::System { content } | Self::User { content } | Self::Tool { content, .. } => Some(content),
            Self::Assistant { content, .. } => content.as_ref(),
        }
    }
}

/// Content of a message: plain text, or parts when images are among them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    Text(String),
    Parts(Vec<Part>),
}

impl Content {
    /// The text only; image parts are skipped.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => parts
                .iter()
                .filter_map(|part| match part {
                    Part::Text { text } => Some(text.as_str()),
                    Part::ImageUrl { .. } => None,
                })
                .collect(),
        }
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A part of a message. Images are references (a URL, a `data:` URL or a path); their bytes live with the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    Text { text: String },
    ImageUrl { image_url: ImageUrl },
}

/// A reference to an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageUrl {
    pub url: String,
}
