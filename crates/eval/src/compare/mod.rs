//! Paired comparison of two evaluations on the same tasks: the difference, its significance, and the behaviours that go
//! with it.

mod align;
mod page;
mod several;

use std::collections::{BTreeMap, BTreeSet};

use hone_trace::Trace;
use hone_train::evaluate::{Difference, paired};
use serde::Serialize;

pub use align::{Mark, Step, align};
pub use several::{Entrant, Several, Standing};

use crate::detect::{DETECTORS, Seen};
use crate::spent::Price;
use crate::table::{Episode, Passing, Row};
use hone_train::interval::bootstrap::sign_flip;

/// One side of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    pub name: &'a str,
    pub traces: &'a [Trace],
    /// The number of the first trace in its directory.
    pub first: u64,
    pub price: Option<Price>,
}

/// Quantity that differs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    pub passing: Passing,
    pub names: [String; 2],
    /// Tasks scored in both, and tasks scored in only one.
    pub tasks: usize,
    pub only: [usize; 2],
    pub rows: [Row; 2],
    /// B minus A in the share of episodes that pass, paired by task. Absent without common tasks.
    pub difference: Option<Difference>,
    /// Sign-flip test over tasks, two-sided.
    pub p_value: Option<f64>,
    pub behaviour: Vec<Behaviour>,
    /// Tasks that changed most, with their calls before and after.
    pub examples: Vec<Example>,
}

/// One behaviour before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Behaviour {
    pub name: &'static str,
    pub about: &'static str,
    /// True for turns and calls, which go with nearly every change and explain none.
    pub plain_count: bool,
    /// Mean over the tasks' means: of the value for a plain count, else of the share of episodes that show it.
    pub mean: [Option<f64>; 2],
    /// Mean value if the detector measures a share (thinking, repeats).
    pub value: [Option<f64>; 2],
    pub change: Option<Explained>,
    /// An episode that shows it on either side: trace number and words.
    pub examples: [Option<Sighted>; 2],
}

/// Correlation of a behaviour's change with the change of success.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explained {
    /// Tasks in which it became rarer, and more frequent.
    pub tasks: [usize; 2],
    /// Mean change of success in those tasks.
    pub gain: [Option<f64>; 2],
    /// Part of the whole change of success that happened in these tasks: between 0 and 1 if they changed in the same
    /// direction. Absent if success did not change.
    pub share: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sighted {
    pub trace: u64,
    pub task: String,
    pub what: String,
}

/// A task, before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Example {
    pub task: String,
    pub success: [f64; 2],
    pub traces: [u64; 2],
    pub calls: Vec<Step>,
}

/// Values by task: the mean over its episodes.
pub(crate) type ByTask = BTreeMap<String, f64>;

