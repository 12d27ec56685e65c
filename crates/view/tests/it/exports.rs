//! Exports: the same numbers as the run, and text that stays text.

use std::fs;

use hone_view::exports::FORMATS;
use hone_view::run::Run;
use serde_json::Value;

use crate::made::{HOSTILE, Made, STEPS};

fn exported(name: &str) -> (tempfile::TempDir, Vec<std::path::PathBuf>) {
    let directory = tempfile::tempdir().unwrap();
    let _made = Made::whole(&directory.path().join("run"));
    let run = Run::open(&directory.path().join("run")).unwrap();
    let format = FORMATS.iter().find(|format| format.name == name).unwrap();
    let files = format.write(&run, &directory.path().join("out")).unwrap();
    assert!(!files.is_empty() && files.iter().all(|file| file.metadata().unwrap().len() > 0), "{files:?}");
    (directory, files)
}

#[test]
fn trl_gets_completions_with_their_rewards() {
    let (_directory, files) = exported("trl");
    assert_eq!(files.len() as u64, STEPS);
    let rows: Vec<Value> =
        fs::read_to_string(&files[2]).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 16);
    assert_eq!((&rows[0]["step"], &rows[0]["solved"], &rows[0]["advantage"]), (&3.into(), &1.0.into(), &1.0.into()));
    assert_eq!(rows[0]["prompt"][1]["content"], "find my order");
    assert_eq!(rows[0]["completion"][0]["tool_calls"][0]["function"]["name"], "find");
    assert_eq!(rows[8]["advantage"], Value::Null, "no signal is not zero");
    let hostile = rows[2]["completion"].as_array().unwrap().last().unwrap();
    assert_eq!(hostile["content"], HOSTILE);
}

#[test]
fn csv_quotes_what_it_must() {
    let (_directory, files) = exported("csv");
    let rollouts = fs::read_to_string(files.iter().find(|file| file.ends_with("rollouts.csv")).unwrap()).unwrap();
    assert!(rollouts.starts_with("\"trace\",\"step\","), "{}", &rollouts[..80]);
    assert_eq!(rollouts.matches("\r\n").count(), 1 + 8 + 16 * STEPS as usize);
}

#[test]
fn every_format_is_written() {
    for name in ["parquet", "tensorboard", "wandb", "inspect", "otlp"] {
        let (_directory, files) = exported(name);
        for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "json")) {
            let _: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        }
    }
}
