//! Tests of the vocabulary and the run directory, as one binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;
mod records;
mod rundir;
mod story;
