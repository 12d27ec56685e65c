//! The end-of-run report: a run's results, recomputed from its directory and from nothing else.
//!
//! Success is recounted from the recorded evaluation traces, confidences and outcomes are read from the recorded
//! rewards, everything else from metrics.jsonl. The report is reproducible.

mod calibration;
mod episode_set;
mod held_out;
mod held_out_markdown;
mod markdown;
mod windows;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use hone_trace::Trace;
use hone_trace::rundir::{RunDirError, RunReader, TraceReader};
use serde::{Deserialize, Serialize};

pub use calibration::{Calibration, Change, Forecasts, Skill};
pub use episode_set::{EpisodeSet, Window};
pub use held_out::{BeforeAfter, Gain, HeldOut, PLACEBO, Probe};
pub use windows::{Row, Windows};

use crate::checkpoint;
use crate::evaluate::{Evaluation, Kind};
use crate::events::{Counted, Event, GuardEvent};
use crate::ledger::names::{self, Metric};
use crate::ledger::{Ledger, TokenFate, TokenTotals};
use crate::recipe::{Recipe, RecipeError};

/// Reason why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error(transparent)]
    Run(#[from] RunDirError),
    #[error("the recipe in the run directory cannot be read: {0}; recipe.toml must be the one that the run wrote")]
    Recipe(#[from] RecipeError),
    #[error("cannot write {path}: {source}")]
    Write { path: String, source: std::io::Error },
}

/// Report of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunReport {
    pub name: String,
    pub seed: u64,
    /// Steps recorded, and steps the recipe asks for.
    pub steps: u64,
    pub planned: u64,
    /// Seconds of all steps, evaluations aside.
    pub seconds: f64,
    /// Seconds of the whole run up to its newest checkpoint, evaluations included. Absent without one.
    #[serde(default)]
    pub elapsed: Option<f64>,
    /// First headline evaluation and the last, if there is one after a step. [`HeldOut`] has all of them.
    pub before: Option<Evaluated>,
    pub after: Option<Evaluated>,
    pub held_out: HeldOut,
    pub windows: Option<Windows>,
    /// Optimizer steps taken: one step of the run may take several.
    #[serde(default)]
    pub optimizer_steps: u64,
    /// Reward components, the total last.
    pub components: Vec<Row>,
    /// Other metrics worth a look.
    pub metrics: Vec<Row>,
    /// Mean share of the advantages' variance over the steps with signal, by component; `rest` is the unexplained part.
    pub advantage_shares: BTreeMap<String, f64>,
    /// Fates of all tokens the run sampled.
    pub tokens: TokenTotals,
    /// By set of episodes; empty if no component is a Brier score.
    pub calibration: BTreeMap<EpisodeSet, Calibration>,
    /// Training episodes broken by something outside the policy. Absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broke: Option<BrokenEpisodes>,
    /// Times the guard went back to a checkpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rollbacks: Vec<Rollback>,
}

/// The guard's return to a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rollback {
    /// Step after which it went back.
    pub step: u64,
    /// Step of the checkpoint.
    pub back_to: u64,
    pub why: String,
    /// Factor on the learning rate from there on.
    pub rate_factor: f64,
}

impl Rollback {
    fn of(event: GuardEvent) -> Option<Self> {
        let GuardEvent { step, why, rate_factor, .. } = event;
        Some(Self { step, back_to: event.back_to?, why, rate_factor })
    }
}

/// Training episodes that broke, and the first fault.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BrokenEpisodes {
    pub episodes: usize,
    /// Number of steps with broken episodes.
    pub steps: usize,
    pub first_step: u64,
    /// Boundary of the first fault, and its message.
    pub first: String,
}

impl BrokenEpisodes {
    /// Adds a step's faults; steps come in order.
    fn add(found: &mut Option<Self>, step: u64, faults: &BTreeMap<String, Counted>) {
        let Some((who, counted)) = faults.iter().max_by_key(|(_, counted)| counted.episodes) else { return };
        let first = || Self { first_step: step, first: format!("{who}: {}", counted.first), ..Self::default() };
        let broke = found.get_or_insert_with(first);
        broke.steps += 1;
        broke.episodes += faults.values().map(|counted| counted.episodes).sum::<usize>();
    }
}

