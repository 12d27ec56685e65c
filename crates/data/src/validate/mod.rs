//! Validation: checks that a task can be solved, verified and learned from.
//!
//! In order, each task stopping at its first fault: (1) lint; (2) with nothing done, the verifier must not pass; the
//! reference calls are replayed, every call must succeed and the verifier must pass; both as often as the rules say,
//! with the same result every time; (3) a teacher attempts it; (4) rules filter by how often it was solved. A task
//! whose reference changes nothing is passed by doing nothing: it is kept under the label `no_op`, unless the rules
//! drop those.

mod lint;
mod report;
mod rules;

use std::sync::Arc;

use hone_arena::baseline::DoNothing;
use hone_arena::player::{self, Moves, Player, Scripted, Sitting};
use hone_arena::rewards::Rubric;
use hone_arena::solution::solution;
use hone_trace::{Arena, Boundary, Content, Message, Outcome, Reward, Seed, Task, Trace};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use lint::{Lint, rejected_row};
pub use report::{Report, Tally};
pub use rules::Rules;

/// Reason why a task was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    WrongSchema,
    Duplicate,
    MissingDate,
    MissingVariable,
    /// A reference call is answered with an error.
    ReferenceCallFails,
    /// The verifier passes before anything was done, although something must be done.
    PassesOnSeed,
    /// The verifier does not pass after the reference calls.
    ReferenceDoesNotPass,
    /// Two replays with the same seed gave different results.
    FlakyVerifier,
    /// The verifier gave no score.
    VerifierException,
    /// The environment broke.
    EnvironmentFault,
    /// The teacher could not be asked. That says nothing about the task, which is judged again next time.
    TeacherFault,
    /// Neither a reference nor a teacher that solves it.
    Unsolvable,
    TooHard,
    TooEasy,
    NoOp,
}

impl Reason {
    /// True if something outside the task broke: it may pass another time.
    pub fn may_pass(self) -> bool {
        matches!(self, Self::EnvironmentFault | Self::TeacherFault)
    }

    pub fn words(self) -> &'static str {
        match self {
            Self::WrongSchema => "wrong schema",
            Self::Duplicate => "duplicate",
            Self::MissingDate => "missing date",
            Self::MissingVariable => "missing variable",
            Self::ReferenceCallFails => "a reference call fails",
            Self::PassesOnSeed => "the verifier passes on the seed state",
            Self::ReferenceDoesNotPass => "the reference does not pass",
            Self::FlakyVerifier => "flaky verifier",
            Self::VerifierException => "verifier exception",
            Self::EnvironmentFault => "environment fault",
            Self::TeacherFault => "teacher fault",
            Self::Unsolvable => "unsolvable",
            Self::TooHard => "solved too rarely",
            Self::TooEasy => "solved too often",
            Self::NoOp => "nothing is to be done",
        }
    }
}

/// Label of a kept task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// Doing nothing passes, and the reference changes nothing.
    NoOp,
}

/// Validation result of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub key: String,
    pub env: String,
    /// Absent: the task is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Reason>,
    /// Details, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Labels of kept tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Label>,
    /// The success component before anything was done, and after the reference calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<f64>,
    /// Episodes the teacher solved, and played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub solved: Option<[u32; 2]>,
    /// Numbers of the traces that show it, in the report's run directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<u64>,
}

/// A finding and the traces that show it.
#[derive(Debug)]
pub struct Checked {
    pub finding: Finding,
    pub traces: Vec<Trace>,
}

/// Environment in which tasks are played, and the definition of success.
#[derive(Clone)]
pub struct Bench {
    pub arena: Arc<dyn Arena>,
    pub rubric: Arc<Rubric>,
    /// The component that must reach `Rules::pass`.
    pub success: String,
    /// Teacher that attempts the tasks; absent: the oracle replays the reference.
    pub teacher: Option<Arc<dyn Player>>,
    pub rules: Rules,
}

impl std::fmt::Debug for Bench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("success", &self.success).field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// A task being validated: the finding so far.
struct Work<'a> {
    bench: &'a Bench,
    task: &'a Task,
    finding: Finding,
    traces: Vec<Trace>,
}

/// Stops at the first fault.
type Step = Result<(), (Reason, String)>;

