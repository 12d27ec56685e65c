//! One session's environment: reset, step, state, and the reward at the end.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use hone_arena::rewards::{Case, Scorecard};
use hone_trace::{Action, Episode, Limit, Message, Outcome, ToolCall, ToolSpec, Turn, TurnRecord};
use serde_json::{Map, Value, json};

use super::check::Act;
use super::{Host, fresh_id};

/// The tool that gives a reply to the user, or the final answer: the protocol only has calls.
pub(super) const RESPOND: &str = "respond";

/// The environment of a session.
pub(super) struct Play {
    episode_id: String,
    steps: u64,
    played: Option<Played>,
}

struct Played {
    task: String,
    episode: Episode,
    messages: Vec<Message>,
    turns: Vec<TurnRecord>,
    end: Option<End>,
}

/// End of an episode.
struct End {
    truncated: bool,
    card: Option<Scorecard>,
}

/// Result of a step, before it is put into an envelope.
pub(super) struct Observed {
    pub(super) observation: Map<String, Value>,
    pub(super) metadata: Map<String, Value>,
    pub(super) reward: Option<f64>,
    pub(super) done: bool,
}

impl Observed {
    /// The envelope of a session. An agent sees neither the reward nor its components.
    pub(super) fn envelope(mut self, for_agent: bool) -> Map<String, Value> {
        if for_agent {
            self.reward = None;
            if let Some(Value::Object(own)) = self.metadata.get_mut("hone") {
                own.retain(|key, _| !matches!(key.as_str(), "components" | "task"));
            }
        }
        let metadata = Value::Object(self.metadata);
        let mut observation = Map::from_iter([("metadata".to_owned(), metadata.clone())]);
        observation.extend(self.observation);
        let mut envelope = Map::new();
        envelope.insert("observation".into(), observation.into());
        envelope.insert("reward".into(), self.reward.map_or(Value::Null, Value::from));
        envelope.insert("done".into(), self.done.into());
        if metadata.as_object().is_some_and(|metadata| !metadata.is_empty()) {
            envelope.insert("metadata".into(), metadata);
        }
        envelope
    }
}

/// The outcome of a tool call: its text, and whether it is an error.
pub(super) struct Called {
    pub(super) text: String,
    pub(super) failed: bool,
    /// Kind of error if no tool was run at all.
    pub(super) refused: Option<&'static str>,
}

impl Play {
    pub(super) fn new() -> Self {
        Self { episode_id: fresh_id(), steps: 0, played: None }
    }

    /// Starts an episode and ends the previous one.
    pub(super) async fn reset(&mut self, host: &Host, data: &Map<String, Value>) -> Result<Observed, String> {
        self.played = None;
        self.steps = 0;
        self.episode_id = data.get("episode_id").and_then(Value::as_str).map_or_else(fresh_id, str::to_owned);
        let task = host.task(data)?;
        let seed = data.get("seed").and_then(Value::as_u64).unwrap_or_default();
        let opened = guarded(host.environment.arena.open(task, seed)).await?;
        let episode = opened.map_err(|fault| fault.to_string())?;
        let mut messages = vec![Message::system(&episode.system)];
        messages.extend(episode.first.iter().cloned());
        let own = json!({
            "system": episode.system,
            "messages": episode.first,
            "task": task.key,
            "reply_tool": RESPOND,
        });
        let played = Played { task: task.key.clone(), episode, messages, turns: Vec::new(), end: None };
        self.played = Some(played);
        let metadata = Map::from_iter([("status".into(), "ready".into()), ("hone".into(), own)]);
        Ok(Observed { observation: Map::new(), metadata, reward: None, done: false })
    }

