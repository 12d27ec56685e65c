//! Placebo: its advantages, and its KL bound.

use hone_trace::{Advantage, NoSignal, Seed, Span};
use hone_train::evaluate::ControlKind;
use hone_train::placebo::Placebo;
use hone_train::report::RunReport;
use hone_train::run::{recorded_recipe, resume, train};

use crate::tiny::{Copies, Silent, recipe, setup, timeless};

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

#[test]
fn permuting_goes_across_groups_and_loses_nothing() {
    let none = Advantage::None { why: NoSignal::Unscored };
    let before = vec![vec![whole(1.0), none.clone(), whole(2.0)], vec![whole(3.0), whole(4.0), whole(5.0)]];
    let mut after = before.clone();
    Placebo::Permute.treat(&mut after, Seed::root(0));
    let values = |groups: &[Vec<Advantage>]| {
        let mut values: Vec<f64> = groups.iter().flatten().flat_map(Advantage::values).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    assert_eq!((values(&after), &after[0][1]), (values(&before), &none));
    let crosses = (0..32).any(|seed| {
        let mut permuted = before.clone();
        Placebo::Permute.treat(&mut permuted, Seed::root(seed));
        permuted[0].iter().flat_map(Advantage::values).any(|value| value > 2.0)
    });
    assert!(crosses);
    let mut mixed = vec![
        vec![Advantage::Spans { value: 7.0, spans: vec![Span { start: 90, end: 91, value: 9.0 }] }],
        vec![whole(1.0)],
    ];
    let moved = (0..32).any(|seed| {
        Placebo::Permute.treat(&mut mixed, Seed::root(seed));
        mixed[1][0] == whole(7.0)
    });
    assert!(moved, "a span of another episode's text goes nowhere");
}

/// Noise at a rate that ruins the policy, bounded by the KL of a gentle run: at no step is the control further from the
/// start than the run, and it stays a policy. Without the bound it collapses.
#[tokio::test(flavor = "multi_thread")]
async fn a_permuted_control_stays_as_near_the_start_as_its_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let run = path("run");
    let gentle = recipe(&["train.kl_to_start=true", "train.learning_rate=1e-3", "eval.controls=false"]);
    train(&setup(&gentle), &gentle, &run, &mut Silent).await.unwrap();
    let within = format!("train.kl_within={:?}", run.display().to_string());
    let harsh = ["placebo=permute", "train.learning_rate=0.02", "eval.controls=false", "train.kl_to_start=true"];
    let (bound, free) = (recipe(&[&harsh[..], &[&within]].concat()), recipe(&harsh));
    let control = run.join("placebo");
    train(&setup(&bound), &bound, &control, &mut Silent).await.unwrap();
    train(&setup(&free), &free, &path("free"), &mut Silent).await.unwrap();
    let kl = |run: &std::path::Path| {
        let steps = timeless(run);
        steps.iter().map(|step| step["policy/kl_to_start"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    let (real, control_kl, free) = (kl(&run), kl(&control), kl(&path("free")));
    assert!(real.iter().all(|kl| *kl > 0.0), "{real:?}");
    for (step, (control, real)) in control_kl.iter().zip(&real).enumerate() {
        assert!(control <= real, "step {}: {control} is over {real}", step + 1);
    }
    assert!(free[2] > 2.0 * real[2], "without a bound it runs away: {free:?} beside {real:?}");
    let steps = timeless(&control);
    let rejected: Vec<_> = steps.iter().filter(|step| step["policy/kl_rejected"] == 1.0).collect();
    assert!(!rejected.is_empty() && rejected.iter().all(|step| step["tokens/trained"] == 0.0), "undone is not trained");
    assert!(!control.join("before-step").exists());

    // The run's report has the control, recounted from its directory.
    let report = RunReport::read(&run).unwrap();
    let found = report.held_out.controls.iter().find(|control| control.kind == ControlKind::Placebo).unwrap();
    assert_eq!((found.placebo, found.result.tasks), (Some(Placebo::Permute), 2));
    assert!(report.markdown().contains("the placebo (permute)"));

    let blind =
        recipe(&["placebo=permute", &format!("train.kl_within={:?}", path("free").join("none").display().to_string())]);
    assert!(train(&setup(&blind), &blind, &path("blind"), &mut Silent).await.is_err());
    assert!(!path("blind").exists(), "refused before it began");
}

/// A bounded control resumes as if it had not stopped.
#[tokio::test(flavor = "multi_thread")]
async fn a_bound_control_resumes_to_the_bit() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("run");
    let gentle = recipe(&["train.kl_to_start=true", "train.learning_rate=1e-3", "eval.controls=false", "eval.every=0"]);
    train(&setup(&gentle), &gentle, &run, &mut Silent).await.unwrap();
    let within = format!("train.kl_within={:?}", run.display().to_string());
    let bound =
        recipe(&["placebo=permute", "train.learning_rate=0.01", "eval.controls=false", "eval.every=0", &within]);
    let whole = directory.path().join("whole");
    let mut copies = Copies::new(&whole, directory.path());
    train(&setup(&bound), &bound, &whole, &mut copies).await.unwrap();
    for copy in &copies.taken {
        let recipe = recorded_recipe(copy).unwrap();
        resume(&setup(&recipe), &recipe, copy, &mut Silent).await.unwrap();
        assert_eq!(timeless(copy), timeless(&whole), "{}", copy.display());
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
