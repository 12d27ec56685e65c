//! MCP over a program's stdin and stdout: one JSON-RPC message per line.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hone_arena::children::{self, Leash};
use hone_trace::FaultKind;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;

use crate::supervise::Failure;

/// Longest message that is read.
const MAX_MESSAGE: u64 = 32 << 20;

/// Bytes of a program's stderr that are kept: its last words explain why it ended.
const LAST_WORDS: usize = 2_000;
/// Grace period for them: stderr may be held open by the program's own children.
const GRACE: Duration = Duration::from_millis(300);

/// A running program.
#[derive(Debug)]
pub(super) struct Pipe {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    // Std mutex: held for a copy.
    words: Arc<Mutex<Vec<u8>>>,
    listener: JoinHandle<()>,
}

impl Pipe {
    pub(super) fn start(
        command: &[String],
        directory: Option<&Path>,
        variables: &[String],
    ) -> Result<(Self, Leash), Failure> {
        let [program, arguments @ ..] = command else { return Err(Failure::refused("the command is empty")) };
        let mut command = children::command(program, variables);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(directory) = directory {
            command.current_dir(directory);
        }
        let failed = |error: std::io::Error| {
            let what = format!("cannot start {program:?}: {error}; is it installed and on the PATH?");
            Failure::refused(what).of_kind(FaultKind::NotStarted)
        };
        let (mut child, leash) = children::spawn(&mut command).map_err(failed)?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Failure::refused(format!("{program:?} has no stdin, stdout or stderr")));
        };
        let words = Arc::new(Mutex::new(Vec::new()));
        let listener = tokio::spawn(listen(stderr, Arc::clone(&words)));
        Ok((Self { child, stdin, stdout: BufReader::new(stdout), words, listener }, leash))
    }

    /// Failure of an ended program, with its status and the end of its stderr.
    async fn ended(mut self) -> Failure {
        let _ = tokio::time::timeout(GRACE, &mut self.listener).await;
        let status = tokio::time::timeout(GRACE, self.child.wait()).await.ok().and_then(Result::ok);
        let status = status.map_or_else(|| "it closed its stdout".to_owned(), |status| status.to_string());
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let words = match excerpt_end(&words) {
            said if said.is_empty() => String::new(),
            said => format!(" (stderr: {said})"),
        };
        Failure::infrastructure(format!("the program ended ({status}){words}")).of_kind(FaultKind::Ended)
    }

    pub(super) async fn send(&mut self, message: &Value) -> Result<(), Failure> {
        let line = format!("{message}\n");
        let ended = |error: std::io::Error| Failure::infrastructure(format!("the program takes no input: {error}"));
        self.stdin.write_all(line.as_bytes()).await.map_err(ended)?;
        self.stdin.flush().await.map_err(ended)
    }

    /// Sends a request and waits for its response. Requests from the server are answered in the meantime, notifications
    /// are ignored.
    pub(super) async fn exchange(mut self, request: &Value, id: u64) -> Result<(Self, Value), Failure> {
        if self.send(request).await.is_err() {
            return Err(self.ended().await);
        }
        loop {
            let mut line = Vec::new();
            let read = (&mut self.stdout).take(MAX_MESSAGE).read_until(b'\n', &mut line).await;
            match read {
                Ok(0) => return Err(self.ended().await),
                Ok(_) if line.last() != Some(&b'\n') && line.len() as u64 >= MAX_MESSAGE => {
                    return Err(Failure::infrastructure(format!("a message is longer than {MAX_MESSAGE} bytes")));
                }
                Ok(_) => {}
                Err(error) => return Err(Failure::infrastructure(format!("the program's output broke: {error}"))),
            }
            // Programs print other things to stdout; those are not messages.
            let Ok(message) = serde_json::from_slice::<Value>(&line) else { continue };
            match (message.get("method").and_then(Value::as_str), message.get("id")) {
                (None, Some(found)) if found.as_u64() == Some(id) => return Ok((self, message)),
                (Some(method), Some(theirs)) => {
                    let answer = if method == "ping" {
                        json!({"jsonrpc": "2.0", "id": theirs, "result": {}})
                    } else {
                        let error = json!({"code": -32601, "message": format!("Method not found: {method}")});
                        json!({"jsonrpc": "2.0", "id": theirs, "error": error})
                    };
                    self.send(&answer).await?;
                }
                _ => {}
            }
        }
    }
}

/// Follows stderr to its end and keeps the last of it. Servers log there, so it is always read.
async fn listen(mut stderr: ChildStderr, words: Arc<Mutex<Vec<u8>>>) {
    let mut chunk = vec![0; 8_192];
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend_from_slice(&chunk[..read]);
        let excess = words.len().saturating_sub(LAST_WORDS);
        words.drain(..excess);
    }
}

/// The end of a text, without control characters.
fn excerpt_end(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let skipped = text.trim().chars().count().saturating_sub(600);
    text.trim().chars().skip(skipped).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
