//! Re-grading: recorded result files of tau-bench and tau2-bench, played back and judged again.
//!
//! The agent's calls go to a fresh desk, its texts to the verdict; the reward recorded in the file is ignored.
//! tau-bench writes a list of `{task_id, trial, reward, info: {task}, traj}`, tau2 an object of `tasks` and
//! `simulations: [{task_id, trial, termination_reason, reward_info: {reward}, messages}]`. Both include their tasks.

use std::sync::Arc;

use hone_trace::{Task, ToolCall};
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;

use super::tasks;
use super::verdict::judge;
use super::{Desk, Domain, Profile, Requestor, TRANSFER};

/// An episode of a result file, judged again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Graded {
    pub task: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial: Option<u64>,
    /// Reward in the file; absent if it has none.
    pub recorded: Option<f64>,
    /// Reward by our judgement; absent if the episode cannot be judged, and `why` gives the reason.
    pub reward: Option<f64>,
    /// True when the final state is the reference's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<bool>,
    /// Outputs the task wants, each with whether the agent said it.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub outputs: IndexMap<String, bool>,
    /// Assertions on the end and calls that must have been made, by name, and whether they hold.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub conditions: IndexMap<String, bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Graded {
    /// True if both rewards are present and equal.
    pub fn agrees(&self) -> Option<bool> {
        self.recorded.zip(self.reward).map(|(recorded, reward)| (recorded - reward).abs() < 1e-9)
    }
}

/// Error: the file is not a result file.
#[derive(Debug, thiserror::Error)]
#[error(
    "neither tau-bench's results (a list of {{task_id, reward, info, traj}}) nor tau2's (an object with \"tasks\" and \
     \"simulations\")"
)]
pub struct NotResults;

/// Judges every episode of a result file at fresh desks of the domain.
pub fn grade(domain: &Arc<Domain>, results: &Value) -> Result<Vec<Graded>, NotResults> {
    let tau2 = results.get("simulations").and_then(Value::as_array).zip(results.get("tasks").and_then(Value::as_array));
    match (results.as_array(), tau2) {
        (Some(episodes), _) => {
            Ok(episodes.iter().map(|episode| Episode::tau1(domain, episode).graded(domain)).collect())
        }
        (None, Some((simulations, tasks))) => {
            let agent = results.pointer("/info/agent_info/implementation").and_then(Value::as_str);
            let solo = agent.is_some_and(|agent| agent.contains("solo"));
            let episodes = simulations.iter();
            Ok(episodes.map(|episode| Episode::tau2(domain, tasks, solo, episode).graded(domain)).collect())
        }
        (None, None) => Err(NotResults),
    }
}

/// The parts of a recorded episode that grading needs.
struct Episode<'a> {
    name: String,
    trial: Option<u64>,
    recorded: Option<f64>,
    task: Result<Task, String>,
    messages: &'a [Value],
    /// Reason why the benchmark did not score it, if its record says so; tau-bench's transcripts show it themselves.
    stopped: Option<String>,
    /// True when the agent had the user's tools too.
    solo: bool,
}

impl<'a> Episode<'a> {
    fn tau1(domain: &Domain, episode: &'a Value) -> Self {
        let name = named(episode.get("task_id"));
        let task = match episode.get("info").and_then(|info| info.get("task")) {
            Some(task) => tasks::tau1(domain.kind, "recorded", 0, task),
            None => Err(broken(episode)),
        };
        Self {
            name,
            trial: episode.get("trial").and_then(Value::as_u64),
            recorded: episode.get("reward").and_then(Value::as_f64),
            task,
            messages: list(episode.get("traj")),
            stopped: None,
            solo: false,
        }
    }

    fn tau2(domain: &Domain, all: &[Value], solo: bool, episode: &'a Value) -> Self {
        let name = named(episode.get("task_id"));
        let listed = all.iter().find(|task| named(task.get("id")) == name);
        let task = listed.ok_or_else(|| format!("the file lists no task {name:?}"));
        let task = task.and_then(|task| tasks::tau2(domain.kind, task)).and_then(|task| {
            tasks::playable(domain.kind, &task)?;
            Ok(task)
        });
        let reason = episode.get("termination_reason").and_then(Value::as_str).unwrap_or("agent_stop");
        Self {
            name,
            trial: episode.get("trial").and_then(Value::as_u64),
            recorded: episode.get("reward_info").and_then(|info| info.get("reward")?.as_f64()),
            task,
            messages: list(episode.get("messages")),
            stopped: (!["agent_stop", "user_stop"].contains(&reason)).then(|| reason.to_owned()),
            solo,
        }
    }

