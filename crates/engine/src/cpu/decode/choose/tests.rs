//! Token sampling, checked against exact probabilities.

use super::*;
use crate::cpu::kernels::testing::{each_isa, noise};

fn params(temperature: f32, top_k: u32, top_p: f32, min_p: f32) -> SamplingParams {
    SamplingParams { temperature, top_k, top_p, min_p, ..SamplingParams::default() }
}

/// The distribution after mask and truncation, the slow way: sort everything.
fn reference(logits: &[f32], params: &SamplingParams, allowed: Option<&[bool]>) -> Vec<f64> {
    let scaled: Vec<f64> = logits.iter().map(|&z| f64::from(z) / f64::from(params.temperature)).collect();
    let visible = |token: usize| allowed.is_none_or(|a| a[token]);
    let mut order: Vec<usize> = (0..logits.len()).filter(|&t| visible(t)).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
    let weight = |t: usize| (scaled[t] - scaled[order[0]]).exp();
    let mut kept = order.clone();
    if params.top_k > 0 {
        kept.truncate(params.top_k as usize);
    }
    let total: f64 = kept.iter().map(|&t| weight(t)).sum();
    let mut sum = 0.0;
    let needed = kept.iter().take_while(|&&t| {
        let more = sum < f64::from(params.top_p) * total;
        sum += weight(t);
        more
    });
    let mut kept: Vec<usize> = if params.top_p < 1.0 { needed.copied().collect() } else { kept };
    kept.retain(|&t| weight(t) >= f64::from(params.min_p));
    let total: f64 = kept.iter().map(|&t| weight(t)).sum();
    let mut out = vec![0.0; logits.len()];
    for &t in &kept {
        out[t] = weight(t) / total;
    }
    out
}

/// Draws often and compares: chi-square over the tokens that are expected often enough, and no draw outside the support.
fn check(isa: Isa, logits: &[f32], params: &SamplingParams, allowed: Option<&[bool]>) {
    const DRAWS: usize = 8_000;
    let expected = reference(logits, params, allowed);
    let whole = reference(logits, &params_without_truncation(params), None);
    let mut counts = vec![0usize; logits.len()];
    let (mut rng, mut scratch) = (Rng::new(11), Scratch::default());
    for _ in 0..DRAWS {
        let choice = choose(isa, &mut logits.to_vec(), params, allowed, &mut rng, &mut scratch).unwrap();
        let token = choice.token as usize;
        assert!(expected[token] > 0.0, "{params:?}: token {token} was cut off and drawn");
        assert!((f64::from(choice.sampling_logprob) - expected[token].ln()).abs() < 1e-5, "{params:?}");
        assert!((f64::from(choice.logprob) - whole[token].ln()).abs() < 1e-5, "{params:?}");
        counts[token] += 1;
    }
    let often: Vec<usize> = (0..logits.len()).filter(|&t| expected[t] * DRAWS as f64 >= 8.0).collect();
    let square = |found: f64, expected: f64| (found - expected).powi(2) / expected;
    let mut statistic: f64 = often.iter().map(|&t| square(counts[t] as f64, expected[t] * DRAWS as f64)).sum();
    let rest = 1.0 - often.iter().map(|&t| expected[t]).sum::<f64>();
    let mut freedom = often.len() as f64 - 1.0;
    if rest * DRAWS as f64 >= 8.0 {
        let found = DRAWS - often.iter().map(|&t| counts[t]).sum::<usize>();
        statistic += square(found as f64, rest * DRAWS as f64);
        freedom += 1.0;
    }
    // Wilson-Hilferty: the 99.99% point of chi-square.
    let bound = freedom * (1.0 - 2.0 / (9.0 * freedom) + 3.72 * (2.0 / (9.0 * freedom)).sqrt()).powi(3);
    assert!(freedom < 1.0 || statistic < bound, "{params:?}: chi-square {statistic:.1} over {bound:.1} ({freedom})");
}

fn params_without_truncation(p: &SamplingParams) -> SamplingParams {
    params(p.temperature, 0, 1.0, 0.0)
}

