//! The rollout driver: plays episodes over any sampler. Render, sample, append, parse, step, append.
//!
//! A bad episode is data. A malformed reply is answered with its named fault or ends the episode; a limit truncates it;
//! a failure outside the policy is a fault, retried on a fresh environment and finally excluded from the group with its
//! reason. A fault that recurs after the same actions on a fresh environment is attributed to the policy: the episode
//! is truncated there and scored, so that crashing a tool is no way to avoid a score. An answer that is not in the protocol
//! is never attributed to the policy.

mod cache;
mod endurance;
mod episode;
mod reading;
mod room;
mod settings;

use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt as _;
use hone_chat::parse::Toolbox;
use hone_chat::{Conversation, Prompt, Renderer};
use hone_trace::{
    Arena, Boundary, Content, Digest, EndState, Episode, Fault, Group, Message, Outcome, Sampler, SamplingParams, Seed,
    Task, ToolSet, Trace,
};
use serde_json::{Map, Value};

pub use episode::{CRASH, DEFUSED};
pub use settings::{CallMode, OnMalformed, OnRepair, RolloutSettings};

use crate::rewards::Rubric;
use cache::Cache;
use endurance::Endurance;
use episode::{Play, Played};
use room::Room;

/// Everything it takes to play and score episodes of an arena with a policy. Cheap to clone.
#[derive(Clone)]
pub struct Rollouts {
    pub arena: Arc<dyn Arena>,
    pub sampler: Arc<dyn Sampler>,
    pub renderer: Renderer,
    pub rubric: Arc<Rubric>,
    pub sampling: SamplingParams,
    pub settings: RolloutSettings,
    prepared: Arc<Prepared>,
    room: Arc<Room>,
}

/// Work that episodes share.
#[derive(Default)]
struct Prepared {
    openings: Cache<Opening>,
    kits: Cache<Kit>,
}

/// Tools and their compiled schemas. All episodes with the same tools share one.
#[derive(Clone)]
struct Kit {
    tools: Arc<ToolSet>,
    toolbox: Arc<Toolbox>,
}

impl std::fmt::Debug for Rollouts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rollouts")
            .field("sampling", &self.sampling)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// A rendered first prompt and its tools. The episodes of a group share one.
#[derive(Clone)]
struct Opening {
    conversation: Conversation,
    kit: Kit,
}

/// Place of an episode: its task and its number there.
#[derive(Debug, Clone, Copy)]
pub struct Slot<'a> {
    pub task: &'a Task,
    pub replica: u32,
    /// Everything random in the episode derives from it; it is written into the trace.
    pub seed: u64,
}

impl Rollouts {
    pub fn new(
        arena: Arc<dyn Arena>,
        sampler: Arc<dyn Sampler>,
        renderer: Renderer,
        rubric: Arc<Rubric>,
        sampling: SamplingParams,
        settings: RolloutSettings,
    ) -> Self {
        let room = Room::new(sampler.capacity());
        Self { arena, sampler, renderer, rubric, sampling, settings, prepared: Arc::default(), room }
    }

    /// The same world for another policy.
    #[must_use]
    pub fn with_sampler(&self, sampler: Arc<dyn Sampler>) -> Self {
        Self { room: Room::new(sampler.capacity()), sampler, ..self.clone() }
    }

    /// Plays `size` episodes of each task. Groups come in the order of the tasks, whatever finishes first.
    pub async fn groups(&self, tasks: &[&Task], size: u32, seed: Seed) -> Vec<Group> {
        let slots: Vec<_> = tasks
            .iter()
            .flat_map(|&task| {
                let seed = seed.with(&task.key);
                (0..size).map(move |replica| Slot { task, replica, seed: seed.at(u64::from(replica)).value() })
            })
            .collect();
        let mut traces = self.play_all(slots).await.into_iter();
        tasks.iter().map(|_| Group::new(traces.by_ref().take(size as usize).collect())).collect()
    }

