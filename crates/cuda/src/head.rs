//! Fused head: log-probabilities of targets, entropies and their gradient from hidden states and the output embedding.
//!
//! Logits exist for one chunk of tokens at a time (`chunk` x vocabulary in f32, and their gradient in the same memory): a
//! vocabulary of 152k and 16k tokens would be 10 GB. Each chunk is a matrix product, one pass of `kernels/head.cu` and, for the
//! gradient, two more products.

#![expect(unsafe_code, reason = "launches kernels; shapes are checked first")]

use crate::buffer::{Buffer, Float, View, ViewMut};
use crate::error::{Result, ensure};
use crate::gpu::{Gpu, Launch};
use crate::matmul::{Matmul, Matrix, MatrixMut, Product, Store};

/// Hidden states, embedding and targets of one call.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a, T> {
    /// [tokens, dim].
    pub hidden: View<'a, T>,
    /// [vocab, dim].
    pub embedding: View<'a, T>,
    /// Token each position is scored on; below zero for none (its logprob and entropy are 0, and so is its gradient).
    pub target: View<'a, i32>,
    pub vocab: usize,
    /// Tokens whose logits exist at one time.
    pub chunk: usize,
    /// 1 / temperature: the factor on the logits.
    pub inverse: f32,
}

/// Gradient of the objective with respect to the head's output, and the buffers for the resulting gradients.
#[derive(Debug)]
pub struct Gradient<'a, T> {
    pub dlogprob: View<'a, f32>,
    pub dentropy: Option<View<'a, f32>>,
    /// [tokens, dim], overwritten.
    pub dhidden: ViewMut<'a, T>,
    /// [vocab, dim]; none where the embedding is not trained.
    pub dembedding: Option<ViewMut<'a, f32>>,
    /// Store mode of `dembedding`: overwritten or added to.
    pub store: Store,
}

/// Log-probabilities and entropies of all tokens; with `gradient`, the backward in the same pass over the chunks.
///
/// An objective whose slopes depend on the log-probabilities calls this twice, and the logits are formed twice: cheaper
/// than keeping them.
pub fn run<T: Float>(
    gpu: &Gpu,
    matmul: &Matmul,
    head: Head<'_, T>,
    logprob: &mut ViewMut<'_, f32>,
    entropy: &mut ViewMut<'_, f32>,
    mut gradient: Option<Gradient<'_, T>>,
) -> Result<()> {
    let (tokens, vocab) = (head.target.len, head.vocab);
    let dim = head.embedding.len / vocab.max(1);
    let fits = head.embedding.len == vocab * dim && head.hidden.len == tokens * dim;
    ensure(vocab > 0 && head.chunk > 0 && fits && logprob.len == tokens && entropy.len == tokens, "head", || {
        format!("hidden {}, embedding {}, {tokens} targets, vocabulary {vocab}", head.hidden.len, head.embedding.len)
    })?;
    if let Some(g) = &gradient {
        let fits = g.dlogprob.len == tokens && g.dhidden.len == tokens * dim;
        let fits = fits && g.dembedding.as_ref().is_none_or(|e| e.len == vocab * dim);
        ensure(fits && g.dentropy.is_none_or(|e| e.len == tokens), "head gradient", || {
            format!("dlogprob {}, dhidden {} for {tokens} targets", g.dlogprob.len, g.dhidden.len)
        })?;
    }
    let stride = vocab.next_multiple_of(8);
    let chunk = head.chunk.min(tokens);
    let mut logits = Buffer::<f32>::uninit(gpu, chunk * stride)?;
    for from in (0..tokens).step_by(chunk.max(1)) {
        let range = from..(from + chunk).min(tokens);
        let rows = range.len();
        let hidden = Matrix::new(head.hidden.slice(range.start * dim..range.end * dim), rows, dim);
        let embedding = Matrix::new(head.embedding, vocab, dim);
        let out = MatrixMut::strided(logits.view_mut(), rows, vocab, stride);
        matmul.run(Product::ABt, hidden, embedding, out, Store::Set)?;
        let kernel = format!("head_{}", T::SUFFIX);
        let launch = Launch { module: "head", kernel: &kernel, grid: (rows as u32, 1), block: 1024, shared: 0 };
        let slopes =
            gradient.as_ref().map(|g| (g.dlogprob.slice(range.clone()), g.dentropy.map(|e| e.slice(range.clone()))));
        let args = [
            (&logits.view_mut()).into(),
            head.target.slice(range.clone()).into(),
            slopes.map(|s| s.0).into(),
            slopes.and_then(|s| s.1).into(),
            (&logprob.slice(range.clone())).into(),
            (&entropy.slice(range.clone())).into(),
            vocab.into(),
            stride.into(),
            head.inverse.into(),
        ];
        // SAFETY: as head.cu declares; lengths checked above. Targets at or past the vocabulary are the caller's to refuse.
        unsafe { gpu.launch(launch, &args) }?;
        if let Some(g) = &mut gradient {
            let d =
                Matrix::strided(logits.view().cast::<T>(), rows, vocab, stride * (size_of::<f32>() / size_of::<T>()));
            let dhidden = MatrixMut::new(g.dhidden.slice(range.start * dim..range.end * dim), rows, dim);
            matmul.run(Product::AB, d, embedding, dhidden, Store::Set)?;
            let store = if from == 0 { g.store } else { Store::Add };
            if let Some(dembedding) = &mut g.dembedding {
                let dembedding = MatrixMut::new(dembedding.reborrow(), vocab, dim);
                matmul.run(Product::AtB, d, hidden, dembedding, store)?;
            }
        }
    }
    Ok(())
}
