//! Base model of an adapter, recorded in `hone.json`: PEFT warns about unknown keys in its own file.

use std::io::ErrorKind;
use std::path::Path;

use hone_trace::Digest;
use serde::{Deserialize, Serialize};

use super::LoraConfig;
use crate::error::{EngineError, Result};

/// Name of the file that holds the fingerprint of an adapter's base.
pub const FILE: &str = "hone.json";

#[derive(Debug, Serialize, Deserialize)]
struct Origin {
    /// Fingerprint of the model that the adapter was trained on.
    base: Option<Digest>,
}

/// Fingerprint of the base that an adapter names; `None` if it comes from elsewhere.
pub(super) fn load(dir: &Path) -> Result<Option<Digest>> {
    let path = dir.join(FILE);
    let text = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|source| EngineError::Io { action: "read", path: path.clone(), source })?,
    };
    let origin: Origin = serde_json::from_str(&text).map_err(|error| EngineError::Adapter {
        what: format!("does not name the adapter's base ({error}); remove it if Hone did not write it"),
        path,
    })?;
    Ok(origin.base)
}

pub(super) fn save(base: Option<Digest>, dir: &Path) -> Result<()> {
    if base.is_none() {
        return Ok(());
    }
    let path = dir.join(FILE);
    let text = serde_json::json!(Origin { base });
    std::fs::write(&path, format!("{text:#}\n")).map_err(|source| EngineError::Io { action: "write", path, source })
}

/// Refuses an adapter on a model other than the one it was trained on.
pub(super) fn check(base: Option<Digest>, model: Option<Digest>, config: &LoraConfig, dir: &Path) -> Result<()> {
    let (Some(base), Some(model)) = (base, model) else { return Ok(()) };
    if base == model {
        return Ok(());
    }
    let named = config.base.as_ref().map(|named| format!(" ({named})")).unwrap_or_default();
    let what = format!("it was trained on another base{named}; name that one, or merge it there");
    Err(EngineError::Adapter { path: dir.to_owned(), what })
}
