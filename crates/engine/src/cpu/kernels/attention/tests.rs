use std::ops::Range;

use super::*;
use crate::cpu::Cpu;
use crate::cpu::kernels::testing::{assert_close, each_isa, finite_difference, noise};

/// A root of 40 tokens with two children, one of which has a child; and a root alone. Ancestors that touch are one
/// range, as the engine lays them out.
#[expect(clippy::single_range_in_vec_init, reason = "a chain of one range")]
fn forest() -> Vec<Span> {
    let span = |rows: Range<usize>, chain: Vec<Range<usize>>, subtree_end| {
        let position = chain.iter().map(ExactSizeIterator::len).sum();
        Span { rows, position, chain, subtree_end }
    };
    vec![
        span(0..40, vec![], 70),
        span(40..49, vec![0..40], 66),
        span(49..66, vec![0..49], 66),
        span(66..70, vec![0..40], 70),
        span(70..75, vec![], 75),
    ]
}

/// Double-precision attention of one row at a time.
fn reference(heads: Heads, spans: &[Span], qkv: &[f32]) -> Vec<f64> {
    let at = |row: usize, column: usize| f64::from(qkv[row * heads.width() + column]);
    let mut out = Vec::new();
    for span in spans {
        for row in span.rows.clone() {
            let seen: Vec<usize> = span.chain.iter().cloned().flatten().chain(span.rows.start..=row).collect();
            for head in 0..heads.queries {
                let (q, k) = (head * heads.dim, heads.key_column(head / heads.group()));
                let v = heads.value_column(head / heads.group());
                let dot = |&s: &usize| (0..heads.dim).map(|d| at(row, q + d) * at(s, k + d)).sum::<f64>();
                let scores: Vec<f64> = seen.iter().map(|s| dot(s) * f64::from(heads.scale())).collect();
                let top = scores.iter().copied().fold(f64::MIN, f64::max);
                let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
                let total: f64 = weights.iter().sum();
                out.extend(
                    (0..heads.dim)
                        .map(|d| seen.iter().zip(&weights).map(|(&s, w)| w * at(s, v + d)).sum::<f64>() / total),
                );
            }
        }
    }
    out
}

fn run(cpu: &Cpu, heads: Heads, spans: &[Span], qkv: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let rows = spans.iter().map(|s| s.rows.end).max().unwrap();
    let (mut out, mut lse) = (vec![0.0; rows * heads.out_width()], vec![0.0; rows * heads.queries]);
    forward(cpu, heads, spans, qkv, &mut out, &mut lse);
    (out, lse)
}

const SHAPES: [Heads; 3] = [
    Heads { queries: 4, keys: 2, dim: 32 },
    Heads { queries: 3, keys: 1, dim: 16 },
    Heads { queries: 2, keys: 2, dim: 40 },
];

#[test]
fn forward_matches_the_reference() {
    each_isa(|isa| {
        let cpu = Cpu::with_isa(2, isa).unwrap();
        for heads in SHAPES {
            let qkv: Vec<f32> = noise(1, 75 * heads.width()).iter().map(|x| 3.0 * x).collect();
            assert_close(&run(&cpu, heads, &forest(), &qkv).0, &reference(heads, &forest(), &qkv), 2e-6);
        }
    });
}

#[test]
fn a_shared_prefix_gives_the_bits_of_an_own_one() {
    each_isa(|isa| {
        let cpu = Cpu::with_isa(2, isa).unwrap();
        for heads in SHAPES {
            let (width, out_width) = (heads.width(), heads.out_width());
            let qkv = noise(2, 75 * width);
            let shared = run(&cpu, heads, &forest(), &qkv).0;
            // The chain 0..40, 40..49, 49..66 is rows 0..66: as one span it must come out the same.
            let alone = [Span { rows: 0..66, position: 0, chain: vec![], subtree_end: 66 }];
            assert_eq!(shared[..66 * out_width], run(&cpu, heads, &alone, &qkv[..66 * width]).0);
        }
    });
}

#[test]
fn backward_matches_finite_differences() {
    each_isa(|isa| {
        let cpu = Cpu::with_isa(2, isa).unwrap();
        let heads = Heads { queries: 2, keys: 1, dim: 4 };
        let (qkv, dout) = (noise(3, 75 * heads.width()), noise(4, 75 * heads.out_width()));
        let (out, lse) = run(&cpu, heads, &forest(), &qkv);
        let (mut delta, mut dqkv) = (vec![0.0; lse.len()], vec![0.0; qkv.len()]);
        let from = BackwardInput { qkv: &qkv, out: &out, lse: &lse, dout: &dout };
        backward(&cpu, heads, &forest(), from, &mut delta, &mut dqkv);
        let loss =
            |x: &[f32]| reference(heads, &forest(), x).iter().zip(&dout).map(|(y, &d)| y * f64::from(d)).sum::<f64>();
        assert_close(&dqkv, &finite_difference(&qkv, loss), 2e-3);
    });
}

/// With enough threads the work is divided more finely, and yet every gradient is added in the same order.
#[test]
fn gradients_do_not_depend_on_the_threads() {
    each_isa(|isa| {
        for heads in SHAPES {
            let (qkv, dout) = (noise(5, 75 * heads.width()), noise(6, 75 * heads.out_width()));
            let gradients = |threads| {
                let cpu = Cpu::with_isa(threads, isa).unwrap();
                let (out, lse) = run(&cpu, heads, &forest(), &qkv);
                let (mut delta, mut dqkv) = (vec![0.0; lse.len()], vec![0.0; qkv.len()]);
                let from = BackwardInput { qkv: &qkv, out: &out, lse: &lse, dout: &dout };
                backward(&cpu, heads, &forest(), from, &mut delta, &mut dqkv);
                dqkv.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
            };
            let alone = gradients(1);
            for threads in [2, 3, 8] {
                assert!(gradients(threads) == alone, "{heads:?} on {threads} threads, {}", isa.name());
            }
        }
    });
}
