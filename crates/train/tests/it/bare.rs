//! An engine that can do less: its learner returns only logprobs, shares no prefixes and has no reference policy.

use std::collections::BTreeSet;

use hone_trace::scripted::Bigrams;
use hone_train::report::RunReport;
use hone_train::run::train;
use hone_train::setup::Setup;

use crate::tiny::{Even, Silent, opened, recipe, setup, timeless};

/// Values it cannot provide are absent, the others bit-identical: sharing prefixes changes no number.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_needs_no_entropies_and_no_shared_prefixes() {
    let directory = tempfile::tempdir().unwrap();
    let (bare, able) = (directory.path().join("bare"), directory.path().join("able"));
    let correction = "loss.correction={ mode = \"token_truncate\", max = 2.0 }";
    let recipe = recipe(&["train.mini_batch=0", correction]);
    train(&opened(&recipe, &Bigrams::BARE, Even), &recipe, &bare, &mut Silent).await.unwrap();
    train(&setup(&recipe), &recipe, &able, &mut Silent).await.unwrap();
    assert_eq!(RunReport::read(&bare).unwrap().after.unwrap().step, 3);
    for (mut able, bare) in timeless(&able).into_iter().zip(timeless(&bare)) {
        assert!(able.remove("policy/policy_entropy").is_some(), "the other one knows it");
        let difference = |name: &str| (able[name].as_f64().unwrap() - bare[name].as_f64().unwrap()).abs();
        let names = |step: &serde_json::Map<_, _>| step.keys().cloned().collect::<BTreeSet<String>>();
        assert_eq!(names(&able), names(&bare), "nothing else is missing");
        assert!(difference("policy/policy_loss") < 1e-6 && difference("policy/grad_norm") < 1e-4);
        assert_eq!(able["tokens/trained"], bare["tokens/trained"]);
    }
}

/// Keys of `[engine]` are the engine's own: they are passed through and recorded, and an unknown one is refused by
/// name.
#[tokio::test(flavor = "multi_thread")]
async fn an_option_the_engine_does_not_know_is_refused() {
    let recipe = recipe(&["engine.address=http://localhost:1"]);
    assert!(recipe.to_toml().unwrap().contains("address = \"http://localhost:1\""));
    let error = Setup::open(&recipe, &Bigrams::BARE).await.unwrap_err().to_string();
    assert!(error.contains("no option \"address\""), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_cannot_do_is_refused_before_the_run_begins() {
    let directory = tempfile::tempdir().unwrap();
    for (setting, says) in [
        ("loss.kl={ coefficient = 0.1 }", "no reference policy"),
        ("kl_reward={ coefficient = 0.1 }", "no reference policy"),
        ("train.kl_to_start=true", "no reference policy"),
        ("loss.entropy_bonus=0.01", "no entropies"),
        ("loss.top_entropy=0.5", "no entropies"),
    ] {
        let (recipe, run) = (recipe(&[setting]), directory.path().join("run"));
        let error = train(&opened(&recipe, &Bigrams::BARE, Even), &recipe, &run, &mut Silent).await.unwrap_err();
        assert!(error.to_string().contains(says), "{setting}: {error}");
        assert!(!run.exists(), "{setting}");
    }
}
