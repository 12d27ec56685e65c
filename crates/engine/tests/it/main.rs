//! Tests of the engine from outside: against transformers, PyTorch and PEFT, and the laws it keeps.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod backend;
mod bad_input;
mod common;
mod foreign;
mod lora;
mod parity;
mod threads;
mod training;
