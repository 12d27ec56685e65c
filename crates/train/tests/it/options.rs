//! Options of the loop: the KL in the reward and in the loss, step-wide statistics, overlong filtering, component-wise credit.

use hone_arena::rewards::{Rubric, Term};
use hone_train::penalty::{KL, KlReward};
use hone_train::recipe::Recipe;
use hone_train::run::train;
use hone_train::setup::Setup;
use serde_json::{Map, Value};
use std::sync::Arc;

use crate::engine::ROUNDING;
use crate::tiny::{Even, Silent, model, recipe, setup, timeless, traces};

async fn metrics_of(
    setup: &Setup,
    recipe: &hone_train::recipe::Recipe,
) -> (Vec<Map<String, Value>>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    train(setup, recipe, &directory.path().join("run"), &mut Silent).await.unwrap();
    (timeless(&directory.path().join("run")), directory)
}

fn at(metrics: &Map<String, Value>, name: &str) -> f64 {
    metrics[name].as_f64().unwrap()
}

#[test]
fn an_adaptive_coefficient_follows_its_target() {
    let settings: KlReward = toml::from_str("coefficient = 0.5\ntarget = 0.1\nhorizon = 100").unwrap();
    assert_eq!(settings.adapted(0.5, Some(0.1), 50), 0.5, "on target it stays");
    // 20 % too far at most, times 50 episodes of a horizon of 100.
    assert!((settings.adapted(0.5, Some(10.0), 50) - 0.5 * 1.1).abs() < 1e-12);
    assert!((settings.adapted(0.5, Some(0.0), 50) - 0.5 * 0.9).abs() < 1e-12);
    assert!((settings.adapted(0.5, Some(0.11), 50) - 0.5 * 1.05).abs() < 1e-12);
    assert_eq!(settings.adapted(0.5, None, 50), 0.5, "an unknown KL is no KL of 0");
    let fixed: KlReward = toml::from_str("coefficient = 0.5").unwrap();
    assert_eq!(fixed.adapted(0.5, Some(10.0), 50), 0.5);
    assert!(toml::from_str::<KlReward>("coefficient = -1.0").unwrap().check().is_err());
}

