//! Crash recovery: `hone train` is killed as it reports its steps and continues with `--resume`.
//! scripts/crash_resume.py does it at random moments, fifty times.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Map, Value};

const RECIPE: &str = r#"
name = "crash"
seed = 7
[policy]
threads = 1
[env]
tasks = 12
held_out = 2
[sampling]
max_new_tokens = 32
[rollout]
window = 2048
max_turns = 2
[[rubric.component]]
kind = "length_cost"
max = 64
[train]
steps = 4
groups = 3
group_size = 4
learning_rate = 1e-3
[eval]
tasks = 2
success = "length_cost"
"#;

fn hone() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hone"));
    // W&B logs stay on this machine, even if the tester has a key.
    command.env("NO_COLOR", "1").env("WANDB_MODE", "offline").stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn timeless(run: &Path) -> Vec<Map<String, Value>> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let mut lines: Vec<Map<String, Value>> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &mut lines {
        line.retain(|name, _| !name.starts_with("timing/"));
    }
    lines
}

/// Starts the run, or resumes it if there is one.
fn start(recipe: &Path, run: &Path) -> std::process::Child {
    let mut command = hone();
    if run.join("recipe.toml").exists() {
        command.args(["train", "--resume"]).arg(run);
    } else {
        command.arg("train").arg(recipe).arg("--run").arg(run);
    }
    command.spawn().unwrap()
}

/// A model and a recipe in `directory`; the recipe's path.
fn prepare(directory: &Path, shape: &str, steps: u32) -> PathBuf {
    let (model, recipe) = (directory.join("model"), directory.join("recipe.toml"));
    assert!(hone().args(["model", "new"]).arg(&model).args(shape.split(' ')).status().unwrap().success());
    let text = RECIPE.replace("[policy]", &format!("[policy]\nmodel = '{}'", model.display()));
    std::fs::write(&recipe, text.replace("steps = 4", &format!("steps = {steps}"))).unwrap();
    recipe
}

#[test]
fn killed_and_resumed_a_run_ends_as_if_it_had_not_been() {
    let directory = tempfile::tempdir().unwrap();
    let shape = "--hidden 32 --layers 2 --heads 2 --kv-heads 1 --head-dim 16 --mlp 64 --vocab 512 --tied";
    let recipe = prepare(directory.path(), shape, 4);
    let logged = std::fs::read_to_string(&recipe).unwrap() + "[log]\nwandb = \"logs\"\n";
    std::fs::write(&recipe, logged).unwrap();

    let (whole, stopped) = (directory.path().join("whole"), directory.path().join("stopped"));
    let output = start(&recipe, &whole).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = output.stderr.split(|byte| *byte == b'\n').count();
    assert_eq!(timeless(&whole).len(), 4);

    // A step is reported when it is recorded and before its checkpoint is: the most that can be lost. The lines of a
    // resumed run are fewer, so it is killed at its first one, then a little later.
    let mut kills = 0;
    for line in [1, 2, 3, 2].into_iter().filter(|line| *line < lines) {
        let mut process = start(&recipe, &stopped);
        let reports = BufReader::new(process.stderr.take().unwrap()).lines();
        let read = reports.take(line).filter_map(Result::ok).count();
        process.kill().unwrap();
        kills += usize::from(read == line && !process.wait().unwrap().success());
    }
    assert!(kills >= 2, "killed {kills} times");
    assert!(start(&recipe, &stopped).wait_with_output().unwrap().status.success());
    assert_eq!(timeless(&stopped), timeless(&whole));

    // The log continued in its file, every step once, as an export writes it.
    let exported = stopped.join("exports/wandb");
    assert!(hone().args(["export", "--to", "wandb"]).arg(&stopped).status().unwrap().success());
    let runs: Vec<_> = std::fs::read_dir(&exported).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let of_run = |log: &Path| {
        let files = std::fs::read_dir(log.join(&runs[0])).unwrap();
        files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(runs.len(), 1);
    assert!(of_run(&exported) == of_run(&directory.path().join("logs")));
}

/// SIGTERM and SIGHUP stop a run as ctrl-c does: the step is recorded completely, and the exit code is that of the signal.
#[test]
fn a_run_that_is_asked_to_stop_ends_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let shape = "--hidden 16 --layers 1 --heads 1 --kv-heads 1 --head-dim 16 --mlp 16 --vocab 300 --tied";
    let recipe = prepare(directory.path(), shape, 100_000);
    for (signal, code) in [("TERM", 143), ("HUP", 129), ("INT", 130)] {
        let run = directory.path().join(signal);
        let mut process = start(&recipe, &run);
        let mut reports = BufReader::new(process.stderr.take().unwrap()).lines();
        while !has_a_step(&run) {
            assert!(reports.next().is_some(), "the run ended before its first step");
        }
        let send = |signal: &str| {
            let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {}", process.id())]).status().unwrap();
            assert!(sent.success());
        };
        send(signal);
        // Started under nohup, a run survives its terminal; SIGTERM still stops it.
        let nohup = signal == "HUP" && hang_ups_are_ignored();
        if nohup {
            send("TERM");
        }
        let code = if nohup { 143 } else { code };
        let rest: Vec<String> = reports.map_while(Result::ok).collect();
        let status = process.wait().unwrap();
        assert!(rest.iter().any(|line| line.contains("stopping when this step is recorded")), "{signal}: {rest:?}");
        assert_eq!(status.code(), Some(code), "{signal}: {status}");
    }
}

