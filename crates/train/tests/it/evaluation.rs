//! Evaluation: sharpening distinguished from learning, absent distinguished from zero, controls and floors, recounted
//! from the record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use hone_arena::rewards::{Case, Component, Measure};
use hone_trace::rundir::RunReader;
use hone_trace::{Trace, Verdict as Scored};
use hone_train::evaluate::{
    ByTask, ControlKind, Decoding, Evaluation, Evidence, Measured, Verdict, count, judge, play,
};
use hone_train::ledger::Ledger;
use hone_train::report::RunReport;
use hone_train::run::{Watch, recorded_recipe, resume, train};

use crate::tiny::{Even, Silent, paid_for, recipe, setup, timeless};

/// The first `good` of 256 tasks succeed.
fn solved(good: std::ops::Range<usize>) -> ByTask {
    (0..256).map(|task| (format!("{task:03}"), f64::from(u8::from(good.contains(&task))))).collect()
}

#[test]
fn a_verdict_says_what_was_shown_and_no_more() {
    let [none, few, half, most] = [0..20, 0..60, 0..128, 0..230].map(solved);
    let verdict = |greedy: [&ByTask; 2], sampled: [&ByTask; 2], sharpened: Option<&ByTask>| {
        judge(Evidence { greedy, sampled, sharpened }).unwrap().verdict
    };
    // The old quickstart: everything solved greedily before training; it only became more confident.
    assert_eq!(verdict([&most, &most], [&half, &most], Some(&most)), Verdict::Confident);
    // A new skill; the start gains nothing by being sharpened.
    assert_eq!(verdict([&few, &most], [&few, &most], Some(&few)), Verdict::More);
    // A new skill, and sharpening accounts for part of the sampled gain.
    assert_eq!(verdict([&half, &most], [&few, &most], Some(&half)), Verdict::Both);
    // Greedy success rose, and the sharpened start is as good as the end: more is not shown.
    assert_eq!(verdict([&half, &most], [&few, &half], Some(&half)), Verdict::Confident);
    // No more confident than before: the start as sampled is the one to beat.
    assert_eq!(verdict([&few, &most], [&few, &half], None), Verdict::More);
    assert_eq!(verdict([&few, &few], [&few, &half], None), Verdict::Confident);
    assert_eq!(verdict([&half, &half], [&half, &half], None), Verdict::Neither);
    // Getting worse is not a gain of any kind, whatever sharpening would have done.
    assert_eq!(verdict([&half, &few], [&half, &none], Some(&most)), Verdict::Neither);
    let chance = solved(0..131);
    assert_eq!(verdict([&half, &chance], [&half, &chance], None), Verdict::Neither, "three tasks of 256 are luck");
    assert!(judge(Evidence { greedy: [&ByTask::new(), &most], sampled: [&few, &most], sharpened: None }).is_none());
}

pub(crate) fn task_of(case: &Case) -> String {
    case.id.as_str().and_then(|id| id.rsplit_once('/')).map(|(task, _)| task.to_owned()).unwrap_or_default()
}

/// A scorer that is down until the first evaluation is over.
struct Down {
    up: Arc<AtomicBool>,
    /// Episodes of the first evaluation that it scores anyway.
    spared: fn(&str) -> bool,
}

#[async_trait]
impl Component for Down {
    async fn verdict(&self, case: &Case) -> Scored {
        if self.up.load(Ordering::SeqCst) || (self.spared)(&task_of(case)) {
            let success = Even.measure(case);
            let Scored::Scored { why, .. } = success else { return success };
            return Scored::scored(1.0, why);
        }
        Scored::unscored("connection refused")
    }
}

struct Repairs(Arc<AtomicBool>, Vec<Evaluation>);

impl Watch for Repairs {
    fn evaluated(&mut self, _step: u64, measured: &Measured) {
        self.0.store(true, Ordering::SeqCst);
        self.1.push(measured.sampled.clone());
    }
}

/// The broken twin: nothing is learned (learning rate 0), every episode succeeds, and the scorer is down at first. A run
/// that counted unscored episodes as failed would report 0 -> 1.
#[tokio::test(flavor = "multi_thread")]
async fn a_scorer_that_was_down_is_no_gain() {
    let directory = tempfile::tempdir().unwrap();
    let settings = ["train.learning_rate=0.0", "train.steps=1", "eval.tasks=4", "train.patience=9"];
    for (name, spared) in [("all", (|_| false) as fn(&str) -> bool), ("some", |task| task.ends_with('0'))] {
        let recipe = recipe(&settings);
        let up = Arc::new(AtomicBool::new(false));
        let setup = paid_for(&recipe, Down { up: Arc::clone(&up), spared });
        let run = directory.path().join(name);
        let mut repairs = Repairs(up, Vec::new());
        train(&setup, &recipe, &run, &mut repairs).await.unwrap();
        let [before, after] = repairs.1.try_into().unwrap();
        assert_eq!((after.success, after.n, after.unscored), (Some(1.0), 4, 0));
        assert_eq!((before.n + before.unscored, before.faults), (4, 0));
        let recounted = RunReport::read(&run).unwrap();
        assert_eq!(recounted.before.as_ref().unwrap().result, before);
        let held_out = &recounted.held_out;
        if before.n == 0 {
            assert_eq!((before.success, before.ci, recounted.gain()), (None, None, None));
            assert!(held_out.judgement.is_none(), "nothing to compare with");
            assert!(recounted.markdown().contains("| – | – |"), "absent, not zero: {}", recounted.markdown());
        } else {
            assert_eq!((before.success, recounted.gain()), (Some(1.0), Some(0.0)));
            assert_eq!(held_out.judgement.as_ref().unwrap().verdict, Verdict::Neither);
        }
        // The start, played again once the scorer is back, is the control that shows it.
        let gain = held_out.gain.as_ref().unwrap();
        assert_eq!(gain.difference.mean, 0.0, "{gain:?}");
    }
}

