//! Stopped anywhere and resumed, a run gives the numbers of one that was never stopped.

use std::path::Path;

use hone_trace::rundir::RunReader;
use hone_train::ledger::Ledger;
use hone_train::report::RunReport;
use hone_train::run::{Watch, extended_recipe, recorded_recipe, resume, train};
use hone_train::sft::{sft, sft_recorded};

use crate::engine::SFT_RATE;
use crate::tiny::{Copies, Silent, copy, recipe, setup, timeless, traces, trained};

async fn resumed(run: &Path) -> RunReport {
    let recipe = recorded_recipe(run).unwrap();
    resume(&setup(&recipe), &recipe, run, &mut Silent).await.unwrap();
    RunReport::read(run).unwrap()
}

fn checkpoints(run: &Path) -> Vec<u64> {
    RunReader::open(run).unwrap().checkpoints().unwrap().iter().map(|(step, _)| *step).collect()
}

/// Kills right after the first evaluation, inside every step and around the later evaluations. With checkpoints at
/// every step at most the step in flight is repeated; with rare ones, several.
#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_run_gives_the_same_numbers() {
    let settings: [&[&str]; 2] = [&[], &["checkpoint.every=2", "plan.zero_variance=replace", "train.steps=4"]];
    for settings in settings {
        let directory = tempfile::tempdir().unwrap();
        let run = directory.path().join("run");
        let recipe = recipe(settings);
        let mut copies = Copies::new(&run, directory.path());
        train(&setup(&recipe), &recipe, &run, &mut copies).await.unwrap();
        let norm = |step: &serde_json::Map<_, serde_json::Value>| step.get("policy/grad_norm")?.as_f64();
        assert!(timeless(&run).iter().filter_map(norm).any(|norm| norm > 0.0));
        let whole = RunReport::read(&run).unwrap();
        assert_eq!(copies.taken.len() as u64, 1 + recipe.train.steps + 2);
        for copy in &copies.taken {
            let report = resumed(copy).await;
            assert_eq!(timeless(copy), timeless(&run), "{}", copy.display());
            assert_eq!(traces(copy), traces(&run), "{}", copy.display());
            assert_eq!(trained(copy), trained(&run), "{}", copy.display());
            assert_eq!((&report.before, &report.after), (&whole.before, &whole.after));
            assert_eq!(report.steps, whole.steps);
        }
        let last = copies.taken.last().unwrap();
        let events = RunReader::open(last).unwrap().events().unwrap().records;
        assert!(events.iter().any(|event| event["event"] == "resumed"));
        assert!(last.join("superseded").is_dir(), "what was done again is kept aside");
    }
}

