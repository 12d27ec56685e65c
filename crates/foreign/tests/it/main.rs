//! Records of other trainers, written by their own tools where those can be had: TRL's table (pandas, snappy and zstd), ART's
//! and verifiers' own writers. SkyRL's and W&B's rows follow their documented form.
#![expect(clippy::unwrap_used, reason = "tests")]

mod doctor;
mod hostile;

use std::path::{Path, PathBuf};

use hone_foreign::{Curve, Record, read};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn record(name: &str) -> Record {
    read(&data(name)).unwrap()
}

#[test]
fn trl_tables_by_row() {
    let record = record("trl");
    assert_eq!((record.format, record.episodes.len(), record.group_size()), ("TRL completions", 48, 4));
    assert_eq!(record.components, [("correct_reward".to_owned(), 1.0), ("format_reward".to_owned(), 1.0)]);
    assert_eq!(record.steps().into_iter().collect::<Vec<_>>(), [1, 2, 3]);
    let first = &record.episodes[0];
    assert_eq!(first.prompt.as_deref(), Some("Be brief.\nQuestion 0: what is 0+1?"));
    assert!(first.completion.as_deref().unwrap().starts_with("The answer is "));
    for episode in &record.episodes {
        let right = !episode.completion.as_deref().unwrap().contains("99");
        assert_eq!(episode.rewards["correct_reward"], f64::from(u8::from(right)), "{episode:?}");
        assert_eq!(episode.total, Some(1.0 + f64::from(u8::from(right))));
    }
}

/// Plain texts, steps as texts, zstd, and a reward that was not given everywhere: absent, not 0.
#[test]
fn a_reward_that_was_not_scored_is_absent() {
    let record = record("trl-plain.parquet");
    let totals: Vec<Option<f64>> = record.episodes.iter().map(|episode| episode.total).collect();
    assert_eq!(totals, [Some(0.5), None, Some(1.0), Some(0.25)]);
    assert_eq!(record.episodes[2].completion.as_deref(), Some("z é"));
    assert!(record.episodes.iter().all(|episode| episode.step == 7));
}

#[test]
fn art_groups_are_lines() {
    let record = record("art");
    assert_eq!((record.format, record.episodes.len(), record.group_size()), ("ART trajectories", 24, 4));
    assert_eq!(record.episodes.iter().filter(|episode| episode.truncated).count(), 6);
    let first = &record.episodes[0];
    assert_eq!((first.prompt.as_deref(), first.total), (Some("What is 0?"), Some(0.0)));
    assert_eq!(first.completion.as_deref(), Some("It is unknown."));
    assert!(record.components.contains(&("correct".to_owned(), 0.0)), "metrics are watched, not paid");
}

/// The table that newer versions of ART write holds what its JSON lines hold. A group that broke as a whole has no episode.
#[test]
fn art_tables_are_read_as_its_lines() {
    let record = read(&data("art-table.parquet")).unwrap();
    assert_eq!((record.format, record.episodes.len(), record.group_size()), ("ART trajectories", 12, 4));
    assert_eq!(record.episodes.iter().filter(|episode| episode.truncated).count(), 3);
    assert_eq!(record.episodes[0].prompt.as_deref(), Some("What is 0?"));
    assert!(record.components.contains(&("correct".to_owned(), 0.0)));
}

#[test]
fn verifiers_traces_and_results() {
    let traces = record("verifiers");
    assert_eq!((traces.episodes.len(), traces.group_size()), (12, 4));
    assert_eq!(traces.components, [("correct".to_owned(), 1.0), ("short".to_owned(), 0.2)]);
    let broken: Vec<_> = traces.episodes.iter().filter_map(|episode| episode.fault.as_deref()).collect();
    assert_eq!(broken, ["the sandbox is gone"]);
    let totals = traces.episodes.iter().filter_map(|episode| episode.total);
    assert!(totals.clone().count() == 11 && totals.into_iter().all(|total| total == 0.2 || total == 1.2));
    let results = record("results.jsonl");
    assert_eq!((results.format, results.episodes.len(), results.group_size()), ("verifiers results", 9, 3));
    assert_eq!(results.episodes[0].total, Some(1.0));
}

#[test]
fn skyrl_dumps_have_endings_and_scores_by_token() {
    let record = record("skyrl");
    assert_eq!((record.format, record.episodes.len(), record.group_size()), ("SkyRL dump", 16, 4));
    assert!(record.episodes.iter().all(|episode| episode.step == 10 && episode.total.is_some()));
    assert_eq!(record.episodes.iter().filter(|episode| episode.truncated).count(), 4);
}

#[test]
fn wandb_histories_are_curves() {
    let record = record("wandb");
    assert_eq!((record.format, record.curves.len()), ("wandb history", 30));
    assert_eq!(record.curves[&21][&Curve::GradNorm], 90.0);
    let chart = read(&data("wandb-chart.csv")).unwrap();
    assert!((chart.curves[&4][&Curve::Kl] - 0.4).abs() < 1e-12);
}
