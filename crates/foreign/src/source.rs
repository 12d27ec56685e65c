//! Input path of another trainer's record: its files, and their beginnings.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::ForeignError;

/// A file, or the files of a directory.
#[derive(Debug)]
pub(crate) struct Source {
    /// In the order of their names.
    pub(crate) files: Vec<PathBuf>,
}

/// Depth to which a directory is searched.
const DEPTH: usize = 3;

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self, ForeignError> {
        let mut files = Vec::new();
        if path.is_dir() {
            collect(path, DEPTH, &mut files)?;
            files.sort();
        } else {
            files.push(path.to_owned());
        }
        Ok(Self { files })
    }

    /// Files with this ending.
    pub(crate) fn ending(&self, ending: &str) -> impl Iterator<Item = &Path> {
        let wanted = ending.to_owned();
        self.files.iter().map(PathBuf::as_path).filter(move |path| path.extension().is_some_and(|end| *end == *wanted))
    }

    /// JSON lines files, under the endings they have in the wild.
    pub(crate) fn json_lines(&self) -> impl Iterator<Item = &Path> {
        self.ending("jsonl").chain(self.ending("ndjson")).chain(self.ending("json"))
    }

    /// An object with these keys among the first of a JSON lines file.
    pub(crate) fn has_line_with(&self, keys: &[&str]) -> bool {
        let has = |row: &Value| keys.iter().all(|key| row.get(key).is_some());
        self.json_lines().any(|path| {
            let Ok(text) = beginning(path) else { return false };
            if text.trim_start_matches('\u{feff}').trim_start().starts_with('[') {
                let whole = crate::source::text(path).ok();
                return whole.as_deref().and_then(list).is_some_and(|rows| rows.iter().take(LOOKED_AT).any(has));
            }
            rows(&text).take(LOOKED_AT).filter_map(|(_, line)| parsed(line).ok()).any(|row| has(&row))
        })
    }

    /// A file that has to be unpacked before it can be read.
    pub(crate) fn packed(&self) -> Option<&Path> {
        let packed =
            |path: &&PathBuf| path.extension().and_then(|end| end.to_str()).is_some_and(|end| PACKED.contains(&end));
        self.files.iter().find(packed).map(PathBuf::as_path)
    }
}

/// Lines that are looked at for a format's keys, and the bytes that they are taken from.
const LOOKED_AT: usize = 32;
const BEGINNING: u64 = 1 << 20;
/// Endings of compressed files.
const PACKED: [&str; 7] = ["gz", "tgz", "zst", "xz", "bz2", "zip", "tar"];

/// The beginning of a text file.
fn beginning(path: &Path) -> Result<String, ForeignError> {
    let cannot = |source| ForeignError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    std::fs::File::open(path).and_then(|file| file.take(BEGINNING).read_to_end(&mut bytes)).map_err(cannot)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn collect(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), ForeignError> {
    let cannot = |source| ForeignError::Read { path: directory.to_owned(), source };
    for entry in std::fs::read_dir(directory).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.is_dir() && depth > 0 {
            collect(&path, depth - 1, files)?;
        } else if path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, ForeignError> {
    std::fs::read(path).map_err(|source| ForeignError::Read { path: path.to_owned(), source })
}

pub(crate) fn text(path: &Path) -> Result<String, ForeignError> {
    Ok(String::from_utf8_lossy(&bytes(path)?).into_owned())
}

/// The objects of a JSON lines file, or of one list, with their line numbers. A last line without an end may be cut off: it is
/// left out. Notes say what was.
pub(crate) fn lines(path: &Path, notes: &mut Vec<String>) -> Result<Vec<(usize, Value)>, ForeignError> {
    let text = text(path)?;
    if let Some(list) = list(&text) {
        return Ok((1..).zip(list).collect());
    }
    // One object over many lines, as settings beside a record are written.
    if path.extension().is_some_and(|end| end == "json")
        && let Ok(one @ Value::Object(_)) = serde_json::from_str(&text)
    {
        return Ok(vec![(1, one)]);
    }
    let (whole, count) = (text.ends_with('\n'), text.lines().count());
    let (mut values, mut no_objects) = (Vec::new(), 0);
    for (at, line) in rows(&text) {
        match parsed(line) {
            Ok(value) if value.is_object() => values.push((at, value)),
            Ok(_) => no_objects += 1,
            Err(_) if at == count && !whole => {
                notes.push(format!("{}, line {at}, the last one, is cut off and was left out", path.display()));
            }
            Err(error) => {
                return Err(ForeignError::Bad { path: path.to_owned(), line: Some(at), what: error.to_string() });
            }
        }
    }
    left_out(notes, path, no_objects, "no objects");
    Ok(values)
}

/// Notes lines that are left out, and why.
pub(crate) fn left_out(notes: &mut Vec<String>, path: &Path, count: usize, why: &str) {
    if count > 0 {
        notes.push(format!("{}: {count} of its lines left out: {why}", path.display()));
    }
}

/// The lines that say something, counted from 1. Some editors write a mark before the first.
fn rows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty())
}

/// The elements of a file that is one list.
fn list(text: &str) -> Option<Vec<Value>> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    serde_json::from_str(text.starts_with('[').then_some(text)?).ok()
}

/// Python writes NaN and Infinity, which are not valid JSON: read as text, so that neither passes for a number.
fn parsed(line: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(line).or_else(|error| {
        let mended = ["NaN", "Infinity", "-Infinity"].iter().fold(line.to_owned(), |line, word| {
            let line = line.replace(&format!(": {word}"), &format!(": \"{word}\""));
            line.replace(&format!(":{word}"), &format!(":\"{word}\""))
        });
        serde_json::from_str(&mended).map_err(|_| error)
    })
}

/// The last number in a path's names: `global_step_40_evals`, `completions_00012.parquet`.
pub(crate) fn step_of(path: &Path) -> Option<u64> {
    let mut names = path.iter().rev().take(3).filter_map(|name| name.to_str());
    names.find_map(number)
}

fn number(name: &str) -> Option<u64> {
    let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = name[..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    name[start..end].parse().ok()
}

/// Text of a message or of a list of messages.
pub(crate) fn said(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(messages) => {
            let texts: Vec<String> = messages.iter().filter_map(|message| said(message.get("content")?)).collect();
            (!texts.is_empty()).then(|| texts.join("\n"))
        }
        Value::Object(message) => said(message.get("content").or_else(|| message.get("text"))?),
        _ => None,
    }
}
