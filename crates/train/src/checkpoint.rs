//! Checkpoints: everything that determines what a run does next, written atomically.
//!
//! A checkpoint is a model directory (or a PEFT adapter) with the tokenizer beside it, `optimizer.safetensors`, and
//! `state.json`. Learning rates, seeds and orders are functions of the step, so only the step needs to be saved.
//! Continuing from a checkpoint gives the numbers of an uninterrupted run.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hone_trace::rundir::{Position, RunDir, RunDirError, RunReader};
use hone_trace::{Digest, Learner, documented};
use serde::{Deserialize, Serialize};

use crate::evaluate::{Evaluation, Measured};
use crate::events::Event;
use crate::guard::GuardState;
use crate::plan::{Draw, PlanState};
use crate::run::TrainError;

documented! {
    /// `[checkpoint]`
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct CheckpointRecipe {
        /// Steps between checkpoints. 0: after every step if a checkpoint is small (256 MiB); larger ones as often as
        /// keeps writing them under a twentieth of the time.
        pub every: u64 where whole(0, 1_000_000_000).may_change(),
        /// Number of checkpoints kept, in addition to the best and the first. Among steps that changed no weight only
        /// the last counts, so that they displace no other policy.
        pub keep_last: usize where whole(1, 1_000_000).may_change(),
        /// Measure of the best checkpoint, by evaluation: `success` or a reward component. Empty: none is kept.
        pub best: BestBy,
    }
}

impl Default for CheckpointRecipe {
    fn default() -> Self {
        Self { every: 0, keep_last: 2, best: BestBy::Success }
    }
}

/// Measure of the best checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum BestBy {
    /// No checkpoint is the best.
    None,
    Success,
    /// Mean of a reward component, or of the total.
    Component(String),
}

impl BestBy {
    /// Value of an evaluation by this measure.
    fn of(&self, evaluation: &Evaluation) -> Option<f64> {
        match self {
            Self::None => None,
            Self::Success => evaluation.success,
            Self::Component(name) => evaluation.components.get(name).copied(),
        }
    }
}

impl From<String> for BestBy {
    fn from(name: String) -> Self {
        match name.as_str() {
            "" => Self::None,
            "success" => Self::Success,
            _ => Self::Component(name),
        }
    }
}

impl From<BestBy> for String {
    fn from(best: BestBy) -> Self {
        match best {
            BestBy::None => Self::new(),
            BestBy::Success => "success".into(),
            BestBy::Component(name) => name,
        }
    }
}

/// State of a checkpoint other than weights and optimizer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct State {
    /// Steps done.
    pub step: u64,
    /// The policy's version: optimizer steps since its run began.
    pub version: u64,
    pub plan: PlanState,
    /// Groups that were being sampled ahead: drawn and not trained on yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ahead: Vec<Draw>,
    /// Coefficient of the KL in the reward, where it adapts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kl_coefficient: Option<f64>,
    /// Consecutive steps from which nothing could be learned.
    #[serde(default)]
    pub idle: u32,
    pub before: Option<Measured>,
    /// The newest evaluation after a step.
    pub after: Option<Measured>,
    /// Factor on the learning rate of a run whose KL is bounded by another run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kl_factor: Option<f64>,
    pub best: Option<Best>,
    /// State of the guard.
    #[serde(default, skip_serializing_if = "GuardState::is_new")]
    pub guard: GuardState,
    pub seconds: f64,
    /// The recipe it was written under. Absent in older checkpoints and in warm starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
    /// Recorded length of the run.
    pub position: Position,
}

/// The best evaluation so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Best {
    pub step: u64,
    pub value: f64,
}

/// A checkpoint that is small enough to be written after every step.
const SMALL: u64 = 256 << 20;
/// Share of the time that writing larger checkpoints may take.
const WRITING: f64 = 0.05;

/// Text files of a model directory, copied along with its weights.
pub const TEXTS: [&str; 5] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "generation_config.json",
    "chat_template.jinja",
];

/// Writes checkpoints when they are due and removes old ones.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    recipe: CheckpointRecipe,
    /// Directory of the model's texts.
    model_dir: PathBuf,
    /// The step of the newest one.
    newest: Option<u64>,
    /// Time of writing, seconds it took and size.
    last: Instant,
    cost: Duration,
    bytes: u64,
}

