//! One child process: its pipes, who waits for which answer, and its end.
//!
//! Three tasks serve a process. The writer feeds its stdin, the reader passes answers to the waiting callers, and the
//! keeper follows stderr, reaps the process and tells all waiting callers that it is over. Only the keeper kills, so a
//! signal never goes to a process id that has been reused.

use std::collections::HashMap;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hone_trace::{FaultKind, Held};
use serde_json::{Map, Value};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::{Notify, mpsc, oneshot};

use super::lines::{self, Line, MAX_LINE, Tail};
use super::wire::{self, Answer};
use super::worker::Failed;
use super::{CommandError, CommandSpec};
use crate::children::{self, Leash, NotStarted, Tree};

/// Requests that may wait for a slow reader before senders wait too.
const QUEUE: usize = 64;
/// Bytes kept of a line that is not an answer.
const STRAY: usize = 200;
/// Grace for the last words of a dead process: its stderr may be held open by its own children.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A running process, or its remains.
#[derive(Debug)]
pub(super) struct Process {
    name: String,
    requests: mpsc::Sender<Vec<u8>>,
    next_id: AtomicU64,
    shared: Arc<Shared>,
    tree: Tree,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    stderr: Mutex<Tail>,
    /// Stray output: the last line on stdout that was not an answer.
    stray: Mutex<Option<String>>,
    answers: AtomicU64,
    kill: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    answers: HashMap<u64, oneshot::Sender<Answered>>,
    /// Reason why the process is over. Nothing waits after that.
    over: Option<String>,
}

/// Remaining fields of an answer, or the reason why there is none.
type Answered = Result<Map<String, Value>, Broken>;

/// Reason why a request has no answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Broken {
    /// The answer to this request cannot be used.
    Answer(String),
    /// No answer in time.
    Late,
    /// The process is over, with everything it was playing.
    Over(String),
}

impl Process {
    pub(super) fn start(spec: &CommandSpec) -> Result<Self, Failed> {
        let name = spec.name();
        let (program, arguments) =
            spec.command.split_first().ok_or_else(|| Failed::for_good(CommandError::Empty.to_string()))?;
        let mut command = children::command(program, &spec.variables);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(directory) = &spec.directory {
            command.current_dir(directory);
        }
        let (mut child, leash) = children::spawn(&mut command).map_err(|error| {
            let why = NotStarted::new(&name, spec.directory.as_deref(), error);
            let kind = match &why {
                NotStarted::Directory { .. } => FaultKind::Other,
                NotStarted::Program { .. } => FaultKind::NotStarted,
            };
            Failed { kind, ..Failed::for_good(why.to_string()) }
        })?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failed::for_good(format!("{name} was started without pipes")));
        };
        let (shared, tree) = (Arc::new(Shared::default()), leash.tree());
        let (requests, queue) = mpsc::channel(QUEUE);
        tokio::spawn(write(stdin, queue));
        let reader = tokio::spawn(read(stdout, Arc::clone(&shared)));
        tokio::spawn(keep(child, leash, name.clone(), reader, Arc::clone(&shared)));
        Ok(Self { name, requests, next_id: AtomicU64::new(1), shared, tree })
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn ask(&self, request: &Value, deadline: Duration) -> Answered {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        {
            let mut waiting = self.shared.waiting();
            if let Some(why) = &waiting.over {
                return Err(Broken::Over(why.clone()));
            }
            waiting.answers.insert(id, sender);
        }
        let _forget = Forget { id, shared: &self.shared };
        let exchange = async {
            // A closed queue means the process is over; the keeper is about to report why.
            let _ = self.requests.send(line(id, request)).await;
            answer.await
        };
        match tokio::time::timeout(deadline, exchange).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Broken::Over("the process was given up".into())),
            Err(_) => Err(Broken::Late),
        }
    }

    /// Sends a message that needs no answer. Dropped if the process does not keep up reading.
    pub(super) fn tell(&self, message: &Value) {
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        let _ = self.requests.try_send(line);
    }

    /// Kills the process unless it sends any answer within `grace`.
    pub(super) async fn probe(&self, grace: Duration) {
        let before = self.answers();
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let _ = self.requests.try_send(line(id, &serde_json::json!({"op": "ping"})));
        tokio::time::sleep(grace).await;
        if self.answers() == before && !self.is_over() {
            self.shared.end(format!("{} answered nothing any more and was replaced", self.name));
            self.shared.kill.notify_one();
        }
    }

    /// Answers so far, late ones and those to pings included.
    pub(super) fn answers(&self) -> u64 {
        self.shared.answers.load(Ordering::Relaxed)
    }

    /// Resources that it and its descendants hold. Empty once it is over.
    pub(super) fn holds(&self) -> Vec<Held> {
        if self.is_over() { Vec::new() } else { self.tree.holds() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.shared.waiting().over.is_some()
    }

    /// A mark for [`Process::said_since`].
    pub(super) fn said(&self) -> u64 {
        locked(&self.shared.stderr).total()
    }

    /// Stderr after a mark, as far as it is kept.
    pub(super) fn said_since(&self, mark: u64) -> String {
        locked(&self.shared.stderr).since(mark)
    }

    /// Stray output: its last line on stdout that was not an answer.
    pub(super) fn stray(&self) -> Option<String> {
        locked(&self.shared.stray).clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.shared.end(format!("{} is no longer needed", self.name));
        self.shared.kill.notify_one();
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        locked(&self.waiting)
    }

    /// Ends all pending requests, once.
    fn end(&self, why: String) {
        let mut waiting = self.waiting();
        if waiting.over.is_some() {
            return;
        }
        for (_, sender) in waiting.answers.drain() {
            // The caller may have stopped waiting.
            let _ = sender.send(Err(Broken::Over(why.clone())));
        }
        waiting.over = Some(why);
    }

    fn answer(&self, id: u64, answer: Answered) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        if let Some(sender) = self.waiting().answers.remove(&id) {
            let _ = sender.send(answer);
        }
    }

    /// Handles an unreadable line. It counts as an answer if it carries an id, or if exactly one request is waiting and
    /// the line looks like JSON; otherwise it is stray output, kept for the next fault.
    fn unreadable(&self, opening: &[u8], why: &str) {
        let text: String = String::from_utf8_lossy(opening).chars().take(STRAY).collect();
        let said = format!("{text:?} ({why})");
        let alone = {
            let waiting = self.waiting();
            let mut ids = waiting.answers.keys().copied();
            let json = || opening.trim_ascii_start().starts_with(b"{") || is_list(opening);
            ids.next().filter(|_| ids.next().is_none() && json())
        };
        match wire::leading_id(opening).or(alone) {
            Some(id) => self.answer(id, Err(Broken::Answer(format!("its answer cannot be read: {said}")))),
            None => *locked(&self.stray) = Some(said),
        }
    }
}

