//! Task sets, evaluations and comparisons as a user sees them.

use std::sync::{Arc, Mutex};

use crate::{hone, input, run};

#[test]
fn stats_count_and_name_what_was_not_taken_as_it_came() {
    insta::assert_snapshot!("data_stats", hone(&["data", "stats", &input("tasks/v1.json")]));
    insta::assert_snapshot!("data_stats_markdown", hone(&["data", "stats", "--markdown", &input("tasks/v2.jsonl")]));
}

#[test]
fn a_leak_ends_a_diff_with_1() {
    insta::assert_snapshot!("data_diff", hone(&["data", "diff", &input("tasks/v1.json"), &input("tasks/v2.jsonl")]));
}

#[test]
fn a_split_is_kept_by_its_lock() {
    let directory = tempfile::tempdir().unwrap();
    let split = |file: &str, more: &[&str]| {
        let tasks = input(file);
        let arguments = [&["data", "split", &tasks, "--out", "set", "--hold-out", "outlook"], more].concat();
        run(directory.path(), &arguments, "")
    };
    insta::assert_snapshot!("data_split", split("tasks/v1.json", &[]));
    insta::assert_snapshot!("data_split_grown", split("tasks/v2.jsonl", &[]));
    insta::assert_snapshot!("data_split_range", split("tasks/v2.jsonl", &["--hold-out-tasks", "booking=7"]));
    insta::assert_snapshot!(
        "data_split_lock",
        std::fs::read_to_string(directory.path().join("set/split.lock")).unwrap()
    );
}

/// The earlier split's files are both input and output: they must not be emptied.
#[test]
fn a_set_is_split_again_in_its_own_directory() {
    let directory = tempfile::tempdir().unwrap();
    let first = run(directory.path(), &["data", "split", &input("tasks/v1.json"), "--out", "set"], "");
    assert!(first.starts_with("exit code 0"), "{first}");
    let read = |name: &str| std::fs::read_to_string(directory.path().join("set").join(name)).unwrap();
    let before = ["train.jsonl", "eval.jsonl"].map(read);
    assert!(before.iter().map(|text| text.lines().count()).sum::<usize>() > 2);
    let again = run(directory.path(), &["data", "split", "set", "--out", "set"], "");
    assert!(again.starts_with("exit code 0"), "{again}");
    assert_eq!(["train.jsonl", "eval.jsonl"].map(read), before);
    let left = std::fs::read_dir(directory.path().join("set")).unwrap().flatten();
    assert!(!left.into_iter().any(|entry| entry.file_name().to_string_lossy().ends_with(".new")));
}

/// Outputs never replace inputs, however the paths are written.
#[test]
fn inputs_are_never_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let lines: String = (0..20).map(|n| format!("{{\"key\": \"k{n}\", \"prompt\": \"Do {n}.\"}}\n")).collect();
    for name in ["train.jsonl", "tasks.jsonl", "own/train.jsonl"] {
        std::fs::create_dir_all(at("own")).unwrap();
        std::fs::write(at(name), &lines).unwrap();
    }
    std::fs::write(at("recipe.toml"), "[eval]\ntasks = 0\n").unwrap();
    for (arguments, said) in [
        (&["data", "split", "train.jsonl", "--env", "g", "--out", "."][..], "the output train.jsonl is the input"),
        (&["data", "split", "./own/../train.jsonl", "--env", "g", "--out", "own/.."], "is the input"),
        (&["data", "split", "own", "--env", "g", "--out", "own"], "the output own/train.jsonl is the input"),
        (
            &["data", "split", "tasks.jsonl", "--env", "g", "--out", "own"],
            "own/train.jsonl exists and is of no earlier split",
        ),
        (&["data", "stats", "tasks.jsonl", "--issues", "tasks.jsonl"], "the output tasks.jsonl is the input"),
        (
            &["data", "validate", "tasks.jsonl", "--recipe", "recipe.toml", "--out", "."],
            "the output tasks.jsonl is the input",
        ),
        (&["data", "validate", "own/train.jsonl", "--recipe", "recipe.toml", "--out", "."], "of no validation"),
    ] {
        let shown = run(directory.path(), arguments, "");
        assert!(shown.starts_with("exit code 2") && shown.contains(said), "{arguments:?}: {shown}");
    }
    for name in ["train.jsonl", "tasks.jsonl", "own/train.jsonl"] {
        assert_eq!(std::fs::read_to_string(at(name)).unwrap(), lines, "{name}");
    }
    let mut left: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["own", "recipe.toml", "tasks.jsonl", "train.jsonl"]);
    // A part of an earlier split would lose the rest.
    run(directory.path(), &["data", "split", "tasks.jsonl", "--env", "g", "--out", "set", "--eval", "0.5"], "");
    let part = run(directory.path(), &["data", "split", "set/train.jsonl", "--out", "set"], "");
    assert!(part.starts_with("exit code 2") && part.contains("hone data split set --out set"), "{part}");
}

