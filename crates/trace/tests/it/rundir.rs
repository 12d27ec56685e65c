//! The run directory: killed at any byte it reads back, and readers see whole records.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use futures::executor::block_on;

use crate::common::trace;
use hone_trace::Trace;
use hone_trace::rundir::{Position, RunDir, RunDirError, RunReader};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn metric(step: u64) -> Map<String, Value> {
    let Value::Object(record) = json!({"step": step, "reward/mean": 0.5}) else { unreachable!() };
    record
}

fn sample(number: u32) -> Trace {
    trace(&format!("task-{number}"), &[number, number + 1, number + 2])
}

/// Ten metrics and ten events, thirty traces in ten hand-overs of three.
fn written(directory: &Path) -> PathBuf {
    let path = directory.join("run");
    let mut run = RunDir::create(&path, "seed = 1\n").unwrap();
    for step in 0..10 {
        run.metrics(&metric(step)).unwrap();
        run.event(&json!({"event": "step", "step": step})).unwrap();
        let traces: Vec<_> = (0..3).map(|i| sample(step as u32 * 3 + i)).collect();
        assert_eq!(run.traces(&traces).unwrap(), step * 3..step * 3 + 3);
    }
    path
}

#[test]
fn a_run_reads_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = written(directory.path());
    let run = RunReader::open(&path).unwrap();
    assert_eq!(run.recipe().unwrap(), "seed = 1\n");
    assert_eq!(run.metrics().unwrap().records.len(), 10);
    assert_eq!(run.events().unwrap().records[9]["step"], 9);
    let traces = run.traces().unwrap();
    assert_eq!(traces.len(), 30);
    assert_eq!(traces.get(17).unwrap(), sample(17));
    assert_eq!(traces.iter().map(Result::unwrap).collect::<Vec<_>>(), (0..30).map(sample).collect::<Vec<_>>());
    assert!(matches!(traces.get(30), Err(RunDirError::NoSuchTrace { asked: 30, have: 30 })));
}

#[test]
fn segments_are_plain_zstd_of_json_lines() {
    let directory = tempfile::tempdir().unwrap();
    let path = written(directory.path());
    let text = zstd::decode_all(&fs::read(path.join("traces/00000.jsonl.zst")).unwrap()[..]).unwrap();
    let lines: Vec<Value> =
        text.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(|l| serde_json::from_slice(l).unwrap()).collect();
    assert_eq!(lines.len(), 30);
    assert_eq!(lines[4]["task"], "task-4");
}

#[test]
fn one_writer_at_a_time_and_no_run_over_a_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let run = RunDir::create(&path, "").unwrap();
    assert!(matches!(RunDir::resume(&path), Err(RunDirError::Locked(_))));
    assert!(RunReader::open(&path).is_ok());
    drop(run);
    assert!(RunDir::resume(&path).is_ok());
    assert!(matches!(RunDir::create(&path, ""), Err(RunDirError::Exists(_))));
    assert!(matches!(RunDir::resume(directory.path()), Err(RunDirError::NotARun(_))));
}

#[test]
fn a_run_is_not_mixed_with_what_lies_there() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let beside = path.join("run");
    fs::create_dir_all(beside.join("policy")).unwrap();
    assert!(RunDir::create(&beside, "").is_ok(), "the policy a run starts from may lie there");
    fs::remove_dir_all(beside).unwrap();
    fs::write(path.join("notes.txt"), "mine").unwrap();
    assert!(matches!(RunDir::create(path, ""), Err(RunDirError::Foreign(_))));
    assert_eq!(fs::read_dir(path).unwrap().count(), 1);
}

#[test]
fn a_recipe_alone_is_a_project_and_no_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("recipe.toml"), "name = \"mine\"\n").unwrap();
    fs::write(path.join("tasks.jsonl"), "").unwrap();
    assert!(matches!(RunDir::create(path, ""), Err(RunDirError::Foreign(_))));
    for error in [RunReader::open(path).unwrap_err(), RunDir::resume(path).unwrap_err()] {
        let error = error.to_string();
        assert!(
            error.contains("is a project (recipe.toml, but no events.jsonl or metrics.jsonl), not a run; "),
            "{error}"
        );
        assert!(error.contains("recipe.toml` starts one"), "{error}");
    }
    assert_eq!(fs::read_to_string(path.join("recipe.toml")).unwrap(), "name = \"mine\"\n");
    assert_eq!(fs::read_dir(path).unwrap().count(), 2, "nothing was scattered");
}

#[test]
fn a_run_killed_right_after_its_creation_is_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    drop(RunDir::create(&path, "").unwrap());
    for file in ["events.jsonl", "metrics.jsonl", "traces/index"] {
        fs::remove_file(path.join(file)).unwrap();
    }
    assert!(RunReader::open(&path).is_ok() && RunDir::resume(&path).is_ok());
    fs::remove_file(path.join("recipe.toml")).unwrap();
    let error = RunReader::open(&path).unwrap_err().to_string();
    assert!(error.contains("its recipe.toml is missing; put the recipe.toml back"), "{error}");
}