    fn graded(self, domain: &Arc<Domain>) -> Graded {
        let mut graded = Graded {
            task: self.name.clone(),
            trial: self.trial,
            recorded: self.recorded,
            reward: None,
            state: None,
            outputs: IndexMap::new(),
            conditions: IndexMap::new(),
            why: None,
        };
        match self.played(domain) {
            Ok((task, played)) => self.judged(&task, &played, &mut graded),
            Err(why) => graded.why = Some(why),
        }
        graded
    }

    fn judged(&self, task: &Task, played: &Played, graded: &mut Graded) {
        let verdict = judge(&played.desk, task, &played.replies);
        graded.state = Some(verdict.state);
        graded.outputs.clone_from(&verdict.outputs);
        graded.conditions.clone_from(&verdict.conditions);
        if let Some(reason) = &self.stopped {
            (graded.reward, graded.why) = (Some(0.0), Some(format!("it was stopped ({reason}), which earns 0")));
        } else if !played.ended {
            (graded.reward, graded.why) = (Some(0.0), Some("it never ended, which earns 0".into()));
        } else {
            graded.reward = verdict.reward();
            let judged = verdict.undecided.join(", ");
            graded.why = graded.reward.is_none().then(|| format!("{judged} of its reward is not decided here"));
        }
    }

    fn played(&self, domain: &Arc<Domain>) -> Result<(Task, Played), String> {
        let task = self.task.clone()?;
        // A conversation before the episode is part of its transcript.
        let mut start = task.clone();
        if let Some(state) = start.extra.get_mut("initial_state").and_then(Value::as_object_mut) {
            state.remove("message_history");
        }
        let mut desk = domain.begin(&start)?.desk;
        desk.solo |= self.solo;
        let mut played = Played { desk, replies: Vec::new(), ended: domain.profile == Profile::Tau2 };
        for (at, message) in self.messages.iter().enumerate() {
            played.take(message).map_err(|what| format!("message {at}: {what}"))?;
        }
        Ok((task, played))
    }
}

/// A transcript being played at a desk.
struct Played {
    desk: Desk,
    replies: Vec<String>,
    /// True if the episode ended properly and was scored.
    ended: bool,
}

impl Played {
    fn take(&mut self, message: &Value) -> Result<(), String> {
        let tau2 = self.desk.domain().profile == Profile::Tau2;
        let content = message.get("content").and_then(Value::as_str).unwrap_or_default();
        match message.get("role").and_then(Value::as_str) {
            Some("user") => {
                for call in list(message.get("tool_calls")) {
                    self.call(Requestor::User, call)?;
                }
                self.ended |= content.contains("###STOP###");
            }
            Some("assistant") => {
                let calls = list(message.get("tool_calls"));
                // tau-bench runs only the first call of a message.
                let run = if tau2 { calls } else { &calls[..calls.len().min(1)] };
                for call in run {
                    self.call(Requestor::Assistant, call)?;
                }
                // tau2 also hears a text beside a call.
                if (tau2 || calls.is_empty()) && !content.is_empty() {
                    self.replies.push(content.to_owned());
                }
            }
            Some(_) => {}
            None => return Err("it has no \"role\"".into()),
        }
        Ok(())
    }

    fn call(&mut self, by: Requestor, call: &Value) -> Result<(), String> {
        let call: ToolCall = serde_json::from_value(call.clone()).map_err(|error| error.to_string())?;
        self.ended |= call.name == TRANSFER;
        // A call that breaks upstream's environment changes nothing here either.
        let _ = self.desk.call_by(by, &call);
        Ok(())
    }
}

/// A task's id: tau-bench numbers them, tau2 names them.
fn named(id: Option<&Value>) -> String {
    match id {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "?".into(),
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Reason why a tau-bench episode has no task: its run broke.
fn broken(episode: &Value) -> String {
    let error = episode.get("info").and_then(|info| info.get("error")?.as_str());
    error.map_or_else(|| "it has no info.task".to_owned(), |error| format!("its run broke: {error}"))
}
