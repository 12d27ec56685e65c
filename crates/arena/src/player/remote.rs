//! A model behind an API, as a player.

use async_trait::async_trait;
use hone_trace::{Action, Boundary, Content, Fault, Message, Seed, ToolCall, ToolSet};
use serde_json::{Map, Value, json};

use super::{Acted, Player};
use crate::chat_client::ChatClient;

/// A model behind an OpenAI-compatible API, with its own tool calling.
#[derive(Debug, Clone)]
pub struct Remote(pub ChatClient);

#[async_trait]
impl Player for Remote {
    async fn act(&self, tools: &ToolSet, said: &[Message], seed: Seed) -> Result<Acted, Fault> {
        let mut extra = Map::new();
        // 31 bits: some servers read the seed into a signed integer.
        extra.insert("seed".into(), (seed.value() >> 33).into());
        if !tools.is_empty() {
            extra.insert("tools".into(), tools.iter().map(hone_trace::ToolSpec::to_openai).collect());
        }
        let reply = self
            .0
            .completion(&wire(said), extra)
            .await
            .map_err(|fault| Fault { transient: fault.transient, ..Fault::new(Boundary::Sampler, fault.what) })?;
        let action = action(&reply.message);
        let message = Some(written(&reply.message, &action));
        Ok(Acted { action, message, usage: reply.usage, cut: reply.cut })
    }

    fn name(&self) -> String {
        self.0.model().to_owned()
    }
}

/// Messages in the API's form: every call with an id, every answer with its call's id.
fn wire(said: &[Message]) -> Vec<Value> {
    let (mut calls, mut waiting) = (0usize, std::collections::VecDeque::new());
    let mut one = |message: &Message| match message {
        Message::Assistant { content, tool_calls, .. } => {
            let mut wired = json!({"role": "assistant", "content": content.as_ref().map(hone_trace::Content::text)});
            if !tool_calls.is_empty() {
                waiting.clear();
                let call = |call: &ToolCall| {
                    let id = format!("call_{calls}");
                    calls += 1;
                    waiting.push_back(id.clone());
                    let arguments = Value::Object(call.arguments.clone()).to_string();
                    json!({"id": id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
                };
                wired["tool_calls"] = tool_calls.iter().map(call).collect();
            }
            wired
        }
        Message::Tool { content, .. } => match waiting.pop_front() {
            Some(id) => json!({"role": "tool", "tool_call_id": id, "content": content.text()}),
            // An answer without a call, such as the fault of a reply: the API accepts it only from the user.
            None => json!({"role": "user", "content": content.text()}),
        },
        other => serde_json::to_value(other).unwrap_or_default(),
    };
    said.iter().map(&mut one).collect()
}

/// The turn as the model wrote it: its text beside the calls, and its reasoning if the server returns it.
fn written(message: &Value, action: &Action) -> Message {
    let text = |names: &[&str]| {
        let found = names.iter().find_map(|name| message.get(*name)?.as_str());
        found.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let (said, tool_calls) = match action {
        Action::Calls(calls) => (text(&["content"]), calls.clone()),
        Action::Reply(said) => (Some(said.clone()), Vec::new()),
        Action::Malformed(failure) => (Some(failure.message.clone()), Vec::new()),
    };
    let reasoning = text(&["reasoning_content", "reasoning"]);
    Message::Assistant { content: said.map(Content::Text), reasoning, tool_calls }
}

fn action(message: &Value) -> Action {
    let calls = message.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if calls.is_empty() {
        return Action::Reply(message.get("content").and_then(Value::as_str).unwrap_or_default().to_owned());
    }
    let read: Result<Vec<ToolCall>, _> = calls.iter().map(|call| serde_json::from_value(call.clone())).collect();
    match read {
        Ok(calls) => Action::Calls(calls),
        Err(error) => Action::Malformed(hone_trace::ParseFailure {
            kind: hone_trace::ParseFailureKind::MalformedJson,
            message: error.to_string(),
            at: 0,
            hint: "write the arguments as one JSON object".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_answers_carry_ids_on_the_wire() {
        let call = ToolCall::new("find", Map::from_iter([("id".to_owned(), 7.into())]));
        let said = [
            Message::system("s"),
            Message::user("u"),
            Message::calls(vec![call.clone(), call]),
            Message::tool("find", "one"),
            Message::tool("find", "two"),
            Message::tool("parser", "Error: …"),
        ];
        let wired = wire(&said);
        assert_eq!(wired[2]["tool_calls"][1]["id"], "call_1");
        assert_eq!(wired[2]["tool_calls"][0]["function"]["arguments"], "{\"id\":7}");
        assert_eq!((&wired[3]["tool_call_id"], &wired[4]["tool_call_id"]), (&json!("call_0"), &json!("call_1")));
        assert_eq!(wired[5]["role"], "user");
    }

    #[test]
    fn a_reply_is_read_as_calls_text_or_what_is_wrong_with_it() {
        let call = |arguments: &str| json!({"content": null, "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f", "arguments": arguments}}]});
        assert!(matches!(action(&call("{\"a\": 1}")), Action::Calls(calls) if calls[0].arguments["a"] == 1));
        assert!(matches!(action(&call("{")), Action::Malformed(_)));
        assert_eq!(action(&json!({"content": "hi"})), Action::Reply("hi".into()));
    }

    #[test]
    fn reasoning_and_what_is_said_beside_a_call_are_kept() {
        let call = json!({"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        for name in ["reasoning_content", "reasoning"] {
            let message = json!({"content": "Let me look.", name: "It may have moved.", "tool_calls": [call]});
            let Message::Assistant { content, reasoning, tool_calls } = written(&message, &action(&message)) else {
                panic!("no turn of the assistant")
            };
            assert_eq!(content.unwrap().text(), "Let me look.");
            assert_eq!((reasoning.as_deref(), tool_calls.len()), (Some("It may have moved."), 1));
        }
    }
}
