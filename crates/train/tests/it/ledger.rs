//! The signal ledger on made-up steps: every token is in one place, and the shares of the advantages' variance add up.

use std::collections::BTreeMap;

use hone_trace::{
    Advantage, Batch, BatchNode, Boundary, Fault, Group, LearnStats, Limit, LossStats, NoSignal, Outcome,
    PolicyVersion, Reward, StepReport, Target, ToolCall, Trace, TurnRecord,
};
use hone_train::ahead::StalenessTracker;
use hone_train::credit::{CreditRecipe, Weights, by_argument};
use hone_train::ledger::{Account, Ledger, Metrics, Optimized, Pass, Scheme, credited, learning, names, visits};
use proptest::prelude::*;

use crate::common::{Turn, group, trace};

const PLACES: [&str; 8] = [
    "tokens/faulted",
    "tokens/unscored",
    "tokens/truncated",
    "tokens/zero_advantage",
    "tokens/masked",
    "tokens/clipped",
    "tokens/skipped",
    "tokens/trained",
];

/// A trace with one turn of `tokens` tokens and these rewards.
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

/// A batch of one sequence with these advantages, and the learner's and loss's results for it.
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

/// A metric by its documented name.
fn get(metrics: &Metrics, name: &str) -> Option<f64> {
    metrics.get(names::named(name).unwrap())
}

fn at(metrics: &Metrics, name: &str) -> f64 {
    get(metrics, name).unwrap()
}

#[test]
fn every_sampled_token_is_in_exactly_one_place() {
    let mut faulted = episode(3, vec![]);
    faulted.outcome = Outcome::Fault { fault: Fault::new(Boundary::Environment, "died") };
    let mut truncated = episode(5, total(0.0));
    truncated.outcome = Outcome::Truncated { limit: Limit::Context };
    let first = Group::new(vec![
        faulted,
        episode(7, total(1.0)),
        episode(11, total(0.5)),
        episode(13, total(0.0)),
        truncated,
        episode(17, vec![Reward::unscored("total", "judge down")]),
    ]);
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
    let account = Account::of(&[first, second], &advantages);
    let sum = |tokens: &Metrics| PLACES.iter().map(|name| at(tokens, name)).sum::<f64>();
    let before = account.settled(visits(&[]));
    assert_eq!(at(&before, "tokens/sampled"), 116.0);
    // Not shown to an optimizer yet.
    assert_eq!((sum(&before), at(&before, "tokens/skipped")), (116.0, 20.0));
    let places = PLACES[..4].iter().map(|name| at(&before, name)).collect::<Vec<_>>();
    assert_eq!(places, [3.0, 17.0, 5.0, 11.0 + 60.0]);

    // Of the 20 credited tokens, 4 are clipped, 1 is masked; then the same again in a step that is not taken.
    let loss = LossStats { targets: 31, clipped: 4, masked: 3, trained: 15, ..LossStats::default() };
    let column = [vec![1.0; 7], vec![0.0; 11], vec![-1.0; 13]].concat();
    let (batch, stats) = learned(&column, loss);
    let mut pass = Pass::default();
    pass.add(&batch, &stats);
    let step = |skipped| Optimized { pass: pass.clone(), report: report(skipped) };
    let learned = |tokens: &Metrics| PLACES[4..].iter().map(|name| at(tokens, name)).collect::<Vec<_>>();
    let once = account.settled(visits(&[step(false)]));
    assert_eq!((learned(&once), sum(&once)), (vec![1.0, 4.0, 0.0, 15.0], 116.0));
    let both = [step(false), step(true)];
    let twice = account.settled(visits(&both));
    assert_eq!((learned(&twice), sum(&twice)), (vec![0.5, 2.0, 10.0, 7.5], 116.0));
    let undone = account.undone(visits(&both));
    assert_eq!((learned(&undone), sum(&undone)), (vec![0.5, 2.0, 17.5, 0.0], 116.0), "taken back");
    let metrics = learning(&both, 1e-3);
    assert_eq!(at(&metrics, "policy/skipped_steps"), 1.0);
    assert!((at(&metrics, "policy/rollout_train_logprobs_abs_diff_mean") - 0.1).abs() < 1e-6);
    assert!(learning(&[], 1e-3).iter().next().is_none(), "nothing learned, nothing said");
}

