//! Replay of recorded tool calls in a domain, one JSON line each: the entry point for conformance tests.

use std::io::{BufRead, Write};
use std::sync::Arc;

use super::py::{Dict, Value, json};
use super::{Desk, Domain, Requestor};

/// Reason why a replay stopped.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("cannot read the calls")]
    Read(#[source] std::io::Error),
    #[error("cannot write the answers")]
    Write(#[from] std::io::Error),
}

/// Reason why a line is not a call.
#[derive(Debug, thiserror::Error)]
enum BadLine {
    #[error("{0}")]
    Json(#[from] json::BadJson),
    #[error("it is not UTF-8")]
    Text(#[from] std::str::Utf8Error),
    #[error("{0}; a line is {{\"name\": …, \"kwargs\": {{…}}}} or {{\"reset\": true}}")]
    Shape(&'static str),
}

/// One line of input.
enum Line {
    Blank,
    Reset,
    Call(Requestor, String, Arc<Dict>),
}

/// Reads `{"name": …, "kwargs": {…}}` and `{"reset": true}` lines; writes one line per call: `{"observation": …,
/// "state_sha256": …, "state_changed": …}`. The state is compared with fresh data. If users have tools, `"requestor":
/// "user"` marks a call as theirs, and `user_state_sha256` is the hash of their own database.
///
/// A call on which upstream's environment itself breaks has a null observation and is reported in `lost`; so is an
/// unreadable line, which changes nothing and stops nothing. Returns the number of both.
pub fn replay(domain: &Arc<Domain>, mut input: impl BufRead, mut output: impl Write) -> Result<usize, ReplayError> {
    let hashes = |desk: &Desk| (desk.state_hash(), desk.user_state_hash());
    let fresh = hashes(&domain.open());
    let mut desk = domain.open();
    let (mut at, mut unread, mut text) = (0, 0, Vec::new());
    while input.read_until(b'\n', &mut text).map_err(ReplayError::Read)? > 0 {
        at += 1;
        let line = read_line(&text);
        text.clear();
        let mut answer = match line {
            Ok(Line::Blank) => continue,
            Ok(Line::Reset) => {
                desk = domain.open();
                continue;
            }
            Ok(Line::Call(by, name, arguments)) => answer(&mut desk, by, &name, &arguments),
            Err(bad) => {
                unread += 1;
                lost(format!("line {at} cannot be read: {bad}"))
            }
        };
        let now = hashes(&desk);
        answer.insert("state_sha256".into(), Value::str(now.0.to_string()));
        if let Some(user) = now.1 {
            answer.insert("user_state_sha256".into(), Value::str(user.to_string()));
        }
        answer.insert("state_changed".into(), Value::Bool(now != fresh));
        writeln!(output, "{}", json::dumps(&Value::dict(answer)))?;
    }
    output.flush()?;
    Ok(unread)
}

fn answer(desk: &mut Desk, by: Requestor, name: &str, arguments: &Dict) -> Dict {
    match desk.invoke_by(by, name, arguments) {
        Ok(reply) => Dict::from_iter([("observation".into(), Value::str(reply.text))]),
        Err(broken) => lost(broken.0.to_owned()),
    }
}

fn lost(why: String) -> Dict {
    Dict::from_iter([("observation".into(), Value::None), ("lost".into(), Value::str(why))])
}

fn read_line(bytes: &[u8]) -> Result<Line, BadLine> {
    let text = std::str::from_utf8(bytes)?;
    if text.trim().is_empty() {
        return Ok(Line::Blank);
    }
    let value = json::loads(text)?;
    let entry = value.as_dict().ok_or(BadLine::Shape("not an object"))?;
    if matches!(entry.get("reset"), Some(Value::Bool(true))) {
        return Ok(Line::Reset);
    }
    let name = entry.get("name").and_then(Value::as_str).ok_or(BadLine::Shape("no \"name\""))?;
    let by = match entry.get("requestor").map(Value::as_str) {
        None | Some(Some("assistant")) => Requestor::Assistant,
        Some(Some("user")) => Requestor::User,
        Some(_) => return Err(BadLine::Shape("\"requestor\" is neither \"assistant\" nor \"user\"")),
    };
    match entry.get("kwargs") {
        Some(Value::Dict(arguments)) => Ok(Line::Call(by, name.to_owned(), arguments.clone())),
        None => Ok(Line::Call(by, name.to_owned(), Arc::default())),
        Some(_) => Err(BadLine::Shape("\"kwargs\" is not an object")),
    }
}
