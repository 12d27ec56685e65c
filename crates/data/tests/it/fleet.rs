//! The published tables of Fleet's v0.1 and v0.2, from generated task files of those shapes.

use std::path::Path;

use hone_data::diff::{Diff, Version};
use hone_data::stats::{Stats, characters};
use serde_json::{Value, json};

/// Environment, then train and eval tasks of v0.1 and of v0.2.
const SHAPES: [(&str, [[usize; 2]; 2]); 10] = [
    ("booking", [[1070, 19], [1070, 19]]),
    ("dropbox", [[2, 0], [1, 0]]),
    ("fira", [[54, 0], [51, 0]]),
    ("github", [[1827, 38], [1827, 38]]),
    ("google-maps", [[13, 0], [7, 0]]),
    ("hubspot", [[12, 0], [10, 0]]),
    ("outlook", [[0, 24], [0, 19]]),
    ("reddit", [[246, 0], [188, 0]]),
    ("ticketmaster", [[222, 0], [222, 0]]),
    ("zillow", [[76, 0], [33, 0]]),
];

/// A task as Fleet writes it; v0.2 added variables to 19 of 20.
fn task(env: &str, side: usize, at: usize, version: usize) -> Value {
    let side = ["train", "eval"][side];
    let mut task = json!({"key": format!("{env}-{side}-{at}"), "env_id": env, "prompt": format!("Task {at} of {env}, {side}."),
        "version": "v0.0.74", "data_id": "kinesis", "data_version": "v0.0.14", "task_modality": "tool_use",
        "verifier_func": "def validate_task(env, final_answer=None): return 1"});
    if version == 1 && at % 20 != 7 {
        let variables = json!({"CURRENT_DATE": "2025-01-31"});
        // As an object or as its JSON text: both occur.
        task["env_variables"] = if at.is_multiple_of(2) { variables } else { variables.to_string().into() };
    }
    task
}

fn write(directory: &Path, version: usize) -> [String; 2] {
    [0, 1].map(|side| {
        let tasks = SHAPES
            .iter()
            .flat_map(|(env, counts)| (0..counts[version][side]).map(move |at| task(env, side, at, version)));
        let tasks: Vec<Value> = tasks.collect();
        let path = directory.join(format!("v0.{}-{}.json", version + 1, ["train", "eval"][side]));
        // An array, and an object with one: Fleet uses both.
        let text = if side == 0 { json!(tasks) } else { json!({"version": "v0", "tasks": tasks}) };
        std::fs::write(&path, serde_json::to_string_pretty(&text).unwrap()).unwrap();
        path.display().to_string()
    })
}

fn stats(files: &[String; 2]) -> Stats {
    let (rows, issues) = crate::read(&files.each_ref().map(String::as_str), None);
    assert_eq!(issues, []);
    let mut stats = Stats::new("characters");
    rows.iter().for_each(|row| stats.add(row, &characters));
    stats.finish()
}

#[test]
fn the_tables_of_both_versions_are_reproduced() {
    let directory = tempfile::tempdir().unwrap();
    for (version, total) in [(0, 3603), (1, 3485)] {
        let stats = stats(&write(directory.path(), version));
        for (env, counts) in SHAPES {
            let [train, eval] = counts[version].map(|count| count as u64);
            let found = &stats.environments[env];
            assert_eq!((found.train, found.eval, found.total, found.unsplit), (train, eval, train + eval, 0), "{env}");
        }
        assert_eq!(stats.all.total, total);
        let share = stats.all.with_variables as f64 / total as f64;
        assert!(if version == 0 { share == 0.0 } else { (share - 0.95).abs() < 0.005 }, "{share}");
        let table = stats.table().markdown();
        for line in ["| github | 1,827 | 38 | 1,865 |", "| booking | 1,070 | 19 | 1,089 |"] {
            assert!(table.contains(line), "{table}");
        }
    }
}

#[test]
fn the_difference_names_the_118_removed_tasks_and_the_coverage() {
    let directory = tempfile::tempdir().unwrap();
    let version = |number| {
        let files = write(directory.path(), number);
        let (rows, _) = crate::read(&files.each_ref().map(String::as_str), None);
        let mut version = Version::default();
        rows.iter().for_each(|row| version.add(row));
        version
    };
    let diff = Diff::of(&version(0), &version(1));
    assert_eq!((diff.added(), diff.removed(), diff.leaks.len()), (0, 118, 0));
    for (env, [[train, eval], [train_after, eval_after]]) in SHAPES {
        assert_eq!(diff.environments[env].removed.len(), train + eval - train_after - eval_after, "{env}");
    }
    assert!(diff.environments["zillow"].removed.contains(&"zillow-train-75".to_owned()));
    assert!(diff.environments["github"].edited.iter().all(|edited| edited.fields == ["variables"]));
    let all = diff.table().text();
    let last = all.lines().last().unwrap();
    assert!(last.contains("118") && last.contains("0 %") && last.contains("95 %"), "{all}");
    assert_eq!(diff.names(usize::MAX).matches("\n  ").count(), 118 + diff.edited());
}

#[test]
fn a_task_that_was_evaluated_on_and_is_trained_on_is_a_leak() {
    let directory = tempfile::tempdir().unwrap();
    let version = |name: &str, tasks: Value| {
        let path = directory.path().join(name);
        std::fs::write(&path, tasks.to_string()).unwrap();
        let mut version = Version::default();
        crate::read(&[path.to_str().unwrap()], None).0.iter().for_each(|row| version.add(row));
        version
    };
    let task = |key: &str, prompt: &str, split: &str| json!({"key": key, "env": "e", "prompt": prompt, "split": split});
    let before =
        version("a.json", json!([task("1", "one", "eval"), task("2", "two", "eval"), task("3", "three", "eval")]));
    let after = version(
        "b.json",
        json!([
            task("1", "one", "train"),
            task("x", "two", "train"),
            task("3", "three", "eval"),
            task("4", "four", "train")
        ]),
    );
    let leaks = Diff::of(&before, &after).leaks;
    let leaks: Vec<_> = leaks.iter().map(|leak| (leak.key.as_str(), leak.trained_as.as_str())).collect();
    assert_eq!(leaks, [("1", "1"), ("2", "x")]);
}
