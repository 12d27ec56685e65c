//! Reading text and JSON files with errors that say where and what to do.

use std::path::{Path, PathBuf};

use hone_trace::plainly;
use serde::de::DeserializeOwned;

/// Reason why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read {path}: {error}")]
    Io { path: PathBuf, error: std::io::Error },
    #[error("{path} is not UTF-8: the byte at offset {at} starts no character. Re-save it as UTF-8")]
    NotUtf8 { path: PathBuf, at: usize },
    #[error("{path} is not the JSON expected, line {line} column {column}: {message}")]
    NotJson { path: PathBuf, line: usize, column: usize, message: String },
}

/// The file's text; a UTF-8 byte order mark is dropped.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    let bytes = std::fs::read(path).map_err(|error| FileError::Io { path: path.to_owned(), error })?;
    let text = String::from_utf8(bytes)
        .map_err(|error| FileError::NotUtf8 { path: path.to_owned(), at: error.utf8_error().valid_up_to() })?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, FileError> {
    parse_json(path, &read_text(path)?)
}

/// Parses JSON text that came from `path`.
pub fn parse_json<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, FileError> {
    serde_json::from_str(text).map_err(|error| FileError::NotJson {
        path: path.to_owned(),
        line: error.line(),
        column: error.column(),
        // serde_json ends its message with the position, which comes first here.
        message: plainly(error.to_string().rsplit_once(" at line ").map_or(&*error.to_string(), |(text, _)| text)),
    })
}

/// The JSON of a file that may be absent.
pub(crate) fn read_json_if_there<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, FileError> {
    if path.is_file() { read_json(path).map(Some) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_another_type_is_named_without_types_of_rust() {
        let error = parse_json::<Vec<u32>>(Path::new("ids.json"), "[1, \"x\"]").unwrap_err().to_string();
        assert_eq!(
            error,
            "ids.json is not the JSON expected, line 1 column 7: invalid type: string \"x\", expected a whole number"
        );
    }
}
