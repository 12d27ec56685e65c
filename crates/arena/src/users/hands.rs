//! Tools of a user: a phone in the hand while the agent explains.

use hone_trace::{ToolCall, ToolSet};
use serde_json::{Map, Value};

/// A user's tools, over a state that the agent does not see.
pub trait Hands: Send {
    fn tools(&self) -> &ToolSet;

    /// Runs a call; the answer, errors included, goes to the user.
    fn run(&mut self, call: &ToolCall) -> String;
}

/// The calls that a text asks for: names of tools, each with its arguments as a JSON object in parentheses, or without.
pub(super) fn calls_in(text: &str, tools: &ToolSet) -> Vec<ToolCall> {
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        rest = &rest[start..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        if !tools.iter().any(|tool| tool.name == word) {
            continue;
        }
        let (arguments, after) = arguments(after);
        rest = after;
        calls.push(ToolCall::new(word, arguments));
    }
    calls
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The JSON object in parentheses at the start of a text, and the text after it.
fn arguments(text: &str) -> (Map<String, Value>, &str) {
    let Some(inside) = text.strip_prefix('(') else { return (Map::new(), text) };
    let mut read = serde_json::Deserializer::from_str(inside).into_iter::<Map<String, Value>>();
    match read.next() {
        Some(Ok(object)) => {
            let after = inside.get(read.byte_offset()..).unwrap_or_default();
            (object, after)
        }
        _ => (Map::new(), text),
    }
}

#[cfg(test)]
mod tests {
    use hone_trace::ToolSpec;
    use serde_json::json;

    use super::*;

    #[test]
    fn instructions_are_found_in_words() {
        let tools = ["toggle_data", "grant"].map(|name| ToolSpec::new(name, "", json!({"type": "object"})));
        let tools = ToolSet::new(tools.into()).unwrap();
        let text =
            "Please run toggle_data(), then grant({\"app\": \"messaging (1)\"}). Not toggle_data_saver; toggle_data.";
        let calls = calls_in(text, &tools);
        let shown: Vec<_> = calls.iter().map(|call| (call.name.as_str(), json!(call.arguments))).collect();
        assert_eq!(
            shown,
            [("toggle_data", json!({})), ("grant", json!({"app": "messaging (1)"})), ("toggle_data", json!({}))]
        );
        assert!(calls_in("grant(\"x\" and nothing (", &tools)[0].arguments.is_empty());
    }
}