#[test]
fn tasks_that_name_no_environment_are_counted_and_not_played_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write(
        "garden.jsonl",
        "\u{feff}{\"key\": \"a\", \"prompt\": \"Dig.\"}\r\n{\"key\": \"b\", \"prompt\": \"Sow.\"}\r\n",
    );
    write("retail.jsonl", "{\"key\": \"a\", \"env\": \"retail\", \"prompt\": \"Dig.\"}\n");
    write("recipe.toml", "name = \"x\"\n[env]\nname = \"garden\"\n");
    let shown = run(directory.path(), &["data", "stats", "garden.jsonl"], "");
    assert!(shown.starts_with("exit code 0") && shown.contains("under garden, after their file"), "{shown}");
    let named = run(directory.path(), &["data", "stats", "garden.jsonl", "--env", "plot"], "");
    assert!(named.contains("plot") && !named.contains("after their file"), "{named}");
    let recipe = run(directory.path(), &["data", "stats", "recipe.toml"], "");
    assert!(recipe.starts_with("exit code 2") && recipe.contains("no row could be read as a task"), "{recipe}");
    for (file, said) in
        [("garden.jsonl", "hint: name the recipe whose environments"), ("retail.jsonl", "--set env.name=retail")]
    {
        let shown = run(directory.path(), &["data", "validate", file, "--out", "v"], "");
        assert!(shown.starts_with("exit code 2") && shown.contains(said), "{shown}");
    }
}

#[test]
fn an_empty_set_is_said_to_be_empty() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("none.json"), "[]").unwrap();
    let shown = run(directory.path(), &["data", "stats", "none.json"], "");
    assert!(shown.contains("no task is in none.json"), "{shown}");
}

/// Generated tasks with planted faults, played in their environment; nothing is replayed the second time.
#[test]
fn validation_rejects_with_a_reason_and_goes_on_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let world = ["--set", "env.name=retail", "--set", "env.tasks=40", "--set", "env.held_out=4"];
    let whole = run(directory.path(), &[&["data", "validate", "--out", "whole"][..], &world].concat(), "");
    assert!(whole.starts_with("exit code 0"), "{whole}");
    let good = std::fs::read_to_string(directory.path().join("whole/tasks.jsonl")).unwrap();
    let mut lines: Vec<serde_json::Value> =
        good.lines().take(3).map(|line| serde_json::from_str(line).unwrap()).collect();
    lines[1]["reference"][0]["arguments"] = serde_json::json!({"order_id": "#W0"});
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect::<String>() + "{\"key\": \"half\"\n";
    std::fs::write(directory.path().join("tasks.jsonl"), text).unwrap();
    let arguments = [&["data", "validate", "tasks.jsonl", "--out", "checked"][..], &world].concat();
    let first = run(directory.path(), &arguments, "");
    assert!(first.starts_with("exit code 1") && first.contains("wrong schema"), "{first}");
    let again = run(directory.path(), &arguments, "");
    assert!(again.contains("3 of 3 tasks were judged before"), "{again}");
    let report = |text: &str| text.split("── stderr").next().unwrap().to_owned();
    assert_eq!(report(&first), report(&again));
    let kept = std::fs::read_to_string(directory.path().join("checked/tasks.jsonl")).unwrap();
    assert_eq!(kept.lines().count(), 2, "{first}");
}

