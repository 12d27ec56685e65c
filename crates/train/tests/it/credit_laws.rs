//! Laws of credit assignment.

use std::collections::BTreeMap;

use hone_trace::{
    Advantage, Boundary, Credit, Fault, Group, Limit, NoSignal, Outcome, ParseFailure, Reward, ToolCall, TurnRecord,
};
use hone_trace::{ParseFailureKind, Trace};
use hone_train::credit::{
    BadCredit, CREDITS, CreditRecipe, Rloo, Schedule, TurnReturns, TurnRewards, TurnRloo, Weights, by_argument,
    mask_overlong,
};
use proptest::prelude::*;

use crate::common::{Turn, close, earned, group, trace};

fn rewards() -> impl Strategy<Value = Vec<Option<f64>>> {
    let reward = prop_oneof![4 => (0u32..5).prop_map(|step| Some(f64::from(step) / 4.0)), 1 => Just(None)];
    prop::collection::vec(reward, 1..8)
}

/// A group whose traces have one to three turns of different lengths.
fn multi_turn(rewards: &[Option<f64>], turns: &[usize]) -> Group {
    let traces = rewards.iter().zip(turns).map(|(reward, turns)| {
        let turns: Vec<Turn> = (0..*turns).map(|turn| Turn { sampled: vec![1; turn + 1], answer: vec![2] }).collect();
        trace(&[9], &turns, earned(*reward).rewards)
    });
    Group::new(traces.collect())
}

/// Every value of an advantage with the number of tokens it is for.
fn values(group: &Group, advantages: &[Advantage]) -> Vec<(f64, usize)> {
    let mut values = Vec::new();
    for (trace, advantage) in group.traces().iter().zip(advantages) {
        let nodes: Vec<usize> = trace.sampled().map(|(_, node)| node.tokens().len()).collect();
        match advantage {
            Advantage::Whole { value } => values.push((*value, nodes.iter().sum())),
            Advantage::PerTurn { values: turns } => values.extend(turns.iter().copied().zip(nodes)),
            Advantage::Spans { .. } => panic!("an estimator by itself knows no arguments"),
            Advantage::None { .. } => {}
        }
    }
    values
}