#[test]
fn of_runs_that_begin_at_once_in_one_directory_one_does() {
    for _ in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let path = &directory.path().join("run");
        let begun = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| RunDir::create(path, ""))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(begun.len(), 1);
    }
}

#[test]
fn a_checkpoint_is_whole_or_absent() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let mut run = RunDir::create(&path, "").unwrap();
    block_on(run.checkpoint(3, async |dir| fs::write(dir.join("weights"), "w3"))).unwrap();
    let failed = block_on(run.checkpoint(4, async |dir| {
        fs::write(dir.join("weights"), "half")?;
        Err(std::io::Error::other("disk full"))
    }));
    assert!(failed.unwrap_err().to_string().contains("disk full"));
    drop(run);
    let (run, _) = RunDir::resume(&path).unwrap();
    let found = RunReader::open(run.path()).unwrap().checkpoints().unwrap();
    assert_eq!(found, vec![(3, path.join("checkpoints/step-00000003"))]);
    assert!(!path.join("checkpoints/step-00000004.unfinished").exists());
}

#[test]
fn old_checkpoints_go_and_the_best_is_found_by_its_link() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let mut run = RunDir::create(&path, "").unwrap();
    for step in 1..=4 {
        block_on(run.checkpoint(step, async |dir| fs::write(dir.join("weights"), [step as u8]))).unwrap();
        run.mark_best(step.min(2)).unwrap();
    }
    assert_eq!(run.prune(|step| step == 2 || step > 3).unwrap(), [1, 3]);
    let kept: Vec<u64> = RunReader::open(&path).unwrap().checkpoints().unwrap().iter().map(|(step, _)| *step).collect();
    assert_eq!(kept, [2, 4]);
    assert_eq!(fs::read(path.join("checkpoints/best/weights")).unwrap(), [2]);
}

/// Rewinding sets later records aside, complete and readable, and new records take their place.
#[test]
fn going_back_keeps_what_is_superseded() {
    let directory = tempfile::tempdir().unwrap();
    let path = written(directory.path());
    let (mut run, _) = RunDir::resume(&path).unwrap();
    let position = run.position();
    run.metrics(&metric(10)).unwrap();
    run.event(&json!({"event": "step", "step": 10})).unwrap();
    run.traces(&[sample(900), sample(901)]).unwrap();
    drop(run);

    let (mut run, _) = RunDir::resume(&path).unwrap();
    let superseded = run.rewind(position).unwrap();
    assert_eq!((superseded.traces, superseded.directory.as_deref()), (2, Some("superseded/000")));
    assert_eq!(run.position(), position);
    assert_eq!(run.rewind(position).unwrap().directory, None, "nothing is left to set aside");
    assert_eq!(run.traces(&[sample(30)]).unwrap(), 30..31);
    run.metrics(&metric(10)).unwrap();

    let reader = RunReader::open(&path).unwrap();
    assert_eq!(reader.metrics().unwrap().records.len(), 11);
    let traces: Vec<_> = reader.traces().unwrap().iter().map(Result::unwrap).collect();
    assert_eq!(traces, (0..31).map(sample).collect::<Vec<_>>());
    let aside = path.join("superseded/000");
    assert_eq!(fs::read_to_string(aside.join("events.jsonl")).unwrap(), "{\"event\":\"step\",\"step\":10}\n");
    let text = zstd::decode_all(fs::File::open(aside.join("00000.jsonl.zst")).unwrap()).unwrap();
    assert_eq!(String::from_utf8(text).unwrap().lines().count(), 2);

    // To the beginning, but not to a position that was never reached.
    run.rewind(Position::default()).unwrap();
    assert_eq!(run.traces(&[sample(7)]).unwrap(), 0..1);
    assert!(matches!(run.rewind(position), Err(RunDirError::Cut { .. })));
    drop(run);
    let (run, recovered) = RunDir::resume(&path).unwrap();
    assert_eq!((run.position().traces, recovered.reindexed), (1, 0));
}

#[test]
fn a_damaged_record_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = written(directory.path());
    let metrics = path.join("metrics.jsonl");
    let text = fs::read_to_string(&metrics).unwrap().replacen("{\"step\":3", "{\"step\":?", 1);
    fs::write(&metrics, text).unwrap();
    let error = RunReader::open(&path).unwrap().metrics().unwrap_err().to_string();
    assert!(error.contains("record 4"), "{error}");
    let segment = path.join("traces/00000.jsonl.zst");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[20] ^= 1;
    fs::write(&segment, bytes).unwrap();
    assert!(RunReader::open(&path).unwrap().traces().unwrap().get(0).is_err());
}

