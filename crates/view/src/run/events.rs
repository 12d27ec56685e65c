//! Events by kind, as far as this version knows them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::{Map, Value};

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
    pub resumed: Vec<Map<String, Value>>,
    pub optimizer: BTreeMap<u64, Vec<Map<String, Value>>>,
    unknown: BTreeMap<String, u64>,
}

/// The held-out tasks, played at a step: an evaluation or a control.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Played {
    pub step: u64,
    /// `eval` or `control`.
    pub event: String,
    pub kind: String,
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

impl Played {
    /// As URLs and the command line name it: `eval-12-greedy`; the second of a kind `control-12-probe-2`.
    pub fn name(&self) -> String {
        let Self { event, step, kind, before, .. } = self;
        if *before == 0 { format!("{event}-{step}-{kind}") } else { format!("{event}-{step}-{kind}-{}", before + 1) }
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
        let step = event.get("step").and_then(Value::as_u64);
        let kind = event.get("event").and_then(Value::as_str).unwrap_or("(without a name)").to_owned();
        match (kind.as_str(), step) {
            ("step", Some(step)) => {
                if let Some(range) = traces(&event) {
                    self.steps.insert(step, range);
                }
            }
            ("eval", Some(step)) => self.played.push(played(step, &kind, &event)),
            ("control", Some(step)) => {
                let control = played(step, &kind, &event);
                let same = |other: &&Played| {
                    (&other.event, other.step, &other.kind) == (&control.event, control.step, &control.kind)
                };
                let before = self.played.iter().filter(same).count();
                self.played.push(Played { before, ..control });
            }
            ("baseline", _) => {
                let Some(result) = event.get("result") else { return };
                let name = result.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
                self.baselines.push(Baseline { name, success: number(result, "success"), interval: interval(result) });
            }
            ("checkpoint", Some(step)) => {
                self.checkpoints.insert(step);
                let best = event.get("best").and_then(|best| best.get("step").or(Some(best))?.as_u64());
                self.best = best.or(self.best);
            }
            ("faults", Some(step)) => _ = self.faults.insert(step, event),
            ("optimizer_step", Some(step)) => self.optimizer.entry(step).or_default().push(event),
            ("resumed", _) => self.resumed.push(event),
            ("overlap" | "guard" | "extended" | "notice", _) => {}
            _ => *self.unknown.entry(kind).or_default() += 1,
        }
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

fn played(step: u64, event: &str, line: &Map<String, Value>) -> Played {
    let none = Value::Null;
    let result = line.get("result").unwrap_or(&none);
    Played {
        step,
        event: event.to_owned(),
        kind: line.get("kind").and_then(Value::as_str).unwrap_or("sampled").to_owned(),
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
