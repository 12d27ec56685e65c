//! Whole runs on a GPU: tests of the loop in `crates/train`, and what is this device's own. They need a GPU, or the emulated one, and
//! run only where they are named: `crates/cuda/emulator/run cargo test -p hone --test gpu`. Those that compare two runs may fail on a
//! real GPU, where rounding in bf16 can change a sampled token; `.ci/run` names those that may not.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

#[path = "../../../train/tests/it/asynchronous.rs"]
mod asynchronous;
mod engine;
#[path = "../../../train/tests/it/evaluation.rs"]
mod evaluation;
#[path = "../../../train/tests/it/faults.rs"]
mod faults;
mod memory;
#[path = "../../../train/tests/it/options.rs"]
mod options;
mod resumed;
#[path = "../../../train/tests/it/tiny.rs"]
#[expect(dead_code, reason = "only some of its helpers are used here")]
mod tiny;
