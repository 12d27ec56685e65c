//! Endurance: how much of a broken environment a batch of episodes puts up with.
//!
//! An environment that is down costs every episode its deadline, several times over: an evaluation of 256 tasks took half an
//! hour to say that nothing worked. So a batch has a budget of second attempts, and after a row of broken episodes without a
//! single whole one the rest is not played; each says so, with the first fault's words.

use std::sync::{Mutex, PoisonError};

use hone_trace::{Boundary, Fault};

/// Broken episodes in a row after which the rest of a batch is given up, at least.
const ROW: usize = 32;

/// The state of one batch.
#[derive(Debug)]
pub(super) struct Endurance {
    state: Mutex<State>,
    /// Broken episodes in a row that end it.
    row: usize,
}

#[derive(Debug)]
struct State {
    /// Second attempts that are left.
    retries: usize,
    broken_in_a_row: usize,
    first: Option<Fault>,
}

impl Endurance {
    /// For a batch that plays `concurrency` episodes at once: those in flight break together and count as one bad moment.
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

    /// Notes how an episode ended. A whole one shows that the environment lives, and gives the retries back.
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

    /// Why no further episode is played, where that is so.
    pub(super) fn exhausted(&self) -> Option<Fault> {
        let state = self.lock();
        let first = state.first.as_ref().filter(|_| state.broken_in_a_row >= self.row)?;
        let what = format!("not played: {} episodes in a row broke before it, the first: {}", self.row, first.what);
        Some(Fault { boundary: first.boundary, what, transient: true })
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