/// True if this process ignores SIGHUP, and with it the runs that it starts.
fn hang_ups_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim);
    ignored.and_then(|mask| u64::from_str_radix(mask, 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// True if a first step is recorded completely.
fn has_a_step(run: &Path) -> bool {
    std::fs::read_to_string(run.join("metrics.jsonl")).is_ok_and(|text| text.contains('\n'))
}

/// A file size limit simulates a full disk: the run stops and says what to do, its records are intact, and with more
/// room it resumes to the numbers of an undisturbed run.
#[test]
fn a_full_disk_stops_the_run_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let shape = "--hidden 16 --layers 1 --heads 1 --kv-heads 1 --head-dim 16 --mlp 16 --vocab 300 --tied";
    let recipe = prepare(directory.path(), shape, 20);
    let (whole, full) = (directory.path().join("whole"), directory.path().join("full"));
    assert!(start(&recipe, &whole).wait_with_output().unwrap().status.success());
    let size = |path: PathBuf| std::fs::metadata(path).unwrap().len();
    let traces = size(whole.join("traces/00000.jsonl.zst"));
    let checkpoint = size(whole.join("checkpoints/step-00000020/optimizer.safetensors"));
    assert!(traces > checkpoint + 8192, "traces of {traces} bytes grow past the checkpoint's {checkpoint}");

    // The signal is ignored, so that the write fails as it does on a full disk. Blocks of 512 bytes.
    let limited = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", (checkpoint + traces) / 1024);
    let output = Command::new("sh")
        .args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_hone"), "train"])
        .arg(&recipe)
        .arg("--run")
        .arg(&full)
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("intact") && message.contains("--resume"), "{message}");
    let recorded = timeless(&full).len();
    assert!(recorded < 20 && timeless(&full) == timeless(&whole)[..recorded], "{recorded} steps are recorded");

    assert!(start(&recipe, &full).wait_with_output().unwrap().status.success());
    assert_eq!(timeless(&full), timeless(&whole));
}

/// A broken environment is found before the first step, with its own error message, and leaves no run behind.
#[test]
fn an_environment_without_tools_is_refused_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let shape = "--hidden 16 --layers 1 --heads 1 --kv-heads 1 --head-dim 16 --mlp 16 --vocab 300 --tied";
    let recipe = prepare(directory.path(), shape, 4);
    let program = directory.path().join("env.sh");
    let script = "while read -r line; do id=${line#*:}; echo \"{\\\"id\\\": ${id%%,*}, ANSWER}\"; done";
    for (answer, said) in [
        (r#"\"tools\": [], \"messages\": [{\"role\": \"user\", \"content\": \"Go.\"}]"#, "no tools"),
        (
            r#"\"tools\": [{\"name\": \"odd\", \"parameters\": {\"type\": 7}}], \"messages\": [{\"role\": \"user\", \"content\": \"Go.\"}]"#,
            "odd",
        ),
        (r#"\"error\": \"my database is gone\""#, "my database is gone"),
    ] {
        std::fs::write(&program, script.replace("ANSWER", answer)).unwrap();
        let run = directory.path().join("run");
        let setting = format!("env.command=[\"sh\", {program:?}]");
        let output =
            hone().arg("train").arg(&recipe).arg("--run").arg(&run).args(["--set", &setting]).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(said), "{said}: {message}");
        assert!(!run.exists(), "{said}: a run that never began left a directory");
    }
}

