//! `hone check` and the checks at the start of `hone train`, as a user sees them.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::process::{Command, Output};

use serde_json::Value;

fn hone(arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    Command::new(env!("CARGO_BIN_EXE_hone"))
        .args(arguments)
        .current_dir(directory.path())
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

fn checked(settings: &[&str]) -> (Option<i32>, Value) {
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let arguments: Vec<&str> = ["check", "--json"].into_iter().chain(settings).collect();
    let output = hone(&arguments);
    let stdout = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout:?} {:?}", output.stderr)))
}

fn errors(diagnosis: &Value) -> Vec<&str> {
    let findings = diagnosis["findings"].as_array().unwrap().iter();
    let errors = findings.filter(|finding| finding["severity"] == "error" && finding.get("waived").is_none());
    errors.map(|finding| finding["check"].as_str().unwrap()).collect()
}

#[test]
fn the_quickstart_is_healthy() {
    let (code, diagnosis) = checked(&[]);
    assert_eq!(errors(&diagnosis), Vec::<&str>::new(), "{diagnosis:#}");
    assert_eq!(code, Some(0));
    for check in ["sampler_follows", "logprob_mismatch", "isolation", "reference_fails", "parse_failures", "no_signal"]
    {
        assert!(diagnosis["healthy"].as_array().unwrap().iter().any(|name| name == check), "{check}: {diagnosis:#}");
    }
}

#[test]
fn faults_of_a_recipe_end_with_1_and_one_that_cannot_be_read_with_2() {
    for (setting, check) in [
        ("train.learning_rate=0", "learning_rate"),
        ("sampling.top_k=1", "sampling_filters"),
        ("rollout.window=64", "context"),
        ("rollout.format=react", "call_format"),
    ] {
        let (code, diagnosis) = checked(&[setting]);
        assert_eq!((code, errors(&diagnosis)), (Some(1), vec![check]), "{setting}: {diagnosis:#}");
    }
    let (code, diagnosis) = checked(&["sampling.temperature=0"]);
    assert_eq!((code, errors(&diagnosis)), (Some(2), vec!["recipe"]), "{diagnosis:#}");
}

#[test]
fn a_run_that_would_be_worthless_is_refused_unless_that_is_waived() {
    let refused = hone(&["train", "--dry-run", "--set", "train.learning_rate=0"]);
    let words = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(words.contains("[learning_rate]") && words.contains("waive"), "{words}");
    let waived = "doctor.waive.learning_rate=\"to see what it takes\"";
    let goes_on = hone(&["train", "--dry-run", "--set", "train.learning_rate=0", "--set", waived]);
    let words = String::from_utf8(goes_on.stderr).unwrap();
    assert_eq!(goes_on.status.code(), Some(0), "{words}");
    assert!(words.contains("waived: the learning rate is 0"), "{words}");
    assert!(String::from_utf8(goes_on.stdout).unwrap().contains("to see what it takes"));
}
