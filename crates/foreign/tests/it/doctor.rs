//! The doctor on foreign records: what can be said is said, and nothing is made up.

use hone_doctor::{CHECKS, Check, Diagnosis, Run, diagnose};
use hone_foreign::{Record, write_run};

use crate::record;

/// The diagnosis over the checks that the record can answer, and how many it cannot.
fn diagnosed(name: &str) -> (Diagnosis, usize) {
    diagnosis_of(&record(name))
}

fn diagnosis_of(record: &Record) -> (Diagnosis, usize) {
    let directory = tempfile::tempdir().unwrap();
    write_run(record, directory.path()).unwrap();
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

/// A history whose loss ends in NaN; one with NaN wherever nothing was logged is whole.
#[test]
fn a_gradient_that_is_no_number_is_found_in_a_history() {
    let told = |rows: &mut dyn Iterator<Item = String>| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("history.jsonl");
        std::fs::write(&path, rows.map(|row| row + "\n").collect::<String>()).unwrap();
        diagnosis_of(&hone_foreign::read(&path).unwrap()).0
    };
    let row = |step: u32, norm: &str| {
        format!(
            "{{\"_step\": {step}, \"train/grad_norm\": {norm}, \"train/learning_rate\": 1e-6, \"train/reward\": 0.5}}"
        )
    };
    let ended = told(&mut (1..30).map(|step| row(step, if step < 20 { "0.2" } else { "NaN" })));
    let found = ended.found("gradients").unwrap();
    assert!(found.finding.says.contains("10 optimizer steps had a gradient that was not finite"), "{found:#?}");
    assert_eq!(found.finding.evidence.lines, ["the first in step 20"]);
    let sparse = told(&mut (1..30).map(|step| row(step, if step % 2 == 1 { "0.2" } else { "NaN" })));
    assert!(sparse.findings.is_empty(), "{sparse:#?}");
}

#[test]
fn advantages_that_run_against_the_reward_are_found_where_they_are_recorded() {
    let mut record = record("trl");
    assert!(record.lacks("advantage_sign").is_some(), "two rewards, whose weights are not recorded");
    record.components.truncate(1);
    for episode in &mut record.episodes {
        episode.total = episode.rewards.get(&record.components[0].0).copied();
        episode.advantage = episode.total.map(|total| 0.5 - total);
    }
    let diagnosis = diagnosis_of(&record).0;
    assert!(diagnosis.found("advantage_sign").is_some() && diagnosis.has_errors(), "{diagnosis:#?}");
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
