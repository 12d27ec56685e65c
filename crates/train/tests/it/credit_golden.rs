//! Advantages of TRL 1.16 against the estimators of the catalogue, where its definitions are ours.

use hone_trace::{Advantage, Credit, Group, NoSignal, Reward, Trace};
use hone_train::credit::{CreditRecipe, Weights};
use serde_json::Value;

use crate::common::{earned, recorded};

const EXACT: f64 = 1e-12;

struct Golden {
    rewards: Vec<Vec<Option<f64>>>,
    weights: Vec<f64>,
    size: usize,
    cases: Vec<Value>,
}

fn golden() -> Golden {
    let file = recorded("trl/trl_1_16_advantages.json");
    Golden {
        rewards: serde_json::from_value(file["rewards_per_func"].clone()).unwrap(),
        weights: serde_json::from_value(file["weights"].clone()).unwrap(),
        size: file["num_generations"].as_u64().unwrap() as usize,
        cases: file["cases"].as_array().unwrap().clone(),
    }
}

fn groups(traces: impl Iterator<Item = Trace>, size: usize) -> Vec<Group> {
    let traces: Vec<_> = traces.collect();
    traces.chunks(size).map(|chunk| Group::new(chunk.to_vec())).collect()
}

/// An estimator of the catalogue.
fn named(name: &str, weights: Weights) -> Box<dyn Credit> {
    CreditRecipe::named(name).build(weights).unwrap()
}

/// A trace without signal has no advantage here, and one of zero there.
fn check(case: &Value, credited: &[Vec<Advantage>]) {
    let expected: Vec<f64> = serde_json::from_value(case["advantages"].clone()).unwrap();
    let credited: Vec<_> = credited.iter().flatten().collect();
    assert_eq!(credited.len(), expected.len());
    for (advantage, expected) in credited.into_iter().zip(expected) {
        match advantage {
            Advantage::Whole { value } => assert!((value - expected).abs() < EXACT, "{value} is not {expected}"),
            other => assert!(expected.abs() < EXACT, "{other:?} is not {expected}"),
        }
    }
}

#[test]
fn grpo_matches_at_every_scale() {
    let golden = golden();
    // TRL counts a missing component as 0 in the sum, we do not: the estimator is compared on TRL's own sums.
    let total = |row: &Vec<Option<f64>>| {
        let parts = row.iter().zip(&golden.weights).filter_map(|(value, weight)| Some(value.as_ref()? * weight));
        row.iter().any(Option::is_some).then(|| parts.sum())
    };
    let groups = groups(golden.rewards.iter().map(|row| earned(total(row))), golden.size);
    for (case, name) in golden.cases.iter().zip(["grpo", "grpo_batch", "dr_grpo"]) {
        let credited = named(name, Weights::only("r")).credit(&groups);
        check(case, &credited);
        assert_eq!(credited[1][3], Advantage::None { why: NoSignal::Unscored });
        assert_eq!(credited[2][0], Advantage::None { why: NoSignal::ZeroVariance });
        assert!(credited[0].iter().all(|advantage| matches!(advantage, Advantage::Whole { .. })));
    }
}

#[test]
fn gdpo_matches_with_missing_components() {
    let golden = golden();
    let names = ["a", "b", "c"];
    let weights = Weights::new(names.into_iter().zip(golden.weights.iter().copied()));
    let with_components = |row: &Vec<Option<f64>>| {
        let mut trace = earned(None);
        let reward = |(name, value): (&str, &Option<f64>)| match value {
            Some(value) => Reward::scored(name, *value, ""),
            None => Reward::unscored(name, "none"),
        };
        trace.rewards = names.into_iter().zip(row).map(reward).collect();
        trace
    };
    let groups = groups(golden.rewards.iter().map(with_components), golden.size);
    let credited = named("gdpo", weights.clone()).credit(&groups);
    check(&golden.cases[3], &credited);
    assert_eq!(credited[1][3], Advantage::None { why: NoSignal::Unscored });
    assert_eq!(credited[2][0], Advantage::None { why: NoSignal::ZeroVariance });
    assert!(credited[0].iter().chain(&credited[1][..3]).all(|a| matches!(a, Advantage::Whole { .. })));

    // Where every component was scored, our weighted sum is TRL's too.
    let unscaled = named("dr_grpo", weights).credit(&groups[..1]);
    for (advantage, expected) in unscaled[0].iter().zip(golden.cases[2]["advantages"].as_array().unwrap()) {
        let Advantage::Whole { value } = advantage else { panic!("{advantage:?}") };
        assert!((value - expected.as_f64().unwrap()).abs() < EXACT);
    }
}
