//! Manifests: identity, origin and command of a task set, beside its files as `manifest.json`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use hone_trace::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::DataError;

pub(crate) const MANIFEST: &str = "manifest.json";

/// A version of a set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub name: String,
    /// Given, or the first twelve digits of the digest over the files' digests.
    pub version: String,
    /// The sets it was created from.
    pub parents: Vec<Parent>,
    /// The set's files, by name.
    pub files: BTreeMap<String, FileEntry>,
    /// Task counts, as the command counts them.
    pub counts: Value,
    /// The command that created it.
    pub command: Vec<String>,
}

/// A file that a set was created from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    pub path: String,
    pub sha256: Digest,
    /// From the parent's own manifest, if there is one beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    pub sha256: Digest,
    pub bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
}

impl FileEntry {
    pub fn of(path: &Path, tasks: Option<u64>) -> Result<Self, DataError> {
        let (sha256, bytes) = digest(path)?;
        Ok(Self { sha256, bytes, tasks })
    }
}

impl Parent {
    /// Parent under its given name, whose content is at `path`.
    pub fn of(name: &str, path: &Path) -> Result<Self, DataError> {
        let own = path.parent().map(|directory| directory.join(MANIFEST)).filter(|path| path.is_file());
        let own = own.and_then(|path| Manifest::read(&path).ok());
        let (set, version) = own.map(|manifest| (manifest.name, manifest.version)).unzip();
        Ok(Self { path: name.to_owned(), sha256: digest(path)?.0, name: set, version })
    }
}

impl Manifest {
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let text =
            std::fs::read(path).map_err(|source| DataError::Read { path: path.display().to_string(), source })?;
        serde_json::from_slice(&text)
            .map_err(|error| DataError::Form { path: path.display().to_string(), what: error.to_string() })
    }

    /// Writes it into the set's directory, with a version derived from the content if none was given.
    pub fn write(mut self, directory: &Path) -> Result<Self, DataError> {
        if self.version.is_empty() {
            let all: String = self.files.values().map(|file| file.sha256.to_string()).collect();
            self.version = Digest::of(all.as_bytes()).short();
        }
        let path = directory.join(MANIFEST);
        let text = serde_json::to_string_pretty(&self).unwrap_or_default() + "\n";
        std::fs::write(&path, text).map_err(|source| DataError::Write { path: path.display().to_string(), source })?;
        Ok(self)
    }
}

fn digest(path: &Path) -> Result<(Digest, u64), DataError> {
    let read = |source| DataError::Read { path: path.display().to_string(), source };
    let mut file = std::fs::File::open(path).map_err(read)?;
    let (mut hasher, mut bytes, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 16]);
    loop {
        let count = file.read(&mut buffer).map_err(read)?;
        if count == 0 {
            return Ok((Digest::from_bytes(hasher.finalize().into()), bytes));
        }
        hasher.update(&buffer[..count]);
        bytes += count as u64;
    }
}
