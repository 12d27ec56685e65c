//! The signal ledger on made-up steps: every token is in one place, and the shares of the advantages' variance add up.

use std::collections::BTreeMap;

use hone_trace::{
    Advantage, Batch, BatchNode, Boundary, Fault, Group, LearnStats, Limit, LossStats, NoSignal, Outcome,
    PolicyVersion, Reward, StepReport, Target, ToolCall, Trace, TurnRecord,
};
use hone_train::credit::{CreditRecipe, Weights, by_argument};
use hone_train::ledger::{Ledger, Pass, STALE, Scheme};
use proptest::prelude::*;

use crate::common::{Turn, trace};

const PLACES: [&str; 10] = [
    "tokens/faulted",
    "tokens/stale",
    "tokens/excluded",
    "tokens/unscored",
    "tokens/truncated",
    "tokens/zero_advantage",
    "tokens/masked",
    "tokens/clipped",
    "tokens/skipped",
    "tokens/trained",
];

/// A trace of one turn of so many tokens that earned this.
fn episode(tokens: usize, rewards: Vec<Reward>) -> Trace {
    trace(&[7], &[Turn { sampled: vec![1; tokens], answer: vec![] }], rewards)
}

fn total(value: f64) -> Vec<Reward> {
    vec![Reward::scored("total", value, "")]
}

fn report(skipped: bool) -> StepReport {
    let version = PolicyVersion { run: "r".into(), step: 1, weights: hone_trace::Digest::of(b"w") };
    let (grad_norm, skipped) = if skipped { (None, Some("not finite".into())) } else { (Some(1.0), None) };
    StepReport { version, grad_norm, skipped }
}

/// A batch of one sequence with these advantages, and what a learner and loss would say of it.
fn learned(advantages: &[f32], loss: LossStats) -> (Batch, LearnStats) {
    let target = |(offset, advantage): (usize, &f32)| Target {
        node: 0,
        offset: offset + 1,
        sampler: -1.0,
        behaviour: -1.0,
        old: Some(-1.0),
        advantage: *advantage,
        weight: 1.0,
    };
    let targets: Vec<_> = advantages.iter().enumerate().map(target).collect();
    let nodes = vec![BatchNode { parent: None, tokens: vec![0; advantages.len() + 1] }];
    let count = targets.len();
    let batch = Batch { nodes, targets, sequences: std::iter::once(0..count).collect(), temperature: 1.0 };
    let stats = LearnStats { logprobs: vec![-1.1; count], entropies: Some(vec![0.5; count]), loss };
    (batch, stats)
}

#[test]
fn every_sampled_token_is_in_exactly_one_place() {
    let mut faulted = episode(3, vec![]);
    faulted.outcome = Outcome::Fault { fault: Fault::new(Boundary::Environment, "died") };
    let mut truncated = episode(5, total(0.0));
    truncated.outcome = Outcome::Truncated { limit: Limit::Context };
    let mut first = Group::new(vec![
        faulted,
        episode(7, total(1.0)),
        episode(11, total(0.5)),
        episode(13, total(0.0)),
        truncated,
        episode(17, vec![Reward::unscored("total", "judge down")]),
        episode(19, total(1.0)),
        episode(23, total(1.0)),
    ]);
    first.exclude(6, "a duplicate");
    first.exclude(5, format!("{STALE}: three versions behind"));
    let second = Group::new(vec![episode(29, total(1.0)), episode(31, total(1.0))]);
    let advantages = vec![
        vec![
            Advantage::Whole { value: 1.0 },
            Advantage::Whole { value: 0.0 },
            Advantage::Whole { value: -1.0 },
            Advantage::None { why: NoSignal::Overlong },
            Advantage::None { why: NoSignal::Unscored },
        ],
        vec![Advantage::None { why: NoSignal::ZeroVariance }; 2],
    ];
    let mut ledger = Ledger::of(1, &[first, second], &advantages, &Scheme::default());
    let at = |ledger: &Ledger, name: &str| ledger.get(name).unwrap();
    let sum = |ledger: &Ledger| PLACES.iter().map(|name| at(ledger, name)).sum::<f64>();
    assert_eq!(at(&ledger, "tokens/sampled"), 158.0);
    // Not shown to an optimizer yet.
    assert_eq!((sum(&ledger), at(&ledger, "tokens/skipped")), (158.0, 20.0));
    let before = PLACES[..6].iter().map(|name| at(&ledger, name)).collect::<Vec<_>>();
    assert_eq!(before, [3.0, 19.0, 23.0, 17.0, 5.0, 11.0 + 60.0]);

    // Of the 20 credited tokens, 4 are clipped, 1 is masked; then the same again in a step that is not taken.
    let loss = LossStats { targets: 31, clipped: 4, masked: 3, trained: 15, ..LossStats::default() };
    let column = [vec![1.0; 7], vec![0.0; 11], vec![-1.0; 13]].concat();
    let (batch, stats) = learned(&column, loss);
    let mut pass = Pass::default();
    pass.add(&batch, &stats);
    ledger.learned(&pass, &report(false), 1e-3);
    let learned = |ledger: &Ledger| PLACES[6..].iter().map(|name| at(ledger, name)).collect::<Vec<_>>();
    assert_eq!((learned(&ledger), sum(&ledger)), (vec![1.0, 4.0, 0.0, 15.0], 158.0));
    ledger.learned(&pass, &report(true), 1e-3);
    assert_eq!((learned(&ledger), sum(&ledger)), (vec![0.5, 2.0, 10.0, 7.5], 158.0));
    assert_eq!(at(&ledger, "policy/skipped_steps"), 1.0);
    assert!((at(&ledger, "policy/rollout_train_logprobs_abs_diff_mean") - 0.1).abs() < 1e-6);
    assert_eq!(ledger.batches().len(), 2);
}

