//! Broken twins: a healthy run with exactly one fault put in. The right check finds it, and no other error is found.

#![expect(clippy::unwrap_used, reason = "test helpers")]

mod page;
mod recorded;
mod twin;
mod twins;
