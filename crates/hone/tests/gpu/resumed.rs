//! A run on a GPU agrees with a resumed one, and with one on the CPU, to rounding: which replies share a decoding step depends on
//! timing, and products round differently for another number of rows. In f32, where rounding is too small to change a token.

use std::path::Path;

use hone_train::run::{recorded_recipe, resume, train};

use crate::tiny::{Copies, Silent, recipe, setup, timeless};

const SHORT: [&str; 6] = [
    "engine.precision=\"f32\"",
    "train.steps=2",
    "train.groups=2",
    "train.group_size=2",
    "eval.every=0",
    "eval.controls=false",
];
const ON_THE_CPU: &str = "engine.device=\"cpu\"";

async fn run(settings: &[&str], path: &Path) {
    let recipe = recipe(&[&SHORT, settings].concat());
    train(&setup(&recipe), &recipe, path, &mut Silent).await.unwrap();
}

/// Metrics that a token sampled otherwise would change at once are equal, those of logprobs and gradients to a tolerance.
fn assert_same(one: &Path, other: &Path) {
    let (one, other) = (timeless(one), timeless(other));
    assert_eq!((one.len(), other.len()), (2, 2));
    for (a, b) in one.iter().zip(&other) {
        for name in ["batch_reward/even", "batch_reward/even/std", "tokens/sampled", "tokens/trained", "rollouts/valid"]
        {
            assert_eq!(a[name], b[name], "{name}");
        }
        for name in ["policy/policy_entropy", "policy/policy_loss", "policy/grad_norm"] {
            let [a, b] = [&a[name], &b[name]].map(|value| value.as_f64().unwrap());
            assert!((a - b).abs() <= 1e-4 * b.abs().max(0.01), "{name}: {a} and {b}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_run_and_one_on_the_cpu_agree_to_rounding() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let whole = path("whole");
    let recipe = recipe(&SHORT);
    let mut copies = Copies::new(&whole, directory.path());
    train(&setup(&recipe), &recipe, &whole, &mut copies).await.unwrap();
    let midway = &copies.taken[1];
    assert_eq!(timeless(midway).len(), 1, "stopped within its second step");
    let recorded = recorded_recipe(midway).unwrap();
    resume(&setup(&recorded), &recorded, midway, &mut Silent).await.unwrap();
    assert_same(midway, &whole);
    run(&[ON_THE_CPU], &path("cpu")).await;
    assert_same(&whole, &path("cpu"));
}

#[tokio::test(flavor = "multi_thread")]
async fn adapters_recomputation_and_moments_in_host_memory_change_nothing_but_rounding() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let adapter = ["policy.lora={ rank = 4 }", "loss.kl={ coefficient = 0.01 }"];
    run(&adapter, &path("adapter")).await;
    run(&[&adapter[..], &[ON_THE_CPU]].concat(), &path("adapter on the cpu")).await;
    assert_same(&path("adapter"), &path("adapter on the cpu"));
    run(&["train.recompute=true", "engine.moments=\"host\""], &path("host")).await;
    run(&[ON_THE_CPU], &path("cpu")).await;
    assert_same(&path("host"), &path("cpu"));
}