#[test]
fn a_recorded_step_reads_back() {
    let groups = [Group::new(vec![episode(3, total(1.0)), episode(3, total(0.0))])];
    let advantages = CreditRecipe::named("grpo").build(Weights::only("total")).unwrap().credit(&groups);
    let ledger = Ledger::of(4, [credited(&groups, &advantages, &Scheme::default())]);
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
    let ledger = credited(&groups, &advantages, &Scheme { weights, success: "a".into(), ..Scheme::default() });
    let share = |name: &str| get(&ledger, &format!("batch_reward/{name}/advantage_share")).unwrap();
    assert_eq!(share("b"), 0.0);
    // Totals centred: 0.125, -0.375, 0.625, -0.375, squares 0.6875; a centred ±0.5, penalty -0.375, 0.125 three times.
    assert!((share("a") - 0.75 / 0.6875).abs() < 1e-12 && (share("penalty") + 0.0625 / 0.6875).abs() < 1e-12);
    assert!(get(&ledger, "reward/advantage_share_rest").unwrap().abs() < 1e-12);
    assert_eq!((get(&ledger, "reward/success_rate"), get(&ledger, "reward/avg_pass_at_4")), (Some(0.5), Some(1.0)));
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
    // The first group has signal in answers and confidences, the second in confidences only, the third in neither.
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
    let ledger = credited(&groups, &credit.credit(&groups), &scheme);
    // Answers: four times 0.5² on eight tokens of ten. Confidences, on two of ten: 0.1² four times, 0.2² twice.
    let (answers, confidences) = (4.0 * 0.25 * 0.8, (4.0 * 0.01 + 2.0 * 0.04) * 0.2);
    let share = |name: &str| get(&ledger, &format!("batch_reward/{name}/advantage_share")).unwrap();
    assert!((share("r") - answers / (answers + confidences)).abs() < 1e-9, "{}", share("r"));
    assert!((share("calibration") - confidences / (answers + confidences)).abs() < 1e-9);
    assert!(get(&ledger, "reward/advantage_share_rest").unwrap().abs() < 1e-9);
    assert!((get(&ledger, "reward/signal_ratio").unwrap() - 1.0 / 3.0).abs() < 1e-12);
    assert!((get(&ledger, "batch_reward/calibration/signal_ratio").unwrap() - 2.0 / 3.0).abs() < 1e-12);
    assert_eq!(get(&ledger, "batch_reward/calibration/argument_found"), Some(1.0));
    assert!((get(&ledger, "loss/avg_raw_advantages_abs").unwrap() - 0.5 * 4.0 / 6.0).abs() < 1e-9);
}

/// A group with an unscored episode had fewer than n tries: counted as a failure it would lower pass@n.
#[test]
fn pass_at_n_is_of_groups_with_n_tries() {
    let scored = |value: f64| episode(2, vec![Reward::scored("a", value, ""), Reward::scored("total", value, "")]);
    let down = || episode(2, vec![Reward::unscored("a", "down"), Reward::unscored("total", "down")]);
    let groups =
        [Group::new(vec![scored(0.0), scored(1.0), scored(0.0)]), Group::new(vec![scored(0.0), scored(0.0), down()])];
    let advantages = CreditRecipe::named("grpo").build(Weights::only("total")).unwrap().credit(&groups);
    let scheme = Scheme { weights: vec![("a".into(), 1.0)], success: "a".into(), ..Scheme::default() };
    let ledger = credited(&groups, &advantages, &scheme);
    assert_eq!((get(&ledger, "reward/avg_pass_at_3"), get(&ledger, "reward/success_rate")), (Some(1.0), Some(0.2)));
    let none = credited(&groups[1..], &advantages[1..], &scheme);
    assert_eq!(get(&none, "reward/avg_pass_at_3"), None, "absent, not zero");
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
        let ledger = credited(&groups, &advantages, &scheme);
        let share = |name: &str| get(&ledger, &format!("batch_reward/{name}/advantage_share"));
        if let (Some(a), Some(b), Some(kl)) = (share("a"), share("b"), share("kl")) {
            prop_assert!((a + b + kl - 1.0).abs() < 1e-6, "{a} + {b} + {kl}");
            prop_assert!(get(&ledger, "reward/advantage_share_rest").unwrap().abs() < 1e-6);
        }
        let tokens = Account::of(&groups, &advantages).settled(visits(&[]));
        prop_assert_eq!(PLACES.iter().map(|name| at(&tokens, name)).sum::<f64>(), at(&tokens, "tokens/sampled"));
    }
}

/// Staleness is counted as far as a recipe may allow it, and is unknown where nothing was sampled.
#[test]
fn staleness_is_counted_up_to_the_largest_bound() {
    let staleness = |groups: &[Group], steps: u64| {
        let mut tracker = StalenessTracker::default();
        (1..=steps).for_each(|version| tracker.mark(version));
        let metrics = tracker.metrics(groups);
        (metrics.get(names::ASYNC_STALENESS_MEAN), metrics.get(names::ASYNC_STALENESS_MAX))
    };
    let groups = [group(&[Some(1.0)])];
    assert_eq!(staleness(&groups, 1_000), (Some(1000.0), Some(1000.0)));
    assert_eq!(staleness(&groups, 300), (Some(300.0), Some(300.0)));
    assert_eq!(staleness(&[], 3), (None, None));
}
