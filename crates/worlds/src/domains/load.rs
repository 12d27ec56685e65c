//! Reading a domain's tables from a tau-bench or tau2-bench directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Kind;
use super::py::{Dict, Value, json};

/// Why a domain could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read {path}; give the domain's own directory, which holds {wanted}, or db.json")]
    Read { path: String, source: std::io::Error, wanted: String },
    #[error("{path} is not JSON")]
    Json { path: String, source: json::BadJson },
    #[error("{path}: expected {expected}")]
    Shape { path: String, expected: String },
    #[error("a record does not fit tau2's models: {0}")]
    Model(String),
}

/// True when a directory is laid out as tau2-bench's: all tables in one file.
pub(super) fn is_tau2(directory: &Path) -> bool {
    single_file(directory).is_some()
}

/// The tables in alphabetical order: one file each, or all in a `db.json` (or `db.….json`, as reconstructions are named).
pub(super) fn tables(kind: Kind, directory: &Path) -> Result<Vec<(&'static str, Dict)>, LoadError> {
    let names = kind.tables();
    if let Some(path) = single_file(directory) {
        let mut db = records(kind, &path)?;
        let table = |name: &'static str| match db.shift_remove(name) {
            Some(Value::Dict(records)) => Ok((name, Arc::unwrap_or_clone(records))),
            _ => Err(LoadError::Shape { path: path.display().to_string(), expected: format!("a table {name:?}") }),
        };
        return names.into_iter().map(table).collect();
    }
    names.into_iter().map(|name| Ok((name, records(kind, &directory.join(format!("{name}.json")))?))).collect()
}

fn single_file(directory: &Path) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = (std::fs::read_dir(directory).ok()?.flatten())
        .map(|entry| entry.path())
        .filter(|path| {
            let stem = path.file_stem().is_some_and(|stem| stem == "db" || stem.to_string_lossy().starts_with("db."));
            stem && path.extension().is_some_and(|extension| extension == "json")
        })
        .collect();
    found.sort();
    found.into_iter().next()
}

fn records(kind: Kind, path: &Path) -> Result<Dict, LoadError> {
    let shown = path.display().to_string();
    let wanted = || kind.tables().map(|table| format!("{table}.json")).join(", ");
    let text = std::fs::read_to_string(path).map_err(|source| LoadError::Read {
        path: shown.clone(),
        source,
        wanted: wanted(),
    })?;
    match json::loads(&text) {
        Ok(Value::Dict(records)) => Ok(Arc::unwrap_or_clone(records)),
        Ok(_) => Err(LoadError::Shape { path: shown, expected: "an object of records by id".into() }),
        Err(source) => Err(LoadError::Json { path: shown, source }),
    }
}