fn same(a: &Advantage, b: &Advantage) -> bool {
    match (a, b) {
        (Advantage::Whole { value: a }, Advantage::Whole { value: b }) => close(*a, *b, 1e-9),
        (Advantage::PerTurn { values: a }, Advantage::PerTurn { values: b }) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| close(*a, *b, 1e-9))
        }
        (a, b) => a == b,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn group_centred_advantages_sum_to_zero(rewards in prop::collection::vec(rewards(), 1..5)) {
        let groups: Vec<_> = rewards.iter().map(|rewards| group(rewards)).collect();
        for name in ["grpo", "grpo_batch", "dr_grpo", "rloo", "maxrl", "turn_returns"] {
            let credited = CreditRecipe::named(name).build(Weights::only("r")).unwrap().credit(&groups);
            for (group, advantages) in groups.iter().zip(&credited) {
                let sum: f64 = values(group, advantages).iter().map(|(value, _)| value).sum();
                prop_assert!(sum.abs() < 1e-7, "{name}: {sum}");
            }
        }
    }

    #[test]
    fn whitened_advantages_have_mean_zero_and_deviation_one_over_tokens(
        rewards in prop::collection::vec((0u32..5, 1usize..4), 3..9),
    ) {
        let (rewards, turns): (Vec<_>, Vec<_>) =
            rewards.into_iter().map(|(reward, turns)| (Some(f64::from(reward)), turns)).unzip();
        let groups = [multi_turn(&rewards, &turns)];
        for name in ["reinforce++", "reinforce++_baseline"] {
            let credited = CreditRecipe::named(name).build(Weights::only("r")).unwrap().credit(&groups);
            let values = values(&groups[0], &credited[0]);
            let tokens: f64 = values.iter().map(|(_, tokens)| *tokens as f64).sum();
            prop_assume!(tokens > 0.0);
            let mean: f64 = values.iter().map(|(value, tokens)| value * *tokens as f64).sum::<f64>() / tokens;
            let square: f64 = values.iter().map(|(value, tokens)| value * value * *tokens as f64).sum::<f64>();
            prop_assert!(mean.abs() < 1e-7);
            prop_assert!((square / (tokens - 1.0) - 1.0).abs() < 1e-5);
        }
    }

    #[test]
    fn order_does_not_matter(
        traces in prop::collection::vec((prop_oneof![3 => (0u32..4).prop_map(Some), 1 => Just(None)], 1usize..4), 2..7),
        seed in any::<u64>(),
    ) {
        let mut shuffled: Vec<usize> = (0..traces.len()).collect();
        hone_trace::Rng::new(seed).shuffle(&mut shuffled);
        let split = |order: &[usize]| {
            let (rewards, turns): (Vec<_>, Vec<_>) =
                order.iter().map(|&at| (traces[at].0.map(f64::from), traces[at].1)).unzip();
            multi_turn(&rewards, &turns)
        };
        let straight: Vec<usize> = (0..traces.len()).collect();
        for entry in CREDITS {
            let credit = CreditRecipe::named(entry.name).build(Weights::only("r")).unwrap();
            let (a, b) = (credit.credit(&[split(&straight)]), credit.credit(&[split(&shuffled)]));
            for (position, &at) in shuffled.iter().enumerate() {
                prop_assert!(same(&a[0][at], &b[0][position]), "{}", entry.name);
            }
        }
    }

    /// A fault or a missing reward changes no other trace's advantage.
    #[test]
    fn what_is_left_out_changes_nothing(scores in prop::collection::vec((0u32..4).prop_map(f64::from), 2..6)) {
        let healthy: Vec<Trace> = scores.iter().map(|score| earned(Some(*score))).collect();
        let mut faulted = earned(Some(0.0));
        faulted.outcome = Outcome::Fault { fault: Fault::new(Boundary::Environment, "died") };
        let with = |extra: Trace| Group::new(healthy.iter().cloned().chain([extra]).collect());
        for entry in CREDITS {
            let credit = CreditRecipe::named(entry.name).build(Weights::only("r")).unwrap();
            let alone = credit.credit(&[Group::new(healthy.clone())]);
            for group in [with(faulted.clone()), with(earned(None))] {
                let credited = credit.credit(std::slice::from_ref(&group));
                prop_assert_eq!(credited[0].len(), group.traces().len());
                for (a, b) in alone[0].iter().zip(&credited[0]) {
                    prop_assert!(same(a, b), "{}: {:?} and {:?}", entry.name, a, b);
                }
                for unscored in &credited[0][healthy.len()..] {
                    prop_assert_eq!(unscored, &Advantage::None { why: NoSignal::Unscored });
                }
            }
        }
    }

    /// Without discount and without rewards for turns, leave-one-out per turn is RLOO.
    #[test]
    fn turn_rloo_of_an_outcome_reward_is_rloo(
        traces in prop::collection::vec(((0u32..4).prop_map(|score| Some(f64::from(score))), 1usize..4), 1..6),
    ) {
        let (rewards, turns): (Vec<_>, Vec<_>) = traces.into_iter().unzip();
        let groups = [multi_turn(&rewards, &turns)];
        let weights = Weights::only("r");
        let per_turn = TurnRloo { weights: weights.clone(), discount: 1.0, turn_rewards: TurnRewards::default() };
        let (turns, whole) = (per_turn.credit(&groups), Rloo { weights }.credit(&groups));
        for (turns, whole) in turns[0].iter().zip(&whole[0]) {
            match (turns, whole) {
                (Advantage::PerTurn { values }, Advantage::Whole { value }) => {
                    prop_assert!(values.iter().all(|turn| close(*turn, *value, 1e-9)));
                }
                (a, b) => prop_assert_eq!(a, b),
            }
        }
    }
}

#[test]
fn a_group_that_cannot_compare_says_why() {
    let singles = ["grpo", "grpo_batch", "dr_grpo", "rloo", "maxrl", "reinforce++_baseline", "gdpo", "turn_rloo"];
    for name in singles.into_iter().chain(["turn_returns"]) {
        let credit = CreditRecipe::named(name).build(Weights::only("r")).unwrap();
        let credited = credit.credit(&[group(&[Some(1.0)]), group(&[Some(1.0), None])]);
        assert_eq!(credited[0], [Advantage::None { why: NoSignal::Singleton }], "{name}");
        assert_eq!(credited[1][0], Advantage::None { why: NoSignal::Singleton }, "{name}");
        assert_eq!(credited[1][1], Advantage::None { why: NoSignal::Unscored }, "{name}");
    }
    for entry in CREDITS {
        let credited =
            CreditRecipe::named(entry.name).build(Weights::only("r")).unwrap().credit(&[group(&[Some(0.3); 4])]);
        // Turns of one trace differ by their discount even where the rewards do not; these have one turn each.
        assert_eq!(credited[0], vec![Advantage::None { why: NoSignal::ZeroVariance }; 4], "{}", entry.name);
    }
}

