//! Run directory: everything a run records, appended and never rewritten.
//!
//! ```text
//! recipe.toml           the resolved recipe, written once
//! version               Hone's, when the run began
//! metrics.jsonl         one JSON object per line
//! events.jsonl          one JSON object per line
//! traces/00000.jsonl.zst, …   zstd frames of JSON lines; `zstd -dc` reads them
//! traces/index          32 bytes per trace, so that trace n is found without scanning
//! checkpoints/step-…    complete directories, renamed into place
//! superseded/…          what was recorded after the checkpoint a resumed run went back to
//! ```
//!
//! Killed at any byte, a run can be read up to the last complete record, and [`RunDir::resume`] reports how many bytes
//! it dropped. A resumed run continues from a checkpoint: [`RunDir::rewind`] sets aside everything recorded after it,
//! so that every step counts once. Readers never take a lock and never see a torn record. docs/run-directory.md
//! explains how to read it with other tools.

mod checkpoints;
mod lines;
mod reader;
mod rewind;
mod traces;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};

pub use lines::{Lines, read_lines};
pub use reader::TraceReader;
pub use rewind::{Position, Superseded};

use crate::trace::Trace;
use lines::LineLog;
use traces::TraceLog;

/// Errors of a run directory, each with its fix.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    #[error("{what} {}: {source}{}", path.display(), hint(source))]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{} already holds a run; resume it with `--resume {}` or choose another directory", .0.display(), .0.display())]
    Exists(PathBuf),
    #[error("{} holds files that do not belong to a run; name an empty directory or one that does not exist yet", .0.display())]
    Foreign(PathBuf),
    #[error("{} {}; {}", .0.display(), lack(.0), instead(.0))]
    NotARun(PathBuf),
    #[error("another process is writing {}; stop it first, or read the run, which needs no lock", .0.display())]
    Locked(PathBuf),
    #[error("{}, record {record}: {what}", path.display())]
    Damaged { path: PathBuf, record: u64, what: String },
    #[error("{}: its files end before its newest checkpoint: {what}; restore them from a copy of the run, or delete the newest \
             directory under checkpoints/ to go on from the one before it", path.display())]
    Cut { path: PathBuf, what: String },
    #[error("there is no trace {asked}{}", absent(*have))]
    NoSuchTrace { asked: u64, have: u64 },
}

/// Reason why a trace is not there.
fn absent(have: u64) -> String {
    match have {
        0 => ": traces/ is missing or empty; restore it from a copy of the run".to_owned(),
        have => format!(": the run has {have}; they are numbered from 0"),
    }
}

/// Advice on a path that is not a run.
fn instead(path: &Path) -> String {
    match path {
        path if path.join("config.json").is_file() || path.join("adapter_config.json").is_file() => {
            format!("measure it with `hone eval {}`, which records an evaluation", path.display())
        }
        path if path.join(RECIPE).is_file() => format!("`hone train {}` starts one", path.join(RECIPE).display()),
        path if is_recorded(path) => "put the recipe.toml back that the run wrote".to_owned(),
        _ => "name a directory that `hone train` or `hone eval` recorded, such as runs/NAME-1".to_owned(),
    }
}

/// Difference between a path and a run's directory.
fn lack(path: &Path) -> &'static str {
    match path {
        path if path.join("config.json").is_file() => "is a model directory, not a run directory",
        path if path.is_file() => "is a file, not a run directory",
        path if path.join(RECIPE).is_file() => {
            "is a project (recipe.toml, but no events.jsonl or metrics.jsonl), not a run"
        }
        path if is_recorded(path) => "holds the records of a run, but its recipe.toml is missing",
        path if path.exists() => "is not a run directory: it has no recipe.toml",
        _ => "is not a run directory: it does not exist",
    }
}

const RECIPE: &str = "recipe.toml";

/// True for a directory that holds a run: a recipe beside what [`RunDir::create`] makes before it. A recipe alone is a
/// user's project.
pub fn is_run(path: &Path) -> bool {
    let has = |name: &str| path.join(name).exists();
    has(RECIPE) && ["traces", "checkpoints", "events.jsonl", "metrics.jsonl"].into_iter().any(has)
}