#[test]
fn a_recorded_step_reads_back() {
    let groups = [Group::new(vec![episode(3, total(1.0)), episode(3, total(0.0))])];
    let advantages = CreditRecipe::named("grpo").build(Weights::only("total")).unwrap().credit(&groups);
    let ledger = Ledger::of(4, &groups, &advantages, &Scheme::default());
    let read = Ledger::from_map(&ledger.to_map()).unwrap();
    assert_eq!((read.step, read.iter().collect::<Vec<_>>()), (4, ledger.iter().collect()));
    assert_eq!(Ledger::from_map(&serde_json::Map::new()), None);
}

#[test]
fn a_component_that_does_not_vary_has_no_share() {
    let rewards = |a: f64, b: f64, penalty: f64| {
        let all = [("a", a), ("b", b), ("penalty", penalty), ("total", a + 0.5 * b + penalty)];
        all.map(|(name, value)| Reward::scored(name, value, "")).to_vec()
    };
    let groups = [Group::new(vec![
        episode(2, rewards(1.0, 1.0, -0.5)),
        episode(2, rewards(0.0, 1.0, 0.0)),
        episode(2, rewards(1.0, 1.0, 0.0)),
        episode(2, rewards(0.0, 1.0, 0.0)),
    ])];
    let advantages = CreditRecipe::named("grpo").build(Weights::only("total")).unwrap().credit(&groups);
    let weights = [("a", 1.0), ("b", 0.5), ("penalty", 1.0)].map(|(name, weight)| (name.to_owned(), weight)).to_vec();
    let ledger = Ledger::of(1, &groups, &advantages, &Scheme { weights, success: "a".into(), ..Scheme::default() });
    let share = |name: &str| ledger.get(&format!("batch_reward/{name}/advantage_share")).unwrap();
    assert_eq!(share("b"), 0.0);
    // Totals centred: 0.125, -0.375, 0.625, -0.375, squares 0.6875; a centred ±0.5, penalty -0.375, 0.125 three times.
    assert!((share("a") - 0.75 / 0.6875).abs() < 1e-12 && (share("penalty") + 0.0625 / 0.6875).abs() < 1e-12);
    assert!(ledger.get("reward/advantage_share_rest").unwrap().abs() < 1e-12);
    assert_eq!((ledger.get("reward/success_rate"), ledger.get("reward/avg_pass_at_4")), (Some(0.5), Some(1.0)));
}

/// A component that pays an argument has the share of that argument's tokens, and its own ratio of groups with signal.
#[test]
fn a_component_that_pays_an_argument_has_its_share() {
    let stated = |right: f64, honest: f64| {
        let rewards = [("r", right), ("total", right), ("calibration", honest)];
        let mut trace = episode(10, rewards.map(|(name, value)| Reward::scored(name, value, "")).to_vec());
        let call = ToolCall::new("submit", serde_json::Map::from_iter([("confidence".to_owned(), 0.9.into())]));
        let arguments = vec![BTreeMap::from([("confidence".to_owned(), (6, 8))])];
        trace.turns = vec![TurnRecord { node: 1, calls: vec![call], arguments, executed: 1, ..TurnRecord::default() }];
        trace
    };
    // The first group tells answers and confidences apart, the second confidences alone, the third nothing.
    let groups = [
        Group::new(vec![stated(1.0, 0.9), stated(0.0, 0.2), stated(1.0, 0.7), stated(0.0, 0.6)]),
        Group::new(vec![stated(1.0, 0.9), stated(1.0, 0.7)]),
        Group::new(vec![stated(1.0, 0.8), stated(1.0, 0.8)]),
    ];
    let arguments = [("confidence".to_owned(), "calibration".to_owned())];
    let recipe = CreditRecipe { arguments: arguments.clone().into(), ..CreditRecipe::named("dr_grpo") };
    let components = [("r", 1.0), ("calibration", 0.0)];
    let credit = by_argument(&recipe, Weights::only("r"), &components).unwrap();
    let weights = components.map(|(name, weight)| (name.to_owned(), weight)).to_vec();
    let scheme = Scheme { weights, success: "r".into(), arguments: arguments.to_vec(), ..Scheme::default() };
    let ledger = Ledger::of(1, &groups, &credit.credit(&groups), &scheme);
    // Answers: four times 0.5² on eight tokens of ten. Confidences, on two of ten: 0.1² four times, 0.2² twice.
    let (answers, confidences) = (4.0 * 0.25 * 0.8, (4.0 * 0.01 + 2.0 * 0.04) * 0.2);
    let share = |name: &str| ledger.get(&format!("batch_reward/{name}/advantage_share")).unwrap();
    assert!((share("r") - answers / (answers + confidences)).abs() < 1e-9, "{}", share("r"));
    assert!((share("calibration") - confidences / (answers + confidences)).abs() < 1e-9);
    assert!(ledger.get("reward/advantage_share_rest").unwrap().abs() < 1e-9);
    assert!((ledger.get("reward/signal_ratio").unwrap() - 1.0 / 3.0).abs() < 1e-12);
    assert!((ledger.get("batch_reward/calibration/signal_ratio").unwrap() - 2.0 / 3.0).abs() < 1e-12);
    assert_eq!(ledger.get("batch_reward/calibration/argument_found"), Some(1.0));
    assert!((ledger.get("loss/avg_raw_advantages_abs").unwrap() - 0.5 * 4.0 / 6.0).abs() < 1e-9);
}

