//! Broken twins: a healthy run with exactly one fault put in. The right check finds it, and no other error is found.

#![expect(clippy::unwrap_used, reason = "test helpers")]

mod edited_twins;
mod evaluation_twins;
mod leaks;
mod live;
mod page;
mod preflight;
mod probes;
mod recorded;
mod recorded_twins;
mod twin;
mod twins;