    /// Plays the slots, `settings.concurrency` at a time, and returns their traces in order. If the environment is
    /// down, retries are bounded, and after a series of broken episodes the rest is not played.
    pub async fn play_all(&self, slots: Vec<Slot<'_>>) -> Vec<Trace> {
        let endurance = Endurance::new(self.settings.concurrency);
        let play = async |(place, slot)| (place, self.play_within(slot, Some(&endurance)).await);
        let plays = slots.into_iter().enumerate().map(play);
        // Not `buffered`: it keeps the places of episodes that ended until all before them have.
        let plays = futures::stream::iter(plays).buffer_unordered(self.settings.concurrency.max(1));
        let mut played: Vec<(usize, Trace)> = plays.collect().await;
        played.sort_by_key(|(place, _)| *place);
        played.into_iter().map(|(_, trace)| trace).collect()
    }

    /// Plays one episode to its end and scores it. Always returns a trace: a permanent fault is its outcome.
    pub async fn play(&self, slot: Slot<'_>) -> Trace {
        self.play_within(slot, None).await
    }

    async fn play_within(&self, slot: Slot<'_>, endurance: Option<&Endurance>) -> Trace {
        let mut attempt = 0;
        loop {
            let given_up = endurance.and_then(Endurance::exhausted);
            let Played { mut trace, end, fault } = match given_up {
                Some(why) => Played::not_opened(slot, &self.sampling, why),
                None => self.attempt(slot).await,
            };
            attempt += 1;
            match fault {
                Some(fault)
                    if attempt < self.settings.attempts
                        && is_worth_another_try(&fault)
                        && endurance.is_none_or(Endurance::may_retry) =>
                {
                    tokio::time::sleep(self.settings.backoff(attempt - 1)).await;
                }
                fault => {
                    if let Some(endurance) = endurance {
                        endurance.ended(fault.as_ref());
                    }
                    if let Some(fault) = fault {
                        trace.outcome = Outcome::Fault { fault };
                    }
                    self.score(&mut trace, end).await;
                    return trace;
                }
            }
        }
    }

    async fn score(&self, trace: &mut Trace, end: EndState) {
        let clock = Instant::now();
        let scorecard = self.rubric.score(trace, &end).await;
        if let Some(last) = trace.turns.last_mut() {
            last.timings.verifier = Some(clock.elapsed().as_secs_f64());
        }
        trace.rewards = scorecard.components;
        trace.rewards.push(scorecard.total);
        trace.facts = recorded(end.facts);
    }

    async fn attempt(&self, slot: Slot<'_>) -> Played {
        let opened = self.open(slot).await;
        let (episode, opening) = match opened {
            Ok(opened) => opened,
            Err(fault) => return Played::not_opened(slot, &self.sampling, fault),
        };
        Play::new(self, slot, episode, opening).run().await
    }

    async fn open(&self, slot: Slot<'_>) -> Result<(Episode, Opening), Fault> {
        let episode = self.open_env(slot).await?;
        let opening = self.opening(slot.task, &episode)?;
        Ok((episode, opening))
    }

    async fn open_env(&self, slot: Slot<'_>) -> Result<Episode, Fault> {
        let seed = Seed::root(slot.seed).with("env").value();
        let deadline = self.settings.open_deadline().max(self.arena.patience(slot.task).unwrap_or_default());
        match tokio::time::timeout(deadline, self.arena.open(slot.task, seed)).await {
            Ok(opened) => opened,
            Err(_) => Err(late("the environment did not open", deadline)),
        }
    }

    /// Renders the first prompt, or reuses that of an episode of the same task.
    fn opening(&self, task: &Task, episode: &Episode) -> Result<Opening, Fault> {
        let bytes = text_bytes(&episode.first) + episode.system.len();
        self.fits("its first prompt", bytes)?;
        let key = opening_key(task, episode);
        if let Some(opening) = self.prepared.openings.get(&key) {
            return Ok(opening);
        }
        let ours = |error: &dyn std::error::Error| Fault::new(Boundary::Hone, format!("rendering the prompt: {error}"));
        let prompt = Prompt {
            system: Some(&episode.system),
            messages: &episode.first,
            tools: &episode.tools,
            variables: &task.variables,
            sections: &[],
        };
        let conversation = self.renderer.open(&prompt).map_err(|error| ours(&error))?;
        let opening = Opening { conversation, kit: self.kit(&episode.tools)? };
        self.prepared.openings.insert(key, opening.clone(), bytes);
        Ok(opening)
    }
}

