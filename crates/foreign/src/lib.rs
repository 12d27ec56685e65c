//! Records of other trainers, as far as they go, converted to a run directory that Hone's own tools read.
//!
//! A `Reader` knows one format and maps it onto a [`Record`]: episodes with rewards by step and group, and curves.
//! Data that a format does not record stays absent; [`Record::lacks`] lists what each check of the doctor would need.
//! No token, logprob or evaluation is made up.

mod needs;
mod parquet;
mod readers;
mod record;
mod run;
mod snappy;
mod source;
mod thrift;

use std::path::{Path, PathBuf};

use readers::READERS;
pub use record::{Curve, Episode, Record};
pub use run::write_run;
use source::Source;

/// Reason why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ForeignError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is neither a run directory nor a record that is known; known are {known}", path.display())]
    Unknown { path: PathBuf, known: String },
    #[error("{}{}: {what}", path.display(), line.map_or_else(String::new, |line| format!(", line {line}")))]
    Bad { path: PathBuf, line: Option<usize>, what: String },
    #[error("{} is compressed; unpack it first and name the unpacked file", path.display())]
    Packed { path: PathBuf },
    #[error(
        "{} has no episode and no curve in it; name the file or directory as docs/other-trainers.md describes",
        path.display()
    )]
    Empty { path: PathBuf },
    #[error(transparent)]
    RunDir(#[from] hone_trace::rundir::RunDirError),
    #[error(transparent)]
    Recipe(#[from] hone_train::recipe::RecipeError),
}

/// Reads a file or a directory of another trainer.
pub fn read(path: &Path) -> Result<Record, ForeignError> {
    std::fs::metadata(path).map_err(|source| ForeignError::Read { path: path.to_owned(), source })?;
    let source = Source::open(path)?;
    let reader = READERS.iter().find(|reader| (reader.recognises)(&source));
    let reader = reader.ok_or_else(|| match source.packed() {
        Some(packed) => ForeignError::Packed { path: packed.to_owned() },
        None => ForeignError::Unknown {
            path: path.to_owned(),
            known: READERS.iter().map(|reader| reader.what).collect::<Vec<_>>().join("; "),
        },
    })?;
    let record = (reader.read)(&source)?;
    if record.episodes.is_empty() && record.curves.is_empty() {
        return Err(ForeignError::Empty { path: path.to_owned() });
    }
    Ok(record)
}
