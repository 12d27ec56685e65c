//! A path of somebody else's: its files, and their beginnings.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::ForeignError;

/// A file, or the files of a directory.
#[derive(Debug)]
pub struct Source {
    pub path: PathBuf,
    /// In the order of their names.
    pub files: Vec<PathBuf>,
}

/// Depth to which a directory is searched.
const DEPTH: usize = 3;

impl Source {
    pub fn open(path: &Path) -> Result<Self, ForeignError> {
        let mut files = Vec::new();
        if path.is_dir() {
            collect(path, DEPTH, &mut files)?;
            files.sort();
        } else {
            files.push(path.to_owned());
        }
        Ok(Self { path: path.to_owned(), files })
    }

    /// Files with this ending.
    pub fn ending(&self, ending: &str) -> impl Iterator<Item = &Path> {
        let wanted = ending.to_owned();
        self.files.iter().map(PathBuf::as_path).filter(move |path| path.extension().is_some_and(|end| *end == *wanted))
    }

    /// JSON lines files, under the endings they have in the wild.
    pub fn json_lines(&self) -> impl Iterator<Item = &Path> {
        self.ending("jsonl").chain(self.ending("ndjson")).chain(self.ending("json"))
    }

    /// The first object of the first JSON lines file that has one of these keys.
    pub(crate) fn has_line_with(&self, keys: &[&str]) -> bool {
        self.json_lines().any(|path| {
            let first = text(path).ok().and_then(|text| serde_json::from_str::<Value>(text.lines().next()?).ok());
            first.is_some_and(|first| keys.iter().all(|key| first.get(key).is_some()))
        })
    }
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

/// The objects of a JSON lines file with their line numbers. A last line without an end may be cut off: it is left out.
pub(crate) fn lines(path: &Path) -> Result<Vec<(usize, Value)>, ForeignError> {
    let text = text(path)?;
    let whole = text.ends_with('\n');
    let count = text.lines().count();
    let mut values = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        // Python writes NaN and Infinity, which are no JSON: a text here, so that neither passes for a number.
        let parsed = serde_json::from_str(line).or_else(|error| {
            let mended = ["NaN", "Infinity", "-Infinity"].iter().fold(line.to_owned(), |line, word| {
                line.replace(&format!(": {word}"), &format!(": \"{word}\""))
                    .replace(&format!(":{word}"), &format!(":\"{word}\""))
            });
            serde_json::from_str(&mended).map_err(|_| error)
        });
        match parsed {
            Ok(value) => values.push((at + 1, value)),
            Err(_) if at + 1 == count && !whole => {}
            Err(error) => {
                return Err(ForeignError::Bad { path: path.to_owned(), line: Some(at + 1), what: error.to_string() });
            }
        }
    }
    Ok(values)
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
