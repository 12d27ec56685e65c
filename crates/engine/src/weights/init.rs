//! Fresh weights.

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
    // FNV-1a of the name, mixed with the seed by the generator below.
    let mut state = name.bytes().fold(0xcbf2_9ce4_8422_2325u64 ^ seed.rotate_left(32), |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    });
    for pair in out.chunks_mut(2) {
        // Box-Muller; the first uniform is kept off zero.
        let radius = (-2.0 * (1.0 - uniform(&mut state)).ln()).sqrt();
        let angle = 2.0 * std::f64::consts::PI * uniform(&mut state);
        for (to, value) in pair.iter_mut().zip([angle.cos(), angle.sin()]) {
            *to = (radius * value) as f32 * std;
        }
    }
}

/// SplitMix64, as a number in 0..1.
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}
