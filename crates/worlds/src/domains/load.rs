//! Reading a domain's tables from a tau-bench or tau2-bench directory.
//!
//! Retail's and airline's are JSON; telecom's two databases, `db` and `user_db`, are TOML or JSON.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::py::{Dict, Value, json};
use super::tau2::telecom;
use super::{Domain, Kind};

/// Reason why a domain could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read {path}; give the domain's own directory, which holds {wanted}, or db.json")]
    Read { path: String, source: std::io::Error, wanted: String },
    #[error("{path} is not JSON; restore it from the data set")]
    Json { path: String, source: json::BadJson },
    #[error("{path} is not TOML; restore it from the data set")]
    Toml { path: String, source: toml::de::Error },
    #[error(
        "telecom is tau2-bench's: tau-bench v1 has no such domain; leave `profile` out, or write profile = \"tau2\""
    )]
    Tau2Alone,
    #[error("{path}: expected {expected}")]
    Shape { path: String, expected: String },
    #[error("a record does not fit tau2's models: {0}")]
    Model(String),
}

/// True if a directory has tau2-bench's layout: all tables in one file.
pub(super) fn is_tau2(directory: &Path) -> bool {
    single_file(directory).is_some() || directory.join("db.toml").exists()
}

/// Telecom's two databases.
pub(super) fn telecom(directory: &Path) -> Result<Domain, LoadError> {
    let lists = part(directory, "db", &telecom::TABLES, telecom::shape_list, || Value::list(Vec::new()))?;
    let phone = part(directory, "user_db", &telecom::PHONE_TABLES, telecom::shape_phone, || Value::dict(Dict::new()))?;
    Ok(Domain::telecom(lists, phone))
}

/// One of telecom's databases: each of its tables in the model's shape, an absent one as upstream fills it.
fn part(
    directory: &Path,
    name: &str,
    tables: &[&'static str],
    shape: fn(&str, &Value) -> Result<Dict, String>,
    absent: fn() -> Value,
) -> Result<Vec<(&'static str, Dict)>, LoadError> {
    let toml = directory.join(format!("{name}.toml"));
    let json = directory.join(format!("{name}.json"));
    let path = if json.exists() && !toml.exists() { json } else { toml };
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(&path).map_err(|source| LoadError::Read {
        path: shown.clone(),
        source,
        wanted: "db.toml and user_db.toml".into(),
    })?;
    let mut read = if path.extension().is_some_and(|extension| extension == "json") {
        parsed(&shown, &text)?
    } else {
        let table: toml::Table = text.parse().map_err(|source| LoadError::Toml { path: shown.clone(), source })?;
        from_table(&table)
    };
    if let Some(other) = read.keys().find(|key| !tables.contains(&&***key)) {
        let expected = format!("no table {other:?}; it has {}", tables.join(", "));
        return Err(LoadError::Shape { path: shown, expected });
    }
    let table = |name: &'static str| {
        let records = read.shift_remove(name).unwrap_or_else(absent);
        shape(name, &records).map(|records| (name, records)).map_err(LoadError::Model)
    };
    tables.iter().copied().map(table).collect()
}

fn from_table(table: &toml::Table) -> Dict {
    table.iter().map(|(key, value)| (key.as_str().into(), from_toml(value))).collect()
}

fn from_toml(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::str(text.as_str()),
        toml::Value::Integer(number) => Value::Int(*number),
        toml::Value::Float(number) => Value::Float(*number),
        toml::Value::Boolean(flag) => Value::Bool(*flag),
        toml::Value::Datetime(moment) => Value::str(moment.to_string()),
        toml::Value::Array(items) => Value::list(items.iter().map(from_toml).collect()),
        toml::Value::Table(table) => Value::dict(from_table(table)),
    }
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
        return names.iter().copied().map(table).collect();
    }
    names.iter().copied().map(|name| Ok((name, records(kind, &directory.join(format!("{name}.json")))?))).collect()
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
    let wanted = || kind.tables().iter().map(|table| format!("{table}.json")).collect::<Vec<_>>().join(", ");
    let text = std::fs::read_to_string(path).map_err(|source| LoadError::Read {
        path: shown.clone(),
        source,
        wanted: wanted(),
    })?;
    parsed(&shown, &text)
}

fn parsed(path: &str, text: &str) -> Result<Dict, LoadError> {
    match json::loads(text) {
        Ok(Value::Dict(records)) => Ok(Arc::unwrap_or_clone(records)),
        Ok(_) => Err(LoadError::Shape { path: path.to_owned(), expected: "an object of records by id".into() }),
        Err(source) => Err(LoadError::Json { path: path.to_owned(), source }),
    }
}
