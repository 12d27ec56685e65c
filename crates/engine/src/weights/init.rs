//! Random initialisation of weights.

use hone_trace::Seed;

use crate::error::Result;
use crate::weights::{Param, TensorSource};

/// Randomly initialised weights: matrices normal, norms 1, biases 0. Every tensor has its own stream, derived from the
/// seed and its name: adding a layer changes no other tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fresh {
    /// Standard deviation of matrices.
    pub std: f32,
    pub seed: u64,
}

impl Fresh {
    pub(crate) fn fill(self, param: &Param, out: &mut [f32]) {
        if param.name.ends_with("norm.weight") {
            out.fill(1.0);
        } else if param.shape.len() > 1 {
            normal(out, self.std, self.seed, &param.name);
        } else {
            out.fill(0.0);
        }
    }
}

impl TensorSource for Fresh {
    fn read(&self, param: &Param, out: &mut [f32]) -> Result<()> {
        self.fill(param, out);
        Ok(())
    }
}

/// Fills `out` with normal values of the given deviation.
pub(crate) fn normal(out: &mut [f32], std: f32, seed: u64, name: &str) {
    let mut rng = Seed::root(seed).with("weights").with(name).rng();
    for pair in out.chunks_mut(2) {
        // Box-Muller; the first uniform is kept off zero.
        let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
        let angle = 2.0 * std::f64::consts::PI * rng.unit();
        for (to, value) in pair.iter_mut().zip([angle.cos(), angle.sin()]) {
            *to = (radius * value) as f32 * std;
        }
    }
}
