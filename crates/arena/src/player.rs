//! Players: policies that act on text. A known solution, a scripted policy, a model behind an API, each played and scored as
//! any policy is, into a trace without tokens.

use std::sync::Arc;

use async_trait::async_trait;
use hone_trace::{
    Action, Arena, Boundary, Digest, EndState, Fault, Limit, Message, Node, Outcome, PolicyVersion, Sampled,
    SamplingParams, Seed, Task, ToolCall, ToolSet, Trace, TraceBuilder, TraceHead, TurnRecord,
};
use serde_json::{Map, Value, json};

use crate::baseline::Baseline;
use crate::chat_client::ChatClient;
use crate::rewards::Rubric;
use crate::solution::{DONE, Move};

/// A policy that acts on text.
#[async_trait]
pub trait Player: Send + Sync {
    /// The next action, from the tools on offer and everything said so far (system, first messages, its own turns, answers).
    async fn act(&self, tools: &ToolSet, said: &[Message], seed: Seed) -> Result<Action, Fault>;

    /// Name used in traces.
    fn name(&self) -> String;
}

/// A baseline as a player.
#[derive(Debug, Clone)]
pub struct Scripted(pub Arc<dyn Baseline>);

#[async_trait]
impl Player for Scripted {
    async fn act(&self, tools: &ToolSet, said: &[Message], seed: Seed) -> Result<Action, Fault> {
        Ok(self.0.act(tools, said, seed))
    }

    fn name(&self) -> String {
        self.0.name().to_owned()
    }
}

/// Player that knows the solution; says "Done." when its moves are over.
#[derive(Debug, Clone)]
pub struct Moves(pub Vec<Move>);

#[async_trait]
impl Player for Moves {
    async fn act(&self, _tools: &ToolSet, said: &[Message], _seed: Seed) -> Result<Action, Fault> {
        let acted = said.iter().filter(|message| matches!(message, Message::Assistant { .. })).count();
        Ok(match self.0.get(acted) {
            Some(Move::Call(call)) => Action::Calls(vec![call.clone()]),
            Some(Move::Say(text)) => Action::Reply(text.clone()),
            None => Action::Reply(DONE.into()),
        })
    }

    fn name(&self) -> String {
        "oracle".into()
    }
}

/// A model behind an OpenAI-compatible API, with its own tool calling.
#[derive(Debug, Clone)]
pub struct Remote(pub ChatClient);

#[async_trait]
impl Player for Remote {
    async fn act(&self, tools: &ToolSet, said: &[Message], seed: Seed) -> Result<Action, Fault> {
        let mut extra = Map::new();
        // 31 bits: some servers read the seed into a signed integer.
        extra.insert("seed".into(), (seed.value() >> 33).into());
        if !tools.is_empty() {
            extra.insert("tools".into(), tools.iter().map(hone_trace::ToolSpec::to_openai).collect());
        }
        let message = self.0.message(&wire(said), extra).await.map_err(|fault| Fault {
            boundary: Boundary::Sampler,
            what: fault.what,
            transient: fault.transient,
        })?;
        Ok(action(&message))
    }

    fn name(&self) -> String {
        self.0.model().to_owned()
    }
}

/// Messages as the API wants them: every call with an id, every answer with its call's.
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
            // A message that answers no call, such as a parse error: the API accepts it only from the user.
            None => json!({"role": "user", "content": content.text()}),
        },
        other => serde_json::to_value(other).unwrap_or_default(),
    };
    said.iter().map(&mut one).collect()
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

/// Identity of an episode, and its limits.
#[derive(Debug, Clone, Copy)]
pub struct Sitting {
    pub replica: u32,
    pub seed: Seed,
    pub max_turns: u32,
}

/// Plays one episode and scores it: every component of the rubric, the total last, and the facts the environment left.
/// Always returns a trace: a failure is its outcome.
pub async fn play(arena: &dyn Arena, rubric: &Rubric, task: &Task, player: &dyn Player, sitting: Sitting) -> Trace {
    let mut tools = ToolSet::none();
    let (record, end) = match arena.open(task, sitting.seed.with("env").value()).await {
        Err(fault) => (Record::new(task, tools, player, sitting).finish(Outcome::Fault { fault }), EndState::default()),
        Ok(episode) => {
            tools = episode.tools.clone();
            let mut record = Record::new(task, tools, player, sitting);
            let (outcome, end) = turns(episode, &mut record, player, sitting).await;
            (record.finish(outcome), end)
        }
    };
    let mut trace = record;
    let card = rubric.score(&trace, &end).await;
    trace.rewards = card.components.into_iter().chain([card.total]).collect();
    trace.facts = end.facts;
    trace
}

async fn turns(
    episode: hone_trace::Episode,
    record: &mut Record,
    player: &dyn Player,
    sitting: Sitting,
) -> (Outcome, EndState) {
    let hone_trace::Episode { tools, system, first, mut env } = episode;
    let mut said = vec![Message::system(system)];
    said.extend(first);
    let mut outcome = Outcome::Truncated { limit: Limit::Turns };
    for turn in 0..sitting.max_turns {
        let seed = sitting.seed.with("act").at(u64::from(turn));
        let step = async {
            let action = player.act(&tools, &said, seed).await?;
            let answer = env.step(action.clone()).await?;
            record.turn(action.clone(), answer.failed)?;
            Ok::<_, Fault>((action, answer))
        };
        match step.await {
            Err(fault) => {
                outcome = Outcome::Fault { fault };
                break;
            }
            Ok((action, answer)) => {
                said.push(spoken(action));
                said.extend(answer.messages);
                if answer.done {
                    outcome = Outcome::Finished;
                    break;
                }
            }
        }
    }
    let mut end = env.end();
    if let Ok(messages) = serde_json::to_value(&said) {
        end.facts.entry("messages").or_insert(messages);
    }
    (outcome, end)
}

fn spoken(action: Action) -> Message {
    match action {
        Action::Calls(calls) => Message::calls(calls),
        Action::Reply(text) => Message::assistant(text),
        Action::Malformed(failure) => Message::assistant(failure.message),
    }
}

/// Trace of an episode that no model sampled: turns without tokens, so that every component sees what it would see of a
/// policy.
struct Record {
    trace: TraceBuilder,
    version: PolicyVersion,
}

impl Record {
    fn new(task: &Task, tools: ToolSet, player: &dyn Player, sitting: Sitting) -> Self {
        let head = TraceHead {
            task: task.key.clone(),
            env: task.env.clone(),
            replica: sitting.replica,
            seed: sitting.seed.value(),
            tools: Arc::new(tools),
            sampling: SamplingParams::default(),
        };
        let name = player.name();
        let version = PolicyVersion { weights: Digest::of(name.as_bytes()), run: name.into(), step: 0 };
        Self { trace: TraceBuilder::new(head, Vec::new()), version }
    }

    fn turn(&mut self, action: Action, failed: u32) -> Result<(), Fault> {
        let node = Node::sampled(Vec::new(), Sampled::by(self.version.clone(), Vec::new()))
            .map_err(|error| Fault::new(Boundary::Hone, error.to_string()))?;
        self.trace.push(node);
        let (calls, failure) = match action {
            Action::Calls(calls) => (calls, None),
            Action::Reply(_) => (Vec::new(), None),
            Action::Malformed(failure) => (Vec::new(), Some(failure)),
        };
        let executed = calls.len() as u32;
        self.trace.record(TurnRecord { calls, executed, failed, failure, ..TurnRecord::default() });
        Ok(())
    }

    fn finish(self, outcome: Outcome) -> Trace {
        self.trace.finish(outcome)
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
}
