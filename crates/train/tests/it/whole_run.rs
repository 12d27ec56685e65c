//! The loop end to end, small: a tiny policy, a little imitation, two steps of GRPO, twice.

use std::path::Path;

use hone_arena::rewards::TOTAL;
use hone_trace::rundir::RunReader;
use hone_train::evaluate::Measured;
use hone_train::ledger::names;
use hone_train::report::RunReport;
use hone_train::run::{Watch, train};
use hone_train::sft::sft;

use crate::engine::SFT_RATE;
use crate::tiny::{recipe, setup};

/// Evaluations reported by a run.
#[derive(Debug, Default)]
struct Evaluations(Vec<Measured>);

impl Watch for Evaluations {
    fn evaluated(&mut self, _step: u64, measured: &Measured) {
        self.0.push(measured.clone());
    }
}

/// One run with `concurrency` episodes at a time; its metrics without the timings.
async fn run(directory: &Path, concurrency: usize) -> Vec<serde_json::Map<String, serde_json::Value>> {
    let concurrency = format!("rollout.concurrency={concurrency}");
    let recipe = recipe(&[
        &concurrency,
        "train.steps=2",
        "train.groups=4",
        "train.group_size=4",
        "sft.steps=12",
        "sft.batch=6",
        SFT_RATE,
        "eval.tasks=4",
        "eval.success=even",
        "eval.every=0",
    ]);
    let setup = setup(&recipe);
    let mut losses = Vec::new();
    sft(&setup, &recipe, |step| losses.push(step.loss)).await.unwrap();
    assert!(losses[11] < 0.8 * losses[0], "imitation lowers the loss: {losses:?}");
    let mut told = Evaluations::default();
    train(&setup, &recipe, &directory.join("run"), &mut told).await.unwrap();
    let [before, after] = told.0.try_into().unwrap();
    assert_eq!((before.sampled.n, after.sampled.n, before.greedy.n), (4, 4, 4));
    let recounted = RunReport::read(&directory.join("run")).unwrap();
    assert_eq!(recounted.before.unwrap().result, before.sampled, "recounted from the traces");
    assert_eq!(recounted.after.unwrap().result, after.sampled);
    assert_eq!(recounted.held_out.greedy.after.unwrap().result, after.greedy);
    let metrics = RunReader::open(&directory.join("run")).unwrap().metrics().unwrap().records;
    let timeless = |record: &serde_json::Map<String, serde_json::Value>| {
        record.iter().filter(|(name, _)| !name.starts_with("timing/")).map(|(k, v)| (k.clone(), v.clone())).collect()
    };
    metrics.iter().map(timeless).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_trains_records_and_repeats_to_the_bit_however_many_episodes_play_at_once() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let metrics = run(first.path(), 64).await;
    assert_eq!(metrics.len(), 2);
    let at = |name: &str| metrics[0][name].as_f64().unwrap();
    assert_eq!(at("policy/rollout_train_logprobs_abs_diff_max"), 0.0, "sampler and learner agree to the bit");
    assert!(at("tokens/trained") > 0.0 && at("policy/grad_norm") > 0.0);
    documented(&metrics);
    assert!(at("trainer/optimizer_steps") >= 1.0);

    let reader = RunReader::open(&first.path().join("run")).unwrap();
    let traces = reader.traces().unwrap();
    // Two evaluations of 4, both ways, two steps of 4 groups of 4, and the controls: the start again, and a few probes.
    let controls = traces.len() - (2 * 2 * 4 + 2 * 16);
    assert!(controls.is_multiple_of(4) && (4..=24).contains(&controls), "{controls}");
    for trace in traces.iter() {
        let trace = trace.unwrap();
        assert!(trace.reward(TOTAL).is_some(), "{:?}", trace.outcome);
    }
    let steps: Vec<u64> = traces.iter().skip(8).take(16).map(|trace| policy_step(&trace.unwrap())).collect();
    assert!(steps.iter().all(|step| *step == 12), "sampled by the policy that imitation left: {steps:?}");
    assert_eq!(reader.checkpoints().unwrap().last().unwrap().0, 2);

    assert_eq!(metrics, run(second.path(), 1).await, "the same seed gives the same numbers");
}

/// Metrics that a policy which runs no call, and earns everywhere or nowhere, leaves absent.
const MAY_BE_ABSENT: &[&str] = &[
    "environment/tool_error_rate",
    "environment/{env}/tool_error_rate",
    "generate/avg_tokens_non_zero_rewards",
    "generate/avg_tokens_zero_rewards",
    // Only with a curriculum, with a KL in the loss or in the reward, and if a control has to match the KL.
    "policy/policy_kl",
    "policy/kl_to_start",
    "policy/kl_rejected",
    "plan/passed_over_tasks",
    "loss/avg_kl",
    "loss/avg_kl_max",
    "reward/kl_coefficient",
    // Only where a component pays an argument.
    "batch_reward/{component}/signal_ratio",
    "batch_reward/{component}/argument_found",
];

/// Every metric of the run is on the page, and everything on the page is in the run.
fn documented(metrics: &[serde_json::Map<String, serde_json::Value>]) {
    let mut seen = std::collections::HashSet::new();
    for name in metrics.iter().flat_map(serde_json::Map::keys).filter(|name| *name != "step") {
        let metric = names::find(name).unwrap_or_else(|| panic!("{name} is not in docs/metrics.md"));
        seen.insert(metric.name);
    }
    let all = names::SECTIONS.iter().flat_map(|section| section.metrics).map(|metric| metric.name);
    let expected = all.filter(|name| !name.starts_with("timing/") && !MAY_BE_ABSENT.contains(name));
    let missing: Vec<_> = expected.filter(|name| !seen.contains(name)).collect();
    assert!(missing.is_empty(), "documented and not written: {missing:?}");
}

fn policy_step(trace: &hone_trace::Trace) -> u64 {
    let (_, node) = trace.sampled().next().unwrap();
    node.as_sampled().unwrap().versions[0].0.step
}
