//! Faults during training: the run continues without the broken part, or stops and says why. Nothing recorded is lost.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use hone_arena::rewards::{Case, Component, Measure, Rubric, Term};
use hone_trace::rundir::RunReader;
use hone_trace::{Arena, Boundary, Episode, Fault, Task, Verdict};
use hone_train::budget::estimate;
use hone_train::report::RunReport;
use hone_train::run::{TrainError, Warning, Watch, recorded_recipe, resume, train};
use serde_json::Value;

use crate::tiny::{Even, Silent, paid_for, recipe, setup, timeless, traces};

fn checkpoints(run: &Path) -> Vec<u64> {
    RunReader::open(run).unwrap().checkpoints().unwrap().into_iter().map(|(step, _)| step).collect()
}

fn events(run: &Path, kind: &str) -> Vec<Value> {
    let events = RunReader::open(run).unwrap().events().unwrap().records;
    events.into_iter().filter(|event| event["event"] == kind).collect()
}

/// Not a number for every episode, or only for some.
struct Nan {
    always: bool,
}

impl Measure for Nan {
    fn measure(&self, case: &Case) -> Verdict {
        let odd = case.tokens.as_deref().and_then(<[u32]>::first).is_some_and(|id| id % 2 == 1);
        let value = if self.always || odd { f64::NAN } else { case.tokens.as_ref().map_or(0, Vec::len) as f64 };
        Verdict::scored(value, "a broken scorer")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reward_that_is_not_a_number_leaves_the_statistics() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recipe = recipe(&["train.steps=2", "train.groups=5", "eval.every=0"]);
    let mut setup = setup(&recipe);
    let terms = vec![Term::new("even", 1.0, Even), Term::new("broken", 1.0, Nan { always: true })];
    setup.rubric = Arc::new(Rubric::new(terms, vec![]).unwrap());
    train(&setup, &recipe, &run, &mut Silent).await.unwrap();
    let metrics = &timeless(&run)[0];
    assert!(metrics["tokens/trained"].as_f64().unwrap() > 0.0, "the other component teaches on");
    assert!(!metrics.contains_key("batch_reward/broken"), "absent, not zero");
    let event = &events(&run, "faults")[0];
    assert_eq!(event["unscored"]["broken"]["episodes"], 15);
    assert!(event["unscored"]["broken"]["first"].as_str().unwrap().contains("NaN"));

    let some = directory.path().join("some");
    let setup = paid_for(&recipe, Nan { always: false });
    train(&setup, &recipe, &some, &mut Silent).await.unwrap();
    assert!(timeless(&some).iter().any(|step| step["tokens/unscored"].as_f64().unwrap() > 0.0));
}

/// A judge that is down from its second step on: every episode is unscored, the run waits, stops, and continues when
/// the judge is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_judge_that_stays_down_stops_the_run_which_then_resumes() {
    struct Judge {
        asked: AtomicU64,
        until: u64,
    }
    #[async_trait]
    impl Component for Judge {
        async fn verdict(&self, case: &Case) -> Verdict {
            if self.asked.fetch_add(1, Ordering::Relaxed) < self.until {
                return Even.measure(case);
            }
            Verdict::unscored("connection refused")
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recipe = recipe(&["train.steps=4", "train.patience=2", "eval.every=0"]);
    // Two held-out tasks, by the baselines, greedily and sampled, and the first step's nine episodes.
    let baselines = 2 + setup(&recipe).baselines.values().map(Vec::len).sum::<usize>() as u64;
    let down = paid_for(&recipe, Judge { asked: AtomicU64::new(0), until: 2 * (baselines + 2) + 9 });
    let error = train(&down, &recipe, &run, &mut Silent).await.unwrap_err();
    assert!(matches!(error, TrainError::Stuck { steps: 2, .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("connection refused") && text.contains("--resume"), "{text}");
    assert_eq!(timeless(&run).len(), 3, "the steps that taught nothing are recorded too");
    assert_eq!(checkpoints(&run), [0, 1], "and cost no checkpoint");

    let recipe = recorded_recipe(&run).unwrap();
    resume(&setup(&recipe), &recipe, &run, &mut Silent).await.unwrap();
    assert_eq!(timeless(&run).len(), 4);
}

/// An arena that opens nothing, or only some tasks.
struct Dying {
    world: Arc<dyn Arena>,
    dies: fn(&Task) -> bool,
}

#[async_trait]
impl Arena for Dying {
    async fn open(&self, task: &Task, seed: u64) -> Result<Episode, Fault> {
        if (self.dies)(task) {
            return Err(Fault::new(Boundary::Environment, "the tool server is gone"));
        }
        self.world.open(task, seed).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_environment_is_left_out_or_stops_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recipe = recipe(&["train.steps=2", "train.groups=4", "train.patience=2", "rollout.attempts=1"]);
    let mut some = setup(&recipe);
    // Whose key's number is odd; the held-out tasks are spared.
    let dies = |task: &Task| task.key.starts_with("train") && task.key.len() % 2 == 1;
    assert!(some.tasks.iter().any(dies) && !some.tasks.iter().all(dies), "some of the tasks die");
    some.arena = Arc::new(Dying { world: Arc::clone(&some.arena), dies });
    train(&some, &recipe, &run, &mut Silent).await.unwrap();
    let event = &events(&run, "faults")[0];
    assert!(event["faults"]["environment"]["episodes"].as_u64().unwrap() > 0);
    for step in timeless(&run) {
        assert_eq!(step["rollouts/total"].as_f64().unwrap(), 12.0);
        assert_eq!(step["rollouts/faulted"], step["rollouts/invalid"], "they are in no statistics");
    }

    let dead = directory.path().join("dead");
    let mut all = setup(&recipe);
    let dies = |task: &Task| task.key.starts_with("train");
    all.arena = Arc::new(Dying { world: Arc::clone(&all.arena), dies });
    let error = train(&all, &recipe, &dead, &mut Silent).await.unwrap_err().to_string();
    assert!(error.contains("every episode broke") && error.contains("the tool server is gone"), "{error}");
    assert_eq!(traces(&dead).len(), 4 + 2 * 12, "an evaluation, and every episode that broke");
    let report = RunReport::read(&dead).unwrap();
    let broke = report.broke.clone().unwrap();
    assert_eq!((broke.episodes, broke.steps, broke.first_step), (24, 2, 1));
    assert!(report.nothing_trained() && broke.first == "environment: the tool server is gone", "{broke:?}");
    assert!(report.markdown().contains("    environment: the tool server is gone\n"), "{}", report.markdown());

    // A dry run plays them too, and says so.
    let estimate = estimate(&all, &recipe).await.unwrap();
    assert_eq!((estimate.episodes_broken, estimate.episodes_measured), (12, 12));
    assert!(estimate.first_fault.unwrap().contains("the tool server is gone"));
    // A patient run ends anyway, and knows that it trained nothing.
    let patient = directory.path().join("patient");
    let mut longer = recipe.clone();
    longer.train.patience = 99;
    train(&all, &longer, &patient, &mut Silent).await.unwrap();
    assert!(RunReport::read(&patient).unwrap().nothing_trained());
    assert_eq!(checkpoints(&patient), [0]);
}

/// Episodes in which the policy calls nothing show that the environment opens: one of two that breaks is not all of them.
#[tokio::test(flavor = "multi_thread")]
async fn episodes_without_a_call_count_for_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    let recipe = recipe(&["train.steps=1", "rollout.attempts=1", "eval.controls=false"]);
    let mut setup = setup(&recipe);
    let dies = |task: &Task| task.key.starts_with("held-out-1-0-");
    let played = recipe.eval.tasks_of(&setup.held_out);
    assert_eq!((played.iter().filter(|task| dies(task)).count(), played.len()), (1, 2));
    setup.arena = Arc::new(Dying { world: Arc::clone(&setup.arena), dies });
    train(&setup, &recipe, &directory.path().join("run"), &mut Silent).await.unwrap();
}

/// An environment in which nearly everything breaks is refused before the first step: there is no baseline.
#[tokio::test(flavor = "multi_thread")]
async fn an_environment_that_breaks_in_the_first_evaluation_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recipe = recipe(&["train.steps=2", "rollout.attempts=1"]);
    let mut setup = setup(&recipe);
    setup.arena = Arc::new(Dying { world: Arc::clone(&setup.arena), dies: |_| true });
    let error = train(&setup, &recipe, &run, &mut Silent).await.unwrap_err();
    assert!(matches!(error, TrainError::Broken { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("2 of 2 episodes broke; the first: environment: the tool server is gone"), "{text}");
    assert_eq!(timeless(&run).len(), 0, "no step was taken");
}

/// A learning rate that makes the weights non-finite: the run stops before they are written, and a new run starts
/// from the last good ones.
#[tokio::test(flavor = "multi_thread")]
async fn weights_that_are_not_finite_stop_the_run_and_cost_no_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let settings =
        ["train.steps=1", "eval.every=0", "eval.controls=false", "checkpoint.keep_last=1", "checkpoint.best="];
    let good = recipe(&settings);
    train(&setup(&good), &good, &run, &mut Silent).await.unwrap();
    assert_eq!(checkpoints(&run), [0, 1]);
    let mut wild = good.clone();
    // No recipe may say so.
    (wild.train.steps, wild.train.learning_rate) = (3, Some(1e39));
    let error = resume(&setup(&wild), &wild, &run, &mut Silent).await.unwrap_err();
    assert!(matches!(error, TrainError::Diverged { step: 2, newest: Some(1), .. }) && error.is_verdict(), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("weights not finite (") && text.contains("start a new run from the last good ones"),
        "{text}"
    );
    assert!(text.contains("/checkpoints/step-00000001 --set train.learning_rate="), "{text}");
    assert_eq!(checkpoints(&run), [0, 1], "the last good one stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_was_changed_is_refused_with_the_way_out() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recipe = recipe(&["train.steps=2", "eval.every=0", "eval.controls=false"]);
    train(&setup(&recipe), &recipe, &run, &mut Silent).await.unwrap();
    assert_eq!(std::fs::read_to_string(run.join("version")).unwrap().trim(), env!("CARGO_PKG_VERSION"));
    let newest = run.join("checkpoints/step-00000002");
    // The largest file: weights or moments, whatever the engine calls them.
    let files = std::fs::read_dir(&newest).unwrap().map(|entry| entry.unwrap().path());
    let file = files.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let text = resume(&setup(&recipe), &recipe, &run, &mut Silent).await.unwrap_err().to_string();
    let name = file.file_name().unwrap().to_string_lossy();
    assert!(text.contains(&format!("{name} is missing or not what was written")), "{text}");
    assert!(text.contains("delete that directory to resume from the previous checkpoint"), "{text}");
    std::fs::remove_dir_all(newest).unwrap();
    resume(&setup(&recipe), &recipe, &run, &mut Silent).await.unwrap();
    assert_eq!(timeless(&run).len(), 2);
}

/// Removing the digests gains nothing: only runs of versions that wrote none may lack them.
#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_without_digests_is_refused_unless_its_version_wrote_none() {
    #[derive(Default)]
    struct Warned(Vec<String>);
    impl Watch for Warned {
        fn warned(&mut self, _step: u64, warning: &Warning) {
            self.0.push(warning.to_string());
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recipe = recipe(&["train.steps=2", "eval.every=0", "eval.controls=false"]);
    train(&setup(&recipe), &recipe, &run, &mut Silent).await.unwrap();
    let newest = run.join("checkpoints/step-00000002");
    let events = std::fs::read(run.join("events.jsonl")).unwrap();
    std::fs::write(newest.join("notes.json"), "{}").unwrap();
    let text = resume(&setup(&recipe), &recipe, &run, &mut Silent).await.unwrap_err().to_string();
    assert!(text.contains("notes.json is not among the files that were written"), "{text}");
    std::fs::remove_file(newest.join("notes.json")).unwrap();
    std::fs::remove_file(newest.join("digests.json")).unwrap();
    let text = resume(&setup(&recipe), &recipe, &run, &mut Silent).await.unwrap_err().to_string();
    assert!(text.contains("digests.json is missing") && text.contains("delete that directory"), "{text}");
    assert_eq!(std::fs::read(run.join("events.jsonl")).unwrap(), events, "nothing of the run was cut");
    // As written by a version that wrote neither.
    std::fs::remove_file(run.join("version")).unwrap();
    let mut warned = Warned::default();
    resume(&setup(&recipe), &recipe, &run, &mut warned).await.unwrap();
    let [said] = warned.0.as_slice() else { panic!("{:?}", warned.0) };
    assert!(said.starts_with("checkpoint: ") && said.contains("could not be verified"), "{said}");
}

/// A loss so large that gradients overflow: no step is taken with them, and the weights stay unchanged.
#[tokio::test(flavor = "multi_thread")]
async fn a_gradient_that_is_not_finite_is_never_applied() {
    struct Remainder;
    impl Measure for Remainder {
        fn measure(&self, case: &Case) -> Verdict {
            let first = case.tokens.as_deref().and_then(<[u32]>::first).copied().unwrap_or(0);
            Verdict::scored(f64::from(first % 3), "")
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let loss = "loss={ name = \"reinforce\", reduction = \"sequence_sum\" }";
    let mut recipe = recipe(&["credit=dr_grpo", loss, "train.steps=3", "train.patience=2"]);
    // No recipe may say so.
    recipe.loss.entropy_bonus = 1e39;
    let setup = paid_for(&recipe, Remainder);
    let before = setup.engine.version().weights;
    let error = train(&setup, &recipe, &run, &mut Silent).await.unwrap_err();
    assert!(error.to_string().contains("not finite"), "{error}");
    assert_eq!(setup.engine.version().weights, before);
    let metrics = timeless(&run);
    assert!(metrics.iter().all(|step| step["policy/skipped_steps"].as_f64().unwrap() > 0.0));
    assert!(metrics.iter().all(|step| step["tokens/trained"].as_f64() == Some(0.0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recipe_refused_while_the_run_is_set_up_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recipe = recipe(&["plan.share.nowhere.min=0.5"]);
    let error = train(&setup(&recipe), &recipe, &run, &mut Silent).await.unwrap_err().to_string();
    assert!(error.contains("plan.share.nowhere"), "{error}");
    assert!(!run.exists());
}
