//! Directories that are taken for runs and evaluations, and are none, or only half of one. No snapshots: only some words
//! matter.

use std::path::Path;

use crate::run;

/// The words of a refusal.
fn refused(directory: &Path, arguments: &[&str], words: &str) {
    let said = run(directory, arguments, "");
    assert!(said.starts_with("exit code 2") && said.contains(words), "{arguments:?}: {said}");
}

#[test]
fn a_project_is_not_taken_for_a_run() {
    let directory = tempfile::tempdir().unwrap();
    let garden = directory.path().join("garden");
    std::fs::create_dir(&garden).unwrap();
    std::fs::write(garden.join("recipe.toml"), "name = \"garden\"\n").unwrap();
    for arguments in [
        &["report", "garden"][..],
        &["export", "garden", "--to", "csv"],
        &["doctor", "garden"],
        &["view", "garden", "--export", "page.html"],
        &["show", "garden"],
        &["eval", "garden"],
        &["compare", "garden", "garden"],
        &["train", "--resume", "garden", "--set", "train.steps=2"],
    ] {
        refused(
            directory.path(),
            arguments,
            "garden is a project (recipe.toml, but no events.jsonl or metrics.jsonl), not a run\nhint: `hone train \
             garden/recipe.toml` starts one",
        );
    }
    refused(&garden, &["train", "--run", "."], "holds files that do not belong to a run");
    let left: Vec<_> = std::fs::read_dir(&garden).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["recipe.toml"], "nothing was made in it");
    assert_eq!(std::fs::read_to_string(garden.join("recipe.toml")).unwrap(), "name = \"garden\"\n");
}

#[test]
fn a_run_without_its_recipe_says_what_to_restore() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    drop(hone_trace::rundir::RunDir::create(&path, "[env]\nname = \"shop\"\n").unwrap());
    std::fs::remove_file(path.join("recipe.toml")).unwrap();
    for command in ["doctor", "report", "eval"] {
        refused(directory.path(), &[command, "run"], "its recipe.toml is missing\nhint: put the recipe.toml back");
    }
}

#[test]
fn what_is_no_policy_is_answered_with_one() {
    let directory = tempfile::tempdir().unwrap();
    drop(hone_trace::rundir::RunDir::create(&directory.path().join("runs/a-1"), "").unwrap());
    let folder = "runs is a folder of runs, not a run\nhint: name one of them: hone eval runs/a-1";
    refused(directory.path(), &["eval", "runs"], folder);
    refused(directory.path(), &["eval", "Qwen/Qwen3-0.6B"], "hf download Qwen/Qwen3-0.6B");
}

#[test]
fn evaluations_are_compared_like_with_like_and_only_if_they_are_finished() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let oracle = |more: &[&str]| {
        let arguments = [&["eval", "oracle", "--tasks", "2", "--samples", "1"], more].concat();
        run(directory.path(), &arguments, "")
    };
    assert!(oracle(&["--out", "sampled"]).starts_with("exit code 0"));
    assert!(oracle(&["--out", "greedy", "--only", "greedy"]).starts_with("exit code 0"));
    let one_kind =
        "greedy has only a greedy evaluation and sampled only a sampled one\nhint: compare evaluations of one kind";
    refused(directory.path(), &["compare", "sampled", "greedy"], one_kind);
    assert!(run(directory.path(), &["compare", "greedy", "greedy"], "").starts_with("exit code 0"));
    std::fs::remove_dir_all(at("sampled/traces")).unwrap();
    let lost = "there is no trace 0: traces/ is missing or empty\nhint: restore it from a copy of the run";
    refused(directory.path(), &["compare", "sampled", "sampled"], lost);
    // What `hone eval` leaves when it is stopped.
    std::fs::remove_file(at("greedy/eval.json")).unwrap();
    let unfinished = "greedy is unfinished: it has no sampled evaluation\nhint: run the evaluation again";
    refused(directory.path(), &["compare", "sampled", "greedy"], unfinished);
    let again = oracle(&["--out", "greedy"]);
    assert!(
        again.contains("already holds an evaluation or a run\nhint: choose another --out, or delete it"),
        "{again}"
    );
}

#[test]
fn an_evaluation_that_measured_nothing_is_no_answer_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["eval", "http://127.0.0.1:9/v1#none", "--tasks", "1", "--samples", "1", "--out", "none"];
    refused(directory.path(), &arguments, "nothing was measured: all 2 episodes broke");
    assert!(!directory.path().join("none").exists());
}

#[test]
fn a_flag_that_is_called_otherwise_is_answered_with_its_name() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, words) in [
        (&["train", "--out", "x"][..], "hint: --run DIR"),
        (&["view", "x", "--port", "80"], "hint: --addr 127.0.0.1:PORT"),
        (&["show", "x", "--step", "3"], "hone show RUN 3"),
        (&["train", "--seed", "abc"], "--set seed=VALUE\n"),
        (&["eval", "oracle", "--samples", "0"], "0 is not in 1"),
        (&["eval", "oracle", "--fail-under", "2"], "give a number from 0 to 1"),
    ] {
        refused(directory.path(), arguments, words);
    }
}