/// An evaluation, recounted, and the step it was made at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluated {
    pub step: u64,
    #[serde(flatten)]
    pub result: Evaluation,
}

/// Metrics reported beside the rewards.
const WATCHED: [Metric; 8] = [
    names::REWARD_SUCCESS_RATE,
    names::REWARD_SIGNAL_RATIO,
    names::REWARD_PARSE_FAILURE_RATE,
    names::ENVIRONMENT_AVG_TURNS,
    names::ENVIRONMENT_TOOL_ERROR_RATE,
    names::GENERATE_AVG_NUM_TOKENS,
    names::POLICY_POLICY_ENTROPY,
    names::POLICY_GRAD_NORM,
];

impl RunReport {
    /// Reads a run, in progress or finished.
    pub fn read(directory: &Path) -> Result<Self, ReportError> {
        let run = RunReader::open(directory)?;
        let (recipe, _) = Recipe::recorded(&run.recipe()?)?;
        let record = Record::read(&run, recipe.eval.headline())?;
        let windows = Windows::of(&record.steps);
        let components = record.component_names().into_iter().filter_map(|name| {
            let row = Row::of(names::BATCH_REWARD_COMPONENT.of([&name]), &record.steps, windows?)?;
            Some(Row { name, ..row })
        });
        let metrics = WATCHED.iter().filter_map(|metric| Row::of(*metric, &record.steps, windows?));
        let held_out = HeldOut::read(directory, &recipe, &record)?;
        let BeforeAfter { before, after, .. } = held_out.headline().clone();
        Ok(Self {
            name: recipe.name,
            seed: recipe.seed,
            steps: record.steps.len() as u64,
            planned: recipe.train.steps,
            seconds: record.sum(names::TIMING_STEP),
            elapsed: checkpoint::newest(directory).ok().flatten().map(|(_, state)| state.seconds),
            before,
            after,
            held_out,
            windows,
            optimizer_steps: record.optimizer_steps,
            components: components.collect(),
            metrics: metrics.collect(),
            advantage_shares: record.shares(),
            tokens: TokenTotals::of(&record.steps),
            calibration: record.calibration(windows)?,
            broke: record.broke,
            rollbacks: record.rollbacks,
        })
    }

    /// Writes report.json and report.md into the run's directory.
    pub fn save(&self, directory: &Path) -> Result<(), ReportError> {
        let json = serde_json::to_string_pretty(self).unwrap_or_default();
        for (name, text) in [("report.json", json + "\n"), ("report.md", self.markdown())] {
            let path = directory.join(name);
            std::fs::write(&path, text)
                .map_err(|source| ReportError::Write { path: path.display().to_string(), source })?;
        }
        Ok(())
    }

    /// True when steps were taken and no token was trained.
    pub fn nothing_trained(&self) -> bool {
        self.steps > 0 && self.tokens.of_fate(TokenFate::Trained) == 0.0
    }

    /// Message of the first fault, in training or in an evaluation.
    pub fn first_fault(&self) -> Option<String> {
        let evaluations = [&self.held_out.greedy, &self.held_out.sampled];
        let of_evaluations = evaluations.into_iter().flat_map(|kind| [&kind.before, &kind.after]).flatten();
        let mut firsts = of_evaluations.filter_map(|found| found.result.first_fault.clone());
        self.broke.as_ref().map(|broke| broke.first.clone()).or_else(|| firsts.next())
    }

    /// The gain in held-out success.
    pub fn gain(&self) -> Option<f64> {
        Some(self.after.as_ref()?.result.success? - self.before.as_ref()?.result.success?)
    }
}

