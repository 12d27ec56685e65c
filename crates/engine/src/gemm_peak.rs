//! The gemm crate on a large product.

#![expect(unsafe_code, reason = "the gemm crate is called through pointers")]

use std::time::Instant;

use crate::cpu::Buffer;
use crate::cpu::Cpu;

/// The best of 20 products of 1024 x 1024 matrices, in GFLOP/s.
pub(crate) fn measure(cpu: &Cpu) -> f64 {
    const N: usize = 1024;
    let (a, b, mut c) = (Buffer::zeros(N * N), Buffer::zeros(N * N), Buffer::zeros(N * N));
    let parallelism =
        if cpu.threads() == 1 { gemm::Parallelism::None } else { gemm::Parallelism::Rayon(cpu.threads()) };
    let (row, column) = (N as isize, 1);
    let best = (0..20)
        .map(|_| {
            let start = Instant::now();
            // SAFETY: the three buffers are N x N, row-major, and do not overlap.
            unsafe {
                gemm::gemm(
                    N,
                    N,
                    N,
                    c.as_mut_ptr(),
                    column,
                    row,
                    false,
                    a.as_ptr(),
                    column,
                    row,
                    b.as_ptr(),
                    column,
                    row,
                    0.0f32,
                    1.0f32,
                    false,
                    false,
                    false,
                    parallelism,
                );
            }
            start.elapsed().as_secs_f64()
        })
        .fold(f64::MAX, f64::min);
    2.0 * (N * N * N) as f64 / best / 1e9
}
