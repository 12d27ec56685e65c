//! Traces on disk: segments of zstd frames, each a few JSON lines, and an index of fixed-size entries.
//!
//! The frame is written before its index entries, so an entry always points at complete data; a frame without
//! entries (a crash in between) is found again by walking the frames after the last indexed one.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use zstd::zstd_safe;

use super::rewind::copy_end;
use super::{AppendFile, Recovered, RunDirError, children, io_error};
use crate::trace::Trace;

/// Minimum text of a frame, if there is that much: small enough to read one trace quickly, large enough that traces
/// which share their prompts compress against each other.
const FRAME_TEXT: usize = 1 << 20;
/// A new segment begins after this many bytes, so that recovery reads at most this much.
const SEGMENT: u64 = 256 << 20;
const LEVEL: i32 = 3;

/// Index entry of one trace. Little-endian on disk, with a CRC of the preceding bytes in the last four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) frame: u64,
    pub(super) frame_len: u32,
    pub(super) line: u32,
    pub(super) line_len: u32,
    pub(super) segment: u32,
}

const ENTRY: usize = 32;

impl Entry {
    fn to_bytes(self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        bytes[..8].copy_from_slice(&self.frame.to_le_bytes());
        for (at, part) in [(8, self.frame_len), (12, self.line), (16, self.line_len), (20, self.segment)] {
            bytes[at..at + 4].copy_from_slice(&part.to_le_bytes());
        }
        let crc = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; ENTRY]) -> Option<Self> {
        let part = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if part(28) != crc32fast::hash(&bytes[..28]) {
            return None;
        }
        let frame = u64::from(part(0)) | u64::from(part(4)) << 32;
        Some(Self { frame, frame_len: part(8), line: part(12), line_len: part(16), segment: part(20) })
    }

    fn frame_end(self) -> u64 {
        self.frame + u64::from(self.frame_len)
    }
}

#[derive(Debug)]
pub(super) struct TraceLog {
    directory: PathBuf,
    index: AppendFile,
    segment: AppendFile,
    number: u32,
    count: u64,
}

impl TraceLog {
    pub(super) fn open(directory: &Path, recovered: &mut Recovered) -> Result<Self, RunDirError> {
        fs::create_dir_all(directory).map_err(io_error("cannot create", directory))?;
        let index_path = directory.join("index");
        let (mut count, last) = last_good_entry(directory)?;
        let (mut index, dropped) = AppendFile::open(&index_path, count * ENTRY as u64)?;
        note(recovered, &index_path, dropped);
        let newest = segments(directory)?.into_iter().max().unwrap_or(0);
        // A crash may have cut the index inside a frame's entries: walk from that frame's start and continue after the
        // last indexed line.
        let first = last.map_or(0, |entry| entry.segment);
        let mut open = None;
        for number in first..=newest.max(first) {
            let path = segment_path(directory, number);
            let resumed = last.filter(|entry| entry.segment == number);
            let (mut found, end) = walk_frames(&path, resumed.map_or(0, |entry| entry.frame), number)?;
            if let Some(last) = resumed {
                found.retain(|entry| entry.frame > last.frame || entry.line > last.line);
            }
            let (segment, dropped) = AppendFile::open(&path, end)?;
            note(recovered, &path, dropped);
            for entry in &found {
                index.append(&entry.to_bytes())?;
            }
            count += found.len() as u64;
            recovered.reindexed += found.len() as u64;
            open = Some((segment, number));
            if dropped > 0 && number < newest {
                return Err(RunDirError::Damaged {
                    path,
                    record: count,
                    what: "a frame in the middle of the run is damaged; later segments exist".into(),
                });
            }
        }
        let Some((segment, number)) = open else {
            return Err(RunDirError::NotARun(directory.into()));
        };
        Ok(Self { directory: directory.into(), index, segment, number, count })
    }

    pub(super) fn append(&mut self, traces: &[Trace]) -> Result<Range<u64>, RunDirError> {
        let start = self.count;
        let mut text = Vec::new();
        let mut lines = Vec::new();
        for (position, trace) in traces.iter().enumerate() {
            let line = text.len();
            serde_json::to_writer(&mut text, trace).map_err(|error| RunDirError::Damaged {
                path: self.directory.clone(),
                record: start + position as u64,
                what: format!("the trace cannot be written as JSON: {error}"),
            })?;
            lines.push((line as u32, (text.len() - line) as u32));
            text.push(b'\n');
            if text.len() >= FRAME_TEXT || position + 1 == traces.len() {
                self.append_frame(&text, &lines)?;
                text.clear();
                lines.clear();
            }
        }
        Ok(start..self.count)
    }

