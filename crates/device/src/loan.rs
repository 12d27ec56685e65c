//! Activations in gradient memory: a gradient buffer reused for the activations of the pass that will overwrite it.
//!
//! Between an optimizer step and the next backward pass the gradients, 4 bytes per parameter, hold nothing. The gates and ups of
//! a layer are stored where that layer's gradient will be written; the backward pass reads them first. So the first micro-batch of
//! a step recomputes nothing, while a pass that accumulates gradients may have to.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use hone_cuda::Buffer;
use hone_cuda::buffer::Element;
use hone_engine::weights::LayerParams;

/// Idle gradient array, if any: its content counts as zeros.
#[derive(Debug, Default)]
pub(crate) struct Idle(Mutex<Weak<Buffer<f32>>>);

impl Idle {
    /// Offers an array whose content is not needed.
    pub(crate) fn offer(&self, array: &Arc<Buffer<f32>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(array);
    }

    /// Withdraws an array that is about to be written.
    pub(crate) fn withdraw(&self, array: &Arc<Buffer<f32>>) {
        let mut offered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if offered.as_ptr() == Arc::as_ptr(array) {
            *offered = Weak::new();
        }
    }

    /// The offered array, if it has `len` elements and nobody else has borrowed it.
    pub(crate) fn borrow(&self, len: usize) -> Option<Loan> {
        let offered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let array = offered.upgrade()?;
        // Its owner's reference, and this one.
        (array.len() == len && Arc::strong_count(&array) == 2).then_some(Loan(array))
    }
}

/// Loan of a gradient array to the activations of a pass. It ends when the loan and every buffer in it are dropped.
#[derive(Debug)]
pub(crate) struct Loan(Arc<Buffer<f32>>);

impl Loan {
    pub(crate) fn is_of(&self, array: &Arc<Buffer<f32>>) -> bool {
        Arc::ptr_eq(&self.0, array)
    }

    /// Buffer of `len` elements in the range of a layer's matrices; `None` if they do not fit.
    pub(crate) fn place<T: Element>(&self, layer: &LayerParams, len: usize) -> Option<Buffer<T>> {
        Buffer::within(&self.0, matrices(layer)?, len)
    }
}

/// Range of a layer's matrices, which a backward pass overwrites completely; `None` if they are not contiguous: gaps must stay
/// zero, and vectors are cleared before the pass.
fn matrices(layer: &LayerParams) -> Option<Range<usize>> {
    let LayerParams { qkv, out, gate_up, down, .. } = layer;
    let close = qkv.end == out.start && out.end == gate_up.start && gate_up.end == down.start;
    close.then_some(qkv.start..down.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_engine::config::Shape;
    use hone_engine::weights::ModelParams;

    fn params(mlp: usize) -> ModelParams {
        let shape = Shape {
            vocab: 40,
            hidden: 24,
            mlp,
            layers: 3,
            heads: 2,
            key_heads: 1,
            head_dim: 8,
            tied: true,
            ..Shape::default()
        };
        ModelParams::new(&shape.config().unwrap())
    }

    #[test]
    fn the_range_lent_holds_nothing_but_matrices() {
        let params = params(40);
        for (number, layer) in params.layers.iter().enumerate() {
            let range = matrices(layer).unwrap();
            let within = params.table.params.iter().filter(|p| range.contains(&p.range.start));
            let total: usize = within
                .map(|p| {
                    assert!(p.shape.len() == 2 && p.name.contains(&format!("layers.{number}.")), "{}", p.name);
                    p.range.len()
                })
                .sum();
            assert_eq!(total, range.len());
        }
    }
}
