//! A novice at the desk: a flawed demonstrator, so that reinforcement learning has something to correct.
//!
//! It knows the tools and how to reach each goal. But two times in three it stops at the first error and forgets the
//! second request, and every other time it cancels an unwanted item without looking at the order. A policy that
//! imitates it does the wrong thing when decoded greedily, instead of the right thing with low confidence.

use hone_trace::Rng;

/// Percentage of times it does not carry on after an error, or forgets a second request.
const CARELESS_PERCENT: usize = 66;

/// Percentage of times it does not look first. Lower, because a guess is right half the time, so that group advantages
/// reward looking less than the rest.
const HASTY_PERCENT: usize = 50;

/// Work habits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Manners {
    /// Carries on after an error.
    pub carries_on: bool,
    /// Fulfils every request, not only the first.
    pub hears_all: bool,
    /// Looks up an order's status if the tool depends on it.
    pub looks_first: bool,
}

impl Manners {
    pub(super) const CAREFUL: Self = Self { carries_on: true, hears_all: true, looks_first: true };

    pub(super) fn novice(rng: &mut Rng) -> Self {
        let mut takes_care = |careless: usize| rng.below(100) >= careless;
        Self {
            carries_on: takes_care(CARELESS_PERCENT),
            hears_all: takes_care(CARELESS_PERCENT),
            looks_first: takes_care(HASTY_PERCENT),
        }
    }
}
