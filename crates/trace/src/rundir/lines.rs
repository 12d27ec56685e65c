//! Append-only JSON lines. A record is a line that ends; whatever follows the last newline is not a record yet.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{AppendFile, Recovered, RunDirError, io_error};

#[derive(Debug)]
pub(super) struct LineLog(AppendFile);

impl LineLog {
    pub(super) fn open(path: &Path, recovered: &mut Recovered) -> Result<Self, RunDirError> {
        let good = end_of_last_line(path).map_err(io_error("cannot read", path))?;
        let (file, dropped) = AppendFile::open(path, good)?;
        if dropped > 0 {
            recovered.dropped.push((path.into(), dropped));
        }
        Ok(Self(file))
    }

    pub(super) fn append(&mut self, record: &impl Serialize) -> Result<(), RunDirError> {
        let mut line = serde_json::to_vec(record).map_err(|error| RunDirError::Damaged {
            path: self.0.path.clone(),
            record: 0,
            what: format!("the record cannot be written as JSON: {error}"),
        })?;
        line.push(b'\n');
        self.0.append(&line)
    }

    pub(super) fn len(&self) -> u64 {
        self.0.len
    }

    pub(super) fn rewind(&mut self, len: u64, aside: &Path) -> Result<(), RunDirError> {
        self.0.rewind(len, aside)
    }

    pub(super) fn file(&self) -> &File {
        &self.0.file
    }
}

/// The complete records of a file, and the bytes after them.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines<T> {
    pub records: Vec<T>,
    /// Bytes of a record that is being written, or was being written when its writer died.
    pub incomplete: u64,
}

/// Reads every complete line. A file that does not exist yet has none.
pub fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Lines<T>, RunDirError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(io_error("cannot read", path)(error)),
    };
    let good = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let mut records = Vec::new();
    for (number, line) in bytes[..good].split(|byte| *byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        let record = serde_json::from_slice(line).map_err(|error| RunDirError::Damaged {
            path: path.into(),
            record: number as u64 + 1,
            what: error.to_string(),
        })?;
        records.push(record);
    }
    Ok(Lines { records, incomplete: (bytes.len() - good) as u64 })
}

/// The offset after the last newline, read from the end in blocks: metrics files grow long.
fn end_of_last_line(path: &Path) -> io::Result<u64> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        file => file?,
    };
    let mut end = file.metadata()?.len();
    let mut block = [0; 1 << 13];
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let part = &mut block[..(end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(part)?;
        if let Some(last) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}
