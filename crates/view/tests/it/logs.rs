//! Logs of a run in progress: the same bytes as an export of the run, however often it was interrupted.

use std::fs;
use std::path::{Path, PathBuf};

use hone_view::exports::FORMATS;
use hone_view::exports::live::Logs;
use hone_view::run::Run;

use crate::made::{Made, STEPS};

/// The file that `hone export` writes.
fn exported(run: &Path, format: &str) -> Vec<u8> {
    let out = tempfile::tempdir().unwrap();
    let format = FORMATS.iter().find(|known| known.name == format).unwrap();
    fs::read(&format.write(&Run::open(run).unwrap(), out.path()).unwrap()[0]).unwrap()
}

/// The only file in the only directory of a log.
fn logged(log: &Path) -> PathBuf {
    let only = |directory: &Path| {
        let found: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].clone()
    };
    only(&only(log))
}

fn logs(root: &Path) -> Logs {
    Logs::new(&root.join("run"), Some(&root.join("tensorboard")), Some(&root.join("wandb")))
}

#[test]
fn a_log_grows_into_the_export() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let mut logs = logs(root);
    assert!(logs.update(None).is_empty(), "a run that has not begun");
    let mut made = Made::begin(&root.join("run"));
    made.evaluation(0);
    assert!(logs.update(None).is_empty());
    let mut sizes = vec![fs::read(logged(&root.join("wandb"))).unwrap().len()];
    for step in 1..=STEPS {
        made.step(step);
        // The last step is evaluated: its row waits for that.
        assert!(logs.update((step == STEPS).then_some(step)).is_empty());
        sizes.push(fs::read(logged(&root.join("wandb"))).unwrap().len());
    }
    assert!(sizes.windows(2).take(STEPS as usize - 1).all(|pair| pair[0] < pair[1]), "{sizes:?}");
    assert_eq!(sizes[STEPS as usize - 1], sizes[STEPS as usize]);
    made.evaluation(STEPS);
    assert!(logs.update(None).is_empty() && logs.finish().is_empty());
    for format in ["tensorboard", "wandb"] {
        let path = logged(&root.join(format));
        assert!(fs::read(&path).unwrap() == exported(&root.join("run"), format), "{}", path.display());
    }
}

#[test]
fn a_resumed_run_goes_on_in_its_file_without_a_step_twice() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let run = root.join("run");
    drop(Made::whole(&run));
    assert!(logs(root).finish().is_empty());
    let whole = ["metrics.jsonl", "events.jsonl"].map(|name| fs::read_to_string(run.join(name)).unwrap());
    for format in ["tensorboard", "wandb"] {
        // Killed in the middle of a record.
        let path = logged(&root.join(format));
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    }
    // The run rewinds to the checkpoint of step 2.
    let lines = |text: &str, count: usize| text.lines().take(count).map(|line| format!("{line}\n")).collect::<String>();
    fs::write(run.join("metrics.jsonl"), lines(&whole[0], 2)).unwrap();
    fs::write(run.join("events.jsonl"), lines(&whole[1], 5)).unwrap();
    let mut again = logs(root);
    assert!(again.update(None).is_empty());
    for format in ["tensorboard", "wandb"] {
        assert!(fs::read(logged(&root.join(format))).unwrap() == exported(&run, format), "{format}");
    }
    fs::write(run.join("metrics.jsonl"), &whole[0]).unwrap();
    fs::write(run.join("events.jsonl"), &whole[1]).unwrap();
    assert!(again.finish().is_empty());
    for format in ["tensorboard", "wandb"] {
        assert!(fs::read(logged(&root.join(format))).unwrap() == exported(&run, format), "{format}");
    }
}

#[test]
fn a_log_that_cannot_be_written_is_said_once() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    drop(Made::whole(&root.join("run")));
    fs::write(root.join("wandb"), "a file, not a directory").unwrap();
    let mut logs = logs(root);
    let warnings = logs.update(None);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("log.wandb: cannot write ") && warnings[0].contains("; the run continues"),
        "{warnings:?}"
    );
    assert!(logs.update(None).is_empty() && logs.finish().is_empty());
    assert!(fs::read(logged(&root.join("tensorboard"))).unwrap() == exported(&root.join("run"), "tensorboard"));
}
