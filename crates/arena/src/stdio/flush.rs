//! Unflushed answers: the commonest reason why a program seems to say nothing.
//!
//! A program whose stdout is a pipe buffers it, and writes the buffer when it ends. So a copy of the program is asked the
//! same and its stdin closed: if the copy then answers, while the first process still says nothing, the answer was there
//! all the time.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncWriteExt as _, BufReader};

use super::CommandSpec;
use super::lines::{self, Line};
use super::process::line;
use super::wire::Answer;
use crate::children;

/// Silence after which the first answer of a program is suspected to be in a buffer.
const SILENCE: Duration = Duration::from_secs(3);
/// Patience with the copy.
const COPY: Duration = Duration::from_secs(10);

/// Ends when the program's first answer is known to be in a buffer, and never if it is not.
pub(super) async fn suspected(spec: &CommandSpec, request: &Value) {
    tokio::time::sleep(SILENCE).await;
    if !matches!(tokio::time::timeout(COPY, answers_at_end(spec, request)).await, Ok(Some(true))) {
        std::future::pending::<()>().await;
    }
}

/// True if a copy of the program answers the request once its stdin is closed. `None` if it cannot be asked.
async fn answers_at_end(spec: &CommandSpec, request: &Value) -> Option<bool> {
    let (program, arguments) = spec.command.split_first()?;
    let mut command = children::command(program, &spec.variables);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(directory) = &spec.directory {
        command.current_dir(directory);
    }
    let (mut child, _leash) = children::spawn(&mut command).ok()?;
    let (mut stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
    stdin.write_all(&line(ID, request)).await.ok()?;
    stdin.flush().await.ok()?;
    drop(stdin);
    let mut stdout = BufReader::new(stdout);
    while let Some(Line::Whole(line)) = lines::next_line(&mut stdout).await.ok()? {
        if Answer::read(&line).is_ok_and(|answer| answer.id == ID) {
            return Some(true);
        }
    }
    Some(false)
}

const ID: u64 = 1;
