//! Files that grow by one row per step: written in full by an export, or row by row during a run.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use hone_train::ledger::names;

use super::proto::Message;
use super::rows::{Origin, Row, rows};
use super::{ExportError, failed};
use crate::run::Run;

/// A format of records one after another. A row's last record names its step.
pub(super) trait Stream: Debug + Send {
    /// Bytes before the first record.
    fn magic(&self) -> &'static [u8];
    /// Records before the first row.
    fn head(&self, run: &Run, origin: &Origin) -> Vec<Message>;
    fn row(&self, origin: &Origin, row: &Row) -> Vec<Message>;
    /// Records after the last row of a run that has done all its steps.
    fn end(&self, seconds: f64) -> Vec<Message>;
    /// The bytes of record `number`, counted from 1, in a file that has `at` bytes so far.
    fn frame(&self, at: u64, number: u64, record: &Message) -> Vec<u8>;
    /// Records of a file up to the first that is damaged or cut off: each with its end offset.
    fn read(&self, bytes: &[u8]) -> Vec<(usize, Vec<u8>)>;
    /// The step of a row's last record; `None` for any other record.
    fn step(&self, record: &[u8]) -> Option<u64>;
}

/// A run's file in a streaming format.
#[derive(Debug)]
pub(super) struct Writer {
    stream: Box<dyn Stream>,
    origin: Origin,
    path: PathBuf,
    file: File,
    at: u64,
    records: u64,
    /// The last step in the file.
    last: Option<u64>,
}

impl Writer {
    /// The file, to continue: rows of steps that the run has not done (any more) are removed. Created if it does not
    /// exist.
    pub(super) fn open(path: &Path, stream: Box<dyn Stream>, run: &Run, origin: &Origin) -> Result<Self, ExportError> {
        let opened = || -> io::Result<(Vec<u8>, File)> {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
            Ok((fs::read(path)?, file))
        };
        let (bytes, file) = opened().map_err(failed(path))?;
        let (origin, path) = (origin.clone(), path.to_owned());
        let mut writer = Self { stream, origin, path, file, at: 0, records: 0, last: None };
        writer.keep(&bytes, run).map_err(failed(&writer.path))?;
        Ok(writer)
    }

    fn keep(&mut self, bytes: &[u8], run: &Run) -> io::Result<()> {
        let head = self.stream.head(run, &self.origin);
        let found = self.stream.read(bytes);
        for (index, (end, record)) in found.iter().enumerate() {
            let step = self.stream.step(record);
            if step.is_some_and(|step| step > run.done()) {
                break;
            }
            if step.is_some() || index + 1 == head.len() {
                (self.at, self.records) = (*end as u64, index as u64 + 1);
                self.last = step.or(self.last);
            }
        }
        self.file.set_len(self.at)?;
        self.file.seek(SeekFrom::Start(self.at))?;
        if self.at == 0 {
            let magic = self.stream.magic();
            self.file.write_all(magic)?;
            self.at = magic.len() as u64;
            self.append(&head)?;
        }
        Ok(())
    }

    fn append(&mut self, records: &[Message]) -> io::Result<()> {
        let mut out = Vec::new();
        for record in records {
            self.records += 1;
            out.extend(self.stream.frame(self.at + out.len() as u64, self.records, record));
        }
        self.file.write_all(&out)?;
        self.at += out.len() as u64;
        Ok(())
    }

    /// Appends the rows that the file does not have, up to the step `before`.
    pub(super) fn rows(&mut self, run: &Run, before: Option<u64>) -> Result<(), ExportError> {
        for row in rows(run, self.last).take_while(|row| before.is_none_or(|before| row.step < before)) {
            let records = self.stream.row(&self.origin, &row);
            self.append(&records).map_err(failed(&self.path))?;
            self.last = Some(row.step);
        }
        Ok(())
    }

    /// Appends the remaining rows and, if the run has done all its steps, the final records.
    pub(super) fn finish(&mut self, run: &Run) -> Result<(), ExportError> {
        self.rows(run, None)?;
        if !run.is_complete() {
            return Ok(());
        }
        let end = self.stream.end(run.metrics.sum(names::TIMING_STEP.name).unwrap_or(0.0));
        self.append(&end).map_err(failed(&self.path))
    }
}

/// Writes the whole run to one new file.
pub(super) fn write(run: &Run, path: &Path, stream: Box<dyn Stream>) -> Result<Vec<PathBuf>, ExportError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(path)(error)),
        _ => Writer::open(path, stream, run, &Origin::of(run))?.finish(run)?,
    }
    Ok(vec![path.to_owned()])
}
