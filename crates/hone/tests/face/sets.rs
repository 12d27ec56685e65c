//! Task sets, evaluations and comparisons as a user sees them.

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

/// Generated tasks with planted faults, played in their environment; the second time nothing is played again.
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

/// The tiny policy inside the binary, greedily and sampled: the native engine's way.
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

/// A model behind an API that always says it is done: the same tasks, the same seeds, and it earns what doing nothing earns.
#[test]
fn a_remote_model_plays_the_same_tasks() {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
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
            let reply =
                r#"{"choices": [{"message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}]}"#;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", reply.len());
            let _ = stream.write_all((head + reply).as_bytes());
        }
    });
    let directory = tempfile::tempdir().unwrap();
    let policy = format!("http://{address}/v1#small");
    let shown = run(directory.path(), &["eval", &policy, "--tasks", "3", "--out", "out", "--json"], "");
    let line = shown.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{shown}"));
    let result: serde_json::Value = serde_json::from_str(line).unwrap();
    let policies = &result["results"]["groups"][0]["policies"];
    assert_eq!((&policies[0][0], &policies[1][0]), (&"small".into(), &"does nothing".into()));
    assert_eq!(policies[0][1], policies[1][1]);
    assert!(shown.starts_with("exit code 0"), "{shown}");
    let barred =
        run(directory.path(), &["eval", &policy, "--tasks", "3", "--out", "barred", "--fail-under", "0.5"], "");
    assert!(barred.starts_with("exit code 1") && barred.contains("pass@1 is 0.000, under 0.5"), "{barred}");
}
