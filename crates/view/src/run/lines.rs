//! A growing file of JSON lines, read from where reading stopped.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::ViewError;

/// The lines of a file so far, and those skipped.
#[derive(Debug, Clone)]
pub struct Tail {
    path: PathBuf,
    /// Bytes of complete lines that were read.
    read: u64,
    lines: u64,
    incomplete: u64,
    /// Number of unreadable lines, and the first of them.
    damaged: u64,
    first: Option<(u64, String)>,
}

impl Tail {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, read: 0, lines: 0, incomplete: 0, damaged: 0, first: None }
    }

    pub(super) fn rewind(&mut self) {
        *self = Self::new(std::mem::take(&mut self.path));
    }

    pub(super) fn shrank(&self) -> Result<bool, ViewError> {
        match std::fs::metadata(&self.path) {
            Ok(metadata) => Ok(metadata.len() < self.read),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(self.read > 0),
            Err(source) => Err(self.error(source)),
        }
    }

    pub(super) fn has_changed(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|metadata| metadata.len() != self.read + self.incomplete)
    }

    /// Calls back with the objects of newly completed lines. Returns whether there were any.
    pub(super) fn read(&mut self, mut with: impl FnMut(Map<String, Value>)) -> Result<bool, ViewError> {
        let bytes = match self.rest() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(source) => return Err(self.error(source)),
        };
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        self.incomplete = (bytes.len() - end) as u64;
        self.read += end as u64;
        for line in bytes[..end].split(|byte| *byte == b'\n') {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            self.lines += 1;
            match parse(line) {
                Ok(record) => with(record),
                Err(why) => {
                    self.damaged += 1;
                    self.first.get_or_insert((self.lines, why));
                }
            }
        }
        Ok(end > 0)
    }

    fn rest(&self) -> std::io::Result<Vec<u8>> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut notes = Vec::new();
        if let Some((line, why)) = &self.first {
            notes.push(format!(
                "{name}: {} lines could not be read and were skipped; the first is line {line}: {why}",
                self.damaged
            ));
        }
        if self.incomplete > 0 {
            notes.push(format!(
                "{name}: the last {} bytes are an incomplete record, cut off or being written",
                self.incomplete
            ));
        }
        notes
    }

    fn error(&self, source: std::io::Error) -> ViewError {
        ViewError::Read { path: self.path.display().to_string(), source }
    }
}

/// An object, bytes that are not UTF-8 replaced.
pub(super) fn parse<T: serde::de::DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    match serde_json::from_slice(line) {
        Ok(record) => Ok(record),
        Err(error) if std::str::from_utf8(line).is_ok() => Err(error.to_string()),
        Err(_) => serde_json::from_str(&String::from_utf8_lossy(line)).map_err(|error| error.to_string()),
    }
}