/// A group of which one episode was not scored had fewer than n tries: as a failure it would pull pass@n down.
#[test]
fn pass_at_n_is_of_groups_with_n_tries() {
    let scored = |value: f64| episode(2, vec![Reward::scored("a", value, ""), Reward::scored("total", value, "")]);
    let down = || episode(2, vec![Reward::unscored("a", "down"), Reward::unscored("total", "down")]);
    let groups =
        [Group::new(vec![scored(0.0), scored(1.0), scored(0.0)]), Group::new(vec![scored(0.0), scored(0.0), down()])];
    let advantages = CreditRecipe::named("grpo").build(Weights::only("total")).unwrap().credit(&groups);
    let scheme = Scheme { weights: vec![("a".into(), 1.0)], success: "a".into(), ..Scheme::default() };
    let ledger = Ledger::of(1, &groups, &advantages, &scheme);
    assert_eq!((ledger.get("reward/avg_pass_at_3"), ledger.get("reward/success_rate")), (Some(1.0), Some(0.2)));
    let none = Ledger::of(1, &groups[1..], &advantages[1..], &scheme);
    assert_eq!(none.get("reward/avg_pass_at_3"), None, "absent, not zero");
}

proptest! {
    #[test]
    fn shares_of_a_weighted_sum_add_up_to_one(
        table in prop::collection::vec(prop::collection::vec((-1.0..1.0f64, -1.0..1.0f64), 2..6), 1..5),
        weights in (0.1..2.0f64, 0.1..2.0f64),
        credit in prop::sample::select(vec!["grpo", "dr_grpo", "rloo", "grpo_batch", "gdpo"]),
        kl in prop::sample::select(vec![0.0, 0.3]),
    ) {
        let earn = |&(a, b): &(f64, f64)| {
            let total = weights.0 * a + weights.1 * b;
            let rewards = [("a", a), ("b", b), ("total", total), ("kl", -kl * a * a)];
            rewards.map(|(name, value)| Reward::scored(name, value, "")).to_vec()
        };
        let group = |rows: &Vec<(f64, f64)>| Group::new(rows.iter().map(|row| episode(2, earn(row))).collect());
        let groups: Vec<Group> = table.iter().map(group).collect();
        let apart = [("a", weights.0), ("b", weights.1), ("kl", 1.0)];
        let together = [("total", 1.0), ("kl", 1.0)];
        let counted = if credit == "gdpo" { Weights::new(apart) } else { Weights::new(together) };
        let advantages = CreditRecipe::named(credit).build(counted).unwrap().credit(&groups);
        let rubric = vec![("a".into(), weights.0), ("b".into(), weights.1)];
        let scheme = Scheme { weights: rubric, success: "a".into(), normalised: credit == "gdpo", ..Scheme::default() };
        let ledger = Ledger::of(1, &groups, &advantages, &scheme);
        let share = |name: &str| ledger.get(&format!("batch_reward/{name}/advantage_share"));
        if let (Some(a), Some(b), Some(kl)) = (share("a"), share("b"), share("kl")) {
            prop_assert!((a + b + kl - 1.0).abs() < 1e-6, "{a} + {b} + {kl}");
            prop_assert!(ledger.get("reward/advantage_share_rest").unwrap().abs() < 1e-6);
        }
        let places: f64 = PLACES.iter().map(|name| ledger.get(name).unwrap()).sum();
        prop_assert_eq!(places, ledger.get("tokens/sampled").unwrap());
    }
}
