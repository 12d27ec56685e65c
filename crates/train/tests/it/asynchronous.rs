//! Asynchronous sampling: never over the bound, nothing trained twice, nothing lost.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use hone_trace::Trace;
use hone_trace::rundir::RunReader;
use hone_train::run::{recorded_recipe, resume, train};

use crate::tiny::{Copies, Silent, recipe, setup, timeless, traces};

const SETTINGS: [&str; 4] = ["train.steps=5", "eval.every=0", "async.staleness=2", "async.learner_threads=1"];

/// The episodes each step was given, and the policy's version when it began.
fn steps(run: &Path) -> BTreeMap<u64, (Vec<Trace>, u64)> {
    let (all, events) = (traces(run), RunReader::open(run).unwrap().events().unwrap().records);
    let mut version = 0;
    let mut steps = BTreeMap::new();
    for event in &events {
        let number = event["step"].as_u64();
        match event["event"].as_str().unwrap() {
            "step" => {
                let [start, end] = [0, 1].map(|at| event["traces"][at].as_u64().unwrap() as usize);
                steps.insert(number.unwrap(), (all[start..end].to_vec(), version));
            }
            "optimizer_step" => version = event["policy_step"].as_u64().unwrap(),
            _ => {}
        }
    }
    steps
}

fn episodes(run: &Path) -> Vec<(String, u32, u64)> {
    steps(run).into_values().flat_map(|(traces, _)| traces).map(|t| (t.task, t.replica, t.seed)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token_is_older_than_the_bound() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recipe = recipe(&SETTINGS);
    train(&setup(&recipe), &recipe, &run, &mut Silent).await.unwrap();
    // Recounted from the record: by how many steps a token's version is behind.
    let steps = steps(&run);
    let begins: Vec<u64> = steps.values().map(|(_, version)| *version).collect();
    let mut stale = 0;
    for (traces, version) in steps.values() {
        let sampled = traces.iter().flat_map(Trace::sampled).filter_map(|(_, node)| node.as_sampled());
        for (token_version, count) in sampled.flat_map(|sampled| &sampled.versions) {
            let behind = begins.iter().filter(|begin| **begin > token_version.step && **begin <= *version).count();
            assert!(behind <= 2, "sampled by version {} for a step at {version}", token_version.step);
            stale += if behind > 0 { *count } else { 0 };
        }
    }
    let metrics = timeless(&run);
    let counted: f64 = metrics.iter().map(|step| step["generate/stale_tokens"].as_f64().unwrap()).sum();
    assert_eq!(f64::from(stale), counted, "the ledger counts the same");
    assert!(counted > 0.0, "sampling ran ahead of learning");
    assert!(metrics.iter().all(|step| step["async/staleness_max"].as_f64().unwrap() <= 2.0));
    assert!(metrics.iter().any(|step| step["tokens/trained"].as_f64().unwrap() > 0.0));
    // Sampling took the whole step, not only the time the learner waited.
    for step in RunReader::open(&run).unwrap().metrics().unwrap().records {
        let [sampled, seconds, rate] = ["tokens/sampled", "timing/step", "timing/sampled_tokens_per_second"]
            .map(|name| step[name].as_f64().unwrap());
        assert!((rate * seconds / sampled - 1.0).abs() < 1e-9);
    }
}

/// Stopped at every hand-over and resumed: each step gets exactly the episodes it would have got.
#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_asynchronous_run_trains_everything_once() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let recipe = recipe(&SETTINGS);
    let mut copies = Copies::new(&run, directory.path());
    train(&setup(&recipe), &recipe, &run, &mut copies).await.unwrap();
    let whole = episodes(&run);
    assert_eq!(whole.len(), 5 * 9);
    assert_eq!(whole.iter().collect::<HashSet<_>>().len(), whole.len());
    for copy in &copies.taken {
        let recipe = recorded_recipe(copy).unwrap();
        resume(&setup(&recipe), &recipe, copy, &mut Silent).await.unwrap();
        assert_eq!(episodes(copy), whole, "{}", copy.display());
        assert_eq!(timeless(copy).len(), 5);
    }
}

/// A correction weights the learner's logprobs against the sampler's, which differ here.
#[tokio::test(flavor = "multi_thread")]
async fn a_correction_sees_the_learners_own_logprobs() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let mut settings = SETTINGS.to_vec();
    settings
        .extend(["loss.correction={ mode = \"token_mask\", max = 1.0001, min = 0.9999 }", "train.learning_rate=0.05"]);
    let recipe = recipe(&settings);
    train(&setup(&recipe), &recipe, &run, &mut Silent).await.unwrap();
    let masked: f64 = timeless(&run).iter().map(|step| step["tokens/masked"].as_f64().unwrap()).sum();
    assert!(masked > 0.0);
}
