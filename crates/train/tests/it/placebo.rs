//! The placebo, and the interval of the gain over it.

use hone_trace::{Advantage, NoSignal, Seed, Span};
use hone_train::evaluate::{Evaluation, wilson};
use hone_train::placebo::{Placebo, gain};
use hone_train::run::{recorded_recipe, train};

use crate::tiny::{Silent, recipe, setup, timeless};

fn whole(value: f64) -> Advantage {
    Advantage::Whole { value }
}

#[test]
fn shuffling_keeps_each_groups_advantages_and_who_has_none() {
    let none = Advantage::None { why: NoSignal::Unscored };
    let before = vec![
        vec![whole(1.0), none.clone(), whole(-2.0), whole(3.0), whole(4.0), whole(5.0)],
        vec![Advantage::PerTurn { values: vec![1.0, 2.0] }, Advantage::PerTurn { values: vec![-1.0] }],
    ];
    let mut after = before.clone();
    Placebo::Shuffle.treat(&mut after, Seed::root(0));
    let sorted = |group: &[Advantage]| {
        let mut values: Vec<String> = group.iter().map(|advantage| format!("{advantage:?}")).collect();
        values.sort();
        values
    };
    assert_ne!(before[0], after[0]);
    assert_eq!(sorted(&before[0]), sorted(&after[0]));
    assert_eq!(after[0][1], none);
    let lengths = |group: &[Advantage]| {
        group.iter().map(|a| if let Advantage::PerTurn { values } = a { values.len() } else { 0 }).collect::<Vec<_>>()
    };
    assert_eq!(lengths(&after[1]), [2, 1], "one value per turn of its own");

    let spans =
        |value, at: usize, own| Advantage::Spans { value, spans: vec![Span { start: at, end: at + 1, value: own }] };
    let mut parts = vec![vec![spans(1.0, 3, 5.0), spans(-1.0, 8, -5.0)]];
    let swapped = (0..64).any(|seed| {
        Placebo::Shuffle.treat(&mut parts, Seed::root(seed));
        parts[0][0] != spans(1.0, 3, 5.0)
    });
    assert!(swapped);
    assert_eq!(parts[0], [spans(-1.0, 3, -5.0), spans(1.0, 8, 5.0)], "a span stays where its text is");

    let mut again = before.clone();
    Placebo::Shuffle.treat(&mut again, Seed::root(0));
    assert_eq!(again, after);

    let mut constant = before;
    Placebo::Constant.treat(&mut constant, Seed::root(0));
    assert_eq!(constant[0][0], constant[0][5]);
    assert_eq!((constant[0][0].clone(), constant[0][1].clone()), (whole(19.0 / 8.0), none));
}

/// Newcombe 1998, table II, method 10, the first two examples: 56/70 against 48/80, and 9/10 against 3/10.
#[test]
fn the_interval_is_newcombes() {
    let of = |good: usize, n: usize| Evaluation {
        success: good as f64 / n as f64,
        ci: wilson(good, n),
        n,
        ..Evaluation::default()
    };
    for (a, b, low, high) in [((56, 70), (48, 80), 0.0524, 0.3339), ((9, 10), (3, 10), 0.1705, 0.8090)] {
        let found = gain(&of(a.0, a.1), &of(b.0, b.1));
        assert!((found.ci[0] - low).abs() < 5e-5 && (found.ci[1] - high).abs() < 5e-5, "{found:?}");
        assert!(found.ci[0] < found.difference && found.difference < found.ci[1]);
    }
}

/// The same recipe and seeds: the first batch is the same, what is learned from it is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_placebo_run_samples_the_same_and_learns_something_else() {
    let directory = tempfile::tempdir().unwrap();
    let (real, control) = (directory.path().join("real"), directory.path().join("control"));
    for (run, settings) in [(&real, &["train.steps=2"][..]), (&control, &["train.steps=2", "placebo=shuffle"])] {
        let recipe = recipe(settings);
        train(&setup(&recipe), &recipe, run, &mut Silent).await.unwrap();
    }
    assert_eq!(recorded_recipe(&control).unwrap().placebo, Some(Placebo::Shuffle));
    let (real, control) = (timeless(&real), timeless(&control));
    for name in ["tokens/sampled", "batch_reward/even", "reward/signal_ratio"] {
        assert_eq!(real[0][name], control[0][name], "{name}");
    }
    assert_ne!(real[0]["policy/grad_norm"], control[0]["policy/grad_norm"]);
}
