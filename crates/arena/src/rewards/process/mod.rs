//! Process rewards: quality of an episode's steps, read from its messages.
//!
//! One pays, for finding the right records before writing to them. Three are penalties, from 0 down to -1: writes
//! without the user's consent, ids that were never mentioned, calls repeated needlessly. They are penalties rather than
//! rewards because an episode that does nothing breaks no rule and must not earn anything for it.

mod confirmed;
mod found;
mod invented;
mod repeated;

pub use confirmed::Confirmed;
pub use found::FoundFirst;
use hone_trace::{Message, ToolCall, Verdict};
pub use invented::InventedIds;
pub use repeated::RepeatedCalls;
use serde_json::Value;

pub(super) use self::confirmed::ENTRY as CONFIRMED;
pub(super) use self::found::ENTRY as FOUND;
pub(super) use self::invented::ENTRY as INVENTED;
pub(super) use self::repeated::ENTRY as REPEATED;
use super::{Case, not_applicable};

/// One event of an episode, in order.
enum Step<'a> {
    /// The agent spoke to the user.
    Said,
    Called(&'a ToolCall),
    /// The user, a tool or the system prompt said something.
    Heard {
        text: String,
        by_user: bool,
    },
}

fn steps(messages: &[Message]) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for message in messages {
        match message {
            Message::Assistant { content, tool_calls, .. } => {
                if content.as_ref().is_some_and(|content| !content.text().trim().is_empty()) {
                    steps.push(Step::Said);
                }
                steps.extend(tool_calls.iter().map(Step::Called));
            }
            Message::System { content } | Message::Tool { content, .. } => {
                steps.push(Step::Heard { text: content.text(), by_user: false });
            }
            Message::User { content } => steps.push(Step::Heard { text: content.text(), by_user: true }),
        }
    }
    steps
}

fn messages(case: &Case) -> Result<&[Message], Verdict> {
    case.messages.as_deref().ok_or_else(|| not_applicable("the case has no `messages`"))
}

fn writes(case: &Case) -> Result<&[String], Verdict> {
    case.writes.as_deref().ok_or_else(|| not_applicable("the case does not say which tools are `writes`"))
}

/// The ids a call names: texts under keys that end in `id` or `ids`, at any depth.
fn ids(call: &ToolCall) -> Vec<&str> {
    let mut found = Vec::new();
    let mut open: Vec<(&str, &Value)> = call.arguments.iter().map(|(key, value)| (key.as_str(), value)).collect();
    while let Some((key, value)) = open.pop() {
        match value {
            Value::String(id) if is_id_key(key) && !id.is_empty() => found.push(id.as_str()),
            Value::Array(items) => open.extend(items.iter().map(|item| (key, item))),
            Value::Object(map) => open.extend(map.iter().map(|(key, value)| (key.as_str(), value))),
            _ => {}
        }
    }
    found
}

fn is_id_key(key: &str) -> bool {
    ["id", "ids"].iter().any(|end| key.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('_')))
}

/// True when `text` mentions `id` as a whole word: `W12` is not in `W123`.
fn mentions(text: &str, id: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(id).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(word) && id.starts_with(word);
        let after = text[at + id.len()..].chars().next().is_some_and(word) && id.ends_with(word);
        !before && !after
    })
}

/// Minus the share of `all` that is `bad`.
fn share(bad: usize, all: usize) -> f64 {
    if bad == 0 { 0.0 } else { -(bad as f64 / all as f64) }
}
