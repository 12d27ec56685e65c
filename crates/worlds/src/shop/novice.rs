//! A novice at the desk: a flawed demonstrator, so that reinforcement learning has something to put right.
//!
//! It knows the tools and the way to each goal. But two times in three it stops at the first error, forgets the second
//! wish, and cancels what a customer wants to be rid of without a look at the order. A policy that imitates it does the
//! wrong thing greedily, not the right thing with doubts.

use hone_trace::Rng;

/// Of a hundred times that care is called for, those it takes none.
const CARELESS_PERCENT: usize = 66;

/// Work habits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Manners {
    /// Carries on after an error.
    pub carries_on: bool,
    /// Fulfils every wish, not only the first.
    pub hears_all: bool,
    /// Looks an order's status up where the means depend on it.
    pub looks_first: bool,
}

impl Manners {
    pub(super) const CAREFUL: Self = Self { carries_on: true, hears_all: true, looks_first: true };

    pub(super) fn novice(rng: &mut Rng) -> Self {
        let mut takes_care = || rng.below(100) >= CARELESS_PERCENT;
        Self { carries_on: takes_care(), hears_all: takes_care(), looks_first: takes_care() }
    }
}