/// Contents of a run directory, read once.
struct Record {
    /// Every recorded step, in order. A step recorded twice (before a crash and after it) counts as recorded last.
    steps: Vec<Ledger>,
    /// Traces of each step.
    episodes: BTreeMap<u64, Range<u64>>,
    /// Traces of each headline evaluation.
    evaluations: BTreeMap<u64, (Range<u64>, Kind)>,
    events: held_out::Events,
    optimizer_steps: u64,
    broke: Option<BrokenEpisodes>,
    rollbacks: Vec<Rollback>,
    traces: TraceReader,
}

impl Record {
    fn read(run: &RunReader, headline: Kind) -> Result<Self, ReportError> {
        let steps: BTreeMap<u64, Ledger> =
            run.metrics()?.records.iter().filter_map(Ledger::from_map).map(|ledger| (ledger.step, ledger)).collect();
        let mut record = Self {
            steps: steps.into_values().collect(),
            episodes: BTreeMap::new(),
            evaluations: BTreeMap::new(),
            events: held_out::Events::default(),
            optimizer_steps: 0,
            broke: None,
            rollbacks: Vec::new(),
            traces: run.traces()?,
        };
        for event in run.events()?.records.iter().filter_map(Event::read) {
            match event {
                Event::Step { step, traces: [from, to] } => _ = record.episodes.insert(step, from..to),
                Event::OptimizerStep(taken) => record.optimizer_steps += u64::from(taken.skipped.is_none()),
                Event::Faults { step, faults, .. } => BrokenEpisodes::add(&mut record.broke, step, &faults),
                Event::Guard(event) => record.rollbacks.extend(Rollback::of(event)),
                other => record.events.add(other),
            }
        }
        let headline = record.events.of(headline).map(|(step, range)| (step, (range.clone(), headline)));
        record.evaluations = headline.collect();
        Ok(record)
    }

    fn traces(&self, range: Range<u64>) -> Result<Vec<Trace>, RunDirError> {
        self.traces.range(range).collect()
    }

    fn component_names(&self) -> Vec<String> {
        let last = self.steps.iter().max_by_key(|ledger| ledger.component_names().len());
        last.map(Ledger::component_names).unwrap_or_default().into_iter().map(str::to_owned).collect()
    }

    fn sum(&self, metric: Metric) -> f64 {
        // The sum of nothing is -0.
        0.0 + self.steps.iter().filter_map(|step| step.get(metric)).sum::<f64>()
    }

    fn shares(&self) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        let mut steps = 0.0;
        for step in &self.steps {
            let Some(rest) = step.get(names::REWARD_ADVANTAGE_SHARE_REST) else { continue };
            steps += 1.0;
            *sums.entry("rest".into()).or_default() += rest;
            for (name, value) in step.iter() {
                if let Some(component) = names::BATCH_REWARD_COMPONENT_ADVANTAGE_SHARE.part(name) {
                    *sums.entry(component.to_owned()).or_default() += value;
                }
            }
        }
        sums.into_iter().map(|(name, sum)| (name, sum / steps)).collect()
    }

    fn calibration(&self, windows: Option<Windows>) -> Result<BTreeMap<EpisodeSet, Calibration>, ReportError> {
        let mut sets: Vec<(EpisodeSet, Vec<Range<u64>>)> = Vec::new();
        if let Some(windows) = windows {
            for (window, [from, to]) in [(Window::First, windows.first), (Window::Last, windows.last)] {
                let episodes = self.episodes.range(from..=to).map(|(_, range)| range.clone()).collect();
                sets.push((EpisodeSet::Training(window), episodes));
            }
        }
        for (step, (range, _)) in &self.evaluations {
            sets.push((EpisodeSet::HeldOut { step: *step }, vec![range.clone()]));
        }
        let mut found = Vec::new();
        for (set, ranges) in sets {
            let mut forecasts = Forecasts::default();
            for trace in ranges.into_iter().flat_map(|range| self.traces.range(range)) {
                forecasts.add_trace(&trace?);
            }
            found.extend(forecasts.judge().map(|calibration| (set, calibration)));
        }
        Ok(calibration::changes(found))
    }
}
