//! Exports of a run to the formats of other tools. One file each; all of them stream, a trace at a time.

mod inspect;
pub mod live;
mod otlp;
mod parquet;
mod proto;
mod rows;
mod stream;
mod table;
mod tensorboard;
mod trl;
pub mod wandb;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::run::{Full, Run, ViewError};

/// Reason why an export stopped.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    View(#[from] ViewError),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// An export format: its name, its readers, and its writer.
#[derive(Debug)]
pub struct Format {
    pub name: &'static str,
    pub about: &'static str,
    write: fn(&Run, &Path) -> Result<Vec<PathBuf>, ExportError>,
}

/// All formats.
pub const FORMATS: &[Format] = &[
    Format {
        name: "parquet",
        about: "metrics.parquet, rollouts.parquet and rewards.parquet: pandas, DuckDB, Polars, Spark",
        write: parquet::write,
    },
    Format { name: "csv", about: "the same tables as CSV", write: table::write },
    Format {
        name: "trl",
        about: "completions_STEP.jsonl: step, prompt, completion, a column per reward component, advantage",
        write: trl::write,
    },
    Format {
        name: "tensorboard",
        about: "an event file with every metric: tensorboard --logdir",
        write: tensorboard::write,
    },
    Format {
        name: "wandb",
        about: "an offline run of W&B, of the project WANDB_PROJECT (or hone): wandb sync uploads it, and so does \
                this command where WANDB_API_KEY is set",
        write: wandb::write,
    },
    Format { name: "inspect", about: "a log per evaluation: inspect view --log-dir", write: inspect::write },
    Format {
        name: "otlp",
        about: "traces.json in OTLP's JSON with GenAI conventions: POST it to a collector's /v1/traces",
        write: otlp::write,
    },
];

impl Format {
    /// Writes a run into a directory, which is created; returns the files.
    pub fn write(&self, run: &Run, into: &Path) -> Result<Vec<PathBuf>, ExportError> {
        fs::create_dir_all(into).map_err(failed(into))?;
        (self.write)(run, into)
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> ExportError {
    let path = path.to_owned();
    move |source| ExportError::Write { path, source }
}

/// A run's name as one part of a path.
fn file_name(name: &str) -> String {
    name.replace(['/', '\\'], "-")
}

/// Writes a file completely, or names it in the error.
fn file(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<(), ExportError>) -> Result<PathBuf, ExportError> {
    let mut out = BufWriter::new(File::create(path).map_err(failed(path))?);
    write(&mut out)?;
    out.flush().map_err(failed(path))?;
    Ok(path.to_owned())
}

/// Calls back with every readable trace of a range, one at a time.
fn each(
    run: &Run,
    numbers: std::ops::Range<u64>,
    mut with: impl FnMut(Full) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let known = run.traces()?.len();
    let mut result = Ok(());
    run.fulls(numbers.start..numbers.end.min(known), |full| {
        result = with(full);
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    result
}