/// A component that nobody scored is never the best.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_without_a_score_is_never_the_best() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recipe = recipe(&["train.steps=1", "train.patience=9"]);
    let setup = paid_for(&recipe, Down { up: Arc::new(AtomicBool::new(false)), spared: |_| false });
    train(&setup, &recipe, &run, &mut Silent).await.unwrap();
    assert!(!run.join("checkpoints/best").exists());
}

struct StopsAfter(u64, u64);

impl Watch for StopsAfter {
    fn stepped(&mut self, ledger: &Ledger) {
        self.1 = ledger.step;
    }
    fn stop(&self) -> bool {
        self.1 == self.0
    }
}

/// Stopped early: no final evaluation and no verdict, and the start does not stand in for it. Resumed: the controls of
/// a whole run, from the start that the run kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_stopped_early_has_no_end_and_a_resumed_one_has_controls() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recipe = recipe(&["eval.every=0", "checkpoint.keep_last=1"]);
    train(&setup(&recipe), &recipe, &run, &mut StopsAfter(2, 0)).await.unwrap();
    let stopped = RunReport::read(&run).unwrap();
    assert!(
        stopped.before.is_some()
            && stopped.after.is_none()
            && stopped.held_out.judgement.is_none()
            && stopped.held_out.gain.is_none()
    );
    assert!(stopped.markdown().contains("no evaluation after a step"));

    let recipe = recorded_recipe(&run).unwrap();
    resume(&setup(&recipe), &recipe, &run, &mut Silent).await.unwrap();
    let whole = RunReport::read(&run).unwrap();
    assert_eq!(whole.after.unwrap().step, 3);
    assert!(whole.held_out.judgement.is_some());
    assert!(whole.held_out.controls.iter().any(|control| control.kind == ControlKind::Again));
    let steps: Vec<u64> = RunReader::open(&run).unwrap().checkpoints().unwrap().iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, [0, 3], "the start is kept for the controls");
}

/// Evaluations and baselines use separate seeds and no decoding filters.
#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_has_its_own_seed_and_no_filters() {
    let played = |settings: &'static [&'static str]| async move {
        let recipe = recipe(settings);
        let setup = setup(&recipe);
        play(&setup, &recipe, setup.engine.sampler(), Decoding::sampled(&recipe)).await
    };
    let ids = |traces: &[Trace]| traces.iter().flat_map(Trace::tokens).collect::<Vec<u32>>();
    let plain = played(&["sampling.min_p=0.9"]).await;
    assert_eq!(
        ids(&plain),
        ids(&played(&["seed=99"]).await),
        "the run's seed is not the evaluation's, nor its filters"
    );
    assert_ne!(ids(&plain), ids(&played(&["eval.seed=1"]).await));
    let filtered = played(&["sampling.min_p=0.9", "eval.filters=true"]).await;
    assert!(filtered[0].sampling.truncates() && !plain[0].sampling.truncates());
    assert!(count(&filtered, "even").evaluation.filters);
    let twice = played(&["eval.samples=2", "eval.temperature=0.5"]).await;
    assert_eq!((twice.len(), twice[0].sampling.temperature), (2 * plain.len(), 0.5));
    assert_ne!(ids(&twice[..1]), ids(&twice[1..2]));
    let counted = count(&twice, "even").evaluation;
    assert_eq!((counted.tasks, counted.n), (2, 4));
    assert!(counted.entropy.is_some() && count(&[], "even").evaluation.success.is_none());
}

/// Floors are measured once, recorded by task, and recounted by the report.
#[tokio::test(flavor = "multi_thread")]
async fn baselines_and_overlap_are_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recipe = recipe(&["train.steps=1", "eval.every=1"]);
    let setup = setup(&recipe);
    train(&setup, &recipe, &run, &mut Silent).await.unwrap();
    let events = RunReader::open(&run).unwrap().events().unwrap().records;
    let own: usize = setup.baselines.values().map(Vec::len).sum();
    assert_eq!(events.iter().filter(|event| event["event"] == "baseline").count(), 2 + own);
    let held_out = RunReport::read(&run).unwrap().held_out;
    let names: Vec<&str> = held_out.baselines.iter().map(|floor| floor.name.as_str()).collect();
    assert!(names.contains(&"does nothing") && names.contains(&"calls at random"), "{names:?}");
    assert!(held_out.baselines.iter().all(|floor| floor.n == 2 && floor.success == Some(0.0)));
    assert_eq!(held_out.overlap.unwrap().held_out, 2);
}

/// A linear decay ends above 0: the last step counts its tokens as trained, so it has to train.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_step_trains() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recipe = recipe(&["train.decay=linear", "eval.every=0", "eval.controls=false"]);
    train(&setup(&recipe), &recipe, &run, &mut Silent).await.unwrap();
    let rates: Vec<f64> = timeless(&run).iter().filter_map(|step| step["policy/policy_lr"].as_f64()).collect();
    assert!(rates.len() == 3 && rates[2] > 0.0 && rates[2] < rates[0], "{rates:?}");
    let why = RunReport::read(&run).unwrap().held_out.no_verdict.unwrap();
    assert!(why.contains("eval.controls"), "{why}");
}
