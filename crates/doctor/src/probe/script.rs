//! Episodes without a model, action by action, with everything that was answered.

use std::time::{Duration, Instant};

use hone_arena::baseline::Baseline;
use hone_arena::rewards::{OTHERWISE, Rubric};
use hone_arena::solution::{DONE, Move};
use hone_trace::{
    Action, Arena, Boundary, Digest, Env, Fault, FaultKind, Limit, Message, Node, Outcome, PolicyVersion, Sampled,
    SamplingParams, Seed, Task, ToolSet, TraceBuilder, TraceHead, TurnRecord,
};

/// Mark of an answer that ends the episode.
const OVER: &str = " (done)";

/// One scripted episode.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transcript {
    pub task: String,
    /// Environment of the task.
    pub env: String,
    /// System prompt, first messages and tools, as one text.
    pub opened: String,
    /// Actions and answers, in order.
    pub turns: Vec<(String, String)>,
    pub done: bool,
    /// Values of the reward components that were scored, the total last.
    pub rewards: Vec<(String, f64)>,
    /// Unscored components, with reasons.
    pub unscored: Vec<(String, String)>,
    /// Components that took their `otherwise`, with what was missing.
    pub stood_in: Vec<(String, String)>,
    /// Message of the fault.
    pub fault: Option<String>,
    /// True if the fault is an answer that did not come in time.
    pub late: bool,
    pub open_seconds: f64,
    pub slowest_seconds: f64,
    /// Calls that were answered with an error.
    pub failed: u32,
    /// Actions of the script that were left when the episode ended.
    pub left: usize,
}

impl Transcript {
    pub fn reward(&self, component: &str) -> Option<f64> {
        self.rewards.iter().find(|(name, _)| name == component).map(|(_, value)| *value)
    }

    /// An episode that did not open.
    pub(super) fn unopened_by(task: &Task, Broken { text, late }: Broken) -> Self {
        Self { task: task.key.clone(), fault: Some(text), late, ..Self::default() }
    }

    /// True when the episode did not even open.
    pub(crate) fn unopened(&self) -> bool {
        self.fault.is_some() && self.opened.is_empty()
    }

    /// Messages that answered each call, and the call.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (&str, Vec<Message>)> {
        let calls = self.turns.iter().filter(|(action, _)| !action.starts_with('"'));
        calls.map(|(action, answer)| {
            let messages = answer.strip_suffix(OVER).unwrap_or(answer);
            (action.as_str(), serde_json::from_str(messages).unwrap_or_default())
        })
    }

    /// Part that another episode of the same task, seed and actions must repeat. One that broke repeats nothing.
    pub(crate) fn parts_from(&self, other: &Self) -> Option<String> {
        if self.fault.is_some() || other.fault.is_some() {
            return None;
        }
        if self.opened != other.opened {
            return Some("it opens with another prompt or other tools".into());
        }
        let pairs = self.turns.iter().zip(&other.turns);
        if let Some((turn, (one, two))) = (1..).zip(pairs).find(|(_, (one, two))| one.1 != two.1) {
            let cut = |text: &str| text.chars().take(120).collect::<String>();
            return Some(format!("turn {turn}, {}: {} and {}", cut(&one.0), cut(&one.1), cut(&two.1)));
        }
        if self.rewards != other.rewards {
            let worth = |transcript: &Self| transcript.rewards.last().map_or(f64::NAN, |(_, value)| *value);
            return Some(format!("the same answers earn {} and {}", worth(self), worth(other)));
        }
        (self.done != other.done).then(|| "it ends in another way".into())
    }
}

/// A script of moves that are known in advance.
#[derive(Debug)]
pub(super) struct Reference(pub(super) Vec<Move>);

impl Baseline for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn act(&self, _tools: &ToolSet, said: &[Message], _seed: Seed) -> Action {
        let acted = said.iter().filter(|message| matches!(message, Message::Assistant { .. })).count();
        match self.0.get(acted) {
            Some(Move::Call(call)) => Action::Calls(vec![call.clone()]),
            Some(Move::Say(text)) => Action::Reply(text.clone()),
            None => Action::Reply(DONE.into()),
        }
    }
}

/// Fault of an episode.
pub(super) struct Broken {
    pub(super) text: String,
    late: bool,
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Self {
        Self { text: fault.to_string(), late: fault.kind.is_late() }
    }
}

/// An episode under way.
pub(super) struct Session {
    pub(super) env: Box<dyn Env>,
    said: Vec<Message>,
    tools: ToolSet,
    trace: TraceBuilder,
    pub(super) transcript: Transcript,
    seed: Seed,
    deadline: Duration,
    /// Messages of the prompt, where some of them look like the agent's own turns: a script counts its own.
    before: usize,
}

impl Session {
    pub(super) async fn open(arena: &dyn Arena, task: &Task, seed: u64, deadline: Duration) -> Result<Self, Broken> {
        let clock = Instant::now();
        let opened = tokio::time::timeout(deadline, arena.open(task, seed)).await;
        let episode = opened.map_err(|_| Broken { text: late(deadline, arena.trouble()), late: true })??;
        let mut said = vec![Message::system(episode.system)];
        said.extend(episode.first);
        let opened = serde_json::to_string(&said).unwrap_or_default() + &episode.tools.digest().to_string();
        let head = TraceHead {
            task: task.key.clone(),
            env: task.env.clone(),
            replica: 0,
            seed,
            tools: std::sync::Arc::new(episode.tools.clone()),
            sampling: SamplingParams::default(),
        };
        let acted = said.iter().any(|message| matches!(message, Message::Assistant { .. }));
        let before = if acted { said.len() } else { 0 };
        Ok(Self {
            env: episode.env,
            said,
            tools: episode.tools,
            trace: TraceBuilder::new(head, Vec::new()),
            transcript: Transcript {
                task: task.key.clone(),
                env: task.env.clone(),
                opened,
                open_seconds: clock.elapsed().as_secs_f64(),
                ..Transcript::default()
            },
            seed: Seed::root(seed),
            deadline,
            before,
        })
    }