const SMALL: &str = "--hidden 16 --layers 1 --heads 1 --kv-heads 1 --head-dim 16 --mlp 16 --vocab 300 --tied";

/// The first checkpoint holds the policy that the run started from.
#[test]
fn a_run_whose_policy_is_gone_resumes_from_its_own_checkpoints() {
    let directory = tempfile::tempdir().unwrap();
    let recipe = prepare(directory.path(), SMALL, 2);
    let run = directory.path().join("run");
    assert!(start(&recipe, &run).wait_with_output().unwrap().status.success());
    std::fs::rename(directory.path().join("model"), directory.path().join("elsewhere")).unwrap();
    let resumed = || {
        let mut command = hone();
        command.args(["train", "--set", "train.steps=3", "--resume"]).arg(&run).output().unwrap()
    };
    let output = resumed();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && message.contains("the run's first checkpoint has its weights"), "{message}");
    assert!(message.contains("extended from 2 to 3 steps; the learning rate is ") && !message.contains(" and 1.00e-3"));
    assert_eq!(timeless(&run).len(), 3);
    // Records that were deleted, in words.
    std::fs::remove_dir_all(run.join("traces")).unwrap();
    std::fs::create_dir(run.join("traces")).unwrap();
    let output = hone().args(["train", "--set", "train.steps=4", "--resume"]).arg(&run).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("its files end before its newest checkpoint: traces/ has 0 of "), "{message}");
}

#[test]
fn a_policy_of_no_numbers_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let recipe = prepare(directory.path(), SMALL, 2);
    let weights = directory.path().join("model/model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    let end = bytes.len();
    bytes[end - 64..].fill(0xff);
    std::fs::write(&weights, bytes).unwrap();
    let run = directory.path().join("run");
    let output = start(&recipe, &run).wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("give another policy.model") && !message.contains("--resume"), "{message}");
    assert!(!run.exists());
}

/// A warm start that kept nothing does not claim that its records are intact.
#[test]
fn a_full_disk_before_the_first_checkpoint_of_a_warm_start_keeps_nothing_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let recipe = prepare(directory.path(), SMALL, 2);
    let out = directory.path().join("made");
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 32; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_hone"), "sft"])
        .arg(&recipe)
        .args(["--set", "sft.steps=2", "--set", "sft.batch=1", "--set", "env.name=shop", "--out"])
        .arg(&out)
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("nothing was kept: make room, then start again") && !message.contains("intact"),
        "{message}"
    );
    assert!(!directory.path().join("made.run").exists());
}

/// A stopped evaluation says what it leaves: nothing before its first half, half of it then.
#[test]
fn an_evaluation_that_is_stopped_says_what_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let recipe = prepare(directory.path(), SMALL, 2);
    for (out, only, words) in [
        ("nothing", &["--only", "sampled"][..], "stopped; nothing was measured, nothing is kept"),
        (
            "half",
            &[],
            "half is unfinished: its last evaluation is the recipe's model, greedy; run the evaluation again",
        ),
    ] {
        let at = directory.path().join(out);
        let mut command = hone();
        command.args(["eval", "--samples", "100000", "--recipe"]).arg(&recipe).arg("--out").arg(&at);
        command.args(only);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.by_ref().map_while(Result::ok).any(|line| line.contains(", sampled: ")));
        let sent = Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().unwrap();
        assert!(sent.success());
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
        assert!(rest.iter().any(|line| line.contains(words)), "{out}: {rest:?}");
        assert_eq!(at.exists(), out == "half");
    }
}
