//! Test doubles that let the whole data path run without an engine or a world: a sampler that replays given replies, an
//! environment that echoes, an engine made of one table.

mod bigrams;
mod engine;
mod learner;

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;

use crate::message::Message;
use crate::node::{PolicyVersion, Sampled};
use crate::outcome::{Boundary, Fault};
use crate::policy::{Flow, Sample, SampleFault, SampleRequest, Sampler, StopReason};
use crate::task::Task;
use crate::tool::{ToolSet, ToolSpec};
use crate::world::{Action, Arena, Env, Episode, Turn};

pub use engine::Bigrams;

/// Samples the replies it was given, in order, whatever the prompt. Honours stop ids, gates and the token limit.
#[derive(Debug)]
pub struct ScriptedSampler {
    version: PolicyVersion,
    replies: Mutex<VecDeque<Vec<u32>>>,
}

impl ScriptedSampler {
    pub fn new(version: PolicyVersion, replies: impl IntoIterator<Item = Vec<u32>>) -> Self {
        Self { version, replies: Mutex::new(replies.into_iter().collect()) }
    }
}

#[async_trait]
impl Sampler for ScriptedSampler {
    async fn sample(&self, mut request: SampleRequest) -> Result<Sample, SampleFault> {
        request.params.check().map_err(SampleFault::BadParams)?;
        let next = self.replies.lock().map_or(None, |mut replies| replies.pop_front());
        let Some(script) = next else {
            return Err(SampleFault::Failed { what: "the script has no reply left".into(), transient: false });
        };
        let mut tokens = Vec::new();
        let mut stop = StopReason::Length;
        for token in script.into_iter().take(request.params.max_new_tokens as usize) {
            tokens.push(token);
            if request.params.stop_ids.contains(&token) {
                stop = StopReason::StopId;
                break;
            }
            if request.gate.as_mut().is_some_and(|gate| gate.push(token) == Flow::Stop) {
                stop = StopReason::Gate;
                break;
            }
        }
        // A script is certain of its tokens.
        let logprobs = vec![0.0; tokens.len()];
        Ok(Sample { sampled: Sampled::by(self.version.clone(), logprobs), tokens, stop })
    }
}

/// Opens episodes with one tool, `echo(text)`, which answers its argument. A reply to the user ends the episode.
#[derive(Debug, Default)]
pub struct EchoArena;

#[async_trait]
impl Arena for EchoArena {
    async fn open(&self, task: &Task, _seed: u64) -> Result<Episode, Fault> {
        let echo = ToolSpec::new(
            "echo",
            "Answers its argument",
            serde_json::json!({
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
                "additionalProperties": false,
            }),
        );
        let tools =
            ToolSet::new(vec![echo]).map_err(|duplicate| Fault::new(Boundary::Environment, duplicate.to_string()))?;
        Ok(Episode {
            tools,
            system: "You are a helpful echo.".into(),
            first: vec![Message::user(&task.prompt)],
            env: Box::new(EchoEnv),
        })
    }
}

#[derive(Debug)]
struct EchoEnv;

#[async_trait]
impl Env for EchoEnv {
    async fn step(&mut self, action: Action) -> Result<Turn, Fault> {
        Ok(match action {
            Action::Calls(calls) => {
                let results = calls.iter().map(|call| {
                    let text = call.arguments.get("text").and_then(|text| text.as_str()).unwrap_or("nothing to echo");
                    Message::tool(&call.name, text)
                });
                Turn { messages: results.collect(), ..Turn::default() }
            }
            Action::Reply(_) => Turn { done: true, ..Turn::default() },
            Action::Malformed(failure) => Turn { messages: vec![Message::user(failure.hint)], ..Turn::default() },
        })
    }
}
