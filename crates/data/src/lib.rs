//! Task sets: reading every input format, statistics, comparison, splits and validation.
//!
//! Everything streams: [`read::Reader`] yields one [`Row`] at a time, so that a million tasks do not need gigabytes. A
//! row that was dropped or repaired is an [`Issue`] with its file, line, field, reason and fix: nothing is skipped
//! silently. It knows environments only through `hone-arena`'s traits, and no model.

pub mod diff;
mod forms;
mod hash;
mod issue;
pub mod manifest;
#[cfg(feature = "parquet")]
mod parquet_rows;
pub mod read;
mod scan;
mod source;
pub mod split;
pub mod stats;
pub mod table;
pub mod validate;

use std::sync::Arc;

use hone_trace::{Side, Task};
use serde_json::Value;

pub use issue::{Issue, IssueKind, Issues};

/// Task as read, with its side of the split, if the file gives one, and its location.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub task: Task,
    pub side: Option<Side>,
    pub at: Place,
}

impl Row {
    /// The row as a line of our own task file format, its side included.
    pub fn to_json(&self) -> Value {
        let mut form = serde_json::to_value(&self.task).unwrap_or_default();
        if let (Some(side), Some(fields)) = (self.side, form.as_object_mut()) {
            fields.insert("split".into(), side.name().into());
        }
        form
    }
}

/// A file and a line of it, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub file: Arc<str>,
    pub line: u64,
}

/// Reason why a task set cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("cannot write {path}: {source}")]
    Write { path: String, source: std::io::Error },
    #[error("{path}: {what}")]
    Form { path: String, what: String },
    #[error("cannot fetch {url}: {what}")]
    Fetch { url: String, what: String },
    #[error("{0}")]
    Split(String),
    #[error(transparent)]
    Lock(#[from] hone_trace::LockError),
    #[error("{0}")]
    Stopped(String),
}
