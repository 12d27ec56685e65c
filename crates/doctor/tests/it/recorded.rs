//! Damage to what is recorded: the doctor says what it lacks instead of guessing.

use hone_doctor::{CHECKS, Run, diagnose};
use hone_trace::rundir::RunDir;

#[test]
fn a_run_without_a_step_skips_what_it_cannot_know() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    drop(RunDir::create(&path, "").unwrap());
    let diagnosis = diagnose(CHECKS, &Run::read(&path).unwrap()).unwrap();
    assert!(diagnosis.findings.is_empty(), "{diagnosis:#?}");
    assert!(diagnosis.skipped.len() > 20, "{diagnosis:#?}");
    assert!(diagnosis.skipped.iter().all(|skipped| !skipped.needs.is_empty()));
}