    /// The tools of the episode; those of the first task if none was started.
    pub(super) async fn tools(&mut self, host: &Host) -> Result<Vec<ToolSpec>, String> {
        let played = self.started(host).await?;
        let mut tools: Vec<ToolSpec> = played.episode.tools.to_vec();
        if tools.iter().all(|tool| tool.name != RESPOND) {
            tools.push(ToolSpec::new(
                RESPOND,
                "Say something to the user, or give the final answer",
                json!({
                    "type": "object",
                    "properties": {"content": {"type": "string", "description": "What is said"}},
                    "required": ["content"],
                    "additionalProperties": false,
                }),
            ));
        }
        Ok(tools)
    }

    async fn started(&mut self, host: &Host) -> Result<&mut Played, String> {
        if self.played.is_none() {
            let episode_id = self.episode_id.clone();
            self.reset(host, &Map::from_iter([("index".to_owned(), 0.into())])).await?;
            self.episode_id = episode_id;
        }
        self.played.as_mut().ok_or_else(|| "the episode did not start".into())
    }

    /// An action of the step loop.
    pub(super) async fn step(&mut self, host: &Host, act: Act) -> Result<Observed, String> {
        let Act::Call { name, arguments } = act else {
            let tools = self.tools(host).await?;
            self.steps += 1;
            let form = |tool: &ToolSpec| json!({"name": tool.name, "description": tool.description.clone().unwrap_or_default(), "input_schema": tool.parameters});
            let listed: Vec<Value> = tools.iter().map(form).collect();
            let observation = Map::from_iter([("tools".to_owned(), listed.into())]);
            return Ok(Observed { observation, metadata: Map::new(), reward: None, done: self.is_done() });
        };
        let (called, messages) = self.call(host, &name, arguments).await?;
        let mut observation = Map::from_iter([("tool_name".to_owned(), Value::from(name))]);
        if let Some(kind) = called.refused {
            observation.insert("result".into(), Value::Null);
            observation.insert("error".into(), json!({"error_type": kind, "message": called.text}));
        } else {
            observation.insert("result".into(), dumped(&called));
            observation.insert("error".into(), Value::Null);
        }
        let (own, reward) = self.judged(&messages);
        let metadata = Map::from_iter([("hone".to_owned(), own)]);
        Ok(Observed { observation, metadata, reward, done: self.is_done() })
    }

    fn is_done(&self) -> bool {
        self.played.as_ref().is_some_and(|played| played.end.is_some())
    }

    /// Contents of `metadata.hone`, and the reward if the episode is over.
    fn judged(&self, messages: &[Message]) -> (Value, Option<f64>) {
        let mut own = Map::from_iter([("messages".to_owned(), json!(messages))]);
        let Some(end) = self.played.as_ref().and_then(|played| played.end.as_ref()) else {
            return (own.into(), None);
        };
        own.insert("terminated".into(), (!end.truncated).into());
        own.insert("truncated".into(), end.truncated.into());
        let card = end.card.as_ref();
        own.insert("components".into(), json!(card.map(|card| &card.components)));
        (own.into(), card.and_then(|card| card.total.value()))
    }