#[test]
fn a_lost_index_is_rebuilt() {
    let directory = tempfile::tempdir().unwrap();
    let path = written(directory.path());
    fs::remove_file(path.join("traces/index")).unwrap();
    let (_run, recovered) = RunDir::resume(&path).unwrap();
    assert_eq!((recovered.reindexed, recovered.dropped.len()), (30, 0));
    assert_eq!(RunReader::open(&path).unwrap().traces().unwrap().get(29).unwrap(), sample(29));
}

/// Traces rewritten by a script as one frame are readable with the old index beside them, or with none.
#[test]
fn traces_that_were_edited_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = written(directory.path());
    let segment = path.join("traces/00000.jsonl.zst");
    let text = String::from_utf8(zstd::decode_all(fs::File::open(&segment).unwrap()).unwrap()).unwrap();
    let kept: String =
        text.lines().filter(|line| !line.is_empty()).skip(10).fold(String::new(), |all, line| all + line + "\n");
    fs::write(&segment, zstd::encode_all(kept.as_bytes(), 1).unwrap()).unwrap();
    for lost in [false, true] {
        if lost {
            fs::remove_file(path.join("traces/index")).unwrap();
        }
        let traces = RunReader::open(&path).unwrap().traces().unwrap();
        assert_eq!(traces.len(), 20, "without the index: {lost}");
        assert_eq!(traces.get(19).unwrap(), sample(29));
    }
}

#[test]
fn a_reader_beside_a_writer_sees_whole_records_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let mut run = RunDir::create(&path, "").unwrap();
    let reader = RunReader::open(&path).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut seen = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                reader.metrics().unwrap();
                let traces = reader.traces().unwrap();
                assert!(traces.len() >= seen, "records never disappear");
                seen = traces.len();
                if seen > 0 {
                    assert_eq!(traces.get(seen - 1).unwrap(), sample(seen as u32 - 1));
                }
            }
        });
        for number in 0..200 {
            run.metrics(&metric(number)).unwrap();
            run.traces(&[sample(number as u32)]).unwrap();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        watch.join().unwrap();
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Any file cut at any byte: a prefix reads back, resume reports what it dropped, and the run continues.
    #[test]
    fn killed_at_any_byte(file in 0..4usize, share in 0.0..1.0f64) {
        let directory = tempfile::tempdir().unwrap();
        let path = written(directory.path());
        let name = ["metrics.jsonl", "events.jsonl", "traces/00000.jsonl.zst", "traces/index"][file];
        let victim = path.join(name);
        let before = fs::metadata(&victim).unwrap().len();
        let cut = (before as f64 * share) as u64;
        OpenOptions::new().write(true).open(&victim).unwrap().set_len(cut).unwrap();

        // A reader that comes first sees whole records and no error.
        let reader = RunReader::open(&path).unwrap();
        reader.metrics().unwrap();
        reader.events().unwrap();
        let visible = reader.traces().unwrap();
        for (number, read) in visible.iter().enumerate() {
            prop_assert_eq!(read.unwrap(), sample(number as u32));
        }

        let (mut run, recovered) = RunDir::resume(&path).unwrap();
        let kept = RunReader::open(&path).unwrap();
        let traces = kept.traces().unwrap().len();
        if name.ends_with("jsonl") {
            let metrics = kept.metrics().unwrap();
            let events = kept.events().unwrap();
            prop_assert_eq!(metrics.incomplete + events.incomplete, 0);
            let dropped: u64 = recovered.dropped.iter().map(|(_, bytes)| bytes).sum();
            prop_assert_eq!(fs::metadata(&victim).unwrap().len() + dropped, cut);
            prop_assert_eq!(traces, 30);
        } else if name.ends_with("index") {
            // Everything is still in the segment: nothing is lost.
            prop_assert_eq!(traces, 30);
            prop_assert_eq!(recovered.reindexed, 30 - cut / 32);
        } else {
            prop_assert!(traces <= 30 && traces.is_multiple_of(3));
        }
        run.metrics(&metric(99)).unwrap();
        let next = run.traces(&[sample(500)]).unwrap();
        prop_assert_eq!(next.start, traces);
        let kept = RunReader::open(&path).unwrap();
        let metrics = kept.metrics().unwrap().records;
        prop_assert_eq!(&metrics.last().unwrap()["step"], 99);
        prop_assert_eq!(kept.traces().unwrap().get(traces).unwrap(), sample(500));
    }

    /// Hostile bytes instead of records: errors, never a panic.
    #[test]
    fn garbage_never_panics(file in 0..4usize, garbage in prop::collection::vec(any::<u8>(), 0..200)) {
        let directory = tempfile::tempdir().unwrap();
        let path = written(directory.path());
        let name = ["metrics.jsonl", "events.jsonl", "traces/00000.jsonl.zst", "traces/index"][file];
        fs::write(path.join(name), garbage).unwrap();
        let reader = RunReader::open(&path).unwrap();
        let _ = reader.metrics();
        let _ = reader.events();
        if let Ok(traces) = reader.traces() {
            let _ = traces.iter().count();
        }
        let _ = RunDir::resume(&path);
    }
}
