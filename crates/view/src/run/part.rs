//! A part of a run: the traces of a step or of an evaluation, by group.

use std::collections::HashSet;
use std::fmt;
use std::ops::{ControlFlow, Range};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::brief::{Brief, Worth};
use super::lines::parse;
use super::words::{Ending, Lenient, Role};
use super::{Run, ViewError};

/// A step, or an evaluation or control by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Step(u64),
    Played(String),
}

impl Part {
    /// `12`, `step-12` or `eval-12-greedy`.
    pub fn parse(text: &str) -> Self {
        let number = text.strip_prefix("step-").unwrap_or(text);
        number.parse().map_or_else(|_| Self::Played(text.to_owned()), Self::Step)
    }

    /// The step, or the step at which it was played.
    pub(crate) fn step(&self) -> Option<u64> {
        match self {
            Self::Step(step) => Some(*step),
            Self::Played(name) => name.split('-').nth(1)?.parse().ok(),
        }
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(step) => write!(f, "step-{step}"),
            Self::Played(name) => f.write_str(name),
        }
    }
}

/// The rollouts of one task.
#[derive(Debug, Clone, Serialize)]
pub struct Group {
    /// Its number in the part, from 1.
    pub group: usize,
    pub env: String,
    pub task: String,
    pub rollouts: Vec<Brief>,
}

impl Group {
    pub fn mean(&self) -> Option<f64> {
        let totals: Vec<f64> = self.rollouts.iter().filter_map(Brief::total).collect();
        (!totals.is_empty()).then(|| totals.iter().sum::<f64>() / totals.len() as f64)
    }

    /// Number of successful rollouts, and of rollouts that report success.
    pub fn solved(&self, success: Option<&str>) -> (usize, usize) {
        let values: Vec<f64> = self
            .rollouts
            .iter()
            .filter_map(|rollout| success.map_or_else(|| rollout.total(), |name| rollout.reward(name)))
            .collect();
        (values.iter().filter(|value| **value == 1.0).count(), values.len())
    }
}

/// Groups that teach nothing for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silent {
    pub why: String,
    pub groups: usize,
    /// Those that every rollout solved, and those that none did.
    pub by_all: usize,
    pub by_none: usize,
}

impl Silent {
    /// The groups without signal, by reason.
    pub fn of(groups: &[Group], success: Option<&str>) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for group in groups {
            let is_none = |rollout: &Brief| matches!(rollout.advantage, Worth::Nothing(_));
            let Some(Worth::Nothing(why)) = group.rollouts.first().map(|rollout| &rollout.advantage) else { continue };
            if !group.rollouts.iter().all(is_none) {
                continue;
            }
            let at = found.iter().position(|silent| silent.why == *why).unwrap_or_else(|| {
                found.push(Self { why: why.clone(), groups: 0, by_all: 0, by_none: 0 });
                found.len() - 1
            });
            let (solved, scored) = group.solved(success);
            found[at].groups += 1;
            found[at].by_all += usize::from(scored > 0 && solved == scored);
            found[at].by_none += usize::from(scored > 0 && solved == 0);
        }
        found
    }
}

/// A step or an evaluation, and its groups with the matching rollouts.
pub type Found = (Part, Vec<Group>);

/// Filter of rollouts. Empty: all of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filter {
    pub env: Option<String>,
    pub outcome: Option<Lenient<Ending>>,
    /// A kind of parse failure; `any` for all kinds.
    pub failure: Option<String>,
    pub least: Option<f64>,
    pub most: Option<f64>,
    /// Words of the conversation, the calls, the reasons or the task's name, in any case. The system prompt is not
    /// searched: it is the same in every rollout.
    pub text: Option<String>,
}

impl Filter {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn wants(&self, brief: &Brief) -> bool {
        let total = brief.total();
        self.env.as_ref().is_none_or(|env| brief.env == *env)
            && self.outcome.as_ref().is_none_or(|outcome| brief.outcome == *outcome)
            && self.failure.as_ref().is_none_or(|kind| {
                if kind == "any" { !brief.parse_failures.is_empty() } else { brief.parse_failures.contains(kind) }
            })
            && self.least.is_none_or(|least| total.is_some_and(|total| total >= least))
            && self.most.is_none_or(|most| total.is_some_and(|total| total <= most))
    }
}

impl Run {
    /// The trace numbers of a part.
    pub fn range(&self, part: &Part) -> Result<Range<u64>, ViewError> {
        let missing = || match part {
            Part::Step(step) => {
                let (first, last) = (self.events.steps.keys().next(), self.events.steps.keys().next_back());
                match (first, last) {
                    (Some(first), Some(last)) => format!("the run has no step {step}; its steps are {first} to {last}"),
                    _ => "the run has no steps yet".to_owned(),
                }
            }
            Part::Played(name) => {
                let names: Vec<String> = self.events.played.iter().map(super::Played::name).collect();
                format!("the run has no {name:?}; it has steps, and {}", names.join(", "))
            }
        };
        let range = match part {
            Part::Step(step) => self.events.steps.get(step).cloned(),
            Part::Played(name) => self.events.played(name).and_then(|played| played.traces.clone()),
        };
        range.ok_or_else(|| ViewError::Missing(missing()))
    }