    /// Runs a tool. An error describes a failure of the environment, not of the agent.
    pub(super) async fn call(
        &mut self,
        host: &Host,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<(Called, Vec<Message>), String> {
        let ended = self.is_done();
        if ended && host.options.strict_end {
            return Err("the episode is over; reset before the next step".into());
        }
        self.steps += 1;
        let steps = self.steps;
        let played = self.started(host).await?;
        if ended {
            let text = "The episode is over.".to_owned();
            return Ok((Called { text, failed: true, refused: None }, Vec::new()));
        }
        let tools = &played.episode.tools;
        let refused = match tools.get(name) {
            None if name != RESPOND => Some(("tool_not_found", format!("Unknown tool: '{name}'"))),
            None => match arguments.get("content") {
                Some(Value::String(_)) => None,
                _ => Some(("invalid_args", "respond takes \"content\", a string".to_owned())),
            },
            Some(_) => violation(host, played, name, &arguments).map(|why| ("invalid_args", why)),
        };
        let done = if let Some((kind, text)) = refused {
            played.turns.push(TurnRecord::default());
            if steps >= host.options.max_steps {
                played.close(host, true).await;
            }
            return Ok((Called { text, failed: true, refused: Some(kind) }, Vec::new()));
        } else {
            played.act(name, arguments).await?
        };
        let called = Called { text: texts(&done.messages), failed: done.failed > 0, refused: None };
        if done.done || steps >= host.options.max_steps {
            played.close(host, !done.done).await;
        }
        Ok((called, done.messages))
    }

    /// The agent's prompt before its first turn, as text.
    pub(super) fn instructions(&self) -> String {
        let told = self.played.as_ref().map(|played| texts(&played.messages)).unwrap_or_default();
        told.trim().to_owned()
    }

    pub(super) fn state(&self) -> Value {
        let mut state = json!({"episode_id": self.episode_id, "step_count": self.steps});
        if let Some(played) = &self.played {
            state["task"] = played.task.clone().into();
            state["done"] = played.end.is_some().into();
        }
        state
    }
}

impl Played {
    async fn act(&mut self, name: &str, arguments: Map<String, Value>) -> Result<Turn, String> {
        let spoken = self.episode.tools.get(name).is_none();
        let content = arguments.get("content").and_then(Value::as_str).unwrap_or_default().to_owned();
        let call = ToolCall::new(name, arguments);
        let (action, said, calls) = if spoken {
            (Action::Reply(content.clone()), Message::assistant(content), Vec::new())
        } else {
            let calls = vec![call];
            (Action::Calls(calls.clone()), Message::calls(calls.clone()), calls)
        };
        self.messages.push(said);
        let turn = guarded(self.episode.env.step(action)).await?.map_err(|fault| fault.to_string())?;
        self.messages.extend(turn.messages.iter().cloned());
        let executed = calls.len() as u32;
        self.turns.push(TurnRecord { executed, failed: turn.failed, calls, ..TurnRecord::default() });
        Ok(turn)
    }

    /// Ends the episode and scores it, once.
    async fn close(&mut self, host: &Host, truncated: bool) {
        // Without a verdict the component stays unscored.
        let _ = guarded(self.episode.env.finish()).await;
        let mut facts = self.episode.env.end().facts;
        facts.entry("messages").or_insert_with(|| json!(self.messages));
        let card = match Case::read(Value::Object(facts)) {
            Err(_) => None,
            Ok(mut case) => {
                case.turns = Some(std::mem::take(&mut self.turns));
                case.tools = Some(self.episode.tools.clone());
                let limit = Outcome::Truncated { limit: Limit::Turns };
                case.outcome = Some(if truncated { limit } else { Outcome::Finished });
                guarded(host.environment.rubric.score_case(&case)).await.ok()
            }
        };
        self.end = Some(End { truncated, card });
    }
}

/// A panic in an environment or a scorer costs its episode, not the server.
async fn guarded<T>(future: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|_| "the environment panicked".to_owned())
}

/// Violation of the tool's schema by the arguments of a call.
fn violation(host: &Host, played: &Played, name: &str, arguments: &Map<String, Value>) -> Option<String> {
    let validators = host.validators(&played.episode.tools);
    let arguments = Value::Object(arguments.clone());
    let error = validators.get(name)?.iter_errors(&arguments).next()?;
    Some(match error.instance_path().as_str() {
        "" => error.to_string(),
        path => format!("{path}: {error}"),
    })
}

fn texts(messages: &[Message]) -> String {
    let texts: Vec<String> = messages.iter().filter_map(|message| Some(message.content()?.text())).collect();
    texts.join("\n")
}

/// A result in the form of FastMCP's dumped client object.
pub(super) fn dumped(called: &Called) -> Value {
    json!({
        "content": [{"type": "text", "text": called.text, "annotations": null, "meta": null}],
        "structured_content": {"result": called.text},
        "meta": {"fastmcp": {"wrap_result": true}},
        "data": called.text,
        "is_error": called.failed,
    })
}
