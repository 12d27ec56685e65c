//! Peer engine: a Python process that answers one task per line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hone_engine::generate::bench::Workload;
use serde_json::Value;
use tempfile::NamedTempFile;

/// The longest task takes minutes; loading torch on a busy machine takes one.
const PATIENCE: Duration = Duration::from_mins(30);

/// The peer's side. Written to a file first: tracebacks of a program given with -c show no source.
const SCRIPT: &str = include_str!("../../../../../scripts/bench_engine_torch.py");

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) name: String,
    python: String,
    threads: usize,
    process: Process,
}

/// One training run of the peer.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerTrained {
    pub(super) seconds: f64,
    pub(super) peak_bytes: f64,
}

impl Peer {
    pub(super) fn start(python: &str, threads: usize) -> Result<Self> {
        let mut process = Process::start(SCRIPT, python, threads)?;
        let ready = process.ask("ready")?;
        let version = |name: &str| ready[name].as_str().unwrap_or("unknown").to_owned();
        let name = format!(
            "torch {}, transformers {}, {} threads",
            version("torch"),
            version("transformers"),
            ready["threads"]
        );
        Ok(Self { name, python: python.to_owned(), threads, process })
    }

    /// The best of some training steps, in a process that has done nothing else: its resident set is the training's.
    pub(super) fn train(&self, steps: usize) -> Result<PeerTrained> {
        let answer = Process::start(SCRIPT, &self.python, self.threads)?.ask(&format!("train {steps}"))?;
        let peak_bytes = answer["peak_rss_bytes"].as_f64().context("the peer named no peak_rss_bytes")?;
        Ok(PeerTrained { seconds: least(&answer)?, peak_bytes })
    }

    /// Tokens per second of `transformers.generate`, prompts included.
    pub(super) fn generate(&mut self, work: Workload) -> Result<f64> {
        let answer = self.process.ask(&format!("generate {} {} {}", work.prompts, work.samples, work.new_tokens))?;
        let number = |key: &str| answer[key].as_f64().with_context(|| format!("the peer named no {key}"));
        Ok(number("new_tokens")? / number("seconds")?)
    }

    /// Seconds of a training step of the group, the prompt computed once per reply.
    pub(super) fn group(&mut self, steps: usize) -> Result<f64> {
        least(&self.process.ask(&format!("prefix {steps}"))?)
    }
}

fn least(answer: &Value) -> Result<f64> {
    let seconds = answer["seconds"].as_array().context("the peer named no seconds")?;
    Ok(seconds.iter().filter_map(Value::as_f64).fold(f64::MAX, f64::min))
}

/// Python program that answers one line at a time.
#[derive(Debug)]
pub(in crate::bench) struct Process {
    child: Child,
    tasks: ChildStdin,
    answers: Receiver<String>,
    errors: NamedTempFile,
    _script: NamedTempFile,
}

impl Process {
    pub(in crate::bench) fn start(program: &str, python: &str, threads: usize) -> Result<Self> {
        let mut script = tempfile::Builder::new().suffix(".py").tempfile().context("cannot make a temporary file")?;
        script.write_all(program.as_bytes())?;
        // To a file: nothing reads a pipe while a task runs, and a full one would block it.
        let errors = NamedTempFile::new().context("cannot make a temporary file")?;
        let mut child = Command::new(python)
            .arg(script.path())
            .arg(threads.to_string())
            .env("OMP_NUM_THREADS", threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.reopen()?)
            .spawn()
            .with_context(|| format!("{python} does not start"))?;
        let (tasks, output) = (child.stdin.take(), child.stdout.take());
        let (Some(tasks), Some(output)) = (tasks, output) else { bail!("{python} has no standard input or output") };
        let (lines, answers) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(std::result::Result::ok).try_for_each(|line| lines.send(line))
        });
        Ok(Self { child, tasks, answers, errors, _script: script })
    }

    pub(in crate::bench) fn ask(&mut self, task: &str) -> Result<Value> {
        // If the process has ended, its stderr says why, not the broken pipe.
        let _ = writeln!(self.tasks, "{task}").and_then(|()| self.tasks.flush());
        match self.answers.recv_timeout(PATIENCE) {
            Ok(line) => serde_json::from_str(&line).with_context(|| format!("the peer's answer to {task:?}")),
            Err(RecvTimeoutError::Timeout) => bail!("the peer did not answer {task:?} in {} s", PATIENCE.as_secs()),
            Err(RecvTimeoutError::Disconnected) => {
                let errors = std::fs::read_to_string(self.errors.path()).unwrap_or_default();
                bail!("the peer ended at {task:?}: {}", errors.lines().last().unwrap_or("no message"))
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Ends a process that still computes; one that has already ended is not an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
