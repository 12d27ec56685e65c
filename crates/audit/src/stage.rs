//! The stage: a recipe's arena, parser and rubric, with scripted replies where a policy would sample.
//!
//! A probe's text is encoded, sampled, parsed, played and scored by the driver that training uses; no shortcut bypasses
//! it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use hone_arena::rewards::Rubric;
use hone_arena::rollout::{Rollouts, Slot};
use hone_arena::solution::{DONE, Move, solution};
use hone_chat::parse::Format;
use hone_chat::{ModelDir, RenderSettings, Renderer, call_format};
use hone_trace::{
    Arena, Content, Digest, Flow, Limit, Message, Outcome, PolicyVersion, Sample, SampleFault, SampleRequest, Sampled,
    Sampler, Seed, StopReason, Task, Trace,
};
use hone_train::recipe::Recipe;
use serde_json::Value;

use crate::AuditError;
use crate::scene::{Answer, Scene};

/// Retries of an episode that broke outside the policy.
const TRIES: usize = 3;

/// Everything it takes to play text.
#[derive(Debug)]
pub struct Stage {
    /// With a sampler that is replaced for every episode.
    pub rollouts: Rollouts,
    format: Format,
    end_of_turn: u32,
    seed: Seed,
}

impl Stage {
    /// `texts` is a model directory: its tokenizer and template write and read the replies.
    pub fn new(
        recipe: &Recipe,
        arena: Arc<dyn Arena>,
        rubric: Arc<Rubric>,
        texts: &Path,
        seed: Seed,
    ) -> Result<Self, AuditError> {
        let model = ModelDir::open(texts)?;
        let renderer = Renderer::new(&model, RenderSettings::default())?;
        let format = recipe.rollout.format.or_else(|| call_format(renderer.template(true), model.special_tokens()));
        let format = format.ok_or_else(|| AuditError::NoCallFormat(texts.to_owned()))?;
        let end_of_turn = *model.stop_ids().first().ok_or_else(|| AuditError::NoEndOfTurn(texts.to_owned()))?;
        let mut settings = recipe.rollout.clone();
        settings.format = Some(format);
        let sampler = Arc::new(Script::new(Vec::new(), Vec::new()));
        let rollouts = Rollouts::new(arena, sampler, renderer, rubric, recipe.sampling.clone(), settings);
        Ok(Self { rollouts, format, end_of_turn, seed })
    }

    /// Opens a task, plays its solution once and takes it apart.
    pub async fn scene(&self, task: &Task) -> Result<Scene, AuditError> {
        let episode = self.rollouts.arena.open(task, self.seed.with("env").value()).await?;
        let prompt: Vec<String> = episode.first.iter().filter_map(Message::content).map(Content::text).collect();
        let mut scene = Scene {
            task: task.clone(),
            toolbox: self.rollouts.toolbox(&episode.tools)?,
            tools: episode.tools,
            prompt: prompt.join("\n"),
            moves: solution(task),
            answer: None,
            shown: Vec::new(),
            gold: Vec::new(),
            format: self.format,
        };
        let script = scene.moves.as_deref().and_then(|moves| scene.script(moves)).unwrap_or_default();
        let trace = self.play(task, &script).await?;
        let texts = |key: &str| match trace.facts.get(key) {
            Some(Value::Object(map)) => map.keys().cloned().collect(),
            Some(Value::Array(ids)) => ids.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        (scene.shown, scene.gold) = (texts("context"), texts("gold_ids"));
        let by_call =
            trace.outcome == Outcome::Finished && trace.turns.last().is_some_and(|turn| !turn.calls.is_empty());
        scene.answer = scene.moves.as_deref().and_then(|moves| Answer::of(moves, &scene.tools, by_call));
        Ok(scene)
    }

    /// True if solutions fit the recipe's limits in this model's tokens. A policy made for shorter texts is not a
    /// measure.
    pub async fn fits(&self, tasks: &[Task]) -> Result<bool, AuditError> {
        for task in tasks {
            let episode = self.rollouts.arena.open(task, self.seed.with("env").value()).await?;
            let toolbox = self.rollouts.toolbox(&episode.tools)?;
            let write = |step: &Move| match step {
                Move::Call(call) => self.format.render_calls(std::slice::from_ref(call), &toolbox).ok(),
                Move::Say(text) => Some(text.clone()),
            };
            let replies: Option<Vec<String>> = solution(task).map(|moves| moves.iter().filter_map(write).collect());
            let trace = self.play(task, &replies.unwrap_or_default()).await?;
            if matches!(trace.outcome, Outcome::Truncated { limit } if limit != Limit::Turns) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Plays replies to the end of the episode. The trace is scored, or its outcome is a fault.
    pub async fn play(&self, task: &Task, replies: &[String]) -> Result<Trace, AuditError> {
        let encode = |text: &str| -> Result<Vec<u32>, AuditError> {
            let mut ids = self.rollouts.renderer.tokenizer().encode(text)?;
            ids.push(self.end_of_turn);
            Ok(ids)
        };
        let script = replies.iter().map(|reply| encode(reply)).collect::<Result<Vec<_>, _>>()?;
        let slot = Slot { task, replica: 0, seed: self.seed.with(&task.key).value() };
        let mut tries = 0;
        loop {
            tries += 1;
            let mut rollouts = self.rollouts.with_sampler(Arc::new(Script::new(script.clone(), encode(DONE)?)));
            // A retry by the driver would continue where the script stopped.
            rollouts.settings.attempts = 1;
            let trace = rollouts.play(slot).await;
            if tries >= TRIES || !matches!(trace.outcome, Outcome::Fault { .. }) {
                return Ok(trace);
            }
        }
    }
}

/// Says its replies in order, then repeats the last one.
#[derive(Debug)]
struct Script {
    replies: Vec<Vec<u32>>,
    last: Vec<u32>,
    next: AtomicUsize,
}

impl Script {
    fn new(replies: Vec<Vec<u32>>, last: Vec<u32>) -> Self {
        Self { replies, last, next: AtomicUsize::new(0) }
    }
}

#[async_trait]
impl Sampler for Script {
    async fn sample(&self, mut request: SampleRequest) -> Result<Sample, SampleFault> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let script = self.replies.get(turn).unwrap_or(&self.last);
        let (mut tokens, mut stop) = (Vec::new(), StopReason::Length);
        for &token in script.iter().take(request.params.max_new_tokens as usize) {
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
        let version = PolicyVersion { run: "audit".into(), step: 0, weights: Digest::of(b"audit") };
        let logprobs = vec![0.0; tokens.len()];
        Ok(Sample { sampled: Sampled::by(version, logprobs), tokens, stop })
    }
}