impl Checkpointer {
    /// `newest` is the step of the run's newest checkpoint, if it has one.
    pub(crate) fn new(recipe: &CheckpointRecipe, model_dir: &Path, newest: Option<u64>) -> Self {
        let (recipe, model_dir, last) = (recipe.clone(), model_dir.into(), Instant::now());
        Self { recipe, model_dir, newest, last, cost: Duration::ZERO, bytes: 0 }
    }

    /// Seconds the newest one took to write.
    pub(crate) fn cost(&self) -> f64 {
        self.cost.as_secs_f64()
    }

    /// The step of the newest one.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// True when the newest checkpoint is that of a step.
    pub(crate) fn has(&self, step: u64) -> bool {
        self.newest == Some(step)
    }

    /// True when this step ends with a checkpoint. The time of writing changes nothing that is trained.
    pub(crate) fn is_due(&self, state: &State, steps: u64) -> bool {
        let step = state.step;
        match self.recipe.every {
            _ if step == steps || state.best.is_some_and(|best| best.step == step) => true,
            0 if self.bytes <= SMALL => true,
            0 => self.cost.as_secs_f64() <= WRITING * self.last.elapsed().as_secs_f64(),
            every => step.is_multiple_of(every),
        }
    }

    /// Remembers the evaluation of a step if it is the best so far. An evaluation without scores is never the best.
    pub(crate) fn judge(&self, state: &mut State, step: u64, evaluation: &Evaluation) {
        let value = self.recipe.best.of(evaluation);
        if let Some(value) = value.filter(|value| state.best.is_none_or(|best| *value > best.value)) {
            state.best = Some(Best { step, value });
        }
    }

    /// Writes the checkpoint of `state.step`; `state.position` becomes the position a resume rewinds to.
    pub(crate) async fn write(
        &mut self,
        run: &mut RunDir,
        learner: &mut dyn Learner,
        state: &mut State,
    ) -> Result<(), TrainError> {
        let clock = Instant::now();
        let step = state.step;
        // Weights that are not finite would evict the last good ones.
        if let Some(what) = learner.not_finite().await? {
            return Err(TrainError::Diverged { step, what, newest: self.newest, run: run.path().into() });
        }
        // Recorded before the position is taken: if the checkpoint fails, its event is truncated with everything after
        // it.
        run.event(&Event::Checkpoint { step, best: state.best })?;
        state.version = learner.version().step;
        state.position = run.position();
        let model_dir = &self.model_dir;
        let written = async |dir: &Path| {
            learner.save(dir).await.map_err(io::Error::other)?;
            copy_texts(model_dir, dir)?;
            std::fs::write(dir.join(STATE), serde_json::to_vec_pretty(state)?)?;
            std::fs::write(dir.join(DIGESTS), serde_json::to_vec_pretty(&digests(dir)?)?)
        };
        let path = run.checkpoint(step, written).await?;
        if let Some(best) = state.best.filter(|best| best.step == step) {
            run.mark_best(best.step)?;
        }
        let last = last_policies(&RunReader::open(run.path())?.checkpoints()?, self.recipe.keep_last);
        // The beginning is kept for the controls, which compare with it when training is over.
        run.prune(|other| other == 0 || last.contains(&other) || state.best.is_some_and(|best| best.step == other))?;
        self.newest = Some(step);
        self.bytes = size(&path);
        self.cost = clock.elapsed();
        self.last = Instant::now();
        Ok(())
    }
}

/// Steps of the newest checkpoint of each of the last policies.
fn last_policies(checkpoints: &[(u64, PathBuf)], count: usize) -> Vec<u64> {
    // An unreadable checkpoint counts as a distinct policy.
    let version = |(step, path): &(u64, PathBuf)| {
        let state = std::fs::read(path.join(STATE)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        state.map_or(Err(*step), |state: State| Ok(state.version))
    };
    let mut versions = Vec::new();
    let newest = checkpoints.iter().rev().filter(|checkpoint| {
        let version = version(checkpoint);
        let new = !versions.contains(&version);
        versions.push(version);
        new
    });
    newest.map(|(step, _)| *step).take(count.max(1)).collect()
}

const STATE: &str = "state.json";
/// Version that made a run, in its directory.
const VERSION: &str = "version";
/// SHA-256 of every other file of the checkpoint.
const DIGESTS: &str = "digests.json";

/// The digest of every file beside [`DIGESTS`].
fn digests(directory: &Path) -> io::Result<BTreeMap<String, Digest>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_file() && name != DIGESTS {
            found.insert(name, Digest::of_reader(std::fs::File::open(&path)?)?);
        }
    }
    Ok(found)
}

