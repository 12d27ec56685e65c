//! Fused head: scores and gradients over several chunks, a vocabulary that no vector width divides, unscored tokens; the same
//! bits however many chunks of logits are kept.

use super::{Measured, compare, grain, measure, poisoned, rounded, upload};
use crate::buffer::{Buffer, Float};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::head::{Gradient, Head, Logits, Scores, backward, forward};
use crate::matmul::{Matmul, Store};
use crate::random::Random;
use crate::reference;

pub(super) fn head<T: Float + PartialEq>(gpu: &Gpu) -> Result<Vec<Measured>> {
    let blas = Matmul::new(gpu)?;
    let mut all = Vec::new();
    for (tokens, vocab, dim, chunk) in [(5, 40, 16, 8), (67, 1003, 64, 24), (130, 9000, 128, 64)] {
        all.extend(check::<T>(gpu, &blas, &Case::new::<T>(tokens, vocab, dim), chunk)?);
    }
    Ok(all)
}

/// Inputs of one call in f64, with the gradients of its scores.
struct Case {
    hidden: Vec<f64>,
    embedding: Vec<f64>,
    target: Vec<i32>,
    dlogprob: Vec<f64>,
    dentropy: Vec<f64>,
    tokens: usize,
    vocab: usize,
    dim: usize,
}

impl Case {
    fn new<T: Float>(tokens: usize, vocab: usize, dim: usize) -> Self {
        let mut random = Random((tokens * vocab) as u64);
        let hidden = rounded::<T>(&random.normal(tokens * dim, 1.0));
        let embedding = rounded::<T>(&random.normal(vocab * dim, 0.3));
        let target = (0..tokens).map(|t| if t % 7 == 3 { -1 } else { random.below(vocab) as i32 }).collect();
        let dlogprob = rounded::<f32>(&random.normal(tokens, 1.0));
        let dentropy = rounded::<f32>(&random.normal(tokens, 0.5));
        Self { hidden, embedding, target, dlogprob, dentropy, tokens, vocab, dim }
    }

    fn what(&self, s: &str) -> String {
        format!("{s} {}x{}", self.tokens, self.vocab)
    }
}

/// A [`Case`] on the device.
struct Uploaded<'a, T> {
    gpu: &'a Gpu,
    blas: &'a Matmul,
    hidden: Buffer<T>,
    embedding: Buffer<T>,
    target: Buffer<i32>,
    dlogprob: Buffer<f32>,
    dentropy: Buffer<f32>,
    vocab: usize,
    chunk: usize,
}

impl<'a, T: Float> Uploaded<'a, T> {
    fn new(gpu: &'a Gpu, blas: &'a Matmul, case: &Case, chunk: usize) -> Result<Self> {
        Ok(Self {
            gpu,
            blas,
            hidden: upload(gpu, &case.hidden)?,
            embedding: upload(gpu, &case.embedding)?,
            target: Buffer::from_slice(gpu, &case.target)?,
            dlogprob: upload(gpu, &case.dlogprob)?,
            dentropy: upload(gpu, &case.dentropy)?,
            vocab: case.vocab,
            chunk,
        })
    }

    fn call(&self) -> Head<'_, T> {
        Head {
            hidden: self.hidden.view(),
            embedding: self.embedding.view(),
            target: self.target.view(),
            vocab: self.vocab,
            chunk: self.chunk,
            inverse: 1.0,
        }
    }

    fn score(&self, scores: &mut Buffer<f32>, keep: usize) -> Result<Logits> {
        forward(self.gpu, self.blas, self.call(), &mut Scores::of(scores), keep)
    }

    /// (dhidden, dembedding). With `keep`, from what the forward pass left; without it, the scores are computed beside them.
    fn gradient(&self, scores: &mut Buffer<f32>, keep: Option<usize>) -> Result<(Buffer<T>, Buffer<f32>)> {
        scores.fill_bytes(0xff)?;
        let logits = keep.map(|keep| self.score(scores, keep)).transpose()?;
        let mut dhidden = poisoned::<T>(self.gpu, self.hidden.len())?;
        let mut dembedding = poisoned::<f32>(self.gpu, self.embedding.len())?;
        let gradient = Gradient {
            dlogprob: self.dlogprob.view(),
            dentropy: Some(self.dentropy.view()),
            dhidden: dhidden.view_mut(),
            dembedding: Some(dembedding.view_mut()),
            store: Store::Set,
        };
        backward(self.gpu, self.blas, self.call(), &mut Scores::of(scores), logits, gradient)?;
        Ok((dhidden, dembedding))
    }
}

fn check<T: Float + PartialEq>(gpu: &Gpu, blas: &Matmul, case: &Case, chunk: usize) -> Result<Vec<Measured>> {
    let uploaded = Uploaded::<T>::new(gpu, blas, case, chunk)?;
    let &Case { tokens, vocab, dim, .. } = case;
    let mut scores = poisoned::<f32>(gpu, 3 * tokens)?;
    uploaded.score(&mut scores, 0)?;
    let logits = reference::matmul_abt(&case.hidden, &case.embedding, dim);
    let (want_logprob, want_entropy) = reference::head(&logits, &case.target);
    let want_scores = [want_logprob, want_entropy].concat();
    let mut all = vec![measure(case.what("scores"), &first(gpu, &scores, 2 * tokens)?, &want_scores, 2e-5)?];

    let (dhidden, dembedding) = uploaded.gradient(&mut scores, None)?;
    let dlogits = reference::head_backward(&logits, &case.target, &case.dlogprob, &case.dentropy);
    let alone = first(gpu, &scores, 2 * tokens)?;
    all.push(measure(case.what("scores with gradient"), &alone, &want_scores, 2e-5)?);
    let bound = grain::<T>().max(3e-5);
    let want = reference::matmul_ab(&dlogits, &case.embedding, vocab);
    all.push(measure(case.what("dhidden"), &dhidden, &want, bound)?);
    let want = reference::matmul_atb(&dlogits, &case.hidden, tokens);
    all.push(measure(case.what("dembedding"), &dembedding, &want, bound)?);

    let (once, want) = (scores.read()?, (dhidden.read()?, dembedding.read()?));
    let mut same = Vec::new();
    for keep in 0..=tokens.div_ceil(chunk) {
        let (dhidden, dembedding) = uploaded.gradient(&mut scores, Some(keep))?;
        let equal = (dhidden.read()?, dembedding.read()?) == want && scores.read()? == once;
        same.push(f64::from(u8::from(equal)));
    }
    all.push(compare(case.what("kept logits, same bits"), &same, &vec![1.0; same.len()], 0.0));
    Ok(all)
}

/// First `len` elements of a buffer.
fn first(gpu: &Gpu, all: &Buffer<f32>, len: usize) -> Result<Buffer<f32>> {
    Buffer::from_slice(gpu, &all.read()?[..len])
}