    /// The part a trace belongs to.
    pub(crate) fn part_of(&self, trace: u64) -> Option<Part> {
        let step =
            self.events.steps.iter().find(|(_, range)| range.contains(&trace)).map(|(step, _)| Part::Step(*step));
        let played = || {
            self.events.played.iter().find(|played| played.traces.as_ref().is_some_and(|range| range.contains(&trace)))
        };
        step.or_else(|| Some(Part::Played(played()?.name())))
    }

    /// The groups of a part, and notes on what could not be read.
    pub fn groups(&self, part: &Part, filter: &Filter) -> Result<(Vec<Group>, Vec<String>), ViewError> {
        let range = self.range(part)?;
        let traces = self.traces()?;
        let (mut groups, mut notes) = (Vec::<Group>::new(), Vec::new());
        let needle = filter.text.as_ref().map(|text| text.to_lowercase()).filter(|text| !text.is_empty());
        let mut seen = HashSet::new();
        traces.lines(range.start..range.end.min(traces.len()), |number, line| {
            let read = line.map_err(|error| error.to_string()).and_then(|line| {
                let brief = Brief::read(number, line)?;
                let found = needle.as_ref().is_none_or(|needle| self.contains(line, needle));
                Ok((brief, found))
            });
            match read {
                Err(why) => notes.push(format!("trace {number} could not be read: {why}")),
                Ok((brief, found)) => {
                    // Rollouts of one task are adjacent; a task drawn twice has two sets of replicas.
                    let same = groups.last().is_some_and(|group| group.task == brief.task && group.env == brief.env);
                    if !same || !seen.insert(brief.replica) {
                        seen = HashSet::from([brief.replica]);
                        let (env, task) = (brief.env.clone(), brief.task.clone());
                        groups.push(Group { group: groups.len() + 1, env, task, rollouts: Vec::new() });
                    }
                    if let Some(group) = groups.last_mut().filter(|_| found && filter.wants(&brief)) {
                        group.rollouts.push(brief);
                    }
                }
            }
            ControlFlow::Continue(())
        });
        if range.end > traces.len() {
            let lost = range.end - traces.len().max(range.start);
            notes.push(format!("{lost} traces of it were cut off or are being written"));
        }
        groups.retain(|group| !group.rollouts.is_empty());
        Ok((groups, notes))
    }

    /// One group of a part, by its number from 1.
    pub fn group(&self, part: &Part, number: usize) -> Result<(Group, usize), ViewError> {
        let (mut groups, _) = self.groups(part, &Filter::default())?;
        let count = groups.len();
        let place = groups.iter().position(|group| group.group == number);
        place.map(|place| (groups.swap_remove(place), count)).ok_or_else(|| match count {
            0 => ViewError::Missing(format!(
                "no group of {part} can be read: its traces are missing; restore traces/ from a copy of the run"
            )),
            count => ViewError::Missing(format!("{part} has no group {number}; its groups are 1 to {count}")),
        })
    }

    /// Steps and evaluations with matching rollouts, in order, and notes on what could not be read.
    pub fn found(&self, filter: &Filter) -> Result<(Vec<Found>, Vec<String>), ViewError> {
        let steps = self.events.steps.keys().map(|step| Part::Step(*step));
        let played = self.events.played.iter().filter(|played| played.traces.is_some());
        let (mut found, mut notes) = (Vec::new(), Vec::new());
        for part in steps.chain(played.map(|played| Part::Played(played.name()))) {
            let (groups, skipped) = self.groups(&part, filter)?;
            notes.extend(skipped.into_iter().map(|note| format!("{part}: {note}")));
            if !groups.is_empty() {
                found.push((part, groups));
            }
        }
        Ok((found, notes))
    }

    /// True if any text of a trace has the needle, which is in lower case.
    fn contains(&self, line: &[u8], needle: &str) -> bool {
        #[derive(Deserialize)]
        struct Texts {
            #[serde(default)]
            task: Value,
            #[serde(default)]
            turns: Value,
            #[serde(default)]
            outcome: Value,
            #[serde(default)]
            rewards: Value,
            #[serde(default)]
            facts: Value,
        }
        let Ok(Texts { task, turns, outcome, rewards, mut facts }) = parse::<Texts>(line) else { return false };
        if let Some(messages) = facts.get_mut("messages").and_then(Value::as_array_mut) {
            messages.retain(|message| Lenient::read(message.get("role")) != Some(Lenient::Known(Role::System)));
        }
        if facts.get("messages").is_none() {
            let decoded = parse(line).ok().and_then(|value| self.decoded(&value));
            if decoded.is_some_and(|text| text.to_lowercase().contains(needle)) {
                return true;
            }
        }
        [task, turns, outcome, rewards, facts].iter().any(|value| has(value, needle))
    }

    fn decoded(&self, trace: &Value) -> Option<String> {
        let nodes = trace.get("nodes")?.as_array()?;
        let ids = nodes.iter().filter_map(|node| node.get("tokens")?.as_array()).flatten();
        let ids: Vec<u32> = ids.filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect();
        self.tokenizer()?.decode(&ids).ok()
    }
}

fn has(value: &Value, needle: &str) -> bool {
    match value {
        Value::String(text) => text.to_lowercase().contains(needle),
        Value::Array(items) => items.iter().any(|item| has(item, needle)),
        Value::Object(map) => map.iter().any(|(key, value)| key.to_lowercase().contains(needle) || has(value, needle)),
        Value::Number(number) => number.to_string() == *needle,
        Value::Null | Value::Bool(_) => false,
    }
}