    /// Next action of the script.
    pub(super) fn next(&self, script: &dyn Baseline) -> Action {
        let turn = self.transcript.turns.len();
        script.act(&self.tools, &self.said[self.before..], self.seed.with("act").at(turn as u64))
    }

    /// One action of the script; true when the episode continues.
    pub(super) async fn advance(&mut self, script: &dyn Baseline) -> bool {
        let action = self.next(script);
        let shown = shown(&action);
        self.said.push(spoken(&action));
        let clock = Instant::now();
        let answer = tokio::time::timeout(self.deadline, self.env.step(action.clone())).await.unwrap_or_else(|_| {
            let what = late(self.deadline, None);
            Err(Fault::new(Boundary::Environment, what).of_kind(FaultKind::ServerLate))
        });
        self.transcript.slowest_seconds = self.transcript.slowest_seconds.max(clock.elapsed().as_secs_f64());
        let answer = match answer {
            Ok(answer) => answer,
            Err(fault) => {
                self.transcript.late = fault.kind.is_late();
                self.transcript.fault = Some(fault.to_string());
                return false;
            }
        };
        self.record(action, answer.failed);
        self.transcript.failed += answer.failed;
        let text = serde_json::to_string(&answer.messages).unwrap_or_default();
        self.transcript.turns.push((shown, if answer.done { text + OVER } else { text }));
        self.transcript.done = answer.done;
        self.said.extend(answer.messages);
        !answer.done
    }

    fn record(&mut self, action: Action, failed: u32) {
        let version = PolicyVersion { run: "script".into(), step: 0, weights: Digest::of(b"script") };
        if let Ok(node) = Node::sampled(Vec::new(), Sampled::by(version, Vec::new())) {
            self.trace.push(node);
        }
        let (calls, failure) = match action {
            Action::Calls(calls) => (calls, None),
            Action::Reply(_) => (Vec::new(), None),
            Action::Malformed(failure) => (Vec::new(), Some(failure)),
        };
        let executed = calls.len() as u32;
        self.trace.record(TurnRecord { calls, executed, failed, failure, ..TurnRecord::default() });
    }

    /// Scores the episode as it stands; the environment is given back to be looked at further.
    pub(super) async fn finish(mut self, rubric: &Rubric) -> (Transcript, Box<dyn Env>) {
        if self.transcript.fault.is_none()
            && let Err(fault) = self.env.finish().await
        {
            self.transcript.fault = Some(fault.to_string());
        }
        let mut end = self.env.end();
        if let Ok(messages) = serde_json::to_value(&self.said) {
            end.facts.entry("messages").or_insert(messages);
        }
        let outcome = if self.transcript.done { Outcome::Finished } else { Outcome::Truncated { limit: Limit::Turns } };
        if self.transcript.fault.is_none() {
            let trace = self.trace.finish(outcome);
            let scored = tokio::time::timeout(self.deadline, rubric.score(&trace, &end)).await;
            for reward in scored.into_iter().flat_map(|card| card.components.into_iter().chain([card.total])) {
                if let Some(value) = reward.value() {
                    if let Some(why) = reward.why().strip_prefix(OTHERWISE) {
                        self.transcript.stood_in.push((reward.component.clone(), why.to_owned()));
                    }
                    self.transcript.rewards.push((reward.component, value));
                } else {
                    let why = reward.why().to_owned();
                    self.transcript.unscored.push((reward.component, why));
                }
            }
        }
        (self.transcript, self.env)
    }
}

/// Plays a script to its end.
pub(super) async fn play(
    arena: &dyn Arena,
    rubric: &Rubric,
    task: &Task,
    script: &dyn Baseline,
    limits: Limits,
) -> Transcript {
    match Session::open(arena, task, limits.seed, limits.deadline).await {
        Ok(mut session) => {
            for _ in 0..limits.turns {
                if !session.advance(script).await {
                    break;
                }
            }
            session.finish(rubric).await.0
        }
        Err(broken) => Transcript::unopened_by(task, broken),
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) turns: u32,
    pub(super) seed: u64,
    pub(super) deadline: Duration,
}

/// An answer that did not come, and the failure behind it where one is known.
pub(super) fn late(deadline: Duration, trouble: Option<String>) -> String {
    let because = trouble.map(|words| format!(" ({words})")).unwrap_or_default();
    format!("no answer within {:.0} s{because}", deadline.as_secs_f64())
}

fn shown(action: &Action) -> String {
    match action {
        Action::Calls(calls) => {
            let shown = calls.iter().map(|call| format!("{}({})", call.name, serde_json::json!(call.arguments)));
            shown.collect::<Vec<_>>().join(", ")
        }
        Action::Reply(text) => format!("{text:?}"),
        Action::Malformed(failure) => failure.to_string(),
    }
}

fn spoken(action: &Action) -> Message {
    match action {
        Action::Calls(calls) => Message::calls(calls.clone()),
        Action::Reply(text) => Message::assistant(text),
        Action::Malformed(failure) => Message::assistant(&failure.message),
    }
}