impl Comparison {
    /// `examples`: how many tasks are shown with their calls.
    pub fn of(sides: [Side<'_>; 2], passing: &Passing, examples: usize) -> Self {
        let episodes =
            sides.map(|side| side.traces.iter().map(|trace| Episode::of(trace, passing)).collect::<Vec<_>>());
        let success = [success(&episodes[0]), success(&episodes[1])];
        let common: BTreeSet<&String> = success[0].keys().filter(|task| success[1].contains_key(*task)).collect();
        let differences: Vec<f64> = common.iter().map(|task| success[1][*task] - success[0][*task]).collect();
        let rows = [0, 1].map(|at: usize| {
            let own = episodes[at].iter().filter(|episode| common.contains(&episode.task));
            Row::priced(own, &[1], sides[at].price)
        });
        let behaviour = DETECTORS.iter().map(|detector| {
            let seen = sides.map(|side| Observed::of(detector, side, passing, &common));
            let change = explained(&seen, &success, &common);
            let [a, b] = seen;
            Behaviour {
                name: detector.name,
                about: detector.about,
                plain_count: detector.over.is_none(),
                mean: [mean(&a.shown), mean(&b.shown)],
                value: [mean(&a.value), mean(&b.value)],
                change,
                examples: [a.example, b.example],
            }
        });
        Self {
            passing: passing.clone(),
            names: sides.map(|side| side.name.to_owned()),
            tasks: common.len(),
            only: [success[0].len() - common.len(), success[1].len() - common.len()],
            rows,
            difference: paired(&success[0], &success[1]),
            p_value: sign_flip(&differences),
            behaviour: behaviour.collect(),
            examples: shown(sides, &success, &common, examples),
        }
    }

    /// Behaviours by how much of the change they go with, most first; plain counts after all others.
    pub(crate) fn explaining(&self) -> Vec<&Behaviour> {
        let share = |behaviour: &Behaviour| behaviour.change.as_ref().and_then(|change| change.share).unwrap_or(0.0);
        let mut found: Vec<&Behaviour> = self.behaviour.iter().filter(|behaviour| share(behaviour) > 0.0).collect();
        found.sort_by(|a, b| a.plain_count.cmp(&b.plain_count).then(share(b).total_cmp(&share(a))));
        found
    }
}

pub(crate) fn success(episodes: &[Episode]) -> ByTask {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for episode in episodes {
        if let Some(passed) = episode.passed {
            values.entry(episode.task.clone()).or_default().push(f64::from(u8::from(passed)));
        }
    }
    means(values)
}

fn means(values: BTreeMap<String, Vec<f64>>) -> ByTask {
    values.into_iter().map(|(task, values)| (task, values.iter().sum::<f64>() / values.len() as f64)).collect()
}

fn mean(values: &ByTask) -> Option<f64> {
    (!values.is_empty()).then(|| values.values().sum::<f64>() / values.len() as f64)
}

/// A behaviour on one side.
struct Observed {
    /// Presence of the behaviour (for counts: its amount), and its amount.
    shown: ByTask,
    value: ByTask,
    example: Option<Sighted>,
}

impl Observed {
    fn of(detector: &crate::detect::Detector, side: Side<'_>, passing: &Passing, common: &BTreeSet<&String>) -> Self {
        let mut shown: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut value: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut example: Option<(f64, Sighted)> = None;
        for (at, trace) in side.traces.iter().enumerate() {
            if !trace.outcome.is_scorable() || !common.contains(&trace.task) {
                continue;
            }
            let Some(sighting) = (detector.measure)(&Seen::new(trace, passing)) else { continue };
            let there = detector.over.map_or(sighting.value, |over| f64::from(u8::from(sighting.value > over)));
            shown.entry(trace.task.clone()).or_default().push(there);
            value.entry(trace.task.clone()).or_default().push(sighting.value);
            let strongest = example.as_ref().is_none_or(|(most, _)| sighting.value > *most);
            if detector.over.is_some_and(|over| sighting.value > over) && strongest {
                let sighted =
                    Sighted { trace: side.first + at as u64, task: trace.task.clone(), what: sighting.example };
                example = Some((sighting.value, sighted));
            }
        }
        Self { shown: means(shown), value: means(value), example: example.map(|(_, sighted)| sighted) }
    }
}

fn explained(seen: &[Observed; 2], success: &[ByTask; 2], common: &BTreeSet<&String>) -> Option<Explained> {
    let total: f64 = common.iter().map(|task| success[1][*task] - success[0][*task]).sum();
    let (mut tasks, mut sums, mut compared) = ([0usize; 2], [0.0; 2], 0);
    for task in common {
        let (Some(before), Some(after)) = (seen[0].shown.get(*task), seen[1].shown.get(*task)) else { continue };
        compared += 1;
        let direction = if after < before {
            0
        } else if after > before {
            1
        } else {
            continue;
        };
        tasks[direction] += 1;
        sums[direction] += success[1][*task] - success[0][*task];
    }
    let gain = [0, 1].map(|at: usize| (tasks[at] > 0).then(|| sums[at] / tasks[at] as f64));
    let share = (total.abs() > 1e-9).then(|| (sums[0] + sums[1]) / total);
    (compared > 0).then_some(Explained { tasks, gain, share })
}

/// The tasks whose success changed most, better and worse alike; for each side, the task's first episode that is
/// typical of the change.
fn shown(sides: [Side<'_>; 2], success: &[ByTask; 2], common: &BTreeSet<&String>, count: usize) -> Vec<Example> {
    let change = |task: &String| success[1][task] - success[0][task];
    let mut changed: Vec<&String> = common.iter().copied().filter(|task| change(task) != 0.0).collect();
    changed.sort_by(|a, b| change(b).abs().total_cmp(&change(a).abs()).then(a.cmp(b)));
    let mut examples = Vec::new();
    for task in changed.into_iter().take(count) {
        let find =
            |side: Side<'_>| side.traces.iter().position(|trace| trace.task == *task && trace.outcome.is_scorable());
        let (Some(a), Some(b)) = (find(sides[0]), find(sides[1])) else { continue };
        examples.push(Example {
            task: task.clone(),
            success: [success[0][task], success[1][task]],
            traces: [sides[0].first + a as u64, sides[1].first + b as u64],
            calls: align(&sides[0].traces[a], &sides[1].traces[b]),
        });
    }
    examples
}
