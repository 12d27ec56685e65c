//! An external verifier, started once per case: a program that reads the case as JSON on stdin and writes its verdict as
//! JSON on stdout.
//!
//! Input: one object with the keys of [`Case`]. Output: `{"value": 0.5, "why": "…"}` or `{"unscored": "…"}` (with
//! `"not_applicable": true` if there is nothing to score), and exit code 0. Anything else (a crash, a hang, other output,
//! too much output) is unscored with its reason. The program runs in its own process group, which is killed as a whole at
//! the deadline and when the rollout is abandoned. A program that is slow to start should be kept running instead: see
//! [`crate::stdio`].

use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use hone_trace::Verdict;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::catalogue::ComponentEntry;
use super::{Case, Component, excerpt, unscored};
use crate::catalogue::Options;
use crate::children::{self, NotStarted};
use crate::documented;
use crate::stdio::CommandError;

pub(super) const ENTRY: ComponentEntry = ComponentEntry {
    name: "command",
    about: "Your own program, started once per case: the case as JSON on stdin, `{\"value\": 0.5, \"why\": \"…\"}` \
        on stdout",
    advice: "For verifiers that start fast; `stdio` keeps one running",
    paper: None,
    options: Options::with::<Verifier>(r#"{"command": ["python3", "verify.py"]}"#),
    make: verifier,
};

documented! {
    #[derive(Debug, Clone, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Verifier {
        /// The program and its arguments. No shell is involved.
        pub command: Vec<String>,
        /// Working directory; absent: that of Hone, and in a recipe the recipe's own directory.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub directory: Option<std::path::PathBuf> where home_of("command"),
        /// Seconds for a verdict.
        #[serde(default = "deadline")]
        pub deadline_s: f64 where over(0.0, 86_400.0),
        /// Names of variables that the program gets beside the usual ones (`PATH`, `HOME`, …). It sees no others.
        #[serde(default)]
        pub variables: Vec<String>,
    }
}

fn verifier(options: Value) -> Result<Box<dyn Component>, String> {
    let verifier: Verifier = serde_json::from_value(options).map_err(|error| error.to_string())?;
    match children::missing(&verifier.variables) {
        Some(name) => Err(CommandError::Variable(name.clone()).to_string()),
        None => Ok(Box::new(verifier)),
    }
}

fn deadline() -> f64 {
    30.0
}

/// Maximum number of bytes read from the verdict, and from stderr.
const MAX_OUTPUT: usize = 1 << 20;

#[async_trait]
impl Component for Verifier {
    async fn verdict(&self, case: &Case) -> Verdict {
        let limit = Duration::from_secs_f64(self.deadline_s.clamp(0.001, 86_400.0));
        match tokio::time::timeout(limit, run(self, case)).await {
            Ok(Ok(output)) => read_verdict(&output),
            Ok(Err(why)) => unscored(why),
            Err(_) => unscored(format!("verifier_deadline: no verdict within {} s; it was killed", self.deadline_s)),
        }
    }
}

/// The program's output, after it ended well.
async fn run(verifier: &Verifier, case: &Case) -> Result<Vec<u8>, String> {
    let (program, arguments) = verifier.command.split_first().ok_or("verifier_spawn: the command is empty")?;
    let input = serde_json::to_vec(case).map_err(|error| format!("verifier_input: {error}"))?;
    let mut command = children::command(program, &verifier.variables);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(directory) = &verifier.directory {
        command.current_dir(directory);
    }
    let (mut child, leash) = children::spawn(&mut command).map_err(|error| {
        let program = format!("{program:?}");
        format!("verifier_spawn: {}", NotStarted::new(program, verifier.directory.as_deref(), error))
    })?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    // Concurrently: a program that writes before it reads must not block on a full pipe. It need not read its input, so
    // a broken pipe is not an error.
    let write = async {
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(&input).await;
        }
        Ok(())
    };
    let (output, error_output, ()) = tokio::try_join!(bounded(stdout), bounded(stderr), write)?;
    let status = child.wait().await.map_err(|error| format!("verifier_wait: {error}"))?;
    // Also ends anything it left running in the background.
    drop(leash);
    if status.success() {
        return Ok(output);
    }
    Err(format!("verifier_failed: {status}: {}", last_line(&error_output)))
}

/// Reads to the end, or fails beyond the limit.
async fn bounded(stream: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        let mut stream = stream.take(MAX_OUTPUT as u64 + 1);
        stream.read_to_end(&mut bytes).await.map_err(|error| format!("verifier_output: {error}"))?;
    }
    if bytes.len() > MAX_OUTPUT {
        return Err(format!("verifier_output: more than {MAX_OUTPUT} bytes; it was killed"));
    }
    Ok(bytes)
}

fn last_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    excerpt(text.trim_end().lines().next_back().unwrap_or("it said nothing on stderr"), 300)
}

/// Reads a verifier's output: exactly one verdict.
pub(crate) fn read_verdict(output: &[u8]) -> Verdict {
    #[derive(Deserialize)]
    #[serde(untagged, deny_unknown_fields)]
    enum Form {
        Scored {
            value: f64,
            #[serde(default)]
            why: String,
        },
        Unscored {
            unscored: String,
            #[serde(default)]
            not_applicable: bool,
        },
    }
    match serde_json::from_slice::<Form>(output) {
        Ok(Form::Scored { value, why }) => super::scored(value, format!("verifier: {why}")),
        Ok(Form::Unscored { unscored: why, not_applicable: true }) => {
            Verdict::NotApplicable { why: format!("verifier: {why}") }
        }
        Ok(Form::Unscored { unscored: why, .. }) => unscored(format!("verifier: {why}")),
        Err(_) => unscored(format!(
            "verifier_form: expected {{\"value\": …, \"why\": …}} or {{\"unscored\": …}}, found {:?}",
            excerpt(&String::from_utf8_lossy(output), 120)
        )),
    }
}
