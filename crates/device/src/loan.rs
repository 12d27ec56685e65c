//! Memory of a gradient that counts as zeros, lent to the activations of the pass that will write it.
//!
//! Between an optimizer step and the next backward pass the gradients, 4 bytes per parameter, hold nothing. The gates and ups of
//! a layer lie meanwhile where the gradient of that layer's matrices will be: the backward pass has read them when it first writes
//! there. So the first micro-batch of a step computes nothing again, where a pass that adds to gradients may have to.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use hone_cuda::Buffer;
use hone_cuda::buffer::Element;
use hone_engine::weights::LayerParams;

/// The gradient array, if any, whose content counts as zeros.
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

    /// The offered array, where it has `len` elements and nobody else borrowed it.
    pub(crate) fn borrow(&self, len: usize) -> Option<Loan> {
        let offered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let array = offered.upgrade()?;
        // Its owner's reference, and this one.
        (array.len() == len && Arc::strong_count(&array) == 2).then_some(Loan(array))
    }
}

/// A gradient array that a pass keeps activations in. Its owner gets it back when the loan and all that lies in it is dropped.
#[derive(Debug)]
pub(crate) struct Loan(Arc<Buffer<f32>>);

impl Loan {
    pub(crate) fn is_of(&self, array: &Arc<Buffer<f32>>) -> bool {
        Arc::ptr_eq(&self.0, array)
    }

    /// Room for `len` elements in the place of a layer's matrices; `None` where they do not fit.
    pub(crate) fn place<T: Element>(&self, layer: &LayerParams, len: usize) -> Option<Buffer<T>> {
        Buffer::within(&self.0, matrices(layer)?, len)
    }
}

/// Range of a layer's matrices, all of which a backward pass writes; `None` where they do not follow each other without a gap.
/// Values in gaps must stay zeros, and vectors are cleared before the pass.
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
