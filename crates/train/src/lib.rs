//! Which sampled tokens are trained, and how.
//!
//! [`credit`] says what each trace is worth, [`pack`] lays the credited traces out for a learner, [`loss`] turns
//! logprobs into d loss / d logprob. Everything here is a pure function: no model, no clock, no file, no randomness but
//! what is derived from the data. What exists under which name is in [`catalogue`], and docs/algorithms.md is written
//! from it.

pub mod catalogue;
pub mod credit;
pub mod loss;
pub mod pack;
