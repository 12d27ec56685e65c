//! Worker process: started on first use, replaced when it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hone_trace::{FaultKind, Held};
use serde_json::{Map, Value};

use super::CommandSpec;
use super::flush;
use super::process::{Broken, Process};

/// One place of the pool.
#[derive(Debug)]
pub(super) struct Worker {
    spec: Arc<CommandSpec>,
    // An async mutex: one caller starts the process while the others wait for it, each within its own deadline.
    state: tokio::sync::Mutex<State>,
    /// True once a first answer was waited for: a program that flushes its answers once always does.
    suspected: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    process: Option<Arc<Process>>,
    /// Consecutive processes that ended without a single answer.
    failures: u32,
}

/// Longest pause before a program that never answers is started again.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Words for a program that answers into a buffer.
const UNFLUSHED: &str = "it answers only when its stdin is closed: its stdout is not flushed after an answer; write \
                         print(..., flush=True), or start it with python3 -u";

/// Failure of a request, in words for a fault.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failed {
    pub(super) what: String,
    /// True when a fresh process may do better.
    pub(super) transient: bool,
    pub(super) kind: FaultKind,
}

impl Failed {
    /// A failure that a fresh process would repeat.
    pub(super) fn for_good(what: String) -> Self {
        Self { what, transient: false, kind: FaultKind::Other }
    }
}

impl Worker {
    pub(super) fn new(spec: Arc<CommandSpec>) -> Self {
        Self { spec, state: tokio::sync::Mutex::default(), suspected: AtomicBool::new(false) }
    }

    /// The process of this place: the current one, or a fresh one if that has ended.
    pub(super) async fn process(&self) -> Result<Arc<Process>, Failed> {
        let mut state = self.state.lock().await;
        if let Some(process) = &state.process {
            if !process.is_over() {
                return Ok(Arc::clone(process));
            }
            state.failures = if process.answers() == 0 { state.failures + 1 } else { 0 };
            state.process = None;
        }
        if state.failures > 0 {
            // A program that cannot run would otherwise be started as fast as the machine can.
            let pause = Duration::from_millis(50) * 2u32.saturating_pow(state.failures.min(8));
            tokio::time::sleep(pause.min(LONGEST_PAUSE)).await;
        }
        let process = Arc::new(Process::start(&self.spec)?);
        state.process = Some(Arc::clone(&process));
        Ok(process)
    }

    /// Resources that the current process holds; none is started.
    pub(super) async fn holds(&self) -> Vec<Held> {
        self.state.lock().await.process.as_ref().map_or_else(Vec::new, |process| process.holds())
    }

    /// Asks a process, with the deadline that fits its age, and explains a failure.
    pub(super) async fn ask(&self, process: &Arc<Process>, request: &Value) -> Result<Map<String, Value>, Failed> {
        let fresh = process.answers() == 0;
        let mut seconds = self.spec.deadline_s;
        if fresh {
            seconds = seconds.max(self.spec.start_deadline_s);
        }
        let deadline = Duration::from_secs_f64(seconds);
        let mark = process.said();
        let asked = process.ask(request, deadline);
        let answered = if fresh && !self.suspected.swap(true, Ordering::Relaxed) {
            tokio::select! {
                answered = asked => answered,
                () = flush::suspected(&self.spec, request) => {
                    return Err(self.explain(request, Failed::for_good(UNFLUSHED.to_owned()), process, mark));
                }
            }
        } else {
            asked.await
        };
        let (what, kind) = match answered {
            Ok(mut answer) => match answer.shift_remove("error") {
                None => return Ok(answer),
                Some(error) => {
                    let error = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
                    let transient = answer.get("transient").and_then(Value::as_bool).unwrap_or(false);
                    let failed = Failed { what: error, transient, kind: FaultKind::Other };
                    return Err(self.explain(request, failed, process, mark));
                }
            },
            Err(Broken::Answer(why)) => (why, FaultKind::Other),
            Err(Broken::Over(why)) => (why, FaultKind::Ended),
            Err(Broken::Late) => {
                let suspect = Arc::clone(process);
                tokio::spawn(async move { suspect.probe(deadline.min(Duration::from_secs(5))).await });
                (format!("no answer within {seconds} s"), FaultKind::ProgramLate)
            }
        };
        Err(self.explain(request, Failed { what, transient: true, kind }, process, mark))
    }

    /// The failure with its request and the process's output in the meantime.
    fn explain(&self, request: &Value, failed: Failed, process: &Process, mark: u64) -> Failed {
        let op = request.get("op").and_then(Value::as_str).unwrap_or("request");
        let mut text = format!("{op} by {}: {}", self.spec.name(), clip(&failed.what, 1000));
        let said = process.said_since(mark);
        // A process that died between requests said why before this one was made.
        let said = if said.is_empty() && process.is_over() { process.said_since(0) } else { said };
        if !said.is_empty() {
            text = format!("{text} (stderr: {})", clip_start(&said, 600));
        }
        let mut kind = failed.kind;
        if let Some(stray) = process.stray() {
            text = format!("{text} (stdout had a line that is not an answer: {stray})");
            kind = FaultKind::Garbled;
        }
        Failed { what: text, kind, ..failed }
    }
}

fn clip(text: &str, limit: usize) -> String {
    text.chars().take(limit).collect()
}

/// The end of a text: errors come last.
fn clip_start(text: &str, limit: usize) -> String {
    let count = text.chars().count();
    text.chars().skip(count.saturating_sub(limit)).collect()
}