#[test]
fn maxrl_refuses_a_mean_that_would_turn_the_sign() {
    let credit = CreditRecipe::named("maxrl").build(Weights::only("r")).unwrap();
    let credited = credit.credit(&[group(&[Some(-1.0), Some(0.5)]), group(&[Some(0.0), Some(1.0)])]);
    assert_eq!(credited[0], vec![Advantage::None { why: NoSignal::NoSuccess }; 2]);
    let expected = 0.5 / (0.5 + 1e-6);
    assert_eq!(credited[1], [Advantage::Whole { value: -expected }, Advantage::Whole { value: expected }]);
}

#[test]
fn a_component_that_is_down_leaves_with_its_weight() {
    let weights = Weights::new([("a", 1.0), ("b", 3.0)]);
    let with = |rewards| trace(&[1], &[Turn { sampled: vec![1], answer: vec![] }], rewards);
    let both = with(vec![Reward::scored("a", 0.5, ""), Reward::scored("b", 1.0, "")]);
    assert_eq!(weights.total(&both), Some(3.5));
    let one = with(vec![Reward::scored("a", 0.5, ""), Reward::unscored("b", "down")]);
    assert_eq!(weights.total(&one), Some(2.0));
    assert_eq!(weights.total(&with(vec![Reward::unscored("a", "down")])), None);
}

#[test]
fn discounted_returns_reward_late_turns_of_a_success_and_blame_the_turn_that_failed() {
    let weights = Weights::only("r");
    let mut groups = [multi_turn(&[Some(1.0), Some(0.0)], &[3, 1])];
    let credit = TurnReturns { weights: weights.clone(), discount: 0.5, turn_rewards: TurnRewards::default() };
    let credited = credit.credit(&groups);
    let mean = (0.25 + 0.5 + 1.0 + 0.0) / 4.0;
    assert_eq!(credited[0][0], Advantage::PerTurn { values: vec![0.25 - mean, 0.5 - mean, 1.0 - mean] });
    assert_eq!(credited[0][1], Advantage::PerTurn { values: vec![-mean] });

    let mut failed = groups[0].traces()[0].clone();
    let node = failed.nodes().iter().position(|node| node.as_sampled().is_some()).unwrap();
    let failure =
        ParseFailure { kind: ParseFailureKind::MalformedJson, message: String::new(), at: 0, hint: String::new() };
    failed.turns.push(TurnRecord { node, failure: Some(failure), failed: 2, ..TurnRecord::default() });
    groups[0] = Group::new(vec![failed, groups[0].traces()[1].clone()]);
    let turn_rewards = TurnRewards { parse_failure: -1.0, failed_call: -0.25 };
    let credited = TurnRloo { weights, discount: 1.0, turn_rewards }.credit(&groups);
    // Only the first turn pays for its failure; the others get RLOO's value.
    assert_eq!(credited[0][0], Advantage::PerTurn { values: vec![-0.5, 1.0, 1.0] });
}

#[test]
fn an_overlong_trace_is_not_trained_but_was_counted() {
    let mut cut = earned(Some(0.0));
    cut.outcome = Outcome::Truncated { limit: Limit::ReplyTokens };
    let mut turns = earned(Some(0.0));
    turns.outcome = Outcome::Truncated { limit: Limit::Turns };
    let groups = [Group::new(vec![earned(Some(1.0)), cut, turns])];
    let mut advantages = CreditRecipe::named("dr_grpo").build(Weights::only("r")).unwrap().credit(&groups);
    let before = advantages.clone();
    mask_overlong(&groups, &mut advantages);
    assert_eq!(advantages[0][1], Advantage::None { why: NoSignal::Overlong });
    assert_eq!(advantages[0][0], before[0][0]);
    assert_eq!(advantages[0][2], before[0][2]);
}