/// True for the directories of a run, even if its recipe is gone.
pub fn is_recorded(path: &Path) -> bool {
    path.join("events.jsonl").is_file() && ["traces", "checkpoints"].iter().all(|name| path.join(name).is_dir())
}

/// A run being written. One writer at a time, held by a lock on `recipe.toml` that ends with the process.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    /// Held, never read.
    lock: File,
    metrics: LineLog,
    events: LineLog,
    traces: TraceLog,
}

/// Repairs made when a run was resumed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Recovered {
    /// Bytes of incomplete records that were cut, per file.
    pub dropped: Vec<(PathBuf, u64)>,
    /// Complete traces that a crash had kept out of the index, now back in it.
    pub reindexed: u64,
}

impl RunDir {
    /// A new run, in a directory that is not there yet or is [`vacant`].
    pub fn create(path: &Path, recipe: &str) -> Result<Self, RunDirError> {
        vacant(path)?;
        fs::create_dir_all(path).map_err(io_error("cannot create", path))?;
        // If two processes start a run here at the same time, one creates this directory and the other gets the error.
        let traces = path.join("traces");
        fs::create_dir(&traces).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => RunDirError::Exists(path.into()),
            _ => io_error("cannot create", &traces)(error),
        })?;
        let checkpoints = path.join("checkpoints");
        fs::create_dir_all(&checkpoints).map_err(io_error("cannot create", &checkpoints))?;
        write_atomically(&path.join(RECIPE), recipe.as_bytes())?;
        Self::resume(path).map(|(run, _)| run)
    }

    /// Reopens a run: truncates incomplete records that a crash left, and reports how much.
    pub fn resume(path: &Path) -> Result<(Self, Recovered), RunDirError> {
        let lock = lock(path)?;
        let mut recovered = Recovered::default();
        let metrics = LineLog::open(&path.join("metrics.jsonl"), &mut recovered)?;
        let events = LineLog::open(&path.join("events.jsonl"), &mut recovered)?;
        let traces = TraceLog::open(&path.join("traces"), &mut recovered)?;
        checkpoints::clear_unfinished(&path.join("checkpoints"))?;
        Ok((Self { path: path.into(), lock, metrics, events, traces }, recovered))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the recipe that the run continues with. The lock moves to the new file.
    pub fn replace_recipe(&mut self, recipe: &str) -> Result<(), RunDirError> {
        write_atomically(&self.path.join(RECIPE), recipe.as_bytes())?;
        self.lock = lock(&self.path)?;
        Ok(())
    }

    /// Writes a small file of the run's own beside the recipe: `version`.
    pub fn note(&self, name: &str, text: &str) -> Result<(), RunDirError> {
        write_atomically(&self.path.join(name), text.as_bytes())
    }

    /// Appends one line to metrics.jsonl. Values that are not finite are written as null: absent, not zero.
    pub fn metrics(&mut self, record: &Map<String, Value>) -> Result<(), RunDirError> {
        self.metrics.append(record)
    }

    /// Appends one line to events.jsonl.
    pub fn event(&mut self, record: &impl Serialize) -> Result<(), RunDirError> {
        self.events.append(record)
    }

    /// Appends traces; returns their numbers.
    pub fn traces(&mut self, traces: &[Trace]) -> Result<Range<u64>, RunDirError> {
        self.traces.append(traces)
    }

    /// Syncs appended records to disk. A killed process loses nothing without this; a power cut may.
    pub fn sync(&mut self) -> Result<(), RunDirError> {
        let [segment, index] = self.traces.files();
        let files = [self.metrics.file(), self.events.file(), segment, index];
        checkpoints::sync_files(&files).map_err(io_error("cannot sync", &self.path))
    }
}

/// A run being read, live or finished. Takes no lock.
#[derive(Debug, Clone)]
pub struct RunReader {
    path: PathBuf,
}

impl RunReader {
    pub fn open(path: &Path) -> Result<Self, RunDirError> {
        if !is_run(path) {
            return Err(RunDirError::NotARun(path.into()));
        }
        Ok(Self { path: path.into() })
    }

    pub fn recipe(&self) -> Result<String, RunDirError> {
        let path = self.path.join(RECIPE);
        fs::read_to_string(&path).map_err(io_error("cannot read", &path))
    }

