//! Run opened for viewing: columns of metrics, events by kind, traces by offset.
//!
//! Nothing here fails on a record it does not understand: a line that is truncated, damaged or from a newer version is
//! skipped and [`Run::notes`] says so. Opening reads metrics.jsonl and events.jsonl; a trace is read on demand.

mod brief;
mod events;
mod full;
mod lines;
mod message;
mod part;
mod rejected;
mod series;
mod token;
mod words;

use std::path::{Path, PathBuf};

use hone_chat::Tokenizer;
use hone_trace::rundir::{RunDirError, RunReader, TraceReader};
use std::sync::{Arc, OnceLock};

pub use brief::{Brief, Scored, Worth};
pub use events::{Baseline, Events, Played, Set};
pub use full::{Full, Node, TurnView};
pub use lines::Tail;
pub use message::{Call, Message};
pub use part::{Filter, Found, Group, Part, Silent};
pub use rejected::Rejected;
pub use series::Series;
pub use token::Token;
pub use words::{Ending, Lenient, Origin, Role, Word};

/// Reason why something of a run cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    #[error(transparent)]
    Run(#[from] RunDirError),
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("{0}")]
    Missing(String),
    #[error("the directory {} is gone; put it back, or stop this viewer and open another run", .0.display())]
    Gone(PathBuf),
}

/// A run, live or finished.
#[derive(Debug, Clone)]
pub struct Run {
    pub path: PathBuf,
    /// The directory's name; a placebo's is prefixed with its run's.
    pub name: String,
    /// The recipe as far as it can be read.
    pub recipe: toml::Table,
    pub metrics: Series,
    pub events: Events,
    metrics_file: Tail,
    events_file: Tail,
    /// Loaded on first use, and kept across refreshes.
    tokenizer: Arc<OnceLock<Option<Tokenizer>>>,
}

impl Run {
    pub fn open(path: &Path) -> Result<Self, ViewError> {
        let reader = RunReader::open(path)?;
        let recipe = reader.recipe().ok().and_then(|text| text.parse().ok()).unwrap_or_default();
        let mut run = Self {
            path: path.to_owned(),
            name: name_of(path),
            recipe,
            metrics: Series::default(),
            events: Events::default(),
            metrics_file: Tail::new(path.join("metrics.jsonl")),
            events_file: Tail::new(path.join("events.jsonl")),
            tokenizer: Arc::default(),
        };
        run.refresh()?;
        Ok(run)
    }

    /// Reads what was appended since the last read. A file that got shorter (a resumed run was rewound) is read again
    /// from its start. Returns whether anything changed.
    pub fn refresh(&mut self) -> Result<bool, ViewError> {
        let mut changed = false;
        if self.metrics_file.shrank()? || self.events_file.shrank()? {
            (self.metrics, self.events) = (Series::default(), Events::default());
            self.metrics_file.rewind();
            self.events_file.rewind();
            changed = true;
        }
        let metrics = &mut self.metrics;
        changed |= self.metrics_file.read(|line| metrics.add(&line))?;
        let events = &mut self.events;
        changed |= self.events_file.read(|line| events.add(line))?;
        Ok(changed)
    }

    /// True if its files have changed since they were read.
    pub(crate) fn is_behind(&self) -> bool {
        self.metrics_file.has_changed() || self.events_file.has_changed()
    }

    /// Notes on skipped records, for people.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::from_iter(self.newer());
        notes.extend(self.metrics_file.notes());
        notes.extend(self.metrics.notes());
        notes.extend(self.events_file.notes());
        notes.extend(self.events.notes());
        if self.recipe.is_empty() {
            notes.push("recipe.toml cannot be read; names and plans are missing".to_owned());
        }
        match (self.traces(), self.events.traces_named()) {
            (Err(error), _) => notes.push(format!("traces: {error}")),
            (Ok(traces), named) if traces.len() < named => notes.push(format!(
                "traces: events name {named} of them and {} can be read; the rest was cut off or is being written",
                traces.len()
            )),
            _ => {}
        }
        notes
    }

    /// Note on a run recorded by a newer version: what that added is not shown.
    fn newer(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.path.join("version")).ok()?;
        let (theirs, own) = (text.trim(), env!("CARGO_PKG_VERSION"));
        let parts = |version: &str| -> Option<Vec<u64>> {
            version.split(['-', '+']).next()?.split('.').map(|part| part.parse().ok()).collect()
        };
        (parts(theirs)? > parts(own)?).then(|| {
            format!("hone {theirs} recorded this run and this is {own}; what {own} does not know is not shown")
        })
    }

    /// The traces recorded so far.
    pub fn traces(&self) -> Result<TraceReader, ViewError> {
        Ok(RunReader::open(&self.path)?.traces()?)
    }

    /// The component whose value of 1 is success.
    pub fn success(&self) -> Option<&str> {
        self.recipe.get("eval")?.get("success")?.as_str()
    }

    pub fn planned(&self) -> Option<u64> {
        u64::try_from(self.recipe.get("train")?.get("steps")?.as_integer()?).ok()
    }

    /// Steps that were recorded.
    pub fn done(&self) -> u64 {
        self.metrics.steps().last().copied().unwrap_or(0)
    }

    /// False for the directory of an evaluation or a validation, which has its recipe's plan but trains nothing.
    pub fn trains(&self) -> bool {
        let other = ["eval.json", "progress.jsonl"].iter().any(|name| self.path.join(name).is_file());
        self.done() > 0 || !other
    }

    /// True when all planned steps are recorded.
    pub(crate) fn is_complete(&self) -> bool {
        self.planned().is_none_or(|planned| self.done() >= planned)
    }

    /// The policy's tokenizer: every checkpoint has it, and the first one stays.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        let find = || {
            let mut checkpoints: Vec<PathBuf> = std::fs::read_dir(self.path.join("checkpoints"))
                .into_iter()
                .flatten()
                .filter_map(|entry| Some(entry.ok()?.path()))
                .collect();
            checkpoints.sort();
            let model = self.recipe.get("policy").and_then(|policy| policy.get("model")?.as_str()).map(PathBuf::from);
            let places = checkpoints.into_iter().chain([self.path.join("policy")]).chain(model);
            places
                .map(|place| place.join("tokenizer.json"))
                .filter(|file| file.is_file())
                .find_map(|file| Tokenizer::from_file(&file).ok())
        };
        self.tokenizer.get_or_init(find).as_ref()
    }
}

fn name_of(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let part = |path: Option<&Path>| path.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    match (part(Some(&absolute)), part(absolute.parent())) {
        (Some(name), Some(parent)) if name == "placebo" => format!("{parent}/placebo"),
        (Some(name), _) => name,
        _ => absolute.display().to_string(),
    }
}
