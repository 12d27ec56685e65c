//! Peer: tau-bench's own tools in Python, on the same replays.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hone_trace::Task;
use hone_worlds::domains::Kind;
use serde_json::{Value, json};

/// The Python side: tau-bench's tools, data loader and hash.
const REFERENCE: &str = include_str!("../../../../../scripts/bench_env.py");

/// Location of tau-bench's Python.
#[derive(Debug, clap::Args)]
pub(super) struct Python {
    /// A Python that runs tau-bench
    #[arg(long, default_value = "python3")]
    python: String,

    /// A checkout of tau-bench, where it is not installed in that Python
    #[arg(long, value_name = "DIR")]
    tau_bench: Option<PathBuf>,
}

/// A Python process that plays episodes on request.
pub(super) struct Peer {
    process: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

/// Deadline of the Python side for a few episodes of about a second each.
const PATIENCE: Duration = Duration::from_mins(1);

impl Peer {
    pub(super) fn start(place: &Python, kind: Kind, tasks: &[Task]) -> Result<Self> {
        let python = &place.python;
        let mut command = Command::new(python);
        if let Some(directory) = &place.tau_bench {
            command.env("PYTHONPATH", directory);
        }
        let mut process = command
            .args(["-c", REFERENCE])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {python}"))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            bail!("{python} has no pipes");
        };
        // Read by a thread, so that a hanging Python costs a minute, not the benchmark.
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let read = BufReader::new(output).lines().map_while(Result::ok);
            read.map(|line| sender.send(line)).take_while(Result::is_ok).for_each(drop);
        });
        let mut peer = Self { process, input, lines };
        let calls = |task: &Task| -> Vec<Value> {
            let calls = task.reference.iter().flatten();
            calls.map(|call| json!({ "name": call.name, "kwargs": call.arguments })).collect()
        };
        let tasks: Vec<_> = tasks.iter().map(calls).collect();
        let job = json!({ "domain": kind.name(), "tasks": tasks });
        let hello = writeln!(peer.input, "{job}").map_err(anyhow::Error::from).and_then(|()| peer.line());
        match hello {
            Ok(line) if line == "ready" => Ok(peer),
            _ => bail!(
                "{python} cannot import tau_bench; give a checkout of it with --tau-bench DIR, or another --python"
            ),
        }
    }

    fn line(&mut self) -> Result<String> {
        self.lines.recv_timeout(PATIENCE).context("the Python side stopped or hangs")
    }

    pub(super) fn episodes_per_s(&mut self, episodes: u32) -> Result<f64> {
        writeln!(self.input, "{episodes}")?;
        let line = self.line()?;
        let seconds: f64 = line.trim().parse().with_context(|| format!("the Python side said {line:?}"))?;
        Ok(f64::from(episodes) / seconds)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may be in the middle of an episode, which is no longer needed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