#[test]
fn the_oracle_is_evaluated_beside_the_baselines_and_compared() {
    let directory = tempfile::tempdir().unwrap();
    let eval = |out: &str, more: &[&str]| {
        let arguments = [&["eval", "oracle", "--tasks", "12", "--samples", "2", "--out", out], more].concat();
        run(directory.path(), &arguments, "")
    };
    insta::assert_snapshot!("eval_oracle", eval("one", &["--fail-under", "0.9"]));
    eval("two", &[]);
    insta::assert_snapshot!("compare_same", run(directory.path(), &["compare", "one", "two"], ""));
    insta::assert_snapshot!("compare_missing", run(directory.path(), &["compare", "one@7", "two"], ""));
}

/// The tiny policy inside the binary, greedily and sampled, on the native engine.
#[test]
fn a_native_policy_is_played_both_ways() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["eval", "--tasks", "4", "--samples", "2", "--out", "out", "--json"];
    let shown = run(directory.path(), &arguments, "");
    let line = shown.lines().find(|line| line.starts_with('{')).unwrap();
    let result: serde_json::Value = serde_json::from_str(line).unwrap();
    let policies = result["results"]["groups"][0]["policies"].as_array().unwrap();
    let scored: Vec<(String, u64)> = policies
        .iter()
        .map(|policy| (policy[0].as_str().unwrap().to_owned(), policy[1]["scored"].as_u64().unwrap()))
        .collect();
    assert_eq!(scored[0], ("the recipe's model, sampled".to_owned(), 8), "{shown}");
    assert_eq!(scored[1], ("the recipe's model, greedy".to_owned(), 4), "{shown}");
    assert_eq!(scored[2], ("does nothing".to_owned(), 4), "{shown}");
    assert!(directory.path().join("out/eval.md").is_file() && directory.path().join("out/eval.json").is_file());
}

