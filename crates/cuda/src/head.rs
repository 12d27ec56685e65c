//! Fused head: log-probabilities of targets, entropies and their gradient from hidden states and the output embedding.
//!
//! Logits are formed for one chunk of tokens at a time (`chunk` x vocabulary in f32, and their gradient in the same memory): a
//! vocabulary of 152k and 16k tokens would be 10 GB. Each chunk is a matrix product, one pass of `kernels/head.cu` and, for the
//! gradient, two more products. The forward pass keeps the logits of the first chunks, as many as there is memory for, and
//! the backward pass recomputes only the others.

#![expect(unsafe_code, reason = "launches kernels; shapes are checked first")]

use std::ops::Range;

use crate::buffer::{Buffer, Float, View, ViewMut};
use crate::error::{Result, ensure};
use crate::gpu::{Arg, Gpu, Launch};
use crate::matmul::{Matmul, Matrix, MatrixMut, Product, Store};

/// Hidden states, embedding and targets of one call.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a, T> {
    /// [tokens, dim].
    pub hidden: View<'a, T>,
    /// [vocab, dim].
    pub embedding: View<'a, T>,
    /// Target token of each position; negative for none (its logprob, entropy and gradient are 0).
    pub target: View<'a, i32>,
    pub vocab: usize,
    /// Number of tokens whose logits exist at a time.
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
    /// [vocab, dim]; absent if the embedding is not trained.
    pub dembedding: Option<ViewMut<'a, f32>>,
    /// Store mode of `dembedding`: overwritten or added to.
    pub store: Store,
}

/// Scores of each token: log-probability of its target, entropy, and log of the sum of the exponentials of its logits.
#[derive(Debug)]
pub struct Scores<'a> {
    pub logprob: ViewMut<'a, f32>,
    pub entropy: ViewMut<'a, f32>,
    pub lse: ViewMut<'a, f32>,
}

impl<'a> Scores<'a> {
    /// Scores in one array, `[3][tokens]`: log-probabilities, entropies, sums.
    pub fn of(all: &'a mut Buffer<f32>) -> Self {
        let tokens = all.len() / 3;
        let (logprob, rest) = all.view_mut().split(tokens);
        let (entropy, lse) = rest.split(tokens);
        Self { logprob, entropy, lse }
    }
}

/// Logits that a forward pass kept for the backward pass: of the first chunks, in reverse order.
#[derive(Debug, Default)]
pub struct Logits(Vec<Buffer<f32>>);

impl<T: Float> Head<'_, T> {
    fn tokens(&self) -> usize {
        self.target.len
    }

    /// Stride between rows of logits, in elements.
    fn stride(&self) -> usize {
        self.vocab.next_multiple_of(8)
    }

    fn dim(&self) -> usize {
        self.embedding.len / self.vocab.max(1)
    }

    /// Token ranges of the chunks.
    fn chunks(&self) -> Vec<Range<usize>> {
        let tokens = self.tokens();
        (0..tokens).step_by(self.chunk.max(1)).map(|from| from..(from + self.chunk).min(tokens)).collect()
    }

    fn check(&self, scores: &Scores<'_>) -> Result<()> {
        let (tokens, dim) = (self.tokens(), self.dim());
        let fits = self.embedding.len == self.vocab * dim && self.hidden.len == tokens * dim;
        let scored = [&scores.logprob, &scores.entropy, &scores.lse].iter().all(|s| s.len == tokens);
        ensure(self.vocab > 0 && self.chunk > 0 && fits && scored, "head", || {
            let Self { hidden, embedding, vocab, .. } = self;
            format!("hidden {}, embedding {}, {tokens} targets, vocabulary {vocab}", hidden.len, embedding.len)
        })
    }

    /// Memory for the logits of any chunk.
    fn room(&self, gpu: &Gpu) -> Result<Buffer<f32>> {
        Buffer::uninit(gpu, self.chunk.min(self.tokens()) * self.stride())
    }

    fn hidden(&self, range: &Range<usize>) -> Matrix<'_, T> {
        let dim = self.dim();
        Matrix::new(self.hidden.slice(range.start * dim..range.end * dim), range.len(), dim)
    }

    fn embedding(&self) -> Matrix<'_, T> {
        Matrix::new(self.embedding, self.vocab, self.dim())
    }

    fn product(&self, matmul: &Matmul, range: &Range<usize>, logits: &mut Buffer<f32>) -> Result<()> {
        let out = MatrixMut::strided(logits.view_mut(), range.len(), self.vocab, self.stride());
        matmul.run(Product::ABt, self.hidden(range), self.embedding(), out, Store::Set)
    }

    /// Scores of a chunk. With the gradients of all scores, the gradient of its logits replaces them; `known` scores are only read.
    fn score(
        &self,
        gpu: &Gpu,
        range: &Range<usize>,
        logits: &mut Buffer<f32>,
        scores: &Scores<'_>,
        gradients: Option<(View<'_, f32>, Option<View<'_, f32>>)>,
        known: bool,
    ) -> Result<()> {
        let kernel = format!("head_{}", T::SUFFIX);
        let launch = Launch { module: "head", kernel: &kernel, grid: (range.len() as u32, 1), block: 1024, shared: 0 };
        let part = |all: View<'_, f32>| Arg::from(all.slice(range.clone()));
        let absent = || Arg::from(None::<View<'_, f32>>);
        let args = [
            (&logits.view_mut()).into(),
            self.target.slice(range.clone()).into(),
            gradients.map_or_else(absent, |g| part(g.0)),
            gradients.and_then(|g| g.1).map_or_else(absent, part),
            part(scores.logprob.view()),
            part(scores.entropy.view()),
            part(scores.lse.view()),
            i32::from(known).into(),
            self.vocab.into(),
            self.stride().into(),
            self.inverse.into(),
        ];
        // SAFETY: as head.cu declares; lengths checked by the caller. Targets at or past the vocabulary are refused before.
        unsafe { gpu.launch(launch, &args) }
    }
}