impl Rollouts {
    /// The compiled schemas of a set of tools.
    pub fn toolbox(&self, tools: &ToolSet) -> Result<Arc<Toolbox>, Fault> {
        Ok(self.kit(tools)?.toolbox)
    }

    fn kit(&self, tools: &ToolSet) -> Result<Kit, Fault> {
        let key = tools.digest();
        if let Some(kit) = self.prepared.kits.get(&key) {
            return Ok(kit);
        }
        let bytes = serde_json::to_string(tools).map_or(0, |text| text.len());
        self.fits("its tools", bytes)?;
        let toolbox = Toolbox::new(tools).map_err(|error| Fault::new(Boundary::Environment, error.to_string()))?;
        let kit = Kit { tools: Arc::new(tools.clone()), toolbox: Arc::new(toolbox) };
        self.prepared.kits.insert(key, kit.clone(), bytes);
        Ok(kit)
    }

    /// Refuses text that cannot fit the window before anything is built from it.
    fn fits(&self, what: &str, bytes: usize) -> Result<(), Fault> {
        let limit = self.settings.longest_text();
        if bytes <= limit {
            return Ok(());
        }
        let what = format!(
            "{what} takes {bytes} bytes, and a window of {} tokens holds less than {limit}; say less, or raise \
             rollout.window",
            self.settings.window
        );
        Err(Fault::new(Boundary::Environment, what))
    }
}

/// The bytes of the messages' texts, with a few for each message itself.
fn text_bytes(messages: &[Message]) -> usize {
    let bytes = |content: &Content| match content {
        Content::Text(text) => text.len(),
        parts @ Content::Parts(_) => parts.text().len(),
    };
    messages.iter().map(|message| 16 + message.content().map_or(0, bytes)).sum()
}

/// The longest fact that is recorded, in bytes of JSON.
const LONGEST_FACT: usize = 1 << 20;

/// Facts as recorded in the trace. Oversized facts are omitted and listed by name.
fn recorded(mut facts: Map<String, Value>) -> Map<String, Value> {
    let mut left_out = Vec::new();
    facts.retain(|name, value| {
        let length = value.to_string().len();
        if length > LONGEST_FACT {
            left_out.push(Value::from(format!("{name}: {length} bytes")));
        }
        length <= LONGEST_FACT
    });
    if !left_out.is_empty() {
        facts.insert("left_out".into(), left_out.into());
    }
    facts
}

fn opening_key(task: &Task, episode: &Episode) -> Digest {
    let parts: [Value; 4] = [
        episode.system.clone().into(),
        serde_json::to_value(&episode.first).unwrap_or_default(),
        serde_json::to_value(&task.variables).unwrap_or_default(),
        episode.tools.digest().to_string().into(),
    ];
    Digest::of(Value::from(parts.to_vec()).to_string().as_bytes())
}

/// Our own faults and the policy's are deterministic; all others may be transient.
fn is_worth_another_try(fault: &Fault) -> bool {
    match fault.boundary {
        Boundary::Hone | Boundary::Policy => false,
        Boundary::Sampler => fault.transient,
        _ => true,
    }
}

fn late(what: &str, deadline: std::time::Duration) -> Fault {
    Fault::new(Boundary::Environment, format!("{what} within {} s", seconds(deadline)))
}

/// Seconds with as many digits as it takes to tell them from none: 30.0, 0.01.
fn seconds(deadline: std::time::Duration) -> String {
    let seconds = deadline.as_secs_f64();
    if seconds < 0.1 { format!("{seconds}") } else { format!("{seconds:.1}") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[test]
    fn a_short_deadline_is_no_deadline_of_nothing() {
        let shown = |seconds| super::seconds(Duration::from_secs_f64(seconds));
        assert_eq!(["30.0", "0.5", "0.01"], [shown(30.0), shown(0.5), shown(0.01)].each_ref().map(String::as_str));
    }
}