    fn append_frame(&mut self, text: &[u8], lines: &[(u32, u32)]) -> Result<(), RunDirError> {
        if self.segment.len >= SEGMENT {
            self.number += 1;
            self.segment = AppendFile::open(&segment_path(&self.directory, self.number), 0)?.0;
        }
        let frame = compress(text).map_err(io_error("cannot compress traces for", &self.directory))?;
        let at = self.segment.len;
        self.segment.append(&frame)?;
        let entry = |&(line, line_len): &(u32, u32)| Entry {
            frame: at,
            frame_len: frame.len() as u32,
            line,
            line_len,
            segment: self.number,
        };
        let entries: Vec<_> = lines.iter().map(entry).map(Entry::to_bytes).collect();
        self.index.append(&entries.concat())?;
        self.count += lines.len() as u64;
        Ok(())
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Rewinds to `count` traces. The entries are truncated before their frames, so that no entry ever points at
    /// nothing; frames without entries, if that is interrupted, are found again and removed by the next attempt.
    pub(super) fn rewind(&mut self, count: u64, aside: &Path) -> Result<(), RunDirError> {
        if count == self.count {
            return Ok(());
        }
        let last = match count.checked_sub(1) {
            None => None,
            Some(last) => self.entry(last)?,
        };
        let (first, end) = last.map_or((0, 0), |entry| (entry.segment, entry.frame_end()));
        for number in first..=self.number {
            let path = segment_path(&self.directory, number);
            let start = if number == first { end } else { 0 };
            copy_end(&path, start, &segment_path(aside, number))
                .map_err(io_error("cannot set aside the end of", &path))?;
        }
        self.index.rewind(count * ENTRY as u64, &aside.join("index"))?;
        for number in first + 1..=self.number {
            let path = segment_path(&self.directory, number);
            fs::remove_file(&path).map_err(io_error("cannot remove", &path))?;
        }
        (self.segment, _) = AppendFile::open(&segment_path(&self.directory, first), end)?;
        (self.number, self.count) = (first, count);
        Ok(())
    }

    fn entry(&self, number: u64) -> Result<Option<Entry>, RunDirError> {
        let path = &self.index.path;
        let mut file = File::open(path).map_err(io_error("cannot open", path))?;
        let entry = read_entry(&mut file, number).map_err(io_error("cannot read", path))?;
        let damaged = || RunDirError::Damaged {
            path: path.clone(),
            record: number,
            what: "the entry's checksum does not match".into(),
        };
        entry.ok_or_else(damaged).map(Some)
    }

    pub(super) fn files(&self) -> [&File; 2] {
        [&self.segment.file, &self.index.file]
    }
}

/// Number of complete entries whose frames are on disk, and the last of them.
pub(super) fn last_good_entry(directory: &Path) -> Result<(u64, Option<Entry>), RunDirError> {
    let index = directory.join("index");
    let mut file = match File::open(&index) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((0, None)),
        file => file.map_err(io_error("cannot open", &index))?,
    };
    last_entry_on_disk(&mut file, directory).map_err(io_error("cannot read", &index))
}

fn last_entry_on_disk(index: &mut File, directory: &Path) -> io::Result<(u64, Option<Entry>)> {
    let mut count = index.metadata()?.len() / ENTRY as u64;
    while count > 0 {
        if let Some(entry) = read_entry(index, count - 1)?
            && segment_len(directory, entry.segment)? >= entry.frame_end()
        {
            return Ok((count, Some(entry)));
        }
        count -= 1;
    }
    Ok((0, None))
}

pub(super) fn read_entry(index: &mut File, number: u64) -> io::Result<Option<Entry>> {
    let mut bytes = [0; ENTRY];
    index.seek(SeekFrom::Start(number * ENTRY as u64))?;
    index.read_exact(&mut bytes)?;
    Ok(Entry::from_bytes(bytes))
}

pub(super) fn read_frame(path: &Path, entry: Entry) -> io::Result<Vec<u8>> {
    zstd::decode_all(&frame_bytes(path, entry)?[..])
}

/// The compressed frame.
pub(super) fn frame_bytes(path: &Path, entry: Entry) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(entry.frame))?;
    let mut frame = vec![0; entry.frame_len as usize];
    file.read_exact(&mut frame)?;
    Ok(frame)
}

/// The index entries of the complete frames from `start` on, and where they end.
pub(super) fn walk_frames(path: &Path, start: u64, segment: u32) -> Result<(Vec<Entry>, u64), RunDirError> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), start)),
        file => {
            let mut file = file.map_err(io_error("cannot open", path))?;
            file.seek(SeekFrom::Start(start)).map_err(io_error("cannot read", path))?;
            file.read_to_end(&mut bytes).map_err(io_error("cannot read", path))?;
        }
    }
    let mut entries = Vec::new();
    let mut at = 0;
    while let Ok(len) = zstd_safe::find_frame_compressed_size(&bytes[at..]) {
        if len == 0 {
            break;
        }
        let Ok(text) = zstd::decode_all(&bytes[at..at + len]) else { break };
        if text.last() != Some(&b'\n') {
            break;
        }
        let mut line = 0;
        for part in text.split_inclusive(|byte| *byte == b'\n') {
            let entry = Entry {
                frame: start + at as u64,
                frame_len: len as u32,
                line,
                line_len: part.len() as u32 - 1,
                segment,
            };
            entries.push(entry);
            line += part.len() as u32;
        }
        at += len;
    }
    Ok((entries, start + at as u64))
}

fn compress(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
    // Found by the decoder when a byte of the frame changes.
    encoder.include_checksum(true)?;
    io::Write::write_all(&mut encoder, text)?;
    encoder.finish()
}

pub(super) fn segments(directory: &Path) -> Result<Vec<u32>, RunDirError> {
    let numbers = children(directory)?
        .into_iter()
        .filter_map(|path| path.file_name()?.to_str()?.strip_suffix(".jsonl.zst")?.parse().ok());
    Ok(numbers.collect())
}

pub(super) fn segment_path(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("{number:05}.jsonl.zst"))
}

pub(super) fn segment_len(directory: &Path, number: u32) -> io::Result<u64> {
    match fs::metadata(segment_path(directory, number)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        metadata => Ok(metadata?.len()),
    }
}

fn note(recovered: &mut Recovered, path: &Path, dropped: u64) {
    if dropped > 0 {
        recovered.dropped.push((path.into(), dropped));
    }
}
