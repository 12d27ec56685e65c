//! Failure budget of a batch of episodes in a broken environment.
//!
//! If an environment is down, every episode waits for its deadline, several times over: an evaluation of 256 tasks took
//! half an hour to report that nothing worked. So a batch has a budget of retries, and after a series of broken
//! episodes without a single intact one the rest is not played; each of them says so, quoting the first fault.

use std::sync::{Mutex, PoisonError};

use hone_trace::{Boundary, Fault};

/// Minimum number of consecutive broken episodes after which the rest of a batch is abandoned.
const ROW: usize = 32;

/// The state of one batch.
#[derive(Debug)]
pub(super) struct Endurance {
    state: Mutex<State>,
    /// Consecutive broken episodes that end the batch.
    row: usize,
}

#[derive(Debug)]
struct State {
    /// Remaining retries.
    retries: usize,
    broken_in_a_row: usize,
    first: Option<Fault>,
}

impl Endurance {
    /// Budget of a batch that plays `concurrency` episodes at once: those in flight break together and count as one incident.
    pub(super) fn new(concurrency: usize) -> Self {
        let row = ROW.max(concurrency);
        Self { state: Mutex::new(State { retries: 2 * row, broken_in_a_row: 0, first: None }), row }
    }

    /// Takes one retry off the budget; false when none is left.
    pub(super) fn may_retry(&self) -> bool {
        let mut state = self.lock();
        let left = state.retries > 0 && state.broken_in_a_row < self.row;
        state.retries -= usize::from(left);
        left
    }

    /// Records how an episode ended. An intact one shows that the environment works, and restores the retries.
    pub(super) fn ended(&self, fault: Option<&Fault>) {
        let mut state = self.lock();
        match fault.filter(|fault| fault.boundary != Boundary::Policy) {
            None => (state.broken_in_a_row, state.retries) = (0, 2 * self.row),
            Some(fault) => {
                state.broken_in_a_row += 1;
                state.first.get_or_insert_with(|| fault.clone());
            }
        }
    }

    /// Reason why no further episode is played, if that is the case.
    pub(super) fn exhausted(&self) -> Option<Fault> {
        let state = self.lock();
        let first = state.first.as_ref().filter(|_| state.broken_in_a_row >= self.row)?;
        let what = format!("not played: {} episodes in a row broke before it, the first: {}", self.row, first.what);
        Some(Fault::transient(first.boundary, what))
    }

    // A std mutex: held for a few instructions, never across an await.
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_broken_episodes_ends_it_and_a_whole_one_forgives() {
        let fault = Fault::new(Boundary::Environment, "gone");
        let endurance = Endurance::new(4);
        for _ in 0..ROW - 1 {
            endurance.ended(Some(&fault));
        }
        assert!(endurance.exhausted().is_none() && endurance.may_retry());
        endurance.ended(None);
        for _ in 0..ROW {
            endurance.ended(Some(&fault));
        }
        let why = endurance.exhausted().unwrap();
        assert!(why.what.contains("32 episodes in a row broke before it, the first: gone") && !endurance.may_retry());
        let many = Endurance::new(4);
        assert_eq!((0..1_000).filter(|_| many.may_retry()).count(), 2 * ROW, "second attempts are bounded");
    }
}
