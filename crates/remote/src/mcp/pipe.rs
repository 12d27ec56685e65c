//! MCP over a program's stdin and stdout: one JSON-RPC message a line.

use std::path::Path;
use std::process::Stdio;

use hone_arena::children::{self, Leash};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::supervise::Failure;

/// Longest message that is read.
const MAX_MESSAGE: u64 = 32 << 20;

/// A running program. Its stderr goes nowhere: servers log there.
#[derive(Debug)]
pub(super) struct Pipe {
    _child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Pipe {
    pub(super) fn start(
        command: &[String],
        directory: Option<&Path>,
        variables: &[String],
    ) -> Result<(Self, Leash), Failure> {
        let [program, arguments @ ..] = command else { return Err(Failure::refused("the command is empty")) };
        let mut command = children::command(program, variables);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(directory) = directory {
            command.current_dir(directory);
        }
        let failed = |error: std::io::Error| {
            Failure::refused(format!("cannot start {program:?}: {error}; is it installed and on the PATH?"))
        };
        let (mut child, leash) = children::spawn(&mut command).map_err(failed)?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::refused(format!("{program:?} has no stdin or stdout")));
        };
        Ok((Self { _child: child, stdin, stdout: BufReader::new(stdout) }, leash))
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
        self.send(request).await?;
        loop {
            let mut line = Vec::new();
            let read = (&mut self.stdout).take(MAX_MESSAGE).read_until(b'\n', &mut line).await;
            match read {
                Ok(0) => return Err(Failure::infrastructure("the program ended")),
                Ok(_) if line.last() != Some(&b'\n') && line.len() as u64 >= MAX_MESSAGE => {
                    return Err(Failure::refused(format!("a message is longer than {MAX_MESSAGE} bytes")));
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