/// Relative to its own start, the policy pays nothing until it has moved.
#[tokio::test(flavor = "multi_thread")]
async fn the_kl_in_the_reward_is_paid_by_every_episode() {
    for estimator in ["k1", "k2", "k3", "abs"] {
        let recipe = recipe(&[
            "train.steps=2",
            "eval.every=0",
            &format!("kl_reward={{ coefficient = 0.1, estimator = \"{estimator}\", target = 0.01, horizon = 100 }}"),
        ]);
        let (metrics, directory) = metrics_of(&setup(&recipe), &recipe).await;
        for name in ["loss/avg_kl", "batch_reward/kl"] {
            assert!(at(&metrics[0], name).abs() <= ROUNDING, "{estimator}, {name}");
        }
        assert_ne!(at(&metrics[1], "loss/avg_kl"), 0.0, "{estimator}");
        assert!(estimator == "k1" || at(&metrics[1], "loss/avg_kl") > 0.0, "{estimator}");
        assert!(at(&metrics[0], "reward/kl_coefficient") < 0.1, "below the target it falls");
        let traces = traces(&directory.path().join("run"));
        let paid = traces[4..13].iter().filter(|trace| trace.reward(KL).is_some()).count();
        assert_eq!(paid, 9, "every episode of the first step");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_may_be_another_model() {
    let directory = tempfile::tempdir().unwrap();
    let base = recipe(&[]);
    model(base.policy.model.as_ref().unwrap(), 99, directory.path());
    let reference = format!("policy.reference={:?}", directory.path());
    let settings =
        ["train.steps=1", "eval.every=0", "kl_reward={ coefficient = 0.1 }", "loss.kl={ coefficient = 0.1 }"];
    let mut with = settings.to_vec();
    with.push(&reference);
    let recipe = recipe(&with);
    let (metrics, _directory) = metrics_of(&setup(&recipe), &recipe).await;
    assert!(at(&metrics[0], "loss/avg_kl") > 0.0 && at(&metrics[0], "batch_reward/kl") < 0.0);
    assert!(at(&metrics[0], "policy/policy_kl") > 0.0, "the loss compares with it too");
}

/// A loss that looks at the whole optimizer step first sees the same, however the step is split into batches.
#[tokio::test(flavor = "multi_thread")]
async fn a_surveyed_loss_does_not_depend_on_how_a_step_is_split() {
    for loss in ["loss.top_entropy=0.5", "loss=kl_cov", "loss=clip_cov"] {
        let mut seen = Vec::new();
        for budget in ["train.batch_tokens=1", "train.batch_tokens=1000000"] {
            let recipe = recipe(&["train.steps=1", "eval.every=0", "train.mini_batch=0", loss, budget]);
            seen.push(metrics_of(&setup(&recipe), &recipe).await.0.remove(0));
        }
        for name in ["policy/policy_loss", "policy/grad_norm", "tokens/trained", "tokens/masked"] {
            let (split, whole) = (at(&seen[0], name), at(&seen[1], name));
            assert!((split - whole).abs() <= (1e-4 + ROUNDING) * (1.0 + whole.abs()), "{loss} {name}: {split} {whole}");
        }
        assert!(at(&seen[0], "policy/grad_norm") > 0.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn overlong_episodes_are_not_trained() {
    let recipe = recipe(&["train.steps=1", "eval.every=0", "overlong_filter=true", "sampling.max_new_tokens=3"]);
    let (metrics, _directory) = metrics_of(&setup(&recipe), &recipe).await;
    assert!(at(&metrics[0], "tokens/truncated") > 0.0);
    let places = ["trained", "truncated", "zero_advantage", "clipped", "masked", "unscored", "skipped"];
    let counted: f64 = places.iter().map(|place| at(&metrics[0], &format!("tokens/{place}"))).sum();
    assert_eq!(counted, at(&metrics[0], "tokens/sampled"));
}

/// Normalised separately, a component on a scale of 1e-6 contributes as much as the other.
#[tokio::test(flavor = "multi_thread")]
async fn gdpo_credits_the_rubrics_components() {
    struct Small;
    impl hone_arena::rewards::Measure for Small {
        fn measure(&self, case: &hone_arena::rewards::Case) -> hone_trace::Verdict {
            let first = case.tokens.as_deref().and_then(<[u32]>::first).copied().unwrap_or(0);
            hone_trace::Verdict::scored(1e-3 * f64::from(first % 7), "")
        }
    }
    let mut norms = Vec::new();
    for credit in ["credit=grpo", "credit=gdpo"] {
        let recipe = recipe(&["train.steps=1", "eval.every=0", credit]);
        let mut setup = setup(&recipe);
        let terms = vec![Term::new("even", 1.0, Even), Term::new("small", 1.0, Small)];
        setup.rubric = Arc::new(Rubric::new(terms, vec![]).unwrap());
        norms.push(at(&metrics_of(&setup, &recipe).await.0[0], "policy/grad_norm"));
    }
    assert!(norms.iter().all(|norm| *norm > 0.0) && (norms[0] - norms[1]).abs() > 1e-6, "{norms:?}");
}

/// A name in another spelling is the same algorithm, bit for bit, in its inputs and its metrics.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_in_another_spelling_trains_the_same() {
    for [canonical, spelled, option] in [
        ["credit=gdpo", "credit=GDPO", "name=tiny"],
        ["credit=turn_rloo", "credit=turn-rloo", "credit.discount=0.5"],
        ["credit=turn_returns", "credit=Turn-Returns", "credit.parse_failure=-1.0"],
    ] {
        let mut seen = Vec::new();
        for credit in [canonical, spelled] {
            let recipe = recipe(&["train.steps=1", "eval.every=0", credit, option]);
            let mut setup = setup(&recipe);
            let terms = vec![Term::new("even", 1.0, Even), Term::new("large", 0.5, Large)];
            setup.rubric = Arc::new(Rubric::new(terms, vec![]).unwrap());
            seen.push(metrics_of(&setup, &recipe).await.0);
        }
        assert!(at(&seen[0][0], "policy/grad_norm") > 0.0, "{canonical}");
        assert_eq!(seen[0], seen[1], "{spelled}");
    }
    let error = Recipe::parse("", &["credit=turn-rloo".into(), "credit.arguments.n=brier".into()]).unwrap_err();
    assert!(error.to_string().contains("gives every turn an advantage"), "{error}");
}

/// Sampled tokens, in hundreds: another scale than the other components'.
struct Large;

impl hone_arena::rewards::Measure for Large {
    fn measure(&self, case: &hone_arena::rewards::Case) -> hone_trace::Verdict {
        let first = case.tokens.as_deref().and_then(<[u32]>::first).copied().unwrap_or(0);
        hone_trace::Verdict::scored(100.0 * f64::from(first % 5), "")
    }
}

/// Before anything is loaded or made.
#[test]
fn a_recipe_that_cannot_be_credited_or_imitated_is_refused_when_it_is_read() {
    for (settings, says) in [
        (["credit=grpo", "credit.discount=0.5"], "turn_returns"),
        (["credit=grpo", "credit.argument_weight=0.5"], "credit.arguments is not"),
        (["credit=grpo", "credit.arguments_from=0.5"], "credit.arguments is not"),
        (["credit=grpo", "credit.arguments.n=brier"], "the rubric has"),
        (["name=a", "credit=gpro"], "grpo"),
        (["name=a", "sft.solutions_until=2"], "from 0 to 1"),
        (["name=a", "sft.copying_until=-1"], "from 0 to 1"),
    ] {
        let error = Recipe::parse("", &settings.map(str::to_owned)).unwrap_err().to_string();
        assert!(error.contains(says), "{settings:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_are_credited_as_the_recipe_says() {
    let mut norms = Vec::new();
    for more in ["name=a", "credit.discount=0.5", "credit.parse_failure=-1.0"] {
        let recipe = recipe(&["train.steps=1", "eval.every=0", "credit=turn_returns", more]);
        norms.push(at(&metrics_of(&setup(&recipe), &recipe).await.0[0], "policy/grad_norm"));
    }
    assert!(norms.iter().all(|norm| *norm > 0.0), "{norms:?}");
    let mut wrong = recipe(&["credit=grpo"]);
    wrong.credit.discount = Some(0.5);
    let directory = tempfile::tempdir().unwrap();
    let error = train(&setup(&wrong), &wrong, &directory.path().join("run"), &mut Silent).await.unwrap_err();
    assert!(error.to_string().contains("turn_returns"), "{error}");
}
