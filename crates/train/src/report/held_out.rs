//! Held-out tasks: every evaluation, control and baseline of a run, recounted from its directory, and the verdict.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use hone_arena::perturb::Perturbation;
use hone_trace::rundir::RunReader;
use serde::{Deserialize, Serialize};

use super::{Evaluated, Record, ReportError};
use crate::evaluate::baselines::{self, Floor, Played};
use crate::evaluate::overlap::Overlap;
use crate::evaluate::{
    ByTask, Control, ControlKind, Counted, Difference, Evaluation, Evidence, Judgement, Kind, count, judge, paired,
};
use crate::events::{ControlEvent, ControlPart, Event};
use crate::recipe::Recipe;

/// Reasons why a run has no verdict.
const NO_EVALUATIONS: &str = "no verdict: there are no evaluations before and after training to compare";
const NO_CONTROLS: &str = "no verdict: without controls it cannot be told from more confidence (training is not over, or \
                           eval.controls = false)";
const NO_TASKS: &str = "no verdict: no held-out task was scored both before and after training";

/// Directory of the control run.
pub const PLACEBO: &str = "placebo";

/// Evaluations on the held-out tasks.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HeldOut {
    /// Kind of the headline evaluation.
    pub headline: Kind,
    pub greedy: BeforeAfter,
    pub sampled: BeforeAfter,
    pub controls: Vec<Control>,
    /// The trained policy with its tools changed: does it read them?
    #[serde(default)]
    pub probes: Vec<Probe>,
    /// Verdict on the policy, with the differences it rests on. Absent before training is over.
    pub judgement: Option<Judgement>,
    /// Reason why there is no verdict, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_verdict: Option<String>,
    /// Reasons why a part of it is missing, in words.
    pub notes: Vec<String>,
    /// The sampled success over the best of the start and the controls.
    pub gain: Option<Gain>,
    /// Policies without a model.
    pub baselines: Vec<Floor>,
    /// Overlap of the held-out tasks with the training tasks.
    pub overlap: Option<Overlap>,
}

/// The first evaluation and the last one after it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BeforeAfter {
    pub before: Option<Evaluated>,
    pub after: Option<Evaluated>,
    /// Final minus starting policy, paired by task.
    #[serde(default)]
    pub change: Option<Difference>,
}

/// The trained policy, greedily, with its tools changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    pub tools: Perturbation,
    #[serde(flatten)]
    pub result: Evaluation,
    /// Minus the same policy with unchanged tools, task by task.
    pub difference: Option<Difference>,
}

/// Gain, and the control it is measured against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    pub over: String,
    #[serde(flatten)]
    pub difference: Difference,
}

impl HeldOut {
    pub(super) fn read(directory: &Path, recipe: &Recipe, record: &Record) -> Result<Self, ReportError> {
        let success = &recipe.eval.success;
        let events = &record.events;
        let recount = |range: &Range<u64>| Ok::<_, ReportError>(count(&record.traces(range.clone())?, success));
        let both = |kind: Kind| -> Result<[Option<(u64, Counted)>; 2], ReportError> {
            let (first, last) = (events.of(kind).next(), events.of(kind).next_back());
            let last = last.filter(|(step, _)| first.is_some_and(|(first, _)| first != *step));
            let one = |found: Option<(u64, &Range<u64>)>| {
                found.map(|(step, range)| Ok::<_, ReportError>((step, recount(range)?))).transpose()
            };
            Ok([one(first)?, one(last)?])
        };
        let (greedy, sampled) = (both(Kind::Greedy)?, both(Kind::Sampled)?);
        let mut controls = Vec::new();
        let mut notes: Vec<String> =
            events.skipped.iter().map(|why| format!("the start was not sharpened: {why}")).collect();
        for (kind, range) in &events.controls {
            let Counted { evaluation, by_task } = recount(range)?;
            controls.push((Control { kind: *kind, placebo: None, result: evaluation }, by_task));
        }
        match placebo(directory)? {
            Ok(found) => controls.extend(found),
            Err(note) => notes.push(note),
        }
        let mut probes = Vec::new();
        for (how, range) in &events.probes {
            let Counted { evaluation, by_task } = recount(range)?;
            let as_they_are = greedy[1].as_ref().map(|(_, after)| &after.by_task);
            let difference = as_they_are.and_then(|before| paired(before, &by_task));
            probes.push(Probe { tools: *how, result: evaluation, difference });
        }
        let judged = Self::judged(&greedy, &sampled, &controls, events);
        let (judgement, no_verdict) = match judged {
            Ok(judgement) => (Some(judgement), None),
            Err(why) => (None, Some(why.to_owned())),
        };
        let gain = Self::gain_over(&sampled, &controls);
        Ok(Self {
            headline: recipe.eval.headline(),
            greedy: BeforeAfter::of(greedy),
            sampled: BeforeAfter::of(sampled),
            controls: controls.into_iter().map(|(control, _)| control).collect(),
            probes,
            judgement,
            no_verdict,
            notes,
            gain,
            baselines: events.baselines.iter().map(Played::floor).collect(),
            overlap: events.overlap,
        })
    }

    /// Headline evaluations.
    pub fn headline(&self) -> &BeforeAfter {
        match self.headline {
            Kind::Greedy => &self.greedy,
            Kind::Sampled => &self.sampled,
        }
    }

