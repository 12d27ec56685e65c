//! Site: the runs being shown, and the URLs of their parts.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hone_doctor::examine;
use hone_eval::compare::Comparison;
use serde_json::Value;

use crate::beside::{Answer, Beside};
use crate::html::{Html, encoded};
use crate::judged::{self, Environments};
use crate::put;
use crate::run::{Part, Run, ViewError};

/// Runs opened for viewing.
#[derive(Debug)]
pub struct Site {
    runs: Vec<Opened>,
    /// In an exported file: the traces it contains. There are no other pages.
    held: Option<BTreeSet<(usize, u64)>>,
    comparisons: Beside<Comparison>,
    environments: Beside<Vec<(Part, Environments)>>,
}

#[derive(Debug)]
struct Opened {
    /// Replaced, never modified: a page keeps the run it started with, and readers never wait for each other.
    run: Mutex<Arc<Run>>,
    path: PathBuf,
    doctor: Arc<Mutex<Doctor>>,
}

/// The doctor's diagnosis of a run.
#[derive(Debug, Clone, Default)]
pub enum Doctor {
    #[default]
    NotAsked,
    Asked,
    /// The diagnosis as `hone doctor --json` prints it, and the step it was made at.
    Said(Value, u64),
    Failed(String),
}

impl Site {
    /// Opens runs, each with its placebo beside it.
    pub fn open(paths: &[PathBuf]) -> Result<Self, ViewError> {
        let mut runs: Vec<Opened> = Vec::new();
        let mut seen = BTreeSet::new();
        for path in paths {
            let placebo = Some(path.join("placebo")).filter(|placebo| placebo.join("recipe.toml").is_file());
            for path in std::iter::once(path.clone()).chain(placebo) {
                // A run named twice, or named together with the run whose placebo it is, is shown once.
                if seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
                    runs.push(Opened::open(&path)?);
                }
            }
        }
        Ok(Self { runs, held: None, comparisons: Beside::default(), environments: Beside::default() })
    }

    /// The same runs in a file that contains these traces.
    #[must_use]
    pub(crate) fn in_a_file(self, held: BTreeSet<(usize, u64)>) -> Self {
        Self { held: Some(held), ..self }
    }

    pub fn is_file(&self) -> bool {
        self.held.is_some()
    }

    pub fn len(&self) -> usize {
        self.runs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// A run by its number, as it is now.
    pub fn run(&self, number: usize) -> Result<Arc<Run>, ViewError> {
        let missing = || ViewError::Missing(format!("there is no run {number}; {} are open", self.runs.len()));
        Ok(self.runs.get(number).ok_or_else(missing)?.now())
    }

    /// The first run whose directory is gone: what was read of it is no longer shown.
    pub(crate) fn gone(&self) -> Option<&Path> {
        self.runs.iter().map(|opened| opened.path.as_path()).find(|path| !path.is_dir())
    }

    pub fn all(&self) -> Vec<Arc<Run>> {
        self.runs.iter().map(Opened::now).collect()
    }

    /// Reads what was appended; returns the numbers of steps and events, for comparison.
    pub fn refresh(&self) -> Result<String, ViewError> {
        let mut state = String::new();
        for opened in &self.runs {
            let mut run = opened.now();
            if !opened.path.is_dir() {
                // An open page asks again, and is told.
                state.push_str("gone ");
                continue;
            }
            if run.is_behind() {
                let mut next = (*run).clone();
                next.refresh()?;
                run = Arc::new(next);
                *opened.run.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&run);
            }
            let _ = write!(state, "{}/{}/{} ", run.done(), run.events.played.len(), run.events.checkpoints.len());
        }
        Ok(state)
    }

    /// The diagnosis of a run; computed in the background, once, and again when the run has grown.
    pub fn doctor(&self, number: usize) -> Doctor {
        let Some(opened) = self.runs.get(number) else { return Doctor::default() };
        let done = self.run(number).map_or(0, |run| run.done());
        let mut doctor = opened.doctor.lock().unwrap_or_else(PoisonError::into_inner);
        let stale = match &*doctor {
            Doctor::NotAsked => true,
            Doctor::Said(_, step) => *step != done,
            Doctor::Asked | Doctor::Failed(_) => false,
        };
        let said = doctor.clone();
        if stale {
            let (path, place) = (opened.path.clone(), Arc::clone(&opened.doctor));
            if matches!(said, Doctor::NotAsked) {
                *doctor = Doctor::Asked;
            } else if let Doctor::Said(_, step) = &mut *doctor {
                *step = done;
            }
            drop(doctor);
            std::thread::spawn(move || {
                let said = diagnosed(&path, done);
                *place.lock().unwrap_or_else(PoisonError::into_inner) = said;
            });
        }
        said
    }

    /// Diagnoses a run now.
    pub(crate) fn doctor_now(&self, number: usize) {
        if let Some(opened) = self.runs.get(number) {
            let done = self.run(number).map_or(0, |run| run.done());
            *opened.doctor.lock().unwrap_or_else(PoisonError::into_inner) = diagnosed(&opened.path, done);
        }
    }

    /// Two evaluations of the same tasks, each by its run and name.
    pub(crate) fn comparison(&self, a: (usize, &Part), b: (usize, &Part)) -> Result<Answer<Comparison>, ViewError> {
        let question = format!("{}:{} {}:{}", a.0, a.1, b.0, b.1);
        let runs = [self.run(a.0)?, self.run(b.0)?];
        let parts = [a.1.clone(), b.1.clone()];
        Ok(self.comparisons.get(&question, move || judged::comparison((&runs[0], &parts[0]), (&runs[1], &parts[1]))))
    }

    /// Evaluations by environment, each under its name.
    pub(crate) fn by_environment(
        &self,
        number: usize,
        parts: Vec<Part>,
    ) -> Result<Answer<Vec<(Part, Environments)>>, ViewError> {
        let names: Vec<String> = parts.iter().map(Part::to_string).collect();
        let (run, question) = (self.run(number)?, format!("{number}:{}", names.join(" ")));
        Ok(self.environments.get(&question, move || judged::by_environment(&run, &parts)))
    }

    pub(crate) fn part_url(&self, run: usize, part: &Part) -> Option<String> {
        self.held.is_none().then(|| format!("/r/{run}/{}", encoded(&part.to_string())))
    }

    pub(crate) fn group_url(&self, run: usize, part: &Part, group: usize) -> Option<String> {
        self.part_url(run, part).map(|part| format!("{part}/{group}"))
    }

    pub(crate) fn trace_url(&self, run: usize, trace: u64) -> Option<String> {
        match &self.held {
            None => Some(format!("/r/{run}/trace/{trace}")),
            Some(held) => held.contains(&(run, trace)).then(|| format!("#trace-{run}-{trace}")),
        }
    }

    /// A link if there is a target, otherwise plain text.
    pub fn link(&self, url: Option<String>, text: &str) -> Html {
        let mut out = Html::new();
        match url {
            Some(url) => {
                put!(out, "<a href=\"", url, "\">", text, "</a>");
            }
            None => out.text(text),
        }
        out
    }
}

impl Opened {
    fn open(path: &Path) -> Result<Self, ViewError> {
        let run = Mutex::new(Arc::new(Run::open(path)?));
        Ok(Self { run, path: path.to_owned(), doctor: Arc::default() })
    }

    /// A thread that panicked while holding the lock left an intact run.
    fn now(&self) -> Arc<Run> {
        Arc::clone(&self.run.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn diagnosed(path: &Path, step: u64) -> Doctor {
    let made = examine(path).map_err(|error| error.to_string());
    match made.and_then(|diagnosis| serde_json::to_value(diagnosis).map_err(|error| error.to_string())) {
        Ok(said) => Doctor::Said(said, step),
        Err(why) => Doctor::Failed(why),
    }
}
