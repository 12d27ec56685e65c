//! A run's records, read once, and the questions checks ask of them.

mod records;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use hone_chat::{ModelDir, Tokenizer};
use hone_trace::rundir::{RunDirError, RunReader, TraceReader};
use hone_trace::{Outcome, Trace};
use hone_train::evaluate::{Evaluation, Kind};
use hone_train::events::{Event, Traces};
use hone_train::ledger::Ledger;
use hone_train::ledger::names::Name;
use hone_train::recipe::Recipe;
use hone_train::report::{ReportError, Row, RunReport, Windows};
use serde_json::Value;

pub(crate) use records::{messages, text, weights};

/// Steps at each end of a run whose traces are read: enough to see a fault, little enough to be quick.
const PROBED_STEPS: usize = 4;

/// A run, live or finished.
#[derive(Debug)]
pub struct Run {
    pub recipe: Recipe,
    pub report: RunReport,
    /// Every recorded step, in order.
    pub steps: Vec<Ledger>,
    pub events: Vec<Event>,
    traces: TraceReader,
    directory: PathBuf,
    texts: OnceLock<Option<ModelDir>>,
}

/// Traces with their numbers.
pub type Episodes = Vec<(u64, Trace)>;

impl Run {
    pub fn read(directory: &Path) -> Result<Self, ReportError> {
        let run = RunReader::open(directory)?;
        let lines = run.metrics()?.records;
        let steps: BTreeMap<u64, Ledger> =
            lines.iter().filter_map(Ledger::from_map).map(|ledger| (ledger.step, ledger)).collect();
        Ok(Self {
            recipe: Recipe::recorded(&run.recipe()?)?.0,
            report: RunReport::read(directory)?,
            steps: steps.into_values().collect(),
            events: run.events()?.records.iter().filter_map(Event::read).collect(),
            traces: run.traces()?,
            directory: directory.to_owned(),
            texts: OnceLock::new(),
        })
    }

    /// A metric over the steps that have it.
    pub fn series(&self, metric: impl Into<Name>) -> Vec<(u64, f64)> {
        let metric = metric.into();
        self.steps.iter().filter_map(|ledger| Some((ledger.step, ledger.get(metric.clone())?))).collect()
    }

    /// The mean of a metric over the steps that have it.
    pub fn mean(&self, metric: impl Into<Name>) -> Option<f64> {
        let values = self.series(metric);
        (!values.is_empty()).then(|| values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64)
    }

    /// The sum of a metric. `None` where no step has it.
    pub fn sum(&self, metric: impl Into<Name>) -> Option<f64> {
        let values = self.series(metric);
        (!values.is_empty()).then(|| values.iter().map(|(_, value)| value).sum())
    }

    /// A metric early and late.
    pub fn windows(&self, metric: impl Into<Name>) -> Option<Row> {
        Row::of(metric, &self.steps, Windows::of(&self.steps)?)
    }

    /// Training episodes of the first and the last steps.
    pub fn probed(&self) -> Result<Episodes, RunDirError> {
        let ranges = self.ranges(|event| match event {
            Event::Step { traces, .. } => Some(*traces),
            _ => None,
        });
        let ends = ranges.len().saturating_sub(PROBED_STEPS).max(PROBED_STEPS.min(ranges.len()));
        let mut episodes = Episodes::new();
        for range in ranges.iter().take(PROBED_STEPS).chain(&ranges[ends..]) {
            episodes.extend(self.episodes(range)?);
        }
        Ok(episodes)
    }

    /// Episodes of the last evaluation of a kind that came after a step; of the only one where there is one.
    pub fn evaluated(&self, kind: Kind) -> Result<Episodes, RunDirError> {
        let of_kind = |event: &Event| match event {
            Event::Eval { kind: other, traces, .. } if *other == kind => Some(*traces),
            _ => None,
        };
        self.ranges(of_kind).last().map_or_else(|| Ok(Episodes::new()), |range| self.episodes(range))
    }

    /// The headline evaluation after training.
    pub fn after(&self) -> Option<&Evaluation> {
        self.report.after.as_ref().map(|found| &found.result)
    }

    /// The headline evaluation before training.
    pub fn before(&self) -> Option<&Evaluation> {
        self.report.before.as_ref().map(|found| &found.result)
    }

    /// The tokenizer that the run's first checkpoint holds.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        let open = || {
            let kept = std::fs::read_dir(self.directory.join("checkpoints")).ok()?;
            let mut kept: Vec<PathBuf> = kept.filter_map(|entry| Some(entry.ok()?.path())).collect();
            kept.sort();
            let there = kept.into_iter().find(|path| path.join("tokenizer.json").is_file())?;
            ModelDir::open(&there).ok()
        };
        self.texts.get_or_init(open).as_ref()?.tokenizer().ok()
    }

    /// Success of an episode; `None` if it was not scored or something outside the policy broke.
    pub fn solved(&self, trace: &Trace) -> Option<bool> {
        if matches!(trace.outcome, Outcome::Fault { .. }) {
            return None;
        }
        trace.reward(&self.recipe.eval.success).map(|value| value == 1.0)
    }

    /// Components that are paid, and their weights.
    pub fn weights(&self) -> Vec<(String, f64)> {
        let text =
            |component: &serde_json::Map<String, Value>, key: &str| Some(component.get(key)?.as_str()?.to_owned());
        let weight = |component: &serde_json::Map<String, Value>| {
            let name = text(component, "name").or_else(|| text(component, "kind"))?;
            Some((name, component.get("weight").and_then(Value::as_f64).unwrap_or(1.0)))
        };
        self.recipe.rubric.component.iter().filter_map(weight).filter(|(_, weight)| *weight != 0.0).collect()
    }

    fn ranges(&self, of: impl Fn(&Event) -> Option<Traces>) -> Vec<Range<u64>> {
        self.events.iter().filter_map(of).map(|[from, to]| from..to).collect()
    }

    fn episodes(&self, range: &Range<u64>) -> Result<Episodes, RunDirError> {
        range.clone().zip(self.traces.range(range.clone())).map(|(number, trace)| Ok((number, trace?))).collect()
    }
}