impl Bench {
    /// Plays a task as the rules say. Lint comes first: see [`Lint`].
    pub async fn check(&self, task: &Task) -> Checked {
        let finding = Finding {
            key: task.key.clone(),
            env: task.env.clone(),
            rejected: None,
            detail: String::new(),
            labels: Vec::new(),
            before: None,
            after: None,
            solved: None,
            traces: Vec::new(),
        };
        let mut work = Work { bench: self, task, finding, traces: Vec::new() };
        if let Err((reason, detail)) = work.run().await {
            work.finding.rejected = Some(reason);
            work.finding.detail = detail;
        } else {
            // Only rejected tasks need their traces.
            work.traces.clear();
        }
        Checked { finding: work.finding, traces: work.traces }
    }
}

impl Work<'_> {
    async fn run(&mut self) -> Step {
        let nothing: Arc<dyn Player> = Arc::new(Scripted(Arc::new(DoNothing)));
        let before = self.replay(&*nothing, "do nothing").await?;
        self.finding.before = Some(before);
        let passes_before = before >= self.bench.rules.pass;
        match solution(self.task) {
            Some(moves) => self.reference(Moves(moves), passes_before).await?,
            None if passes_before => {
                let what = "the verifier passes although nothing was done, and the task has no reference".to_owned();
                return Err((Reason::PassesOnSeed, what));
            }
            None => {}
        }
        self.teach().await
    }

    /// Replays the reference; the trace of its last replay is the last of `traces`.
    async fn reference(&mut self, moves: Moves, passes_before: bool) -> Step {
        let after = self.replay(&moves, "the reference").await?;
        self.finding.after = Some(after);
        let Some(trace) = self.traces.last() else { return Ok(()) };
        let rules = &self.bench.rules;
        let failed = first_failure(trace, rules.failing_reads).filter(|_| !rules.failing_calls);
        let changes = effect(trace);
        if let Some(failed) = failed {
            // Overcoming an error may be the point of the task.
            let way_out =
                if after >= rules.pass { "; failing_calls = true keeps tasks that pass in the end" } else { "" };
            return Err((Reason::ReferenceCallFails, failed + way_out));
        }
        if after < self.bench.rules.pass {
            let why = why(trace, &self.bench.success);
            let what = format!(
                "{} is {after} after the reference calls, under {}: {why}",
                self.bench.success, self.bench.rules.pass
            );
            return Err((Reason::ReferenceDoesNotPass, what));
        }
        if !passes_before {
            return Ok(());
        }
        match changes {
            Effect::Nothing if self.bench.rules.drop_no_op => {
                Err((Reason::NoOp, "the reference changes nothing, and doing nothing passes".into()))
            }
            Effect::Nothing => {
                self.finding.labels.push(Label::NoOp);
                Ok(())
            }
            Effect::Changes => Err((
                Reason::PassesOnSeed,
                "the verifier passes before anything was done, and the reference changes state".into(),
            )),
            Effect::Unknown => {
                let what = "the verifier passes before anything was done, and nothing shows that nothing is to be done";
                Err((Reason::PassesOnSeed, what.into()))
            }
        }
    }

    /// Plays with one seed as often as the rules say; returns the value of the success component, which must be the
    /// same every time.
    async fn replay(&mut self, player: &dyn Player, what: &str) -> Result<f64, (Reason, String)> {
        let seed = Seed::root(self.bench.rules.seed).with("validate").with(&self.task.key);
        let mut first: Option<(f64, Vec<Reward>, Option<Value>)> = None;
        for replica in 0..self.bench.rules.replays.max(1) {
            let trace = self.play(player, seed, replica).await?;
            let value = trace.reward(&self.bench.success);
            let rewards = trace.rewards.clone();
            let state = trace.facts.get("changes").cloned();
            let Some(value) = value else {
                let why = why(&trace, &self.bench.success);
                self.traces.push(trace);
                return Err((Reason::VerifierException, format!("{what}: no score: {why}")));
            };
            let same = first.as_ref().is_none_or(|(_, others, other)| same_values(others, &rewards) && *other == state);
            self.traces.push(trace);
            if !same {
                let values = first.as_ref().map_or(0.0, |(value, ..)| *value);
                return Err((
                    Reason::FlakyVerifier,
                    format!("{what}: two replays with the same seed gave {values} and {value} (or other states)"),
                ));
            }
            first.get_or_insert((value, rewards, state));
        }
        Ok(first.map_or(0.0, |(value, ..)| value))
    }

    async fn play(&mut self, player: &dyn Player, seed: Seed, replica: u32) -> Result<Trace, (Reason, String)> {
        let Bench { arena, rubric, rules, .. } = self.bench;
        let sitting = Sitting { replica, seed, max_turns: rules.max_turns };
        let mut attempts = 0;
        loop {
            let trace = player::play(&**arena, rubric, self.task, player, sitting).await;
            attempts += 1;
            let Outcome::Fault { fault } = &trace.outcome else { return Ok(trace) };
            if fault.transient && attempts < 3 {
                continue;
            }
            let reason = match fault.boundary {
                Boundary::Verifier | Boundary::Judge => Reason::VerifierException,
                Boundary::Sampler => Reason::TeacherFault,
                _ => Reason::EnvironmentFault,
            };
            let what = fault.to_string();
            self.traces.push(trace);
            return Err((reason, what));
        }
    }

    async fn teach(&mut self) -> Step {
        let Bench { teacher, rules, success, .. } = self.bench;
        let oracle = solution(self.task).map(|moves| Arc::new(Moves(moves)) as Arc<dyn Player>);
        let Some(teacher) = teacher.clone().or(oracle) else {
            return Err((Reason::Unsolvable, "the task has no reference, and there is no teacher to try it".into()));
        };
        let tries = if self.task.reference.is_none() { rules.teacher.max(1) } else { rules.teacher };
        let mut solved = 0;
        for replica in 0..tries {
            let seed = Seed::root(rules.seed).with("teacher").with(&self.task.key).at(u64::from(replica));
            let trace = self.play(&*teacher, seed, replica).await?;
            let value = trace.reward(success).ok_or_else(|| why(&trace, success));
            self.traces.push(trace);
            let value = value.map_err(|why| {
                let what = format!("{}, try {}: no score: {why}", teacher.name(), replica + 1);
                (Reason::VerifierException, what)
            })?;
            solved += u32::from(value >= rules.pass);
        }
        if tries == 0 {
            return Ok(());
        }
        self.finding.solved = Some([solved, tries]);
        let share = f64::from(solved) / f64::from(tries);
        let what = format!("{} solved it in {solved} of {tries} tries", teacher.name());
        match () {
            () if solved == 0 && rules.min_solved > 0.0 => Err((Reason::Unsolvable, what)),
            () if share < rules.min_solved => Err((Reason::TooHard, what)),
            () if share > rules.max_solved => Err((Reason::TooEasy, what)),
            () => Ok(()),
        }
    }
}