#[test]
fn draws_follow_the_distribution() {
    each_isa(|isa| {
        let logits: Vec<f32> = noise(3, 700).iter().map(|v| v * 3.0).collect();
        let odd: Vec<bool> = (0..logits.len()).map(|t| t % 2 == 1).collect();
        for (p, allowed) in [
            (params(1.0, 0, 1.0, 0.0), None),
            (params(0.6, 0, 1.0, 0.0), None),
            (params(1.0, 13, 1.0, 0.0), None),
            (params(1.0, 0, 0.8, 0.0), None),
            (params(1.3, 0, 0.99, 0.0), None),
            (params(1.0, 0, 1.0, 0.2), None),
            (params(0.8, 50, 0.9, 0.05), None),
            (params(1.0, 0, 1.0, 0.0), Some(&odd[..])),
            (params(1.0, 9, 0.9, 0.0), Some(&odd[..])),
        ] {
            check(isa, &logits, &p, allowed);
        }
    });
}

#[test]
fn a_mask_far_below_the_likeliest_still_has_a_distribution() {
    // The allowed tokens weigh nothing beside the forbidden one.
    let mut logits = vec![0.0, 1.0, 300.0];
    let allowed = [true, true, false];
    let (p, mut rng) = (params(1.0, 0, 1.0, 0.0), Rng::new(1));
    let choice = choose(Isa::detect(), &mut logits, &p, Some(&allowed), &mut rng, &mut Scratch::default()).unwrap();
    let exact = [-(1.0f32 + 1f32.exp()).ln(), 1.0 - (1.0f32 + 1f32.exp()).ln()];
    assert!((choice.sampling_logprob - exact[choice.token as usize]).abs() < 1e-6);
    assert!(choice.logprob < -298.0);
}

#[test]
fn equals_go_by_id() {
    let logits = [1.0, 3.0, 3.0, 3.0, 0.0];
    let pick = |p: SamplingParams, seed| {
        choose(Isa::detect(), &mut logits.to_vec(), &p, None, &mut Rng::new(seed), &mut Scratch::default())
            .unwrap()
            .token
    };
    assert_eq!(pick(params(0.0, 0, 1.0, 0.0), 0), 1, "greedy takes the lowest id");
    for seed in 0..50 {
        assert_eq!(pick(params(1.0, 1, 1.0, 0.0), seed), 1, "top-k of 1 is greedy");
        assert!([1, 2].contains(&pick(params(1.0, 2, 1.0, 0.0), seed)), "top-k keeps exactly k");
    }
}

#[test]
fn what_cannot_be_chosen_from_is_refused() {
    let refusal = |logits: &[f32], p: &SamplingParams, allowed: Option<&[bool]>| {
        choose(Isa::detect(), &mut logits.to_vec(), p, allowed, &mut Rng::new(0), &mut Scratch::default()).unwrap_err()
    };
    for p in [params(1.0, 0, 1.0, 0.0), params(0.0, 0, 1.0, 0.0), params(1.0, 3, 0.5, 0.1)] {
        for bad in [f32::NAN, f32::INFINITY] {
            assert_eq!(refusal(&[0.0, bad, 1.0, 2.0], &p, None), Refusal::NotFinite);
        }
        assert_eq!(refusal(&[f32::NEG_INFINITY; 4], &p, None), Refusal::NotFinite);
        assert_eq!(refusal(&[0.0, 1.0, 2.0, 3.0], &p, Some(&[false; 4])), Refusal::NothingAllowed);
    }
}

#[test]
fn the_nucleus_of_a_large_vocabulary_is_found_without_sorting_it() {
    // Flat: the nucleus is half the vocabulary and crosses several of the sorted prefixes.
    let logits: Vec<f32> = noise(5, 30_000).iter().map(|v| v * 0.1).collect();
    let p = params(1.0, 0, 0.5, 0.0);
    let expected = reference(&logits, &p, None).iter().filter(|w| **w > 0.0).count();
    let mut scratch = Scratch::default();
    choose(Isa::detect(), &mut logits.clone(), &p, None, &mut Rng::new(0), &mut scratch).unwrap();
    assert!(scratch.kept.len().abs_diff(expected) <= 1, "{} and {expected}", scratch.kept.len());
}
