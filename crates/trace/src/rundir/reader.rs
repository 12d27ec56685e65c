//! Reading traces by number, during or after a run.

use std::fs::File;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zstd::zstd_safe;

use super::traces::{
    Entry, frame_bytes, last_good_entry, read_entry, read_frame, segment_len, segment_path, segments, walk_frames,
};
use super::{RunDirError, io_error};
use crate::trace::Trace;

/// A decompressed frame: its segment, its offset there, its text.
type Frame = ((u32, u64), Vec<u8>);

/// Reads traces by number. Traces counted when it is opened stay readable while the run continues.
#[derive(Debug, Clone)]
pub struct TraceReader {
    directory: PathBuf,
    count: u64,
    /// Entries made by walking the segments, if the index is lost or belongs to other segments.
    walked: Option<Arc<[Entry]>>,
}

impl TraceReader {
    pub(super) fn open(directory: &Path) -> Result<Self, RunDirError> {
        let (count, last) = last_good_entry(directory)?;
        let walked = if points_at_frames(directory, last)? { None } else { walk(directory)? };
        let count = walked.as_ref().map_or(count, |walked| walked.len() as u64);
        Ok(Self { directory: directory.into(), count, walked: walked.map(Into::into) })
    }

    pub fn len(&self) -> u64 {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Reads one trace: one index entry, one frame.
    pub fn get(&self, number: u64) -> Result<Trace, RunDirError> {
        self.read(number, &mut None)
    }

    /// All traces, in order.
    pub fn iter(&self) -> impl Iterator<Item = Result<Trace, RunDirError>> {
        self.range(0..self.count)
    }

    /// The traces of these numbers, in order. A frame they share is decompressed once.
    pub fn range(&self, numbers: Range<u64>) -> impl Iterator<Item = Result<Trace, RunDirError>> {
        let mut frame = None;
        numbers.map(move |number| self.read(number, &mut frame))
    }

    /// Calls `with` with the JSON text of each of these traces, in order, until told to stop. For readers that need
    /// only part of each trace, or read what a newer version wrote.
    pub fn lines(&self, numbers: Range<u64>, mut with: impl FnMut(u64, Result<&[u8], RunDirError>) -> ControlFlow<()>) {
        let mut frame = None;
        for number in numbers {
            if with(number, self.line(number, &mut frame)).is_break() {
                break;
            }
        }
    }

    fn read(&self, number: u64, frame: &mut Option<Frame>) -> Result<Trace, RunDirError> {
        let line = self.line(number, frame)?;
        serde_json::from_slice(line).map_err(|error| self.damaged(number, &error.to_string()))
    }

    /// `frame` holds the frame that was read last, and where it is.
    fn line<'a>(&self, number: u64, frame: &'a mut Option<Frame>) -> Result<&'a [u8], RunDirError> {
        if number >= self.count {
            return Err(RunDirError::NoSuchTrace { asked: number, have: self.count });
        }
        let entry = self.entry(number)?;
        let place = (entry.segment, entry.frame);
        if frame.as_ref().is_none_or(|(at, _)| *at != place) {
            let path = segment_path(&self.directory, entry.segment);
            let text = read_frame(&path, entry).map_err(io_error("cannot read", &path))?;
            *frame = Some((place, text));
        }
        let text = frame.as_ref().map_or(&[][..], |(_, text)| text);
        let line = text
            .get(entry.line as usize..entry.line as usize + entry.line_len as usize)
            .ok_or_else(|| self.damaged(number, "the entry points outside its frame"))?;
        Ok(line)
    }

    fn entry(&self, number: u64) -> Result<Entry, RunDirError> {
        if let Some(entry) = self.walked.as_ref().and_then(|walked| walked.get(number as usize)) {
            return Ok(*entry);
        }
        let index = self.directory.join("index");
        let mut file = File::open(&index).map_err(io_error("cannot open", &index))?;
        read_entry(&mut file, number)
            .map_err(io_error("cannot read", &index))?
            .ok_or_else(|| self.damaged(number, "the entry's checksum does not match"))
    }

    fn damaged(&self, record: u64, what: &str) -> RunDirError {
        RunDirError::Damaged { path: self.directory.join("index"), record, what: what.into() }
    }
}

/// Entries of all segments, if every segment is intact; damage is then reported by the index.
fn walk(directory: &Path) -> Result<Option<Vec<Entry>>, RunDirError> {
    let mut walked = Vec::new();
    let mut numbers = segments(directory)?;
    numbers.sort_unstable();
    for number in numbers {
        let path = segment_path(directory, number);
        let (entries, end) = walk_frames(&path, 0, number)?;
        if end < segment_len(directory, number).map_err(io_error("cannot read", &path))? {
            return Ok(None);
        }
        walked.extend(entries);
    }
    Ok(Some(walked))
}

/// True when the first and the last entry of the index name whole frames. In segments rewritten by an editor or a
/// script, frames are elsewhere.
fn points_at_frames(directory: &Path, last: Option<Entry>) -> Result<bool, RunDirError> {
    let index = directory.join("index");
    let Some(last) = last else { return Ok(false) };
    let mut file = File::open(&index).map_err(io_error("cannot open", &index))?;
    let first = read_entry(&mut file, 0).map_err(io_error("cannot read", &index))?;
    Ok(first.is_some_and(|first| is_frame(directory, first)) && is_frame(directory, last))
}

fn is_frame(directory: &Path, entry: Entry) -> bool {
    let bytes = frame_bytes(&segment_path(directory, entry.segment), entry);
    bytes.is_ok_and(|bytes| zstd_safe::find_frame_compressed_size(&bytes) == Ok(bytes.len()))
}
