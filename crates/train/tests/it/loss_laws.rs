//! Laws every loss keeps.

use hone_trace::Loss;
use hone_train::loss::{
    Anchor, BadLoss, Bound, Cispo, Clip, Correction, Estimator, Importance, Kl, LOSSES, Level, LossRecipe, Objective,
    Reduction, Spread,
};
use proptest::prelude::*;

use crate::common::{Columns, close};

/// Token counts of the sequences, and for every token (logp, log ratio, gap to the sampler, advantage, entropy).
type Raw = Vec<Vec<(f64, f64, f64, f64, f64)>>;

fn raw() -> impl Strategy<Value = Raw> {
    let token = (-4.0..-0.05, -0.6..0.6, -0.3..0.3, -2.0..2.0, 0.0..2.0);
    prop::collection::vec(prop::collection::vec(token, 1..6), 1..6)
}

/// One advantage for each sequence, weights by the reduction.
fn columns(raw: &Raw, reduction: Reduction) -> Columns {
    let counts: Vec<usize> = raw.iter().map(Vec::len).collect();
    let weights = reduction.weights(&[counts]).remove(0);
    let mut columns = Columns::default();
    for (sequence, weight) in raw.iter().zip(weights) {
        let start = columns.logp.len();
        let advantage = sequence[0].3;
        for &(logp, ratio, gap, _, entropy) in sequence {
            columns.logp.push(logp);
            columns.old.push(logp - ratio);
            columns.sampler.push(logp - ratio - gap);
            columns.reference.push(logp + gap * 2.0);
            columns.advantage.push(advantage);
            columns.weight.push(weight);
            columns.entropy.push(entropy);
        }
        columns.sequences.push(start..columns.logp.len());
    }
    columns
}