/// Forward pass: scores of all tokens. The logits of the first `keep` chunks stay for [`backward`]; the other chunks share the
/// memory of one.
pub fn forward<T: Float>(
    gpu: &Gpu,
    matmul: &Matmul,
    head: Head<'_, T>,
    scores: &mut Scores<'_>,
    keep: usize,
) -> Result<Logits> {
    head.check(scores)?;
    let (mut kept, mut free) = (Logits::default(), None);
    // The last chunk first: the memory that is shared ends as that of the last chunk kept.
    for (number, range) in head.chunks().iter().enumerate().rev() {
        let mut logits = free.take().map_or_else(|| head.room(gpu), Ok)?;
        head.product(matmul, range, &mut logits)?;
        head.score(gpu, range, &mut logits, scores, None, false)?;
        if number < keep {
            kept.0.push(logits);
        } else {
            free = Some(logits);
        }
    }
    Ok(kept)
}

/// Backward pass: gradients of the hidden states and the embedding. `logits` are those that [`forward`] kept, beside its scores;
/// without them, the scores are computed in the same pass over the chunks.
pub fn backward<T: Float>(
    gpu: &Gpu,
    matmul: &Matmul,
    head: Head<'_, T>,
    scores: &mut Scores<'_>,
    logits: Option<Logits>,
    mut gradient: Gradient<'_, T>,
) -> Result<()> {
    head.check(scores)?;
    let (tokens, dim, vocab) = (head.tokens(), head.dim(), head.vocab);
    let g = &mut gradient;
    let fits = g.dlogprob.len == tokens && g.dhidden.len == tokens * dim;
    let fits = fits && g.dembedding.as_ref().is_none_or(|e| e.len == vocab * dim);
    ensure(fits && g.dentropy.is_none_or(|e| e.len == tokens), "head gradient", || {
        format!("dlogprob {}, dhidden {} for {tokens} targets", g.dlogprob.len, g.dhidden.len)
    })?;
    let (known, mut kept, mut free) = (logits.is_some(), logits.unwrap_or_default().0, None);
    for range in head.chunks() {
        let mut logits = if let Some(kept) = kept.pop() {
            kept
        } else {
            let mut logits = free.take().map_or_else(|| head.room(gpu), Ok)?;
            head.product(matmul, &range, &mut logits)?;
            logits
        };
        head.score(gpu, &range, &mut logits, scores, Some((g.dlogprob, g.dentropy)), known)?;
        let stride = head.stride() * (size_of::<f32>() / size_of::<T>());
        let d = Matrix::strided(logits.view().cast::<T>(), range.len(), vocab, stride);
        let dhidden = MatrixMut::new(g.dhidden.slice(range.start * dim..range.end * dim), range.len(), dim);
        matmul.run(Product::AB, d, head.embedding(), dhidden, Store::Set)?;
        if let Some(dembedding) = &mut g.dembedding {
            let store = if range.start == 0 { g.store } else { Store::Add };
            let dembedding = MatrixMut::new(dembedding.reborrow(), vocab, dim);
            matmul.run(Product::AtB, d, head.hidden(&range), dembedding, store)?;
        }
        // Freed here, but for the last: its memory serves the chunks of which nothing was kept.
        free = kept.is_empty().then_some(logits);
    }
    Ok(())
}