/// Asked to stop, a run ends after its step with a checkpoint, whatever `checkpoint.every` says.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_asked_to_stop_goes_on_later() {
    struct Stops(u64);
    impl Watch for Stops {
        fn stepped(&mut self, ledger: &Ledger) {
            self.0 = ledger.step;
        }
        fn stop(&self) -> bool {
            self.0 == 2
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let (run, whole) = (directory.path().join("run"), directory.path().join("whole"));
    let recipe = recipe(&["checkpoint.every=100", "eval.every=0"]);
    train(&setup(&recipe), &recipe, &run, &mut Stops(0)).await.unwrap();
    assert_eq!((timeless(&run).len(), checkpoints(&run)), (2, vec![0, 2]));
    resumed(&run).await;
    train(&setup(&recipe), &recipe, &whole, &mut Silent).await.unwrap();
    assert_eq!(timeless(&run), timeless(&whole));
    assert!(!run.join("superseded").exists(), "nothing had to be done again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_run_resumes_to_its_report() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recipe = recipe(&["checkpoint.keep_last=1", "eval.every=1", "checkpoint.best=even"]);
    train(&setup(&recipe), &recipe, &run, &mut Silent).await.unwrap();
    let (before, whole) = (timeless(&run), RunReport::read(&run).unwrap());
    assert!(whole.elapsed.is_some_and(|seconds| seconds > 0.0));
    assert_eq!(resumed(&run).await, whole);
    assert_eq!(timeless(&run), before);
    // The last checkpoint, the best one if that is another, and the beginning.
    let best = std::fs::read_link(run.join("checkpoints/best")).unwrap();
    let best: u64 = best.to_str().unwrap().strip_prefix("step-").unwrap().parse().unwrap();
    let kept = checkpoints(&run);
    assert!(kept.contains(&3) && kept.contains(&best) && kept.len() <= 3, "{kept:?}, best {best}");
    assert!(run.join("checkpoints/best/tokenizer.json").is_file(), "a checkpoint is a model directory");
}

/// Weights and optimizer are published under the number they had, so that traces of a resumed run name the same versions.
#[tokio::test(flavor = "multi_thread")]
async fn imitation_is_resumed_to_the_bit() {
    let directory = tempfile::tempdir().unwrap();
    let recipe = recipe(&["sft.steps=4", "checkpoint.every=2"]);
    let (run, stopped) = (directory.path().join("whole"), directory.path().join("stopped"));
    let watch = |step: hone_train::sft::SftStep| {
        if step.step == 3 {
            copy(&run, &stopped);
        }
    };
    sft_recorded(&setup(&recipe), &recipe, &run, watch).await.unwrap();
    assert_eq!((timeless(&stopped).len(), checkpoints(&stopped).pop()), (3, Some(2)), "a kill after step 3");
    sft_recorded(&setup(&recipe), &recipe, &stopped, |_| {}).await.unwrap();
    assert_eq!(timeless(&stopped), timeless(&run));
    assert_eq!(trained(&stopped), trained(&run));
}

/// Imitation stops as soon as the held-out tasks reach `sft.stop_at`; until then each evaluation is reported.
#[tokio::test(flavor = "multi_thread")]
async fn imitation_stops_where_it_is_good_enough_and_reports_each_look() {
    let looks = async |stop_at: &str| {
        let recipe = recipe(&["sft.steps=5", "sft.check_every=2", stop_at]);
        let mut looks = Vec::new();
        sft(&setup(&recipe), &recipe, |step| looks.push(step.held_out.is_some())).await.unwrap();
        looks
    };
    assert_eq!(looks("sft.stop_at=1").await, [false, false, true, false, true]);
    assert_eq!(looks("sft.stop_at=0").await, [false, false]);
}

/// Traces of a run that earned enough are imitated; if none did, that is an error.
#[tokio::test(flavor = "multi_thread")]
async fn recorded_traces_can_be_imitated() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recorded = recipe(&["train.steps=1", "eval.every=0", "eval.success=even"]);
    train(&setup(&recorded), &recorded, &run, &mut Silent).await.unwrap();
    let from = format!("sft.traces={:?}", run.display().to_string());
    let good = ["eval.success=even", "sft.at_least=0.5", "sft.copying=0", SFT_RATE, "sft.steps=6", &from];
    let recipe = recipe(&good);
    let mut losses = Vec::new();
    sft(&setup(&recipe), &recipe, |step| losses.push(step.loss)).await.unwrap();
    assert!(losses.len() == 6 && losses[5] < losses[0], "{losses:?}");
    let none = crate::tiny::recipe(&["eval.success=even", "sft.at_least=2.0", &from]);
    let error = sft(&setup(&none), &none, |_| {}).await.unwrap_err().to_string();
    assert!(error.contains("sft.at_least"), "{error}");
}

/// A recipe edited by hand is refused with its keys, except for those that `--set` may change and the places of models.
#[tokio::test(flavor = "multi_thread")]
async fn a_recipe_edited_inside_a_run_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recipe = recipe(&["train.steps=2", "eval.every=0", "eval.controls=false"]);
    train(&setup(&recipe), &recipe, &run, &mut Silent).await.unwrap();
    let file = run.join("recipe.toml");
    let written = std::fs::read_to_string(&file).unwrap();
    let edited = |edit: &dyn Fn(&mut toml::Table)| {
        let mut table: toml::Table = written.parse().unwrap();
        edit(&mut table);
        std::fs::write(&file, table.to_string()).unwrap();
    };
    edited(&|table| {
        table["train"]["learning_rate"] = 0.5.into();
        table["seed"] = 4711.into();
    });
    for error in [
        extended_recipe(&run, &[]).unwrap_err(),
        resume(&setup(&recipe), &recorded_recipe(&run).unwrap(), &run, &mut Silent).await.unwrap_err(),
    ] {
        let error = error.to_string();
        assert!(
            error.contains("was changed since it was written: seed, train.learning_rate; restore it, or"),
            "{error}"
        );
    }
    edited(&|table| {
        table["train"]["steps"] = 3.into();
        table["policy"].as_table_mut().unwrap().insert("model".into(), "elsewhere".into());
    });
    assert_eq!(extended_recipe(&run, &[]).unwrap().train.steps, 3);
}
