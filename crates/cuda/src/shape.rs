//! Dimensions of a model, and the layout of its tensors in the flat arrays of weights, gradients and moments.

use std::ops::Range;

use crate::rope::Heads;

/// Dimensions of a model with tied embeddings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub layers: usize,
    pub dim: usize,
    pub heads: Heads,
    pub ffn: usize,
    pub vocab: usize,
    pub theta: f64,
    pub eps: f32,
}

impl Shape {
    /// Qwen3-0.6B.
    pub(crate) fn qwen3_06b() -> Self {
        let heads = Heads { q: 16, kv: 8, dim: 128 };
        Self { layers: 28, dim: 1024, heads, ffn: 3072, vocab: 151_936, theta: 1e6, eps: 1e-6 }
    }

    /// Qwen3-4B.
    pub(crate) fn qwen3_4b() -> Self {
        let heads = Heads { q: 32, kv: 8, dim: 128 };
        Self { layers: 36, dim: 2560, heads, ffn: 9728, ..Self::qwen3_06b() }
    }
}

/// Position of each tensor in the flat arrays.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// [vocab, dim].
    pub embedding: Range<usize>,
    pub layers: Vec<LayerLayout>,
    pub final_norm: Range<usize>,
    /// Weights of all norms, contiguous so that their gradients, which are accumulated, are cleared at once.
    pub norms: Range<usize>,
    pub len: usize,
}

/// Tensors of one layer; matrices are [out, in].
#[derive(Clone, Debug)]
pub(crate) struct LayerLayout {
    pub norm1: Range<usize>,
    pub qkv: Range<usize>,
    /// [2, head_dim]: weights of the norms of queries and keys.
    pub qk_norm: Range<usize>,
    pub o: Range<usize>,
    pub norm2: Range<usize>,
    /// [2 * ffn, dim]: gates, then ups.
    pub gate_up: Range<usize>,
    pub down: Range<usize>,
}

impl Layout {
    pub(crate) fn new(shape: &Shape) -> Self {
        let mut len = 0;
        let mut next = |size: usize| {
            let at = len..len + size;
            // Tensors begin at multiples of 256 bytes in bf16, as cuBLASLt's fastest kernels want.
            len = at.end.next_multiple_of(128);
            at
        };
        let Shape { dim, heads, ffn, .. } = *shape;
        let embedding = next(shape.vocab * dim);
        let mut layers: Vec<LayerLayout> = (0..shape.layers)
            .map(|_| LayerLayout {
                qkv: next(heads.qkv() * dim),
                o: next(dim * heads.q * heads.dim),
                gate_up: next(2 * ffn * dim),
                down: next(dim * ffn),
                norm1: 0..0,
                qk_norm: 0..0,
                norm2: 0..0,
            })
            .collect();
        for layer in &mut layers {
            (layer.norm1, layer.qk_norm, layer.norm2) = (next(dim), next(2 * heads.dim), next(dim));
        }
        let final_norm = next(dim);
        let norms = layers.first().map_or(final_norm.start, |l| l.norm1.start)..final_norm.end;
        Self { embedding, layers, final_norm, norms, len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_cover_the_array_once_and_in_order() {
        let layout = Layout::new(&Shape::qwen3_06b());
        let mut all: Vec<&Range<usize>> = vec![&layout.embedding, &layout.final_norm];
        for l in &layout.layers {
            all.extend([&l.norm1, &l.qkv, &l.qk_norm, &l.o, &l.norm2, &l.gate_up, &l.down]);
        }
        all.sort_by_key(|r| r.start);
        assert!(all.windows(2).all(|w| w[0].end <= w[1].start && w[1].start < w[0].end + 128));
        assert_eq!(layout.len, all[all.len() - 1].end.next_multiple_of(128));
        let parameters: usize = all.iter().map(|r| r.len()).sum();
        assert_eq!(parameters, 596_049_920, "as the model's card counts them");
        let norms = all.iter().filter(|r| r.start >= layout.norms.start);
        assert!(norms.clone().all(|r| r.len() <= 1024) && norms.count() == 3 * 28 + 1);
    }
}
