//! Sudden drop in success: reported immediately, and rolled back if the recipe asks for it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hone_arena::rewards::{Case, Measure};
use hone_trace::Verdict;
use hone_trace::rundir::RunReader;
use hone_train::checkpoint::newest;
use hone_train::events::{Event, GuardEvent};
use hone_train::ledger::Ledger;
use hone_train::report::RunReport;
use hone_train::run::{Warning, Watch, extended_recipe, resume, train};

use crate::tiny::{Even, Silent, paid_for, recipe, setup};

/// Pays for even ids, and nothing while the switch is on.
struct Switched(Arc<AtomicBool>);

impl Measure for Switched {
    fn measure(&self, case: &Case) -> Verdict {
        if self.0.load(Ordering::Relaxed) { Verdict::scored(0.0, "off") } else { Even.measure(case) }
    }
}

/// Turns the switch on after step 3, and off when the guard reports.
struct Cliff {
    off: Arc<AtomicBool>,
    said: Vec<String>,
}

impl Watch for Cliff {
    fn stepped(&mut self, ledger: &Ledger) {
        if ledger.step == 3 {
            self.off.store(true, Ordering::Relaxed);
        }
    }

    fn warned(&mut self, _: u64, warning: &Warning) {
        self.off.store(false, Ordering::Relaxed);
        self.said.push(warning.to_string());
    }
}

const SETTINGS: [&str; 4] = ["train.steps=6", "train.groups=12", "train.mini_batch=0", "eval.controls=false"];

async fn fallen(run: &Path, more: &[&str]) -> (Cliff, Vec<GuardEvent>) {
    let recipe = recipe(&[&SETTINGS, more].concat());
    let off = Arc::new(AtomicBool::new(false));
    let setup = paid_for(&recipe, Switched(Arc::clone(&off)));
    let mut cliff = Cliff { off, said: Vec::new() };
    train(&setup, &recipe, run, &mut cliff).await.unwrap();
    let events = RunReader::open(run).unwrap().events().unwrap().records;
    let of_guard = |event: &serde_json::Value| match Event::read(event)? {
        Event::Guard(event) => Some(event),
        _ => None,
    };
    (cliff, events.iter().filter_map(of_guard).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cliff_is_said_and_recorded_once() {
    let directory = tempfile::tempdir().unwrap();
    let (cliff, events) = fallen(&directory.path().join("run"), &[]).await;
    assert_eq!((events.len(), cliff.said.len()), (1, 1), "{:?}", cliff.said);
    assert_eq!((events[0].step, events[0].back_to, events[0].after), (4, None, 0.0));
    assert!(
        cliff.said[0].contains("guard: even dropped sharply at step 4, from ")
            && cliff.said[0].contains("guard.rollback")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_restores_the_weights_of_before_and_halves_the_rate() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let (_, events) = fallen(&run, &["guard.rollback=true", "train.steps=4", "checkpoint.keep_last=9"]).await;
    assert_eq!((events[0].back_to, events[0].rate_factor), (Some(2), 0.5));
    // The checkpoint of step 4 holds the weights of step 2.
    let weights = |step: u64| crate::engine::state(&run.join(format!("checkpoints/step-{step:08}")));
    assert_eq!(weights(4), weights(2));
    assert_ne!(weights(3), weights(2), "there was something to undo");
    let state = serde_json::to_value(newest(&run).unwrap().unwrap().1).unwrap();
    assert_eq!(state["guard"]["halved"], 1, "a run that goes on keeps the rate");
    let page = RunReport::read(&run).unwrap().markdown();
    assert!(
        page.contains("the guard went back to the checkpoint of step 2, with the learning rate times 0.5: "),
        "{page}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_finds_a_checkpoint_for_a_drop_noticed_late() {
    let directory = tempfile::tempdir().unwrap();
    for (rollback, kept) in [("guard.rollback=true", vec![0, 3, 4, 5, 6]), ("guard.rollback=false", vec![0, 5, 6])] {
        let run = directory.path().join(rollback);
        let recipe = recipe(&[&SETTINGS[..], &[rollback, "eval.every=0"]].concat());
        train(&setup(&recipe), &recipe, &run, &mut Silent).await.unwrap();
        let steps: Vec<u64> =
            RunReader::open(&run).unwrap().checkpoints().unwrap().iter().map(|(step, _)| *step).collect();
        assert_eq!(steps, kept, "{rollback}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_run_is_trained_further_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let (run, whole) = (directory.path().join("run"), directory.path().join("whole"));
    let begun = recipe(&["eval.controls=false"]);
    train(&setup(&begun), &begun, &run, &mut Silent).await.unwrap();
    let further = extended_recipe(&run, &["train.steps=5".into()]).unwrap();
    resume(&setup(&further), &further, &run, &mut Silent).await.unwrap();
    let planned = recipe(&["eval.controls=false", "train.steps=5"]);
    train(&setup(&planned), &planned, &whole, &mut Silent).await.unwrap();
    // The rate does not decay in this recipe: the numbers are those of a run that was planned so.
    let totals = |run: &Path| {
        let records = RunReader::open(run).unwrap().metrics().unwrap().records;
        records.iter().map(|record| record["batch_reward/even"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(totals(&run), totals(&whole));
    let events = RunReader::open(&run).unwrap().events().unwrap().records;
    let extended = events.iter().find(|event| event["event"] == "extended").unwrap();
    assert_eq!(extended["changed"]["train.steps"], serde_json::json!([3, 5]));
    assert!(RunReader::open(&run).unwrap().recipe().unwrap().contains("steps = 5"));
    for (setting, word) in [
        ("train.learning_rate=1", "keeps its recipe"),
        ("train.steps=2", "larger number"),
        ("train.stpes=9", "did you mean `steps`?"),
    ] {
        let error = extended_recipe(&run, &[setting.into()]).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}
