//! Recorded tool calls through a domain, one JSON line each: the door for conformance tests.

use std::io::{BufRead, Write};
use std::sync::Arc;

use super::py::{Dict, Value, json};
use super::{Desk, Domain};

/// Why a replay stopped.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("cannot read the calls")]
    Read(#[source] std::io::Error),
    #[error("cannot write the answers")]
    Write(#[from] std::io::Error),
    #[error("line {line} is not JSON")]
    Json { line: usize, source: json::BadJson },
    #[error("line {line}: {what}; a line is {{\"name\": …, \"kwargs\": {{…}}}} or {{\"reset\": true}}")]
    Shape { line: usize, what: &'static str },
}

/// One line of input.
enum Line {
    Reset,
    Call(String, Arc<Dict>),
}

/// Reads `{"name": …, "kwargs": {…}}` and `{"reset": true}` lines; writes one line per call:
/// `{"observation": …, "state_sha256": …, "state_changed": …}`. The state is compared with fresh data.
///
/// A call on which upstream's environment itself breaks has a null observation and says so in `lost`.
pub fn replay(domain: &Arc<Domain>, input: impl BufRead, mut output: impl Write) -> Result<(), ReplayError> {
    let fresh = domain.open().state_hash();
    let mut desk = domain.open();
    for (at, text) in input.lines().enumerate() {
        let text = text.map_err(ReplayError::Read)?;
        if text.trim().is_empty() {
            continue;
        }
        match read_line(at + 1, &text)? {
            Line::Reset => desk = domain.open(),
            Line::Call(name, arguments) => {
                let mut answer = answer(&mut desk, &name, &arguments);
                let hash = desk.state_hash();
                answer.insert("state_sha256".into(), Value::str(hash.to_string()));
                answer.insert("state_changed".into(), Value::Bool(hash != fresh));
                writeln!(output, "{}", json::dumps(&Value::dict(answer)))?;
            }
        }
    }
    output.flush()?;
    Ok(())
}

fn answer(desk: &mut Desk, name: &str, arguments: &Dict) -> Dict {
    let mut answer = Dict::new();
    match desk.invoke(name, arguments) {
        Ok(reply) => answer.insert("observation".into(), Value::str(reply.text)),
        Err(lost) => {
            answer.insert("observation".into(), Value::None);
            answer.insert("lost".into(), lost.0.into())
        }
    };
    answer
}

fn read_line(line: usize, text: &str) -> Result<Line, ReplayError> {
    let shape = |what| ReplayError::Shape { line, what };
    let value = json::loads(text).map_err(|source| ReplayError::Json { line, source })?;
    let entry = value.as_dict().ok_or_else(|| shape("not an object"))?;
    if matches!(entry.get("reset"), Some(Value::Bool(true))) {
        return Ok(Line::Reset);
    }
    let name = entry.get("name").and_then(Value::as_str).ok_or_else(|| shape("no \"name\""))?;
    match entry.get("kwargs") {
        Some(Value::Dict(arguments)) => Ok(Line::Call(name.to_owned(), arguments.clone())),
        None => Ok(Line::Call(name.to_owned(), Arc::default())),
        Some(_) => Err(shape("\"kwargs\" is not an object")),
    }
}