fn same_values(a: &[Reward], b: &[Reward]) -> bool {
    let values = |rewards: &[Reward]| -> Vec<_> {
        rewards.iter().map(|reward| (reward.component.clone(), reward.value())).collect()
    };
    values(a) == values(b)
}

fn why(trace: &Trace, component: &str) -> String {
    let reward = trace.rewards.iter().find(|reward| reward.component == component);
    reward.map_or_else(|| format!("the rubric has no component {component}"), |reward| reward.why().to_owned())
}

/// Effect of the reference on the state.
enum Effect {
    Changes,
    Nothing,
    Unknown,
}

fn effect(trace: &Trace) -> Effect {
    if let Some(made) = trace.facts.get("changes").and_then(|changes| changes.get("made")?.as_array()) {
        return if made.is_empty() { Effect::Nothing } else { Effect::Changes };
    }
    if let Some(states) = trace.facts.get("states") {
        return if states.get("initial") == states.get("final") { Effect::Nothing } else { Effect::Changes };
    }
    if trace.turns.iter().all(|turn| turn.calls.is_empty()) { Effect::Nothing } else { Effect::Unknown }
}

/// The first call that was answered with an error. With `reads`, calls of tools that change nothing may fail.
fn first_failure(trace: &Trace, reads: bool) -> Option<String> {
    let writes: Option<Vec<String>> =
        trace.facts.get("writes").and_then(|writes| serde_json::from_value(writes.clone()).ok());
    let forgiven = |name: &str| reads && writes.as_ref().is_some_and(|writes| !writes.iter().any(|own| own == name));
    let turn = trace.turns.iter().find(|turn| {
        turn.failed > 0 && turn.calls.iter().take(turn.executed as usize).any(|call| !forgiven(&call.name))
    })?;
    let call = turn.calls.first()?;
    let answer = answers(trace).find(|(name, text)| *name == call.name && text.starts_with("Error"));
    let said = answer.map(|(_, text)| format!(": {}", text.chars().take(200).collect::<String>())).unwrap_or_default();
    Some(format!("{} {} is answered with an error{said}", call.name, Value::Object(call.arguments.clone())))
}

/// Answers of tools, with their names.
fn answers(trace: &Trace) -> impl Iterator<Item = (String, String)> {
    let messages: Vec<Message> =
        trace.facts.get("messages").and_then(|list| serde_json::from_value(list.clone()).ok()).unwrap_or_default();
    messages.into_iter().filter_map(|message| match message {
        Message::Tool { content, name: Some(name), .. } => Some((name, Content::text(&content))),
        _ => None,
    })
}
