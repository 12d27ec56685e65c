//! Random initialisation of weights.

use hone_trace::Seed;

use crate::buffer::Buffer;
use crate::weights::params::Table;

/// Every tensor has its own stream, derived from the seed and its name: adding a layer changes no other tensor.
pub(super) fn random(table: &Table, std: f32, seed: u64) -> Buffer {
    let mut values = Buffer::zeros(table.len());
    for param in &table.params {
        let out = &mut values[param.range.clone()];
        if param.name.ends_with("norm.weight") {
            out.fill(1.0);
        } else if param.shape.len() > 1 {
            normal(out, std, seed, &param.name);
        }
    }
    values
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