#[test]
fn negative_advantages_count_what_the_recipe_says() {
    let groups = [group(&[Some(1.0), Some(0.0), Some(0.0), Some(1.0)])];
    let credited = |negative| {
        let recipe = CreditRecipe { negative, ..CreditRecipe::named("dr_grpo") };
        let advantages = recipe.build(Weights::only("r")).unwrap().credit(&groups);
        advantages[0]
            .iter()
            .map(|a| if let Advantage::Whole { value } = a { *value } else { f64::NAN })
            .collect::<Vec<_>>()
    };
    assert_eq!(credited(None), [0.5, -0.5, -0.5, 0.5]);
    assert_eq!(credited(Some(0.2)), [0.5, -0.1, -0.1, 0.5]);
    let wrong = CreditRecipe { negative: Some(-1.0), ..CreditRecipe::named("grpo") };
    assert!(wrong.build(Weights::only("r")).is_err());
}

/// An episode of two turns, the second of which submits a confidence in its tokens 5 to 8, and what it earned for its
/// answer and for the confidence.
fn stated(right: f64, honest: f64) -> Trace {
    let turn = |length: u32| Turn { sampled: (0..length).collect(), answer: vec![] };
    let rewards = vec![Reward::scored("r", right, ""), Reward::scored("calibration", honest, "")];
    let mut trace = trace(&[9], &[turn(4), turn(12)], rewards);
    let call = ToolCall::new("submit", serde_json::Map::from_iter([("confidence".to_owned(), 0.9.into())]));
    let arguments = vec![BTreeMap::from([("confidence".to_owned(), (5, 9))])];
    trace.turns.push(TurnRecord { node: 1, ..TurnRecord::default() });
    trace.turns.push(TurnRecord { node: 3, calls: vec![call], arguments, executed: 1, ..TurnRecord::default() });
    trace
}

/// The confidence's tokens among the sampled ones.
const STATED: std::ops::Range<usize> = 9..13;

fn by_confidence() -> CreditRecipe {
    let arguments = BTreeMap::from([("confidence".to_owned(), "calibration".to_owned())]);
    CreditRecipe { negative: Some(0.1), arguments, ..CreditRecipe::named("dr_grpo") }
}

#[test]
fn an_argument_is_paid_by_its_own_component_and_nothing_else_is() {
    let recipe = by_confidence();
    let build = |recipe: &CreditRecipe, weight: f64| {
        by_argument(recipe, Weights::only("r"), &[("r", 1.0), ("calibration", weight)])
    };
    let credit = build(&recipe, 0.0).unwrap();
    let group = Group::new(vec![stated(1.0, 0.99), stated(0.0, 0.75), stated(1.0, 0.75), stated(0.0, 0.19)]);
    // A confidence is compared with the others of the same reward: 0.99 with 0.87 on average, 0.75 with 0.47.
    let wanted = [(0.5, 0.12), (-0.05, 0.28), (0.5, -0.12), (-0.05, -0.28)];
    let credited = credit.credit(std::slice::from_ref(&group));
    for (advantage, (value, stated)) in credited[0].iter().zip(wanted) {
        for (token, paid) in advantage.per_token([4, 12]).unwrap().into_iter().enumerate() {
            let wanted = if STATED.contains(&token) { stated } else { value };
            assert!(close(paid, wanted, 1e-9), "token {token} has {paid}, not {wanted}");
        }
    }

    // All wrong: the answers teach nothing, the confidences do.
    let wrong = Group::new(vec![stated(0.0, 0.19), stated(0.0, 0.99)]);
    let credited = credit.credit(std::slice::from_ref(&wrong));
    assert!(matches!(&credited[0][0], Advantage::Spans { value, spans } if *value == 0.0 && spans[0].value < 0.0));

    assert!(matches!(build(&recipe, 0.5), Err(BadCredit::PaidTwice { .. })));
    let missing = CreditRecipe { arguments: BTreeMap::from([("confidence".into(), "brier".into())]), ..recipe.clone() };
    assert!(matches!(build(&missing, 0.0), Err(BadCredit::NoComponent { .. })));
    let slow = CreditRecipe { argument_weight: Some(0.1), ..recipe.clone() };
    let slowly = build(&slow, 0.0).unwrap().credit(std::slice::from_ref(&wrong));
    let first = |credited: &[Vec<Advantage>]| match &credited[0][0] {
        Advantage::Spans { spans, .. } => spans[0].value,
        other => panic!("{other:?}"),
    };
    assert!(close(first(&slowly), 0.1 * first(&credited), 1e-12));
    // The first four of ten steps give it no credit, and its value is no signal then.
    let late = CreditRecipe { arguments_from: Some(0.4), ..recipe.clone() };
    let schedule = Schedule::new(&late, 10, Weights::only("r"), &[("r", 1.0), ("calibration", 0.0)]).unwrap();
    for step in 1..=10 {
        let credited = schedule.at(step).credit(std::slice::from_ref(&wrong));
        assert_eq!(matches!(&credited[0][0], Advantage::None { .. }), step <= 4, "step {step}");
    }
    let paid = schedule.at(4).credit(std::slice::from_ref(&group));
    assert!(matches!(&paid[0][0], Advantage::Spans { value, spans } if *value == 0.5 && spans[0].value == 0.0));

    let heavy = CreditRecipe { argument_weight: Some(2.0), ..recipe.clone() };
    assert!(matches!(build(&heavy, 0.0), Err(BadCredit::Range { .. })));
    let of_none = CreditRecipe { arguments: BTreeMap::new(), ..slow };
    assert!(matches!(build(&of_none, 0.0), Err(BadCredit::NoArguments { .. })));
    let turns = CreditRecipe { name: "turn_rloo".into(), ..recipe };
    assert!(matches!(build(&turns, 0.0), Err(BadCredit::PerTurnArguments { .. })));
}

