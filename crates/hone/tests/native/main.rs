//! Whole runs on the native engine: the tests of the loop in `crates/train`, which run on a bigram table there, and
//! features of this engine only.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

#[path = "../../../train/tests/it/asynchronous.rs"]
mod asynchronous;
mod engine;
#[path = "../../../train/tests/it/evaluation.rs"]
mod evaluation;
#[path = "../../../train/tests/it/faults.rs"]
mod faults;
mod machine;
#[path = "../../../train/tests/it/options.rs"]
mod options;
#[path = "../../../train/tests/it/placebo.rs"]
mod placebo;
#[path = "../../../train/tests/it/resume.rs"]
mod resume;
mod room;
mod sharpened;
#[path = "../../../train/tests/it/tiny.rs"]
mod tiny;
#[path = "../../../train/tests/it/whole_run.rs"]
mod whole_run;
