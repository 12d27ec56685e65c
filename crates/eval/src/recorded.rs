//! Recorded evaluations: an evaluation's directory, or one evaluation of a training run.

use std::path::Path;

use hone_trace::Trace;
use hone_trace::rundir::{RunDirError, RunReader};
use hone_train::evaluate::Kind;
use hone_train::events::Event;
use hone_train::recipe::{Recipe, RecipeError};

use crate::spent::Price;
use crate::table::{Episode, Passing};

/// Reason why a recording cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    #[error(transparent)]
    Run(#[from] RunDirError),
    #[error("the recipe in {path} cannot be read: {source}")]
    Recipe { path: String, source: RecipeError },
    #[error("{path} is unfinished: it has no {kind} evaluation; run the evaluation again{instead}")]
    Unfinished { path: String, kind: &'static str, instead: &'static str },
    #[error("{greedy} has only a greedy evaluation and {sampled} only a sampled one; compare evaluations of one kind")]
    Kinds { greedy: String, sampled: String },
    #[error("{path} has no {kind} evaluation{at}; it has {known}")]
    None { path: String, kind: &'static str, at: String, known: String },
}

/// One evaluation, read back.
#[derive(Debug)]
pub struct Recorded {
    /// As named by the user.
    pub name: String,
    pub step: u64,
    pub kind: Kind,
    pub recipe: Recipe,
    pub traces: Vec<Trace>,
    /// The number of the first trace in its directory.
    pub first: u64,
    /// The price that `hone eval` was given.
    pub price: Option<Price>,
}

/// The evaluations of one directory.
struct Evaluations<'a> {
    name: &'a str,
    path: &'a str,
    step: Option<u64>,
    run: RunReader,
    all: Vec<(u64, Kind, [u64; 2])>,
}

impl<'a> Evaluations<'a> {
    /// `RUN`, or `RUN@STEP` for the evaluations of a step.
    fn open(name: &'a str) -> Result<Self, RecordedError> {
        let (path, step): (&str, Option<u64>) = match name.rsplit_once('@') {
            Some((path, step)) if step.parse::<u64>().is_ok() => (path, step.parse().ok()),
            _ => (name, None),
        };
        let run = RunReader::open(Path::new(path))?;
        let events = run.events()?.records;
        let all = events.iter().filter_map(Event::read).filter_map(|event| match event {
            Event::Eval { step, kind, traces, .. } => Some((step, kind, traces)),
            _ => None,
        });
        Ok(Self { name, path, step, all: all.collect(), run })
    }

    fn last(&self, kind: Kind) -> Option<(u64, Kind, [u64; 2])> {
        let wanted = |(at, own, _): &&(u64, Kind, [u64; 2])| *own == kind && self.step.is_none_or(|step| step == *at);
        self.all.iter().rev().find(wanted).copied()
    }

    /// True for an evaluation that was stopped: `hone eval` ends with eval.json, and it writes no checkpoints.
    fn is_unfinished(&self) -> bool {
        let trained = self.run.checkpoints().is_ok_and(|checkpoints| !checkpoints.is_empty());
        !trained
            && !Path::new(self.path).join(SUMMARY).is_file()
            && self.run.metrics().is_ok_and(|m| m.records.is_empty())
    }

    fn none(&self, kind: Kind) -> RecordedError {
        let Self { path, step, all, .. } = self;
        let (path, kind) = ((*path).to_owned(), kind.name());
        if self.is_unfinished() {
            let instead = if all.is_empty() { "" } else { ", or compare the greedy ones: --kind greedy" };
            return RecordedError::Unfinished { path, kind, instead };
        }
        let known: Vec<String> = all.iter().map(|(step, kind, _)| format!("{} at step {step}", kind.name())).collect();
        RecordedError::None {
            path,
            kind,
            at: step.map(|step| format!(" at step {step}")).unwrap_or_default(),
            known: if known.is_empty() { "none: make one with `hone eval`".into() } else { known.join(", ") },
        }
    }

    fn read(&self, kind: Kind) -> Result<Recorded, RecordedError> {
        let (step, kind, [from, to]) = self.last(kind).ok_or_else(|| self.none(kind))?;
        let recipe = Recipe::parse(&self.run.recipe()?, &[])
            .map_err(|source| RecordedError::Recipe { path: self.path.to_owned(), source })?;
        let traces = self.run.traces()?.range(from..to).collect::<Result<_, _>>()?;
        let price = price(Path::new(self.path));
        Ok(Recorded { name: self.name.to_owned(), step, kind, recipe, traces, first: from, price })
    }
}

/// Written when an evaluation is finished.
const SUMMARY: &str = "eval.json";

/// The kind to compare: sampled if every one has it, else greedy. A stopped evaluation has only its greedy half, which is
/// not compared with another's sampled one.
fn common_kind(all: &[Evaluations<'_>]) -> Result<Kind, RecordedError> {
    let without = |kind: Kind| all.iter().find(|one| one.last(kind).is_none());
    let Some(greedy) = without(Kind::Sampled) else { return Ok(Kind::Sampled) };
    if let Some(stopped) = all.iter().find(|one| one.last(Kind::Sampled).is_none() && one.is_unfinished()) {
        return Err(stopped.none(Kind::Sampled));
    }
    match without(Kind::Greedy) {
        None => Ok(Kind::Greedy),
        Some(empty) if empty.last(Kind::Sampled).is_none() => Err(empty.none(Kind::Sampled)),
        Some(_) if greedy.last(Kind::Greedy).is_none() => Err(greedy.none(Kind::Sampled)),
        Some(sampled) => Err(RecordedError::Kinds { greedy: greedy.name.to_owned(), sampled: sampled.name.to_owned() }),
    }
}

impl Recorded {
    /// Evaluations to compare, all of one kind. `RUN`: its last evaluation; `RUN@STEP`: that of a step.
    pub fn read_all<'a>(
        names: impl IntoIterator<Item = &'a str>,
        kind: Option<Kind>,
    ) -> Result<Vec<Self>, RecordedError> {
        let all = names.into_iter().map(Evaluations::open).collect::<Result<Vec<_>, _>>()?;
        let kind = kind.map_or_else(|| common_kind(&all), Ok)?;
        all.iter().map(|one| one.read(kind)).collect()
    }

    pub fn episodes(&self, passing: &Passing) -> Vec<Episode> {
        self.traces.iter().map(|trace| Episode::of(trace, passing)).collect()
    }
}

fn price(directory: &Path) -> Option<Price> {
    let text = std::fs::read(directory.join(SUMMARY)).ok()?;
    let recorded: serde_json::Value = serde_json::from_slice(&text).ok()?;
    serde_json::from_value(recorded.get("price")?.clone()).ok()
}
