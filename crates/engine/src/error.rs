//! Errors of the engine. Every message names the cause and the fix.

use std::path::PathBuf;

use hone_trace::gigabytes;

pub type Result<T> = std::result::Result<T, EngineError>;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },

    #[error("{}: {what}", path.display())]
    Config { path: PathBuf, what: String },

    #[error("{}: {what}", path.display())]
    Weights { path: PathBuf, what: String },

    #[error("adapter {}: {what}", path.display())]
    Adapter { path: PathBuf, what: String },

    #[error("cannot start {threads} threads: {what}; ask for fewer")]
    Threads { threads: usize, what: String },

    #[error("the batch cannot be computed: {0}")]
    Batch(String),

    #[error(
        "{rows} packed tokens need {} of activations and the limit is {}; raise the limit, pack fewer tokens or turn \
         recomputation on",
        gigabytes(*needed),
        gigabytes(*limit)
    )]
    Memory { needed: u64, limit: u64, rows: usize },

    #[error("{0}")]
    Device(String),

    #[error("the checkpoint does not fit the model: {0}; resume with the model the checkpoint was written for")]
    State(String),
}

impl From<EngineError> for hone_trace::EngineFault {
    fn from(error: EngineError) -> Self {
        Self::new(error.to_string())
    }
}
