//! Random numbers: on the device for benchmarks (`kernels/random.cu`), on the host for checks.

#![expect(unsafe_code, reason = "launches a kernel")]

use crate::buffer::ViewMut;
use crate::error::Result;
use crate::gpu::{Gpu, Launch};

/// Uniform numbers in `center ± scale`.
pub fn fill(gpu: &Gpu, x: &mut ViewMut<'_, f32>, seed: i32, center: f32, scale: f32) -> Result<()> {
    let grid = (x.len.div_ceil(256).clamp(1, 4096) as u32, 1);
    let launch = Launch { module: "random", kernel: "random_fill", grid, block: 256, shared: 0 };
    // SAFETY: as random_fill declares.
    unsafe { gpu.launch(launch, &[(&*x).into(), (x.len as i64).into(), seed.into(), center.into(), scale.into()]) }
}

/// Host generator (splitmix64): the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Whole number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.uniform() * end as f64) as usize
    }

    /// Normal numbers of standard deviation `scale`.
    pub fn normal(&mut self, len: usize, scale: f64) -> Vec<f64> {
        (0..len)
            .map(|_| {
                let (u, v) = (1.0 - self.uniform(), self.uniform());
                scale * (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
            })
            .collect()
    }
}
