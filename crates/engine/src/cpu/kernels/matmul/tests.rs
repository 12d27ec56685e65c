use super::*;
use crate::cpu::buffer::Buffer;
use crate::cpu::kernels::testing::{assert_close, each_isa, noise};

fn reference(m: usize, n: usize, k: usize, x: &[f32], w: &[f32]) -> Vec<f64> {
    let dot = |i: usize, j: usize| (0..k).map(|l| f64::from(x[i * k + l]) * f64::from(w[j * k + l])).sum();
    (0..m * n).map(|at| dot(at / n, at % n)).collect()
}

fn packed(cpu: &Cpu, w: &[f32], n: usize, k: usize) -> Buffer {
    let mut data = Buffer::zeros(packed_len(n, k));
    pack(cpu, w, n, k, &mut data);
    data
}

#[test]
fn products_match_the_reference() {
    each_isa(|isa| {
        let cpu = Cpu::with_isa(2, isa).unwrap();
        for (m, n, k) in [(1, 1, 1), (1, 130, 17), (2, 64, 48), (5, 96, 33), (12, 32, 16), (13, 47, 7), (31, 384, 64)] {
            let (x, w) = (noise(1, m * k), noise(2, n * k));
            let packed = packed(&cpu, &w, n, k);
            let packed = Packed { outputs: n, inputs: k, data: &packed };
            let expected = reference(m, n, k, &x, &w);
            let mut y = vec![0.0; m * n];
            rows(isa, MatRef::of_rows(&x, k), packed, MatMut::of_rows(&mut y, n), Accumulate::Store);
            assert_close(&y, &expected, 1e-6);
            let mut split = vec![0.0; m * n];
            columns(&cpu, MatRef::of_rows(&x, k), packed, MatMut::of_rows(&mut split, n), Accumulate::Store);
            assert_eq!(y, split, "columns over threads");
            rows(isa, MatRef::of_rows(&x, k), packed, MatMut::of_rows(&mut y, n), Accumulate::Add);
            assert_close(&y, &expected.iter().map(|v| 2.0 * v).collect::<Vec<_>>(), 1e-6);
        }
    });
}

#[test]
fn a_row_does_not_depend_on_its_neighbours() {
    each_isa(|isa| {
        let cpu = Cpu::with_isa(1, isa).unwrap();
        for (n, k) in [(256, 256), (2048, 64), (80, 100)] {
            let (x, w) = (noise(3, 40 * k), noise(4, n * k));
            let packed = packed(&cpu, &w, n, k);
            let packed = Packed { outputs: n, inputs: k, data: &packed };
            let product = |first: usize, m: usize| {
                let mut y = vec![0.0; m * n];
                rows(isa, MatRef::new(&x[first * k..], m, k, k), packed, MatMut::of_rows(&mut y, n), Accumulate::Store);
                y
            };
            let whole = product(0, 40);
            for m in 1..=26 {
                for first in [0, 3, 14] {
                    assert_eq!(whole[first * n..(first + m) * n], product(first, m), "{m} rows from {first}");
                }
            }
        }
    });
}

#[test]
fn gradients_match_the_reference() {
    each_isa(|isa| {
        let cpu = Cpu::with_isa(2, isa).unwrap();
        for (t, n, k) in [(3, 5, 7), (300, 60, 40), (17, 130, 96)] {
            let (dy, x, w) = (noise(5, t * n), noise(6, t * k), noise(7, n * k));
            let mut dw = vec![0.0; n * k];
            outer(&cpu, MatRef::of_rows(&dy, n), MatRef::of_rows(&x, k), &mut dw);
            let by_t = |i: usize, j: usize| (0..t).map(|r| f64::from(dy[r * n + i]) * f64::from(x[r * k + j])).sum();
            assert_close(&dw, &(0..n * k).map(|at| by_t(at / k, at % k)).collect::<Vec<f64>>(), 1e-6);

            let mut untransposed = vec![0.0; untransposed_len(n, k)];
            pack_untransposed(&cpu, &w, n, k, &mut untransposed);
            let mut dx = vec![0.0; t * k];
            rows_untransposed(
                isa,
                MatRef::of_rows(&dy, n),
                &untransposed,
                MatMut::of_rows(&mut dx, k),
                Accumulate::Store,
            );
            let by_n = |r: usize, j: usize| (0..n).map(|i| f64::from(dy[r * n + i]) * f64::from(w[i * k + j])).sum();
            assert_close(&dx, &(0..t * k).map(|at| by_n(at / k, at % k)).collect::<Vec<f64>>(), 1e-6);
        }
    });
}

/// Long enough to be summed in chunks, and results both small and too large for that.
#[test]
fn weight_gradients_do_not_depend_on_the_threads() {
    each_isa(|isa| {
        for (t, n, k) in [(800, 50, 70), (1000, 36, 32), (200, 1030, 1030)] {
            let (dy, x) = (noise(8, t * n), noise(9, t * k));
            let on = |threads: usize| {
                let cpu = Cpu::with_isa(threads, isa).unwrap();
                let mut dw = noise(10, n * k);
                outer(&cpu, MatRef::of_rows(&dy, n), MatRef::of_rows(&x, k), &mut dw);
                dw
            };
            let alone = on(1);
            let start = noise(10, n * k);
            for at in [0, 1, n * k / 2, n * k - 1] {
                let sum = |r: usize| f64::from(dy[r * n + at / k]) * f64::from(x[r * k + at % k]);
                let exact = f64::from(start[at]) + (0..t).map(sum).sum::<f64>();
                assert!((f64::from(alone[at]) - exact).abs() < 1e-4, "{} and {exact}", alone[at]);
            }
            for threads in [2, 3, 5] {
                assert!(on(threads) == alone, "{t} x {n} x {k} on {threads} threads");
            }
        }
    });
}