    /// The best of the policies without a model.
    pub fn best_baseline(&self) -> Option<&Floor> {
        baselines::best(&self.baselines)
    }

    fn judged(
        greedy: &[Option<(u64, Counted)>; 2],
        sampled: &[Option<(u64, Counted)>; 2],
        controls: &[(Control, ByTask)],
        events: &Events,
    ) -> Result<Judgement, &'static str> {
        let [Some((_, greedy_before)), Some((_, greedy_after))] = greedy else { return Err(NO_EVALUATIONS) };
        let [Some((_, sampled_before)), Some((_, sampled_after))] = sampled else { return Err(NO_EVALUATIONS) };
        let sharpened = controls.iter().find(|(control, _)| control.kind == ControlKind::Sharpened);
        if sharpened.is_none() && events.skipped.is_none() {
            return Err(NO_CONTROLS);
        }
        let evidence = Evidence {
            greedy: [&greedy_before.by_task, &greedy_after.by_task],
            sampled: [&sampled_before.by_task, &sampled_after.by_task],
            sharpened: sharpened.map(|(_, by_task)| by_task),
        };
        judge(evidence).ok_or(NO_TASKS)
    }

    /// Gain over the best of them, so that no control is cherry-picked.
    fn gain_over(sampled: &[Option<(u64, Counted)>; 2], controls: &[(Control, ByTask)]) -> Option<Gain> {
        let [Some((_, before)), Some((_, after))] = sampled else { return None };
        let start = ("the start", before.evaluation.success, &before.by_task);
        let others = controls.iter().map(|(control, by_task)| (control.kind.words(), control.result.success, by_task));
        let scored = others.chain([start]).filter_map(|(name, success, by_task)| Some((name, success?, by_task)));
        let (name, _, by_task) = scored.max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Gain { over: name.to_owned(), difference: paired(by_task, &after.by_task)? })
    }
}

impl BeforeAfter {
    fn of([before, after]: [Option<(u64, Counted)>; 2]) -> Self {
        let change = before.as_ref().zip(after.as_ref());
        let change = change.and_then(|((_, before), (_, after))| paired(&before.by_task, &after.by_task));
        let evaluated = |(step, counted): (u64, Counted)| Evaluated { step, result: counted.evaluation };
        Self { before: before.map(evaluated), after: after.map(evaluated), change }
    }
}

/// End of the placebo run beside a run, if there is a finished one; a note if it is not finished.
fn placebo(directory: &Path) -> Result<Result<Option<(Control, ByTask)>, String>, ReportError> {
    let aside = directory.join(PLACEBO);
    if !aside.join("recipe.toml").is_file() {
        return Ok(Ok(None));
    }
    let run = RunReader::open(&aside)?;
    let (recipe, _) = Recipe::recorded(&run.recipe()?)?;
    let record = Record::read(&run, Kind::Sampled)?;
    let end = record.events.of(Kind::Sampled).next_back().filter(|(step, _)| *step == recipe.train.steps);
    let Some((_, range)) = end else { return Ok(Err("the placebo run is not finished".into())) };
    let Counted { evaluation, by_task } = count(&record.traces(range.clone())?, &recipe.eval.success);
    let control = Control { kind: ControlKind::Placebo, placebo: recipe.placebo, result: evaluation };
    Ok(Ok(Some((control, by_task))))
}

/// Events about held-out tasks: which traces are whose. Results are counted again.
#[derive(Debug, Default)]
pub(super) struct Events {
    evaluations: BTreeMap<(Kind, u64), Range<u64>>,
    controls: BTreeMap<ControlKind, Range<u64>>,
    probes: BTreeMap<Perturbation, Range<u64>>,
    /// Reason why the start was not sharpened.
    skipped: Option<String>,
    baselines: Vec<Played>,
    overlap: Option<Overlap>,
}

impl Events {
    pub(super) fn add(&mut self, event: Event) {
        match event {
            Event::Eval { step, kind, traces: [from, to], .. } => {
                self.evaluations.insert((kind, step), from..to);
            }
            Event::Control(control) => self.add_control(control),
            Event::Baseline { played, .. } => {
                self.baselines.retain(|other| other.name != played.name);
                self.baselines.push(played);
            }
            Event::Overlap { result } => self.overlap = Some(result),
            _ => {}
        }
    }

    fn add_control(&mut self, control: ControlEvent) {
        let Some([from, to]) = control.traces else {
            self.skipped = control.skipped;
            return;
        };
        let mut add = |kind| self.controls.insert(kind, from..to);
        let mut probe = |how| self.probes.insert(how, from..to);
        match control.kind {
            ControlPart::Again => add(ControlKind::Again),
            ControlPart::Sharpened => add(ControlKind::Sharpened),
            ControlPart::OrderReversed => probe(Perturbation::OrderReversed),
            ControlPart::NamesExchanged => probe(Perturbation::NamesExchanged),
            // A temperature that the search only tried.
            ControlPart::Probe => None,
        };
    }

    /// Steps and traces of the evaluations of a kind, in order.
    pub(super) fn of(&self, kind: Kind) -> impl DoubleEndedIterator<Item = (u64, &Range<u64>)> {
        self.evaluations.range((kind, 0)..=(kind, u64::MAX)).map(|((_, step), range)| (*step, range))
    }
}