/// A model behind an API that always says it is done: on the same tasks and seeds it earns what doing nothing earns.
#[test]
fn a_remote_model_plays_the_same_tasks() {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked_at: Arc<Mutex<Vec<f64>>> = Arc::default();
    let temperatures = Arc::clone(&asked_at);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(number) = line.to_lowercase().strip_prefix("content-length:") {
                    length = number.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let asked: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert!(asked["tools"].as_array().is_some_and(|tools| !tools.is_empty()) && asked["seed"].is_u64());
            let reply = said(&asked, &mut temperatures.lock().unwrap()).to_string();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", reply.len());
            let _ = stream.write_all((head + &reply).as_bytes());
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let policy = format!("http://{address}/v1#small");
    let shown = run(directory.path(), &["eval", &policy, "--tasks", "3", "--out", "out", "--json"], "");
    let line = shown.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{shown}"));
    let result: serde_json::Value = serde_json::from_str(line).unwrap();
    let policies = &result["results"]["groups"][0]["policies"];
    let names = [0, 1, 2].map(|at: usize| policies[at][0].as_str().unwrap());
    assert_eq!(names, ["small, sampled", "small, greedy", "does nothing"]);
    assert_eq!((&policies[0][1], &policies[1][1]), (&policies[2][1], &policies[2][1]));
    assert!(shown.starts_with("exit code 0"), "{shown}");
    let at = std::mem::take(&mut *asked_at.lock().unwrap());
    assert_eq!((at[0], at[at.len() - 1]), (0.0, 1.0), "greedy is temperature 0, for a remote model too");
    let barred =
        run(directory.path(), &["eval", &policy, "--tasks", "3", "--out", "barred", "--fail-under", "0.5"], "");
    assert!(barred.starts_with("exit code 1") && barred.contains("pass@1 is 0.000, under 0.5"), "{barred}");

    // A reply truncated at its limit is the model's failure, as for a native policy, not a fault.
    let cut = format!("http://{address}/v1#cut");
    let cut = run(directory.path(), &["eval", &cut, "--tasks", "3", "--only", "greedy", "--out", "cut", "--json"], "");
    let line = cut.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{cut}"));
    let row =
        serde_json::from_str::<serde_json::Value>(line).unwrap()["results"]["groups"][0]["policies"][0][1].clone();
    assert_eq!((&row["scored"], &row["faults"]), (&3.into(), &0.into()), "{cut}");

    // Tokens as the server counts them, and what they cost: nothing was solved, so there is no cost of a solved task.
    let priced = format!("http://{address}/v1#counted");
    let arguments = ["eval", &priced, "--tasks", "3", "--only", "sampled", "--price", "2,10", "--out", "counted"];
    let priced = run(directory.path(), &arguments, "");
    assert!(priced.contains("cost per solved"), "{priced}");
    let recorded = std::fs::read_to_string(directory.path().join("counted/eval.json")).unwrap();
    let spent = serde_json::from_str::<serde_json::Value>(&recorded).unwrap()["results"]["groups"][0]["policies"][0][1]
        ["spent"]
        .clone();
    assert_eq!((&spent["tokens"]["prompt"], &spent["tokens"]["completion"]), (&3000.into(), &30.into()));
    assert!((spent["cost"].as_f64().unwrap() - 0.0063).abs() < 1e-9 && spent.get("cost_per_solved").is_none());
    let wrong = run(directory.path(), &["eval", "oracle", "--price", "dear"], "");
    assert!(wrong.starts_with("exit code 2") && wrong.contains("READ,WRITTEN"), "{wrong}");

    // All of them in one table.
    let all = run(directory.path(), &["compare", "cut", "out", "counted", "--kind", "sampled"], "");
    assert!(all.starts_with("exit code 2") && all.contains("cut has no sampled evaluation"), "{all}");
    let oracle = run(directory.path(), &["eval", "oracle", "--tasks", "3", "--out", "oracle"], "");
    assert!(oracle.starts_with("exit code 0"), "{oracle}");
    let all = run(directory.path(), &["compare", "oracle", "out", "counted"], "");
    assert!(all.starts_with("exit code 0") && all.contains("On the 3 tasks that all were scored on"), "{all}");
    assert!(all.contains("-1.000"), "{all}");
}

/// Reply of the stand-in, by the model's name, and the temperature of the request.
fn said(asked: &serde_json::Value, temperatures: &mut Vec<f64>) -> serde_json::Value {
    temperatures.extend(asked["temperature"].as_f64());
    let reason = if asked["model"] == "cut" { "length" } else { "stop" };
    let mut reply = serde_json::json!({"choices": [{"message": {"role": "assistant", "content": "Done."}, "finish_reason": reason}]});
    if asked["model"] == "counted" {
        reply["usage"] = serde_json::json!({"prompt_tokens": 1000, "completion_tokens": 10});
    }
    reply
}

/// Checkpoint comparison of a run.
#[test]
fn checkpoints_of_a_run_are_one_table() {
    let directory = tempfile::tempdir().unwrap();
    let sets =
        ["train.steps=2", "train.groups=2", "train.group_size=2", "eval.tasks=4", "env.tasks=16", "env.held_out=8"];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let trained = run(directory.path(), &[&["train", "--run", "run", "--samples", "0"][..], &sets].concat(), "");
    assert!(trained.starts_with("exit code 0") || trained.starts_with("exit code 1"), "{trained}");
    let arguments = ["eval", "run", "--checkpoint", "0,last", "--split", "both", "--tasks", "4", "--samples", "2"];
    let shown = run(directory.path(), &arguments, "");
    assert!(shown.starts_with("exit code 0"), "{shown}");
    let first = shown.lines().find(|line| line.starts_with("all (")).unwrap_or_default();
    assert!(first.contains("run at step 2, sampled"), "the newest is the headline: {shown}");
    for words in ["checkpoint 0", "last (2)", "held-out tasks (4)", "training tasks (4)", "run at step 0, sampled"] {
        assert!(shown.contains(words), "no {words} in {shown}");
    }
    // The last evaluation of the directory is that of the last checkpoint, and each is there by its step.
    let compared = run(directory.path(), &["compare", "run/evals/1@0", "run/evals/1@2", "--json"], "");
    let last = run(directory.path(), &["compare", "run/evals/1@0", "run/evals/1", "--json"], "");
    let rows = |text: &str| {
        let line = text.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{text}"));
        serde_json::from_str::<serde_json::Value>(line).unwrap()["rows"].clone()
    };
    assert_eq!(rows(&compared), rows(&last));
    let wrong = run(directory.path(), &["eval", "run", "--checkpoint", "0,7"], "");
    assert!(wrong.starts_with("exit code 2") && wrong.contains("no checkpoint 7"), "{wrong}");
}
