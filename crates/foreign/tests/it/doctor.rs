//! The doctor on foreign records: what can be said is said, and nothing is made up.

use hone_doctor::{CHECKS, Check, Diagnosis, Run, diagnose};
use hone_foreign::write_run;

use crate::record;

/// The diagnosis over the checks that the record can answer, and how many it cannot.
fn diagnosed(name: &str) -> (Diagnosis, usize) {
    let record = record(name);
    let directory = tempfile::tempdir().unwrap();
    write_run(&record, directory.path()).unwrap();
    let run = Run::read(directory.path()).unwrap();
    let able: Vec<Check> = CHECKS.iter().copied().filter(|check| record.lacks(check.name).is_none()).collect();
    (diagnose(&able, &run).unwrap(), CHECKS.len() - able.len())
}

#[test]
fn a_component_that_never_varies_is_found_in_trl_completions() {
    let (diagnosis, _) = diagnosed("trl");
    let found = diagnosis.found("dead_component").unwrap();
    assert!(found.finding.says.contains("`format_reward`"), "{}", found.finding.says);
    assert!(!diagnosis.has_errors());
}

#[test]
fn a_learning_rate_of_zero_and_a_spike_are_found_in_a_history() {
    let (diagnosis, lacking) = diagnosed("wandb");
    assert!(diagnosis.found("learning_rate").unwrap().finding.says.contains("0 at all 30 steps"));
    assert!(diagnosis.found("gradients").unwrap().finding.says.contains("step 21"));
    assert!(diagnosis.found("kl_runaway").is_some());
    assert!(diagnosis.has_errors());
    assert!(lacking > 20, "curves answer few checks");
}

#[test]
fn endings_and_faults_are_found_where_they_are_recorded() {
    assert!(diagnosed("skyrl").0.found("truncated").is_some());
    assert!(diagnosed("verifiers").0.found("faulted").is_some());
    // ART drops what broke, so nothing can be said of it.
    assert!(record("art").lacks("faulted").is_some() && record("art").lacks("truncated").is_none());
}

/// No check is answered from tokens, evaluations or parses that nobody recorded.
#[test]
fn what_was_not_recorded_is_not_judged() {
    for name in ["trl", "art", "verifiers", "skyrl", "wandb"] {
        let record = record(name);
        for check in ["identical_rollouts", "logprob_mismatch", "parse_failures", "sharpening", "a check to come"] {
            assert!(record.lacks(check).is_some(), "{name}: {check}");
        }
    }
}