    pub fn metrics(&self) -> Result<Lines<Map<String, Value>>, RunDirError> {
        read_lines(&self.path.join("metrics.jsonl"))
    }

    pub fn events(&self) -> Result<Lines<Value>, RunDirError> {
        read_lines(&self.path.join("events.jsonl"))
    }

    pub fn traces(&self) -> Result<TraceReader, RunDirError> {
        TraceReader::open(&self.path.join("traces"))
    }
}

const UNFINISHED: &str = "unfinished";

/// Files that may be in a run's directory before the run starts: its starting policy.
const POLICY: &str = "policy";

/// Refuses a directory that holds a run, or anything else that would be mixed up with a run.
pub fn vacant(path: &Path) -> Result<(), RunDirError> {
    if is_run(path) {
        return Err(RunDirError::Exists(path.into()));
    }
    if !path.is_dir() {
        return Ok(());
    }
    let children = children(path)?;
    if children.iter().all(|child| child.ends_with(POLICY)) {
        return Ok(());
    }
    // A run has traces/ before its recipe; a user's project may have both.
    let begun = children.iter().any(|child| child.ends_with("traces")) && !path.join(RECIPE).exists();
    Err(if begun { RunDirError::Exists(path.into()) } else { RunDirError::Foreign(path.into()) })
}

fn lock(path: &Path) -> Result<File, RunDirError> {
    if !is_run(path) {
        return Err(RunDirError::NotARun(path.into()));
    }
    let recipe = path.join(RECIPE);
    let file = OpenOptions::new().read(true).open(&recipe).map_err(io_error("cannot open", &recipe))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(RunDirError::Locked(path.into())),
        Err(TryLockError::Error(source)) => Err(RunDirError::Io { what: "cannot lock", path: recipe, source }),
    }
}

fn children(directory: &Path) -> Result<Vec<PathBuf>, RunDirError> {
    match fs::read_dir(directory) {
        Ok(entries) => Ok(entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(io_error("cannot list", directory)(error)),
    }
}

fn remove_if_there(directory: &Path) -> Result<(), RunDirError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("cannot remove", directory)(error)),
        _ => Ok(()),
    }
}

fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), RunDirError> {
    let unfinished = path.with_extension(UNFINISHED);
    fs::write(&unfinished, bytes).map_err(io_error("cannot write", &unfinished))?;
    fs::rename(&unfinished, path).map_err(io_error("cannot rename into place", path))
}

const FREE_SPACE: &str = ". Everything recorded so far is intact: free some space and continue with `--resume`";

/// Advice for a file system error, if there is any.
fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FREE_SPACE,
        // A library wrapped the error: only its text is left.
        io::ErrorKind::Other if source.to_string().contains("No space left on device") => FREE_SPACE,
        io::ErrorKind::FileTooLarge => {
            ". Everything recorded so far is intact: raise the limit on file sizes (`ulimit -f`) and continue with `--resume`"
        }
        _ => "",
    }
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RunDirError {
    let path = path.to_owned();
    move |source| RunDirError::Io { what, path, source }
}

/// An append-only file that knows how long its good part is. A failed append is cut off again, so that the next one
/// does not stick to its remains.
#[derive(Debug)]
struct AppendFile {
    path: PathBuf,
    file: File,
    len: u64,
}

impl AppendFile {
    /// Opens for appending after `len` good bytes; cuts the rest and returns how much that was.
    fn open(path: &Path, len: u64) -> Result<(Self, u64), RunDirError> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(io_error("cannot open for writing", path))?;
        let found = file.metadata().map_err(io_error("cannot read the size of", path))?.len();
        if found > len {
            file.set_len(len).map_err(io_error("cannot cut the incomplete end of", path))?;
        }
        Ok((Self { path: path.into(), file, len }, found.saturating_sub(len)))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), RunDirError> {
        if let Err(source) = io::Write::write_all(&mut self.file, bytes) {
            // The write error is the one to report; if the cut fails too, the next open cuts.
            let _ = self.file.set_len(self.len);
            return Err(RunDirError::Io { what: "cannot append to", path: self.path.clone(), source });
        }
        self.len += bytes.len() as u64;
        Ok(())
    }
}
