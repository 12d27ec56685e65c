//! Rewinding to a checkpoint: everything recorded after it is set aside, so that every step counts once.
//!
//! A checkpoint remembers how long the run's files were. When the run resumes from it, the records of the steps to be
//! repeated are copied to `superseded/` and truncated. Nothing recorded is lost, nothing is counted twice.

use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{AppendFile, RunDir, RunDirError, children, io_error};

/// Recorded length of a run, between two appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Position {
    /// Bytes of metrics.jsonl.
    pub metrics: u64,
    /// Bytes of events.jsonl.
    pub events: u64,
    /// Traces.
    pub traces: u64,
}

/// Records set aside by a rewind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Superseded {
    pub metrics_bytes: u64,
    pub events_bytes: u64,
    pub traces: u64,
    /// Path inside the run; `None` where there was nothing.
    pub directory: Option<String>,
}

impl RunDir {
    pub fn position(&self) -> Position {
        Position { metrics: self.metrics.len(), events: self.events.len(), traces: self.traces.count() }
    }

    /// Rewinds to a position: records after it move to a separate directory under `superseded/`.
    pub fn rewind(&mut self, to: Position) -> Result<Superseded, RunDirError> {
        let from = self.position();
        let short = [
            ("metrics.jsonl", from.metrics, to.metrics, "bytes"),
            ("events.jsonl", from.events, to.events, "bytes"),
            ("traces/", from.traces, to.traces, "traces"),
        ];
        let short = short.iter().filter(|(_, has, had, _)| has < had);
        let short: Vec<String> = short.map(|(file, has, had, of)| format!("{file} has {has} of {had} {of}")).collect();
        if !short.is_empty() {
            return Err(RunDirError::Cut { path: self.path.clone(), what: short.join(", ") });
        }
        if from == to {
            return Ok(Superseded::default());
        }
        let parent = self.path.join("superseded");
        let number = |path: std::path::PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
        let taken = children(&parent)?.into_iter().filter_map(number).max();
        let name = format!("{:03}", taken.map_or(0, |taken| taken + 1));
        let aside = parent.join(&name);
        fs::create_dir_all(&aside).map_err(io_error("cannot create", &aside))?;
        self.metrics.rewind(to.metrics, &aside.join("metrics.jsonl"))?;
        self.events.rewind(to.events, &aside.join("events.jsonl"))?;
        self.traces.rewind(to.traces, &aside)?;
        Ok(Superseded {
            metrics_bytes: from.metrics - to.metrics,
            events_bytes: from.events - to.events,
            traces: from.traces - to.traces,
            directory: Some(format!("superseded/{name}")),
        })
    }
}

impl AppendFile {
    /// Copies everything after `len` to `aside`, then truncates. If interrupted in between, it is still in its original
    /// place.
    pub(super) fn rewind(&mut self, len: u64, aside: &Path) -> Result<(), RunDirError> {
        if self.len > len {
            copy_end(&self.path, len, aside).map_err(io_error("cannot set aside the end of", &self.path))?;
            self.file.set_len(len).map_err(io_error("cannot cut the superseded end of", &self.path))?;
            self.len = len;
        }
        Ok(())
    }
}

pub(super) fn copy_end(path: &Path, start: u64, to: &Path) -> io::Result<()> {
    let mut from = File::open(path)?;
    from.seek(SeekFrom::Start(start))?;
    let mut out = File::create(to)?;
    io::copy(&mut from, &mut out)?;
    out.sync_all()
}
