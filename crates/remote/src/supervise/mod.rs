//! Supervision of servers: one way to call all of them.
//!
//! A call has a deadline that covers everything: the wait at an open circuit breaker, every attempt, the pauses between
//! them. Only infrastructure failures are retried (no connection, a timeout, a 5xx) and only a busy server is waited
//! for; an answer is final. Calls in progress are in the table of [`waits`].

mod breaker;
pub mod cleanup;
pub mod waits;

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hone_trace::{Boundary, Fault, FaultKind};
use tokio::time::Instant;

use breaker::Breaker;

/// Reason why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Failure {
    pub what: String,
    pub kind: Kind,
    /// Kind of the fault that the failure becomes.
    pub fault: FaultKind,
}

/// Kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No connection, no answer in time, a 5xx: retried, and counted by the breaker.
    Infrastructure,
    /// The server works but is full: waited for.
    Busy,
    /// The server answered, and the answer is no. Never retried.
    Refused,
}

impl Failure {
    fn new(what: impl Into<String>, kind: Kind) -> Self {
        Self { what: what.into(), kind, fault: FaultKind::Other }
    }

    pub fn infrastructure(what: impl Into<String>) -> Self {
        Self::new(what, Kind::Infrastructure)
    }

    pub fn busy(what: impl Into<String>) -> Self {
        Self::new(what, Kind::Busy)
    }

    pub fn refused(what: impl Into<String>) -> Self {
        Self::new(what, Kind::Refused)
    }

    /// No answer within a deadline.
    fn late(deadline: Duration, because: &str) -> Self {
        let what = format!("no answer within {:.1} s{because}", deadline.as_secs_f64());
        Self::infrastructure(what).of_kind(FaultKind::ServerLate)
    }

    #[must_use]
    pub(crate) fn of_kind(self, fault: FaultKind) -> Self {
        Self { fault, ..self }
    }

    /// The fault of an episode that the failure ends. Infrastructure failures are transient.
    pub fn fault(self, boundary: Boundary) -> Fault {
        let transient = self.kind != Kind::Refused;
        Fault { transient, ..Fault::new(boundary, self.what).of_kind(self.fault) }
    }
}

/// Deadline and number of attempts of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Patience {
    /// Deadline of the call, everything included.
    pub total: Duration,
    /// Deadline of one attempt.
    pub attempt: Duration,
    /// Attempts on broken infrastructure. A busy server is retried until the deadline.
    pub attempts: u32,
}

impl Patience {
    /// One attempt within a deadline: for requests that must not be repeated.
    pub(crate) fn once(deadline: Duration) -> Self {
        Self { total: deadline, attempt: deadline, attempts: 1 }
    }

    /// Several attempts of one length, with time for their pauses.
    pub(crate) fn retried(attempt: Duration, attempts: u32) -> Self {
        Self { total: attempt * attempts + LONGEST_PAUSE * attempts, attempt, attempts }
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// One server, shared by all its callers.
#[derive(Debug)]
pub(crate) struct Server {
    name: String,
    // Std mutex: held for a few comparisons.
    breaker: Mutex<Breaker>,
    // Std mutex: held for a copy.
    trouble: Mutex<Option<String>>,
}

impl Server {
    /// `name` goes into messages and the table of waits: an address without credentials.
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), breaker: Mutex::default(), trouble: Mutex::default() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Calls the server for `who` (a task, a command) until it answers, refuses, or the deadline passes.
    pub(crate) async fn call<T, F, Fut>(
        &self,
        who: &str,
        what: &str,
        patience: Patience,
        attempt: F,
    ) -> Result<T, Failure>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, Failure>>,
    {
        let _waiting = waits::enter(&self.name, who, what);
        let mut last = None;
        let tried = tokio::time::timeout(patience.total, self.attempts(patience, attempt, &mut last)).await;
        let failure = match tried {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(failure)) => failure,
            Err(_) => {
                let because = last.map(|last: Failure| format!(" ({})", last.what)).unwrap_or_default();
                Failure::late(patience.total, &because)
            }
        };
        Err(Failure { what: format!("{what} at {}: {}", self.name, failure.what), ..failure })
    }

    async fn attempts<T, F, Fut>(
        &self,
        patience: Patience,
        mut attempt: F,
        last: &mut Option<Failure>,
    ) -> Result<T, Failure>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, Failure>>,
    {
        let mut pause = FIRST_PAUSE;
        let mut broken = 0;
        loop {
            self.admitted(last).await;
            let tried = tokio::time::timeout(patience.attempt, attempt())
                .await
                .unwrap_or_else(|_| Err(Failure::late(patience.attempt, "")));
            let failure = match tried {
                Err(failure) if failure.kind == Kind::Infrastructure => {
                    self.breaker().failed(Instant::now());
                    broken += 1;
                    if broken >= patience.attempts {
                        return Err(failure);
                    }
                    failure
                }
                Err(failure) if failure.kind == Kind::Busy => {
                    self.breaker().answered();
                    failure
                }
                other => {
                    self.breaker().answered();
                    *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    return other;
                }
            };
            let words = format!("{}: {}", self.name, failure.what);
            *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
            *last = Some(failure);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Waits until the breaker lets a call through.
    async fn admitted(&self, last: &mut Option<Failure>) {
        loop {
            let until = match self.breaker().admit(Instant::now()) {
                Ok(()) => return,
                Err(until) => until,
            };
            last.get_or_insert_with(|| Failure::infrastructure("the server failed several times in a row"));
            tokio::time::sleep_until(until).await;
        }
    }

    /// The last failure that was to be tried again, until the server answers.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