/// The loss with its defaults; a number that has none is 8.
fn named(name: &str) -> Objective {
    let mut recipe = LossRecipe::named(name);
    loop {
        match recipe.build() {
            Err(BadLoss::Missing { option, .. }) => recipe.hyperparameters.insert(option.to_owned(), 8.0),
            built => break built.unwrap(),
        };
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    LOSSES.iter().map(|entry| entry.name)
}

/// Every name, and a few compositions with everything on.
fn objectives() -> Vec<(String, Objective)> {
    let mut all: Vec<_> = names().map(|name| (name.to_owned(), named(name))).collect();
    for (index, name) in names().enumerate() {
        let estimators = [Estimator::K1, Estimator::K2, Estimator::K3, Estimator::Abs];
        let spreads = [Spread::Token, Spread::Sequence, Spread::Geometric];
        let bounds = [Bound::Truncate, Bound::Mask];
        let full = Objective {
            kl: Some(Kl { coefficient: 0.1, estimator: estimators[index % 4], bias_correction: index % 3 != 0 }),
            correction: Some(Correction {
                spread: spreads[index % 3],
                bound: bounds[index % 2],
                min: Some(0.6),
                max: 1.5,
            }),
            off_policy_mask: Some(0.1),
            top_entropy: Some(0.5),
            entropy_bonus: 0.01,
            ..named(name)
        };
        all.push((format!("{name} with everything"), full));
    }
    all
}

/// Central differences. `None` if there is a kink between the two sides: the two one-sided slopes differ.
fn difference(value: impl Fn(f64) -> f64) -> Option<f64> {
    let step = 1e-6;
    let (up, here, down) = (value(step), value(0.0), value(-step));
    let (right, left) = ((up - here) / step, (here - down) / step);
    ((right - left).abs() < 1e-4 * (1.0 + right.abs())).then(|| (up - down) / (2.0 * step))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn gradients_are_finite_differences(raw in raw()) {
        for (name, objective) in objectives() {
            if objective.stops_gradient() {
                continue;
            }
            let columns = columns(&raw, objective.reduction);
            // Selections and thresholds are constants of the step.
            let loss = objective.over(Some(objective.step_stats(&[columns.view()])));
            let (_, gradient) = columns.grad(&loss);
            for (index, gradient) in gradient.iter().enumerate() {
                let value = |step: f64| {
                    let mut moved = columns.clone();
                    moved.logp[index] += step;
                    moved.grad(&loss).0.loss
                };
                if let Some(expected) = difference(value) {
                    prop_assert!(close(*gradient, expected, 1e-6), "{name} at {index}: {gradient}, not {expected}");
                }
            }
        }
    }

    #[test]
    fn splitting_a_step_changes_nothing(raw in raw(), cut in 0usize..6) {
        for (name, objective) in objectives() {
            let whole = columns(&raw, objective.reduction);
            let cut = cut.min(whole.sequences.len());
            let parts = [whole.part(0..cut), whole.part(cut..whole.sequences.len())];
            let (together, gradient) = whole.grad(&objective);
            let step_stats = objective.needs_step_stats().then(|| objective.step_stats(&[parts[0].view(), parts[1].view()]));
            let loss = objective.over(step_stats);
            let (mut apart, mut joined) = parts[0].grad(&loss);
            let (second, rest) = parts[1].grad(&loss);
            apart += second;
            joined.extend(rest);
            prop_assert!(close(apart.loss, together.loss, 1e-12), "{name}");
            prop_assert_eq!((apart.clipped, apart.masked, apart.targets), (together.clipped, together.masked, together.targets));
            prop_assert!(close(apart.kl.unwrap_or(0.0), together.kl.unwrap_or(0.0), 1e-12));
            for (a, b) in joined.iter().zip(&gradient) {
                prop_assert!(close(*a, *b, 1e-12), "{name}: {a} and {b}");
            }
        }
    }

    #[test]
    fn the_order_of_sequences_does_not_matter(raw in raw()) {
        let mut reversed = raw.clone();
        reversed.reverse();
        for (name, objective) in objectives() {
            let (a, b) = (columns(&raw, objective.reduction), columns(&reversed, objective.reduction));
            let ((forward, forward_gradient), (backward, backward_gradient)) = (a.grad(&objective), b.grad(&objective));
            prop_assert!(close(forward.loss, backward.loss, 1e-9), "{name}");
            for (range, mirrored) in a.sequences.iter().zip(b.sequences.iter().rev()) {
                for (x, y) in forward_gradient[range.clone()].iter().zip(&backward_gradient[mirrored.clone()]) {
                    prop_assert!(close(*x, *y, 1e-9), "{name}");
                }
            }
        }
    }

    /// If no token has moved, every ratio loss has the gradient of REINFORCE: −weight × advantage.
    #[test]
    fn on_policy_all_ratio_losses_share_one_gradient(raw in raw()) {
        for name in names() {
            let objective = named(name);
            let mut columns = columns(&raw, objective.reduction);
            columns.old.clone_from(&columns.logp);
            columns.sampler.clone_from(&columns.logp);
            let (stats, gradient) = columns.grad(&objective);
            let step_stats = objective.step_stats(&[columns.view()]);
            // Clip-Cov removes gradients on purpose.
            if name == "clip_cov" && step_stats.score_floor.is_some() {
                prop_assert!(stats.clipped > 0);
                continue;
            }
            for (index, gradient) in gradient.iter().enumerate() {
                let expected = -columns.weight[index] * columns.advantage[index];
                prop_assert!(close(*gradient, expected, 1e-12), "{name}: {gradient}, not {expected}");
            }
        }
    }

    /// Sequences with one advantage: GSPO's two forms are the same loss, and CISPO is REINFORCE with a bounded weight.
    #[test]
    fn what_is_held_fixed_weighs_the_gradient(raw in raw()) {
        let columns = columns(&raw, Reduction::SequenceMean);
        let ((sequence, by_sequence), (token, by_token)) = (columns.grad(&named("gspo")), columns.grad(&named("gspo_token")));
        prop_assert!(close(sequence.loss, token.loss, 1e-12));
        let (_, cispo) = columns.grad(&Objective::new(Cispo { cap: 1.3 }, Reduction::SequenceMean));
        for at in 0..cispo.len() {
            prop_assert!(close(by_sequence[at], by_token[at], 1e-12));
            let ratio = (columns.logp[at] - columns.old[at]).exp().min(1.3);
            prop_assert!(close(cispo[at], -columns.weight[at] * ratio * columns.advantage[at], 1e-12));
        }
    }

    #[test]
    fn the_gradient_is_zero_where_clipped(
        logp in -3.0..-0.05f64, ratio in -1.5..1.5f64, advantage in prop_oneof![-2.0..-0.1, 0.1..2.0],
    ) {
        let rho = f64::exp(ratio);
        let one = |objective: &Objective| {
            let columns = columns(&vec![vec![(logp, ratio, 0.0, advantage, 1.0)]], objective.reduction);
            let (stats, gradient) = columns.grad(objective);
            (stats.clipped == 1, gradient[0])
        };
        let silent = |name: &str, expected: bool| {
            let (clipped, gradient) = one(&named(name));
            prop_assert_eq!(clipped, expected, "{} at {}", name, rho);
            prop_assert_eq!(gradient == 0.0, expected, "{} at {}", name, rho);
            Ok(())
        };
        let beyond = |low: f64, high: f64| if advantage > 0.0 { rho > 1.0 + high } else { rho < 1.0 - low };
        for name in ["clip", "grpo", "bnpo", "luspo", "dr_grpo"] {
            silent(name, beyond(0.2, 0.2))?;
        }
        silent("dapo", beyond(0.2, 0.28))?;
        silent("gspo", beyond(3e-4, 4e-4))?;
        silent("gspo_token", beyond(3e-4, 4e-4))?;
        silent("dual_clip", beyond(0.2, 0.2) || (advantage < 0.0 && rho > 3.0))?;
        silent("rollout_is", !(0.8..=1.2).contains(&rho))?;
        let (pi, mu) = (logp.exp(), (logp - ratio).exp());
        if mu < 1.0 {
            let outward = if advantage > 0.0 { pi > mu } else { pi < mu };
            silent("dppo", outward && (pi - mu).abs() > 0.2)?;
            let coin = mu * (mu / pi).ln() + (1.0 - mu) * ((1.0 - mu) / (1.0 - pi)).ln();
            silent("dppo_kl", outward && coin > 0.05)?;
        }
        for name in ["cispo", "sapo", "vespo", "importance_sampling", "reinforce", "kl_cov"] {
            prop_assert!(!one(&named(name)).0, "{name} never clips");
        }
    }

    /// Masked tokens add neither value nor gradient, and everything else stays as it was.
    #[test]
    fn masks_are_respected(raw in raw(), threshold in -0.3..0.3f64, share in 0.1..0.9f64) {
        let plain = named("dapo");
        let columns = columns(&raw, plain.reduction);
        let (_, free) = columns.grad(&plain);
        let gap = |range: &std::ops::Range<usize>| {
            range.clone().map(|at| columns.sampler[at] - columns.logp[at]).sum::<f64>() / range.len() as f64
        };
        let (stats, masked) = columns.grad(&Objective { off_policy_mask: Some(threshold), ..named("dapo") });
        let mut count = 0;
        for range in &columns.sequences {
            for at in range.clone() {
                let out = columns.advantage[at] < 0.0 && gap(range) > threshold;
                count += u64::from(out);
                prop_assert_eq!(masked[at], if out { 0.0 } else { free[at] });
            }
        }
        prop_assert_eq!(stats.masked, count);

        let (_, masked) = columns.grad(&Objective { top_entropy: Some(share), ..named("dapo") });
        let lowest_kept = (0..masked.len())
            .filter(|&at| masked[at] != 0.0)
            .map(|at| columns.entropy[at])
            .fold(f64::INFINITY, f64::min);
        for (at, gradient) in masked.iter().enumerate() {
            let kept = columns.entropy[at] >= lowest_kept;
            prop_assert_eq!(*gradient, if kept { free[at] } else { 0.0 });
        }
        // At least the share that was asked for could pass, and no more than one token beyond it.
        let passed = columns.entropy.iter().filter(|entropy| **entropy >= lowest_kept).count() as f64;
        prop_assert!(passed <= share * masked.len() as f64 + 1.0);
    }

    /// A factor held fixed: the gradient is that of the uncorrected loss, times the bounded ratio.
    #[test]
    fn corrections_weigh_the_surrogate(raw in raw()) {
        let plain = named("dapo");
        let columns = columns(&raw, plain.reduction);
        let (_, free) = columns.grad(&plain);
        for (spread, bound) in [Spread::Token, Spread::Sequence, Spread::Geometric]
            .into_iter()
            .flat_map(|spread| [Bound::Truncate, Bound::Mask].map(|bound| (spread, bound)))
        {
            let correction = Some(Correction { spread, bound, min: Some(0.9), max: 1.2 });
            let (_, corrected) = columns.grad(&Objective { correction, ..named("dapo") });
            for range in &columns.sequences {
                let total: f64 = range.clone().map(|at| columns.old[at] - columns.sampler[at]).sum();
                for at in range.clone() {
                    let ratio = match spread {
                        Spread::Token => columns.old[at] - columns.sampler[at],
                        Spread::Sequence => total,
                        Spread::Geometric => total / range.len() as f64,
                    }
                    .exp();
                    let factor = match bound {
                        Bound::Truncate => ratio.clamp(0.9, 1.2),
                        Bound::Mask if (0.9..=1.2).contains(&ratio) => ratio,
                        Bound::Mask => 0.0,
                    };
                    prop_assert!(close(corrected[at], factor * free[at], 1e-12));
                }
            }
        }
    }
}

#[test]
fn covariance_losses_single_out_the_share_they_promise() {
    let raw: Raw = (0..20)
        .map(|row| {
            let row = f64::from(row);
            (0..10).map(|at| (-0.1 - f64::from(at) * 0.37 - row * 0.011, 0.01, 0.0, row - 9.5, 1.0)).collect()
        })
        .collect();
    let kl_cov = named("kl_cov");
    let columns = columns(&raw, kl_cov.reduction);
    let (_, gradient) = columns.grad(&kl_cov);
    let (_, plain) = columns.grad(&Objective::new(Importance::default(), Reduction::TokenMean));
    let (mean_a, mean_l) = (mean(&columns.advantage), mean(&columns.logp));
    let mut touched: Vec<(f64, bool)> = (0..gradient.len())
        .map(|at| {
            let covariance = (columns.advantage[at] - mean_a) * (columns.logp[at] - mean_l);
            (covariance, (gradient[at] - plain[at]).abs() > 1e-12)
        })
        .collect();
    touched.sort_by(|a, b| b.0.total_cmp(&a.0));
    assert!(touched.iter().enumerate().all(|(rank, (_, touched))| *touched == (rank < 40)), "a fifth of 200 tokens");

    let mut recipe = LossRecipe::named("clip_cov");
    recipe.hyperparameters.insert("share".into(), 0.05);
    let (stats, gradient) = columns.grad(&recipe.build().unwrap());
    assert_eq!(stats.clipped, 10, "a twentieth of 200 tokens");
    let eligible = |covariance: f64| covariance > 1.0 && covariance < 5.0;
    for (at, gradient) in gradient.iter().enumerate() {
        let covariance = (columns.advantage[at] - mean_a) * (columns.logp[at] - mean_l);
        assert!(*gradient != 0.0 || eligible(covariance));
    }
}

#[test]
fn clip_cov_spends_its_share_on_tokens_that_still_move() {
    let share = LossRecipe { hyperparameters: [("share".into(), 0.125)].into(), ..LossRecipe::named("clip_cov") };
    let objective = share.build().unwrap();
    // Whatever the draw: of the two good tokens with a covariance of 2.25 the first is beyond the clip already, and the
    // six bad ones have one of 0.25.
    for draw in 0..16 {
        let gap = f64::from(draw) * 0.01;
        let good = vec![(-0.5, 0.5, gap, 2.0, 1.0), (-0.5, 0.0, gap, 2.0, 1.0)];
        let columns = columns(&vec![good, vec![(-1.5, 0.0, 0.0, -2.0, 1.0); 6]], objective.reduction);
        let (stats, gradient) = columns.grad(&objective);
        assert_eq!(stats.clipped, 2);
        assert!(gradient[..2].iter().all(|gradient| *gradient == 0.0));
        assert!(gradient[2..].iter().all(|gradient| *gradient > 0.0));
    }
}

#[test]
fn a_ratio_held_at_its_bound_has_no_gradient() {
    let raw: Raw = vec![vec![(-0.5, 25.0, 0.0, -1.0, 1.0)], vec![(-0.5, 1.0, 0.0, -1.0, 1.0)]];
    let columns = columns(&raw, Reduction::TokenMean);
    let (_, gradient) = columns.grad(&Objective::new(Importance::default(), Reduction::TokenMean));
    assert_eq!(gradient[0], 0.0);
    assert!(close(gradient[1], 0.5 * f64::exp(1.0), 1e-12));
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn reductions_weigh_as_they_say() {
    let prompts = [vec![1, 3], vec![4, 0, 2]];
    let weights = |reduction: Reduction| reduction.weights(&prompts);
    assert_eq!(weights(Reduction::TokenMean), [vec![0.1, 0.1], vec![0.1, 0.0, 0.1]]);
    assert_eq!(weights(Reduction::SequenceMean), [vec![1.0 / 4.0, 1.0 / 12.0], vec![1.0 / 16.0, 0.0, 1.0 / 8.0]]);
    assert_eq!(weights(Reduction::SequenceSum), [vec![0.25, 0.25], vec![0.25, 0.0, 0.25]]);
    assert_eq!(weights(Reduction::ConstantLength(5.0)), [vec![0.05, 0.05], vec![0.05, 0.0, 0.05]]);
    assert_eq!(weights(Reduction::PromptMean), [vec![1.0 / 8.0, 1.0 / 8.0], vec![1.0 / 12.0, 0.0, 1.0 / 12.0]]);
    assert!(Reduction::TokenMean.weights(&[]).is_empty());
}

#[test]
fn the_kl_pulls_towards_the_reference() {
    for estimator in [Estimator::K2, Estimator::K3, Estimator::Abs] {
        assert_eq!(estimator.at(0.0), (0.0, 0.0));
        for delta in [-3.0, -0.1, 0.1, 3.0] {
            let (value, slope) = estimator.at(delta);
            assert!(value > 0.0 && slope.signum() == f64::signum(delta), "{estimator:?} at {delta}");
        }
    }
    assert_eq!(Estimator::K1.at(-0.5), (-0.5, 1.0));
    // A token the policy has all but unlearned neither overflows nor pulls the wrong way.
    let (value, slope) = Estimator::K3.at(-800.0);
    assert!(value.is_finite() && slope == 0.0);
    assert_eq!(Estimator::K3.at(800.0), (799.0, 1.0));
}

#[test]
fn hostile_logprobs_give_finite_gradients() {
    let raw: Raw = vec![
        vec![(-900.0, 800.0, -50.0, 1.0, 0.0), (-0.0, -900.0, 50.0, 1.0, 0.0)],
        vec![(-1e-9, 600.0, 0.0, -1.0, 0.0)],
    ];
    for (name, objective) in objectives() {
        let columns = columns(&raw, objective.reduction);
        let (stats, gradient) = columns.grad(&objective);
        assert!(stats.loss.is_finite(), "{name}");
        assert!(gradient.iter().all(|value| value.is_finite()), "{name}");
    }
}

#[test]
fn the_learner_is_told_what_to_compute() {
    let plain = named("dapo");
    assert!(!plain.needs_reference() && plain.entropy_coefficient() == 0.0 && !plain.needs_step_stats());
    let kl = Some(Kl { coefficient: 0.1, estimator: Estimator::K3, bias_correction: true });
    assert!(Objective { kl, ..named("dapo") }.needs_reference());
    assert!(named("clip_cov").needs_step_stats() && named("kl_cov").needs_step_stats());
    assert_eq!(named("importance_sampling").anchor, Anchor::Sampler);
    assert_eq!(named("luspo").level, Level::Sequence);
    let capped = Clip { low: 0.2, high: 0.2, cap: Some(3.0) };
    assert_eq!(format!("{:?}", named("dual_clip").surrogate), format!("{capped:?}"));
}
