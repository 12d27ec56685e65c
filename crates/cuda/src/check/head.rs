//! Fused head: scores and gradients over several chunks, a vocabulary that no vector width divides, tokens left out.

use super::{Measured, grain, measure, poisoned, rounded, upload};
use crate::buffer::{Buffer, Float};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::head::{Gradient, Head, run};
use crate::matmul::{Matmul, Store};
use crate::random::Random;
use crate::reference;

pub(super) fn head<T: Float>(gpu: &Gpu) -> Result<Vec<Measured>> {
    let blas = Matmul::new(gpu)?;
    let mut all = Vec::new();
    for (tokens, vocab, dim, chunk) in [(5, 40, 16, 8), (67, 1003, 64, 24), (130, 9000, 128, 64)] {
        all.extend(case::<T>(gpu, &blas, tokens, vocab, dim, chunk)?);
    }
    Ok(all)
}

fn case<T: Float>(
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
    let (mut logprob, mut entropy) = (poisoned::<f32>(gpu, tokens)?, poisoned::<f32>(gpu, tokens)?);
    let (mut dhidden, mut dembedding) = (poisoned::<T>(gpu, hidden.len())?, poisoned::<f32>(gpu, embedding.len())?);

    run(gpu, blas, call, &mut logprob.view_mut(), &mut entropy.view_mut(), None)?;
    let logits = reference::matmul_abt(&hidden, &embedding, dim);
    let (want_logprob, want_entropy) = reference::head(&logits, &target);
    let what = |s: &str| format!("{s} {tokens}x{vocab}");
    let mut all = vec![
        measure(what("logprob"), &logprob, &want_logprob, 2e-5)?,
        measure(what("entropy"), &entropy, &want_entropy, 2e-5)?,
    ];
    logprob.fill_bytes(0xff)?;
    let gradient = Gradient {
        dlogprob: gdlogprob.view(),
        dentropy: Some(gdentropy.view()),
        dhidden: dhidden.view_mut(),
        dembedding: Some(dembedding.view_mut()),
        store: Store::Set,
    };
    run(gpu, blas, call, &mut logprob.view_mut(), &mut entropy.view_mut(), Some(gradient))?;
    let dlogits = reference::head_backward(&logits, &target, &dlogprob, &dentropy);
    all.push(measure(what("logprob with gradient"), &logprob, &want_logprob, 2e-5)?);
    let bound = grain::<T>().max(3e-5);
    all.push(measure(what("dhidden"), &dhidden, &reference::matmul_ab(&dlogits, &embedding, vocab), bound)?);
    all.push(measure(what("dembedding"), &dembedding, &reference::matmul_atb(&dlogits, &hidden, tokens), bound)?);
    Ok(all)
}