/// True for a whole JSON list, which is no line of a log: `[INFO] loading` is not one.
fn is_list(line: &[u8]) -> bool {
    serde_json::from_slice::<Vec<serde::de::IgnoredAny>>(line).is_ok()
}

/// Removes a request when its caller stops waiting.
struct Forget<'a> {
    id: u64,
    shared: &'a Shared,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.shared.waiting().answers.remove(&self.id);
    }
}

// Std mutexes: held for a few instructions, never across an await.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request with its id first, so that even the start of an answer modelled on it names the request.
pub(super) fn line(id: u64, request: &Value) -> Vec<u8> {
    let mut whole = Map::from_iter([("id".to_owned(), id.into())]);
    whole.extend(request.as_object().cloned().unwrap_or_default());
    let mut line = Value::Object(whole).to_string().into_bytes();
    line.push(b'\n');
    line
}

async fn write(mut stdin: ChildStdin, mut queue: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = queue.recv().await {
        if stdin.write_all(&line).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

async fn read(stdout: ChildStdout, shared: Arc<Shared>) {
    let mut stdout = BufReader::with_capacity(64 << 10, stdout);
    while let Ok(Some(line)) = lines::next_line(&mut stdout).await {
        match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => {}
            Line::Whole(line) => match Answer::read(&line) {
                Ok(Answer { id, body }) => shared.answer(id, Ok(body)),
                Err(why) => shared.unreadable(&line, &why),
            },
            Line::TooLong { opening, bytes } => {
                let why = format!("{bytes} bytes in one line, at most {MAX_LINE} are read");
                shared.unreadable(&opening, &why);
            }
        }
    }
}

async fn keep(mut child: Child, leash: Leash, name: String, reader: tokio::task::JoinHandle<()>, shared: Arc<Shared>) {
    let stderr = child.stderr.take();
    let follow = async {
        if let Some(stderr) = stderr {
            lines::follow(stderr, &shared.stderr).await;
        }
    };
    tokio::pin!(follow);
    let mut followed = false;
    let status = {
        let live = async {
            tokio::select! {
                status = child.wait() => status,
                () = shared.kill.notified() => {
                    // It has not been reaped, so its pid has not been reused.
                    leash.kill();
                    child.wait().await
                }
            }
        };
        tokio::pin!(live);
        loop {
            tokio::select! {
                status = &mut live => break status,
                () = &mut follow, if !followed => followed = true,
            }
        }
    };
    // Anything it started ends with it, even if it ended by itself.
    drop(leash);
    // Answers it wrote before it died still count, and its last output says why it did.
    let last = async {
        let _ = reader.await;
        if !followed {
            follow.await;
        }
    };
    let _ = tokio::time::timeout(LAST_WORDS, last).await;
    shared.end(format!("{name} {}", ended(status)));
}

fn ended(status: std::io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => format!("ended ({status})"),
        Err(error) => format!("was lost ({error})"),
    }
}