/// Credit by skill pays nothing for stating the base rate, and credits the same tokens.
#[test]
fn skill_is_paid_over_the_base_rate_of_the_batch() {
    let components = [("r", 1.0), ("calibration", 0.0)];
    let recipe = CreditRecipe { skill_over: Some("r".into()), ..by_confidence() };
    let credit = by_argument(&recipe, Weights::only("r"), &components).unwrap();
    let forecast = |confidence: f64, right: f64| stated(right, 1.0 - (confidence - right) * (confidence - right));
    let paid = |groups: &[Group]| -> Vec<f64> {
        let of = |advantage: &Advantage| match advantage {
            Advantage::Spans { spans, .. } => spans[0].value,
            Advantage::None { .. } => 0.0,
            other => panic!("{other:?}"),
        };
        credit.credit(groups).iter().flatten().map(of).collect()
    };
    // Three of four right, in two groups: 0.75 is the base rate.
    let batch = |said: [f64; 4]| {
        let [a, b, c, d] = said;
        [Group::new(vec![forecast(a, 1.0), forecast(b, 1.0)]), Group::new(vec![forecast(c, 1.0), forecast(d, 0.0)])]
    };
    assert!(paid(&batch([0.75; 4])).iter().all(|value| value.abs() < 1e-12));
    let wanted = [0.0625 - 0.01, 0.0625 - 0.01, 0.0625 - 0.01, 0.5625 - 0.04];
    assert!(paid(&batch([0.9, 0.9, 0.9, 0.2])).iter().zip(wanted).all(|(a, b)| close(*a, b, 1e-12)));

    let build = |recipe: &CreditRecipe| by_argument(recipe, Weights::only("r"), &components).map(|_| ());
    let elsewhere = CreditRecipe { skill_over: Some("right".into()), ..by_confidence() };
    assert!(matches!(build(&elsewhere), Err(BadCredit::NoOutcome { .. })));
    let of_none = CreditRecipe { arguments: BTreeMap::new(), ..recipe };
    assert!(matches!(build(&of_none), Err(BadCredit::NoArguments { option: "skill_over" })));
}

type Break = fn(&mut TurnRecord);

/// An argument counts if exactly one call with it ran; an ambiguous or unrecorded one is credited as a whole.
#[test]
fn an_argument_that_is_not_known_is_credited_as_the_rest() {
    let credit = by_argument(&by_confidence(), Weights::only("r"), &[("r", 1.0), ("calibration", 0.0)]).unwrap();
    let broken: [(&str, Break); 5] = [
        ("the call did not run", |turn| turn.executed = 0),
        ("another call says it too", |turn| {
            turn.calls.push(turn.calls[0].clone());
            turn.executed = 2;
        }),
        ("the record is old", |turn| turn.arguments.clear()),
        ("the record is of other tokens", |turn| _ = turn.arguments[0].insert("confidence".into(), (5, 99))),
        ("nobody said it", |turn| turn.calls[0].arguments.clear()),
    ];
    for (why, broken) in broken {
        let mut trace = stated(1.0, 0.2);
        broken(trace.turns.last_mut().unwrap());
        assert_eq!(trace.argument("confidence"), None, "{why}");
        let credited = credit.credit(&[Group::new(vec![trace, stated(0.0, 0.75)])]);
        assert_eq!(credited[0][0], Advantage::Spans { value: 0.5, spans: vec![] }, "{why}");
    }
    assert_eq!(stated(1.0, 0.2).argument("confidence"), Some(STATED));
}
