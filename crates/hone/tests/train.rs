//! `hone train`, `hone report` and `hone bench learn` from outside: JSON on stdout, plain lines on stderr, ctrl-c.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Two short episodes per step, at a temperature where not every reply parses, so that some groups have signal: this
/// tests the output, not learning.
const RECIPE: &str = r#"
name = "tiny"
seed = 5
[env]
name = "shop"
difficulty = 3
tasks = 8
held_out = 4
[sampling]
max_new_tokens = 40
temperature = 2.0
[rollout]
window = 1024
max_turns = 2
[[rubric.component]]
kind = "tau_state"
[[rubric.component]]
kind = "parse_penalty"
weight = 0.3
[train]
steps = 2
groups = 2
group_size = 4
[sft]
steps = 1
batch = 1
[eval]
tasks = 4
"#;

fn hone(dir: &TempDir) -> Command {
    std::fs::write(dir.path().join("tiny.toml"), RECIPE).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hone"));
    command.current_dir(dir.path()).env("NO_COLOR", "1");
    command
}

fn last_line(output: &Output) -> Value {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

fn check_result(result: &Value) {
    for evaluation in [&result["eval"]["before"], &result["eval"]["after"]] {
        assert_eq!((evaluation["n"].as_u64(), evaluation["unscored"].as_u64()), (Some(4), Some(0)));
        assert!(evaluation["success"].is_f64() && evaluation["parse_failure_rate"].is_f64());
        assert_eq!(evaluation["ci"].as_array().unwrap().len(), 2);
    }
    assert_eq!(result["eval"]["sampled"]["after"], result["eval"]["after"], "the headline is sampled");
    assert_eq!(result["eval"]["greedy"]["after"]["temperature"].as_f64(), Some(0.0));
    assert!(result["verdict"].is_string() && result["judgement"]["greedy"]["ci"].is_array(), "{result}");
    assert!(result["gain"]["over"].is_string() && result["overlap"]["prompts"].is_f64());
    let names: Vec<_> = result["baselines"].as_array().unwrap().iter().filter_map(|b| b["name"].as_str()).collect();
    assert!(names.contains(&"does nothing") && names.contains(&"calls at random"), "{names:?}");
    for component in ["tau_state", "parse_penalty", "total"] {
        let row = &result["components"][component];
        assert!(row["first"].is_f64() && row["last"].is_f64(), "{component}: {row}");
    }
    let (sampled, trained) = (&result["tokens"]["sampled"], &result["tokens"]["trained"]);
    assert!(sampled.as_u64().unwrap() >= trained.as_u64().unwrap() && sampled.as_u64().unwrap() > 0);
    assert!(result["seconds"].as_f64().unwrap() > 0.0);
}

/// A recipe that names no model starts from the policy made for its environment, which can do some of the work.
#[test]
fn recipes_of_the_ticket_desk_have_a_start_of_their_own() {
    for name in ["triage-reader", "triage-searcher"] {
        let dir = TempDir::new().unwrap();
        let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../recipes/{name}.toml"));
        let fewer = [
            "env.tasks=32",
            "env.held_out=24",
            "env.worlds=1",
            "eval.tasks=24",
            "train.steps=1",
            "train.groups=1",
            "eval.controls=false",
        ];
        let mut command = hone(&dir);
        command.arg("train").arg(recipe).args(["--json", "--samples", "0"]);
        command.args(fewer.iter().flat_map(|setting| ["--set", setting]));
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
        assert!(told.contains(&format!("tiny {name} policy")), "{told}");
        let before = &last_line(&output)["eval"]["before"];
        assert!(before["success"].as_f64().unwrap() > 0.1, "{before}");
        assert!(before["parse_failure_rate"].as_f64().unwrap() < 0.1, "{before}");
    }
}

#[test]
fn a_run_says_what_it_came_to_and_the_report_says_it_again() {
    let dir = TempDir::new().unwrap();
    let output = hone(&dir).args(["train", "tiny.toml", "--json", "--samples", "2"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    let result = last_line(&output);
    assert_eq!(
        (result["run"].as_str(), result["steps"].as_u64(), result["seed"].as_u64()),
        (Some("runs/tiny-1"), Some(2), Some(5))
    );
    check_result(&result);

    assert!(!told.contains('\x1b'), "no escapes where stderr is no terminal: {told:?}");
    for part in [
        "step    1  ",
        "step    2  ",
        "eval at step 0",
        "a conversation of step 2",
        "held-out tasks, 4 of them",
        "best scripted policy",
        "early, not the start",
        "verdict: ",
        "gain over the best of the start and its controls",
    ] {
        assert!(told.contains(part), "{part:?} in {told}");
    }
    assert!(!told.contains("a conversation of step 1"), "{told}");

    let run = dir.path().join("runs/tiny-1");
    let page = hone(&dir).args(["report", "runs/tiny-1"]).output().unwrap().stdout;
    assert_eq!(page, std::fs::read(run.join("report.md")).unwrap());
    let again: Value = last_line(&hone(&dir).args(["report", "runs/tiny-1", "--json"]).output().unwrap());
    let saved: Value = serde_json::from_str(&std::fs::read_to_string(run.join("report.json")).unwrap()).unwrap();
    assert_eq!(again, saved);
    assert_eq!(again["before"]["success"], result["eval"]["before"]["success"]);
}

#[test]
fn ctrl_c_ends_after_the_step_with_everything_recorded() {
    let dir = TempDir::new().unwrap();
    let mut child = hone(&dir)
        .args(["train", "tiny.toml", "--json", "--samples", "0", "--set", "train.steps=10000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.by_ref().map_while(Result::ok).any(|line| line.starts_with("step    1 ")));
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let told: Vec<String> = lines.map_while(Result::ok).collect();
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "a script must not take it for finished: {told:?}");
    assert!(told.iter().any(|line| line.contains("hone train --resume runs/tiny-1")), "{told:?}");
    assert!(told.iter().any(|line| line.contains("ctrl-c again stops immediately")), "{told:?}");
    let result: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    let steps = result["steps"].as_u64().unwrap();
    assert!(
        (1..10_000).contains(&steps)
            && told.iter().any(|line| line.contains(&format!("stopped after step {steps} of 10000")))
    );
    assert!(dir.path().join(format!("runs/tiny-1/checkpoints/step-{steps:08}")).is_dir());
    // The start is not the end of a run that was stopped.
    assert!(result["eval"]["before"].is_object() && result["eval"]["after"].is_null(), "{result}");
    assert!(told.iter().any(|line| line.contains("no verdict: training is not over")), "{told:?}");
}

/// A warm start has no orderly end: what is done since the newest checkpoint is done again.
#[test]
fn ctrl_c_in_a_warm_start_says_how_to_continue() {
    let dir = TempDir::new().unwrap();
    let mut child = hone(&dir)
        .args(["sft", "tiny.toml", "--out", "made", "--set", "sft.steps=10000"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.by_ref().map_while(Result::ok).any(|line| line.starts_with("sft     1 of ")));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let told: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{told:?}");
    let last = told.last().unwrap();
    assert!(last.starts_with("stopped at step ") && !last.starts_with("stopped at step 0;"), "{told:?}");
    assert!(
        last.ends_with("; continue with `hone sft tiny.toml --set sft.steps=10000 --out made --resume`"),
        "{told:?}"
    );
}

#[test]
fn bench_learn_counts_again_and_says_which_bars_are_missed() {
    let dir = TempDir::new().unwrap();
    let output = hone(&dir)
        .args(["bench", "learn", "tiny.toml", "--seeds", "1", "--out", "bench", "--json"])
        .args(["--placebo", "permute"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    let result = last_line(&output);
    let seed = &result["seeds"][0];
    let sampled = &seed["sampled"];
    assert_eq!(
        (seed["seed"].as_u64(), sampled["before"]["n"].as_u64(), sampled["after"]["n"].as_u64()),
        (Some(1), Some(4), Some(4))
    );
    let controls: Vec<_> = seed["controls"].as_array().unwrap().iter().filter_map(|c| c["kind"].as_str()).collect();
    assert!(controls.contains(&"again") && controls.contains(&"placebo"), "{controls:?}");
    assert!(seed["content_overlap"]["prompts"].is_f64());
    let missed = seed["missed"].to_string();
    assert!(missed.contains("the end") && missed.contains("fewer than 256"), "{missed}");
    let page = std::fs::read_to_string(dir.path().join("bench/seed-1/report.md")).unwrap();
    assert!(page.contains("the placebo (permute)"), "{page}");
}

#[test]
fn the_shipped_policy_learns() {
    let dir = TempDir::new().unwrap();
    // Greedy only: a policy that merely became more confident would not improve.
    let settings = [
        "train.steps=12",
        "train.decay=constant",
        "train.learning_rate=8e-4",
        "checkpoint.every=12",
        "eval.temperature=0",
        "eval.tasks=64",
        "eval.controls=false",
    ];
    let output = hone(&dir)
        .args(["train", "--json", "--samples", "0"])
        .args(settings.iter().flat_map(|setting| ["--set", setting]))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result = last_line(&output);
    let (before, after) = (&result["eval"]["before"], &result["eval"]["after"]);
    let success = |evaluation: &Value| evaluation["success"].as_f64().unwrap();
    assert!((0.15..=0.5).contains(&success(before)), "{before}");
    assert_eq!((before["n"].as_u64(), before["unscored"].as_u64()), (Some(64), Some(0)));
    assert!(after["ci"][0].as_f64().unwrap() > success(before), "no significant rise: {before} -> {after}");
}

/// The embedded policy is unpacked into the run's directory first.
#[test]
fn a_refused_run_leaves_no_directory_and_nobody_elses_is_touched() {
    let dir = TempDir::new().unwrap();
    let refused = ["train", "tiny.toml", "--set", "plan.share.nowhere.min=0.5", "--run"];
    let error = hone(&dir).args(refused).arg("run").output().unwrap();
    assert!(!error.status.success());
    assert!(String::from_utf8_lossy(&error.stderr).contains("plan.share.nowhere"), "{error:?}");
    assert!(!dir.path().join("run").exists());
    std::fs::create_dir(dir.path().join("mine")).unwrap();
    std::fs::write(dir.path().join("mine/notes"), "keep").unwrap();
    assert!(!hone(&dir).args(refused).arg("mine").output().unwrap().status.success());
    assert!(dir.path().join("mine/notes").exists());
}
