//! The f64 references against finite differences of their own forwards: an oracle that is wrong proves nothing.

use hone_cuda::attention::Node;
use hone_cuda::random::Random;
use hone_cuda::reference::{self, Rope};
use hone_cuda::rope::{self, Heads};

/// Checks `gradient` of `sum(slopes * f(x))` by central differences at every element of `x`.
fn check(what: &str, x: &[f64], slopes: &[f64], f: impl Fn(&[f64]) -> Vec<f64>, gradient: &[f64]) {
    assert_eq!(x.len(), gradient.len(), "{what}");
    let step = 1e-5;
    for i in 0..x.len() {
        let at = |d: f64| {
            let mut moved = x.to_vec();
            moved[i] += d;
            f(&moved).iter().zip(slopes).map(|(y, s)| y * s).sum::<f64>()
        };
        let numeric = (at(step) - at(-step)) / (2.0 * step);
        assert!(
            (numeric - gradient[i]).abs() < 1e-6 * (1.0 + numeric.abs()),
            "{what} [{i}]: {numeric} {}",
            gradient[i]
        );
    }
}

#[test]
fn rms_norm() {
    let mut random = Random(1);
    let (x, w, dy) = (random.normal(3 * 8, 1.0), random.normal(8, 1.0), random.normal(3 * 8, 1.0));
    let (dx, dw) = reference::rms_norm_backward(&dy, &x, &w, 1e-6);
    check("dx", &x, &dy, |x| reference::rms_norm(x, &w, 1e-6).0, &dx);
    check("dw", &w, &dy, |w| reference::rms_norm(&x, w, 1e-6).0, &dw);
}

fn case<'a>(norm: Option<(&'a [f64], &'a [f64])>, table: &'a [f64]) -> Rope<'a> {
    Rope { heads: Heads { q: 2, kv: 1, dim: 8 }, norm, table, position: &[4, 0, 8], eps: 1e-6 }
}

#[test]
fn rope_with_and_without_norm() {
    let mut random = Random(2);
    let heads = Heads { q: 2, kv: 1, dim: 8 };
    let (qkv, qw, kw) = (random.normal(3 * heads.qkv(), 1.0), random.normal(8, 1.0), random.normal(8, 1.0));
    let slopes = random.normal(3 * 3 * 8, 1.0);
    let (dq, dk) = slopes.split_at(3 * 2 * 8);
    let table: Vec<f64> = rope::table(9, 8, 100.0).into_iter().map(f64::from).collect();
    for normed in [true, false] {
        let both = |(mut q, k): (Vec<f64>, Vec<f64>)| {
            q.extend(k);
            q
        };
        let (dqkv, dqw, dkw) = reference::rope_backward(dq, dk, &qkv, case(normed.then_some((&qw, &kw)), &table));
        check("dqkv", &qkv, &slopes, |x| both(reference::rope(x, case(normed.then_some((&qw, &kw)), &table))), &dqkv);
        check("dqw", &qw, &slopes, |w| both(reference::rope(&qkv, case(normed.then_some((w, &kw)), &table))), &dqw);
        check("dkw", &kw, &slopes, |w| both(reference::rope(&qkv, case(normed.then_some((&qw, w)), &table))), &dkw);
    }
}

#[test]
fn swiglu() {
    let mut random = Random(3);
    let (x, d) = (random.normal(3 * 10, 2.0), random.normal(3 * 5, 1.0));
    check("dgate_up", &x, &d, |x| reference::swiglu(x, 5), &reference::swiglu_backward(&d, &x, 5));
}

#[test]
fn head() {
    let mut random = Random(4);
    let (logits, slopes) = (random.normal(3 * 7, 2.0), random.normal(6, 1.0));
    let target = [5, -1, 0];
    let both = |x: &[f64]| {
        let (mut logprob, entropy) = reference::head(x, &target);
        logprob.extend(entropy);
        logprob
    };
    let gradient = reference::head_backward(&logits, &target, &slopes[..3], &slopes[3..]);
    check("dlogits", &logits, &slopes, both, &gradient);
}

#[test]
fn attention_over_a_forest() {
    let mut random = Random(5);
    let heads = Heads { q: 4, kv: 2, dim: 4 };
    let node = |tokens, ancestors: &[(usize, usize)]| Node {
        tokens,
        ancestors: ancestors.iter().map(|&(from, to)| from..to).collect(),
    };
    let nodes = [node(0..3, &[]), node(3..5, &[(0, 3)]), node(5..7, &[(0, 3)]), node(7..8, &[])];
    let (q, k) = (random.normal(8 * 16, 1.0), random.normal(8 * 8, 1.0));
    let (v, d) = (random.normal(8 * 8, 1.0), random.normal(8 * 16, 1.0));
    let (dq, dk, dv) = reference::attention_backward(heads, &nodes, (&q, &k, &v), &d);
    check("dq", &q, &d, |q| reference::attention(heads, &nodes, q, &k, &v).0, &dq);
    check("dk", &k, &d, |k| reference::attention(heads, &nodes, &q, k, &v).0, &dk);
    check("dv", &v, &d, |v| reference::attention(heads, &nodes, &q, &k, v).0, &dv);
}
