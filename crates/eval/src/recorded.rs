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

impl Recorded {
    /// `RUN`: its last evaluation; `RUN@STEP`: that of a step.
    pub fn read(name: &str, kind: Option<Kind>) -> Result<Self, RecordedError> {
        let (path, step): (&str, Option<u64>) = match name.rsplit_once('@') {
            Some((path, step)) if step.parse::<u64>().is_ok() => (path, step.parse().ok()),
            _ => (name, None),
        };
        let run = RunReader::open(Path::new(path))?;
        let recipe = Recipe::parse(&run.recipe()?, &[])
            .map_err(|source| RecordedError::Recipe { path: path.to_owned(), source })?;
        let evaluations: Vec<(u64, Kind, [u64; 2])> = run
            .events()?
            .records
            .iter()
            .filter_map(Event::read)
            .filter_map(|event| match event {
                Event::Eval { step, kind, traces, .. } => Some((step, kind, traces)),
                _ => None,
            })
            .collect();
        let has = |wanted: Kind| evaluations.iter().any(|(_, kind, _)| *kind == wanted);
        let kind = kind.unwrap_or(if has(Kind::Sampled) { Kind::Sampled } else { Kind::Greedy });
        let found = evaluations.iter().rev().find(|(at, own, _)| *own == kind && step.is_none_or(|step| step == *at));
        let Some(&(step, kind, [from, to])) = found else {
            let known: Vec<String> =
                evaluations.iter().map(|(step, kind, _)| format!("{} at step {step}", kind.name())).collect();
            return Err(RecordedError::None {
                path: path.to_owned(),
                kind: kind.name(),
                at: step.map(|step| format!(" at step {step}")).unwrap_or_default(),
                known: if known.is_empty() { "none: make one with `hone eval`".into() } else { known.join(", ") },
            });
        };
        let traces = run.traces()?.range(from..to).collect::<Result<_, _>>()?;
        Ok(Self { name: name.to_owned(), step, kind, recipe, traces, first: from, price: price(Path::new(path)) })
    }

    pub fn episodes(&self, passing: &Passing) -> Vec<Episode> {
        self.traces.iter().map(|trace| Episode::of(trace, passing)).collect()
    }
}

fn price(directory: &Path) -> Option<Price> {
    let text = std::fs::read(directory.join("eval.json")).ok()?;
    let recorded: serde_json::Value = serde_json::from_slice(&text).ok()?;
    serde_json::from_value(recorded.get("price")?.clone()).ok()
}
