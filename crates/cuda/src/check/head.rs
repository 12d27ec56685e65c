//! Fused head: scores and gradients over several chunks, a vocabulary that no vector width divides, tokens left out; the same
//! bits however many chunks' logits are kept.

use super::{Measured, compare, grain, measure, poisoned, rounded, upload};
use crate::buffer::{Buffer, Float};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::head::{Gradient, Head, Scores, backward, forward};
use crate::matmul::{Matmul, Store};
use crate::random::Random;
use crate::reference;

pub(super) fn head<T: Float + PartialEq>(gpu: &Gpu) -> Result<Vec<Measured>> {
    let blas = Matmul::new(gpu)?;
    let mut all = Vec::new();
    for (tokens, vocab, dim, chunk) in [(5, 40, 16, 8), (67, 1003, 64, 24), (130, 9000, 128, 64)] {
        all.extend(case::<T>(gpu, &blas, tokens, vocab, dim, chunk)?);
    }
    Ok(all)
}

fn case<T: Float + PartialEq>(
    gpu: &Gpu,
    blas: &Matmul,
    tokens: usize,
    vocab: usize,
    dim: usize,
    chunk: usize,
) -> Result<Vec<Measured>> {
    let mut random = Random((tokens * vocab) as u64);
    let hidden = rounded::<T>(&random.normal(tokens * dim, 1.0));
    let embedding = rounded::<T>(&random.normal(vocab * dim, 0.3));
    let target: Vec<i32> = (0..tokens).map(|t| if t % 7 == 3 { -1 } else { random.below(vocab) as i32 }).collect();
    let (dlogprob, dentropy) =
        (rounded::<f32>(&random.normal(tokens, 1.0)), rounded::<f32>(&random.normal(tokens, 0.5)));
    let (ghidden, gembedding) = (upload::<T>(gpu, &hidden)?, upload::<T>(gpu, &embedding)?);
    let gtarget = Buffer::from_slice(gpu, &target)?;
    let (gdlogprob, gdentropy) = (upload::<f32>(gpu, &dlogprob)?, upload::<f32>(gpu, &dentropy)?);
    let call = Head {
        hidden: ghidden.view(),
        embedding: gembedding.view(),
        target: gtarget.view(),
        vocab,
        chunk,
        inverse: 1.0,
    };
    let mut scores = poisoned::<f32>(gpu, 3 * tokens)?;
    let score = |scores: &mut Buffer<f32>, keep| forward(gpu, blas, call, &mut Scores::of(scores), keep);
    score(&mut scores, 0)?;
    let logits = reference::matmul_abt(&hidden, &embedding, dim);
    let (want_logprob, want_entropy) = reference::head(&logits, &target);
    let want_scores = [want_logprob, want_entropy].concat();
    let what = |s: &str| format!("{s} {tokens}x{vocab}");
    let mut all = vec![measure(what("scores"), &first(gpu, &scores, 2 * tokens)?, &want_scores, 2e-5)?];

    // With `keep`, what the forward pass left is used; without it, the scores are computed beside the gradient.
    let gradient = |scores: &mut Buffer<f32>, keep: Option<usize>| -> Result<(Buffer<T>, Buffer<f32>)> {
        scores.fill_bytes(0xff)?;
        let logits = keep.map(|keep| score(scores, keep)).transpose()?;
        let (mut dhidden, mut dembedding) = (poisoned::<T>(gpu, hidden.len())?, poisoned::<f32>(gpu, embedding.len())?);
        let gradient = Gradient {
            dlogprob: gdlogprob.view(),
            dentropy: Some(gdentropy.view()),
            dhidden: dhidden.view_mut(),
            dembedding: Some(dembedding.view_mut()),
            store: Store::Set,
        };
        backward(gpu, blas, call, &mut Scores::of(scores), logits, gradient)?;
        Ok((dhidden, dembedding))
    };
    let (dhidden, dembedding) = gradient(&mut scores, None)?;
    let dlogits = reference::head_backward(&logits, &target, &dlogprob, &dentropy);
    all.push(measure(what("scores with gradient"), &first(gpu, &scores, 2 * tokens)?, &want_scores, 2e-5)?);
    let bound = grain::<T>().max(3e-5);
    all.push(measure(what("dhidden"), &dhidden, &reference::matmul_ab(&dlogits, &embedding, vocab), bound)?);
    all.push(measure(what("dembedding"), &dembedding, &reference::matmul_atb(&dlogits, &hidden, tokens), bound)?);
    let (once, want) = (scores.read()?, (dhidden.read()?, dembedding.read()?));
    let mut same = Vec::new();
    for keep in 0..=tokens.div_ceil(chunk) {
        let (dhidden, dembedding) = gradient(&mut scores, Some(keep))?;
        let equal = (dhidden.read()?, dembedding.read()?) == want && scores.read()? == once;
        same.push(f64::from(u8::from(equal)));
    }
    all.push(compare(what("kept logits, same bits"), &same, &vec![1.0; same.len()], 0.0));
    Ok(all)
}

/// The first elements of a buffer.
fn first(gpu: &Gpu, all: &Buffer<f32>, len: usize) -> Result<Buffer<f32>> {
    Buffer::from_slice(gpu, &all.read()?[..len])
}