/// Refuses a checkpoint whose files are not what was written: changed, missing, or added. The versions that wrote no
/// digests did not record their own number in the run either; their checkpoints pass with a warning.
pub fn verify(checkpoint: &Path, run: &Path) -> Result<Option<String>, TrainError> {
    let bad = |what: String| TrainError::Checkpoint { path: checkpoint.to_owned(), what };
    let text = match std::fs::read(checkpoint.join(DIGESTS)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let version = std::fs::read_to_string(run.join(VERSION)).ok();
            return match version {
                Some(version) => Err(bad(format!("{DIGESTS} is missing, which hone {} writes", version.trim()))),
                None => Ok(Some(format!(
                    "the checkpoint {} is of a version that wrote no digests: its files could not be verified",
                    checkpoint.display()
                ))),
            };
        }
        other => other.map_err(|error| bad(format!("cannot read {DIGESTS}: {error}")))?,
    };
    let written: BTreeMap<String, Digest> =
        serde_json::from_slice(&text).map_err(|error| bad(format!("{DIGESTS}: {error}")))?;
    let found = digests(checkpoint).map_err(|error| bad(format!("cannot be read: {error}")))?;
    if let Some((name, _)) = written.iter().find(|(name, digest)| found.get(*name) != Some(digest)) {
        return Err(bad(format!("{name} is missing or not what was written (its digest differs)")));
    }
    match found.keys().find(|name| !written.contains_key(*name)) {
        None => Ok(None),
        Some(added) => Err(bad(format!("{added} is not among the files that were written"))),
    }
}

/// Records which version made a new run.
pub(crate) fn note_version(run: &RunDir) -> Result<(), RunDirError> {
    run.note(VERSION, concat!(env!("CARGO_PKG_VERSION"), "\n"))
}

/// Newest checkpoint of a run. `None` if it was stopped before the first.
pub fn newest(run: &Path) -> Result<Option<(PathBuf, State)>, TrainError> {
    let Some((_, path)) = RunReader::open(run)?.checkpoints()?.pop() else { return Ok(None) };
    let state = state_of(&path)?;
    Ok(Some((path, state)))
}

/// State in a checkpoint.
pub(crate) fn state_of(path: &Path) -> Result<State, TrainError> {
    let bad = |what: String| TrainError::Checkpoint { path: path.to_owned(), what };
    let text = std::fs::read(path.join(STATE)).map_err(|error| bad(format!("cannot read {STATE}: {error}")))?;
    serde_json::from_slice(&text).map_err(|error| bad(format!("{STATE}: {error}")))
}

/// Copies the texts of a model directory beside its new weights.
pub fn copy_texts(from: &Path, to: &Path) -> io::Result<()> {
    for name in TEXTS {
        if from.join(name).is_file() && !to.join(name).exists() {
            std::fs::copy(from.join(name), to.join(name))?;
        }
    }
    Ok(())
}

fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_changed_nothing_push_no_policy_out() {
        let directory = tempfile::tempdir().unwrap();
        // The policy version after each step: a step without a gradient does not change it.
        let checkpoints: Vec<(u64, PathBuf)> = [0, 1, 2, 2, 2, 3, 3]
            .into_iter()
            .enumerate()
            .map(|(step, version)| {
                let path = directory.path().join(step.to_string());
                std::fs::create_dir(&path).unwrap();
                let state = State { version, ..State::default() };
                std::fs::write(path.join(STATE), serde_json::to_vec(&state).unwrap()).unwrap();
                (step as u64, path)
            })
            .collect();
        assert_eq!(last_policies(&checkpoints, 2), [6, 4]);
        assert_eq!(last_policies(&checkpoints, 1), [6]);
        assert_eq!(last_policies(&checkpoints, 9), [6, 4, 1, 0]);
        std::fs::write(checkpoints[3].1.join(STATE), "torn").unwrap();
        assert_eq!(last_policies(&checkpoints, 3), [6, 4, 3]);
    }
}
