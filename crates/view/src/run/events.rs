//! Events by kind, as far as this version knows them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use hone_train::evaluate::Kind;
use hone_train::events::ControlPart;
use serde_json::{Map, Value};

use super::words::{EventKind, Lenient, Word as _};

/// Events of a run.
#[derive(Debug, Clone, Default)]
pub struct Events {
    /// Traces of each step.
    pub steps: BTreeMap<u64, Range<u64>>,
    /// Evaluations and controls, in order.
    pub played: Vec<Played>,
    pub baselines: Vec<Baseline>,
    pub checkpoints: BTreeSet<u64>,
    /// The step of the best checkpoint.
    pub best: Option<u64>,
    pub faults: BTreeMap<u64, Map<String, Value>>,
    unknown: BTreeMap<String, u64>,
}

/// The held-out tasks, played at a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Played {
    pub step: u64,
    pub set: Set,
    /// Controls of this step and kind before it: the search for a temperature plays several.
    pub before: usize,
    pub success: Option<f64>,
    pub interval: Option<[f64; 2]>,
    pub tasks: Option<u64>,
    pub entropy: Option<f64>,
    pub parse_failures: Option<f64>,
    pub temperature: Option<f64>,
    pub traces: Option<Range<u64>>,
}

/// Kind of a measurement on the held-out tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Set {
    /// Evaluation of the policy of a step.
    Eval(Lenient<Kind>),
    Control(Lenient<ControlPart>),
}

impl Set {
    /// The kind of evaluation or control, as it was written.
    pub fn kind(&self) -> &str {
        match self {
            Self::Eval(kind) => kind.as_str(),
            Self::Control(part) => part.as_str(),
        }
    }
}

impl fmt::Display for Set {
    /// `eval` or `control`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eval(_) => "eval",
            Self::Control(_) => "control",
        })
    }
}

impl Played {
    /// As URLs and the command line name it: `eval-12-greedy`; the second of a kind `control-12-probe-2`.
    pub fn name(&self) -> String {
        let Self { set, step, before, .. } = self;
        let name = format!("{set}-{step}-{}", set.kind());
        if *before == 0 { name } else { format!("{name}-{}", before + 1) }
    }
}

/// A policy without a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Baseline {
    pub name: String,
    pub success: Option<f64>,
    pub interval: Option<[f64; 2]>,
}

impl Events {
    pub(super) fn add(&mut self, event: Map<String, Value>) {
        match Lenient::<EventKind>::read(event.get("event")) {
            Some(Lenient::Known(kind)) => {
                if self.known(kind, event).is_none() {
                    self.skip(kind.name());
                }
            }
            Some(Lenient::Unknown(name)) => self.skip(&name),
            None => self.skip("(without a name)"),
        }
    }

    /// `None` if an event of a step does not name it.
    fn known(&mut self, kind: EventKind, event: Map<String, Value>) -> Option<()> {
        let step = event.get("step").and_then(Value::as_u64);
        match kind {
            EventKind::Step => {
                let step = step?;
                self.steps.extend(traces(&event).map(|range| (step, range)));
            }
            EventKind::Eval => {
                // Older runs evaluated only by sampling, and did not record it.
                let kind = Lenient::read(event.get("kind")).unwrap_or(Lenient::Known(Kind::Sampled));
                self.played.push(played(step?, Set::Eval(kind), &event));
            }
            EventKind::Control => {
                let part = Lenient::read(event.get("kind")).unwrap_or_else(Lenient::missing);
                let control = played(step?, Set::Control(part), &event);
                let same = |other: &&Played| (other.step, &other.set) == (control.step, &control.set);
                let before = self.played.iter().filter(same).count();
                self.played.push(Played { before, ..control });
            }
            EventKind::Baseline => self.baselines.extend(event.get("result").map(baseline)),
            EventKind::Checkpoint => {
                self.checkpoints.insert(step?);
                let best = event.get("best").and_then(|best| best.get("step").or(Some(best))?.as_u64());
                self.best = best.or(self.best);
            }
            EventKind::Faults => _ = self.faults.insert(step?, event),
            EventKind::Overlap
            | EventKind::OptimizerStep
            | EventKind::Guard
            | EventKind::Extended
            | EventKind::Notice
            | EventKind::Resumed => {}
        }
        Some(())
    }

    fn skip(&mut self, name: &str) {
        *self.unknown.entry(name.to_owned()).or_default() += 1;
    }

    /// Evaluations of the policy, in order.
    pub fn evaluations(&self) -> impl DoubleEndedIterator<Item = &Played> {
        self.played.iter().filter(|played| matches!(played.set, Set::Eval(_)))
    }

    /// The evaluation or control of this name; the last one if several share it.
    pub fn played(&self, name: &str) -> Option<&Played> {
        self.played.iter().rev().find(|played| played.name() == name)
    }

    pub(super) fn notes(&self) -> Vec<String> {
        if self.unknown.is_empty() {
            return Vec::new();
        }
        let kinds: Vec<String> = self.unknown.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
        vec![format!("events.jsonl: events of kinds this version does not know were skipped: {}", kinds.join(", "))]
    }

    /// Number of traces that the events mention.
    pub(super) fn traces_named(&self) -> u64 {
        let played = self.played.iter().filter_map(|played| played.traces.as_ref());
        self.steps.values().chain(played).map(|range| range.end).max().unwrap_or(0)
    }
}

fn played(step: u64, set: Set, line: &Map<String, Value>) -> Played {
    let none = Value::Null;
    let result = line.get("result").unwrap_or(&none);
    Played {
        step,
        set,
        before: 0,
        success: number(result, "success"),
        interval: interval(result),
        tasks: result.get("tasks").and_then(Value::as_u64),
        entropy: number(result, "entropy"),
        parse_failures: number(result, "parse_failure_rate"),
        temperature: number(result, "temperature"),
        traces: traces(line),
    }
}

fn baseline(result: &Value) -> Baseline {
    let name = result.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    Baseline { name, success: number(result, "success"), interval: interval(result) }
}

fn traces(event: &Map<String, Value>) -> Option<Range<u64>> {
    let pair = event.get("traces")?.as_array()?;
    let [from, to] = [pair.first()?.as_u64()?, pair.get(1)?.as_u64()?];
    (from <= to).then_some(from..to)
}

fn number(value: &Value, key: &str) -> Option<f64> {
    value.get(key)?.as_f64()
}

fn interval(value: &Value) -> Option<[f64; 2]> {
    let pair = value.get("ci")?.as_array()?;
    Some([pair.first()?.as_f64()?, pair.get(1)?.as_f64()?])
}
