//! Wait table: who waits for which server, for what, since when. `hone train` prints it on SIGUSR1.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One call in progress.
#[derive(Debug, Clone)]
pub struct Wait {
    pub server: String,
    pub who: String,
    pub what: String,
    pub since: Instant,
}

static NEXT: AtomicU64 = AtomicU64::new(0);
// Std mutex: held for one insertion. Numbers grow, so the table is in order of time.
static TABLE: Mutex<BTreeMap<u64, Wait>> = Mutex::new(BTreeMap::new());

fn table() -> MutexGuard<'static, BTreeMap<u64, Wait>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A line of the table, removed on drop.
#[derive(Debug)]
#[must_use = "the wait is over when this is dropped"]
pub struct Waiting(u64);

impl Drop for Waiting {
    fn drop(&mut self) {
        table().remove(&self.0);
    }
}

/// Records a wait that begins now.
pub fn enter(server: &str, who: &str, what: &str) -> Waiting {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // Task keys are untrusted, and the table goes to a terminal.
    let clean = |text: &str| text.chars().filter(|c| !c.is_control()).take(120).collect();
    let wait = Wait { server: clean(server), who: clean(who), what: clean(what), since: Instant::now() };
    table().insert(number, wait);
    Waiting(number)
}

/// Waits of at least this long, the longest first.
pub fn longer_than(least: Duration) -> Vec<Wait> {
    table().values().filter(|wait| wait.since.elapsed() >= least).cloned().collect()
}

/// The table as text, one line per wait; if there is none, a line that says so.
pub fn page(least: Duration) -> String {
    let waits = longer_than(least);
    if waits.is_empty() {
        return "nothing waits for a server\n".into();
    }
    let mut page = String::from("waiting for   at                              what                  who\n");
    for wait in waits {
        let seconds = wait.since.elapsed().as_secs_f64();
        let _ = writeln!(page, "{seconds:>9.1} s   {:<30}  {:<20}  {}", wait.server, wait.what, wait.who);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_stands_in_the_table_until_it_is_over() {
        let shown = || page(Duration::ZERO).contains("server-of-this-test");
        let waiting = enter("server-of-this-test", "task-7", "step");
        assert!(shown() && page(Duration::ZERO).contains("task-7"));
        assert!(longer_than(Duration::from_hours(1)).is_empty());
        drop(waiting);
        assert!(!shown());
    }
}
