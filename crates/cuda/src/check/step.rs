//! Whole model, forward and backward, against a model written in the reference's arithmetic.

use std::ops::Range;

use half::bf16;

use super::{Measured, compare, measure, rounded};
use crate::adamw::AdamW;
use crate::attention::Node;
use crate::buffer::{Buffer, Float};
use crate::error::{CudaError, Result};
use crate::gpu::Gpu;
use crate::random::Random;
use crate::reference::{self as r, Rope};
use crate::rope::{self, Heads};
use crate::step::{Batch, Keep, LayerLayout, Layout, Shape, Trainer};

pub(super) fn small(dim: usize) -> Shape {
    let heads = Heads { q: 4, kv: 2, dim };
    Shape { layers: 3, dim: 96, heads, ffn: 136, vocab: 211, theta: 10_000.0, eps: 1e-6 }
}

fn sequences(shape: &Shape, lengths: &[usize], random: &mut Random) -> Vec<Vec<u32>> {
    lengths.iter().map(|&len| (0..len).map(|_| random.below(shape.vocab) as u32).collect()).collect()
}

/// Bounds on the errors of log-probabilities, of the direction of a tensor's gradient and of the whole gradient.
fn bounds<T: Float>() -> [f64; 3] {
    if T::SUFFIX == "bf16" { [1e-2, 1e-3, 3e-2] } else { [1e-5, 1e-8, 5e-5] }
}

pub(super) fn model<T: Float>(gpu: &Gpu) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for dim in [64, 128] {
        all.extend(model_case::<T>(gpu, small(dim))?);
    }
    Ok(all)
}

fn model_case<T: Float>(gpu: &Gpu, shape: Shape) -> Result<Vec<Measured>> {
    let layout = Layout::new(&shape);
    let mut random = Random(9);
    let mut weights = rounded::<T>(&random.normal(layout.len, 0.1));
    for norm in layout.layers.iter().flat_map(|l| [&l.norm1, &l.norm2, &l.qk_norm]).chain([&layout.final_norm]) {
        weights[norm.clone()].iter_mut().for_each(|w| *w = T::from_f64(*w + 1.0).to_f64());
    }
    let lengths = [37, 70, 2];
    let sequences = sequences(&shape, &lengths, &mut random);
    let tokens: usize = lengths.iter().sum();
    let slopes = rounded::<f32>(&random.normal(tokens, 1.0));
    let oracle = Oracle { shape, layout: layout.clone(), weights: weights.clone(), sequences: sequences.clone() };
    let (want, want_grad) = oracle.run(&slopes);

    let host: Vec<f32> = weights.iter().map(|&w| w as f32).collect();
    let mut trainer = Trainer::<T>::from_weights(gpu, shape, 128, &host)?;
    trainer.model_mut().chunk = 48;
    let batch = Batch::packed(gpu, &sequences, shape.vocab)?;
    let slopes: Vec<f32> = slopes.iter().map(|&x| x as f32).collect();
    let scores = trainer.forward_backward(&batch, Buffer::from_slice(gpu, &slopes)?.view())?;
    // Without a backward the same bits.
    let alone = trainer.model().score(&batch)?;
    let same = alone.logprob.read()? == scores.logprob.read()? && alone.entropy.read()? == scores.entropy.read()?;
    let [logprob_bound, cosine_bound, gradient_bound] = bounds::<T>();
    let name = |s: &str| format!("{s}, heads of {}", shape.heads.dim);
    let mut all = vec![measure(name("logprob"), &scores.logprob, &want, logprob_bound)?];
    all.push(Measured { what: name("scores without a backward"), error: f64::from(u8::from(!same)), bound: 0.0 });
    let grad: Vec<f64> = trainer.grad().read()?.into_iter().map(f64::from).collect();
    for (what, at) in tensors(&layout) {
        all.push(cosine(name(&format!("1 - cosine of {what}")), &grad[at.clone()], &want_grad[at], cosine_bound));
    }
    all.push(compare(name("gradient"), &grad, &want_grad, gradient_bound));

    // A second pass adds to the gradient.
    let slopes = Buffer::from_slice(gpu, &slopes)?;
    trainer.forward_backward(&batch, slopes.view())?;
    let twice: Vec<f64> = trainer.grad().read()?.into_iter().map(|g| f64::from(g) / 2.0).collect();
    all.push(compare(name("half of two gradients"), &twice, &grad, 1e-6));
    // Whatever is kept of the forward, the gradient has the same bits.
    for keep in [Keep { rotated: true, normed: true, gate_up: 1 }, Keep { gate_up: 0, ..Keep::default() }] {
        trainer.keep = keep;
        trainer.zero_grad()?;
        trainer.forward_backward(&batch, slopes.view())?;
        let other: Vec<f64> = trainer.grad().read()?.into_iter().map(f64::from).collect();
        all.push(compare(name(&format!("gradient with {keep:?}")), &other, &grad, 0.0));
    }
    Ok(all)
}

fn tensors(layout: &Layout) -> Vec<(String, Range<usize>)> {
    let mut all =
        vec![("embedding".to_owned(), layout.embedding.clone()), ("final norm".into(), layout.final_norm.clone())];
    for (i, l) in layout.layers.iter().enumerate() {
        let named = [
            ("norm1", &l.norm1),
            ("qkv", &l.qkv),
            ("qk norm", &l.qk_norm),
            ("o", &l.o),
            ("norm2", &l.norm2),
            ("gate_up", &l.gate_up),
            ("down", &l.down),
        ];
        all.extend(named.map(|(name, at)| (format!("{name} {i}"), at.clone())));
    }
    all
}

fn cosine(what: String, a: &[f64], b: &[f64], bound: f64) -> Measured {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let error = 1.0 - dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    Measured { what, error: if error.is_nan() { f64::INFINITY } else { error.abs() }, bound }
}

/// Two steps, run twice from the same start: weights equal bit for bit.
pub(super) fn repeats(gpu: &Gpu) -> Result<Vec<Measured>> {
    let shape = small(128);
    let run = || -> Result<Vec<bf16>> {
        let mut random = Random(4);
        let mut trainer = Trainer::<bf16>::random(gpu, shape, 512, 3)?;
        let sequences = sequences(&shape, &[300, 17, 411], &mut random);
        let batch = Batch::packed(gpu, &sequences, shape.vocab)?;
        let slopes = Buffer::from_slice(gpu, &vec![-1.0 / 728f32; 728])?;
        for step in 1..=2 {
            trainer.zero_grad()?;
            trainer.forward_backward(&batch, slopes.view())?;
            let settings = AdamW { lr: 1e-3, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.0, step };
            trainer.update(settings, Some(1.0))?;
        }
        trainer.model().weights().read()
    };
    let (first, second) = (run()?, run()?);
    let different = first.iter().zip(&second).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    let moved = first.iter().any(|w| !w.is_finite());
    Ok(vec![Measured {
        what: "weights that differ, or are not numbers".into(),
        error: if moved { f64::INFINITY } else { different as f64 },
        bound: 0.0,
    }])
}

/// A thousand steps: memory in use is the same after the tenth step and the last.
pub(super) fn growth(gpu: &Gpu) -> Result<Vec<Measured>> {
    let shape = small(64);
    let mut trainer = Trainer::<bf16>::random(gpu, shape, 64, 3)?;
    let mut random = Random(6);
    let mut used = Vec::new();
    for step in 1..=1000 {
        // Batches of changing shape, so that leftovers of a step would also differ.
        let lengths = [1 + random.below(40), 1 + random.below(40)];
        let sequences = sequences(&shape, &lengths, &mut random);
        let tokens: usize = lengths.iter().sum();
        let batch = Batch::packed(gpu, &sequences, shape.vocab)?;
        let slopes = Buffer::from_slice(gpu, &vec![-1.0 / tokens as f32; tokens])?;
        trainer.zero_grad()?;
        trainer.forward_backward(&batch, slopes.view())?;
        trainer.update(AdamW { lr: 1e-4, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.0, step }, Some(1.0))?;
        drop((batch, slopes));
        gpu.wait()?;
        used.push(gpu.used()?);
    }
    let finite = trainer.model().weights().read()?.iter().all(|w| w.is_finite());
    let grown = used[used.len() - 1].abs_diff(used[9]);
    Ok(vec![
        Measured { what: "bytes in use after 1,000 steps less those after 10".into(), error: grown as f64, bound: 0.0 },
        Measured { what: "weights that are not numbers".into(), error: f64::from(u8::from(!finite)), bound: 0.0 },
    ])
}

/// A NaN in any kernel's output is named, and changes no weight.
pub(super) fn not_finite(gpu: &Gpu) -> Result<Vec<Measured>> {
    let shape = small(64);
    let mut trainer = Trainer::<bf16>::random(gpu, shape, 64, 3)?;
    let sequences = sequences(&shape, &[20, 33], &mut Random(8));
    let batch = Batch::packed(gpu, &sequences, shape.vocab)?;
    let slopes = Buffer::from_slice(gpu, &vec![-1.0 / 53f32; 53])?;
    let settings = AdamW { lr: 1e-3, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.0, step: 1 };
    let outputs = trainer.outputs(&batch, slopes.view())?;
    let before = trainer.model().weights().read()?;
    let mut wrong = Vec::new();
    for output in &outputs {
        trainer.poison(Some(output))?;
        match trainer.step(&batch, slopes.view(), settings, Some(1.0)) {
            Err(CudaError::NotFinite { what }) if what == *output => {}
            other => wrong.push(format!("{output}: {other:?}")),
        }
    }
    let same = before.iter().zip(&trainer.model().weights().read()?).all(|(a, b)| a.to_bits() == b.to_bits());
    trainer.poison(None)?;
    let sound = trainer.step(&batch, slopes.view(), settings, Some(1.0)).is_ok();
    let moved = before.iter().zip(&trainer.model().weights().read()?).any(|(a, b)| a.to_bits() != b.to_bits());
    let what = format!("of {} outputs made not finite, not named: {wrong:?}", outputs.len());
    Ok(vec![
        Measured { what, error: wrong.len() as f64, bound: 0.0 },
        Measured { what: "weights changed by such a step".into(), error: f64::from(u8::from(!same)), bound: 0.0 },
        Measured { what: "no sound step after".into(), error: f64::from(u8::from(!sound || !moved)), bound: 0.0 },
        Measured { what: "too few outputs".into(), error: f64::from(u8::from(outputs.len() < 30)), bound: 0.0 },
    ])
}

/// The same model in f64.
struct Oracle {
    shape: Shape,
    layout: Layout,
    weights: Vec<f64>,
    sequences: Vec<Vec<u32>>,
}

struct Kept {
    r1: Vec<f64>,
    y1: Vec<f64>,
    qkv: Vec<f64>,
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    o: Vec<f64>,
    r2: Vec<f64>,
    y2: Vec<f64>,
    gate_up: Vec<f64>,
    act: Vec<f64>,
}

fn add(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

impl Oracle {
    fn w(&self, at: &Range<usize>) -> &[f64] {
        &self.weights[at.clone()]
    }

    fn nodes(&self) -> Vec<Node> {
        let mut at = 0;
        let mut node = |s: &Vec<u32>| {
            at += s.len();
            Node { tokens: at - s.len()..at, ancestors: Vec::new() }
        };
        self.sequences.iter().map(&mut node).collect()
    }

    fn position(&self) -> Vec<i32> {
        self.sequences.iter().flat_map(|s| 0..s.len() as i32).collect()
    }

    fn table(&self) -> Vec<f64> {
        rope::table(128, self.shape.heads.dim, self.shape.theta).into_iter().map(f64::from).collect()
    }

    fn with_rope<T>(&self, l: &LayerLayout, f: impl FnOnce(Rope<'_>) -> T) -> T {
        let (table, position) = (self.table(), self.position());
        let norm = Some(self.w(&l.qk_norm).split_at(self.shape.heads.dim));
        let heads = self.shape.heads;
        f(Rope { heads, norm, table: &table, position: &position, eps: f64::from(self.shape.eps) })
    }

    fn norm(&self, x: &[f64], at: &Range<usize>) -> Vec<f64> {
        r::rms_norm(x, self.w(at), f64::from(self.shape.eps)).0
    }

    fn layer(&self, l: &LayerLayout, r1: Vec<f64>) -> (Kept, Vec<f64>) {
        let Shape { dim, heads, ffn, .. } = self.shape;
        let y1 = self.norm(&r1, &l.norm1);
        let qkv = r::matmul_abt(&y1, self.w(&l.qkv), dim);
        let (q, k) = self.with_rope(l, |rope| r::rope(&qkv, rope));
        let v: Vec<f64> =
            qkv.chunks(heads.qkv()).flat_map(|row| row[(heads.q + heads.kv) * heads.dim..].to_vec()).collect();
        let (o, _) = r::attention(heads, &self.nodes(), &q, &k, &v);
        let r2 = add(&r1, &r::matmul_abt(&o, self.w(&l.o), heads.q * heads.dim));
        let y2 = self.norm(&r2, &l.norm2);
        let gate_up = r::matmul_abt(&y2, self.w(&l.gate_up), dim);
        let act = r::swiglu(&gate_up, ffn);
        let out = add(&r2, &r::matmul_abt(&act, self.w(&l.down), ffn));
        (Kept { r1, y1, qkv, q, k, v, o, r2, y2, gate_up, act }, out)
    }

    /// Gradient of the layer's input; weight gradients go to `grad`.
    fn layer_backward(&self, l: &LayerLayout, kept: &Kept, dr: &[f64], grad: &mut [f64]) -> Vec<f64> {
        let Shape { dim, heads, ffn, .. } = self.shape;
        let (tokens, eps) = (dr.len() / dim, f64::from(self.shape.eps));
        let mut put = |at: &Range<usize>, g: Vec<f64>| grad[at.clone()].copy_from_slice(&g);
        put(&l.down, r::matmul_atb(dr, &kept.act, tokens));
        let dact = r::matmul_ab(dr, self.w(&l.down), dim);
        let dgate_up = r::swiglu_backward(&dact, &kept.gate_up, ffn);
        put(&l.gate_up, r::matmul_atb(&dgate_up, &kept.y2, tokens));
        let dy2 = r::matmul_ab(&dgate_up, self.w(&l.gate_up), 2 * ffn);
        let (dn, dw) = r::rms_norm_backward(&dy2, &kept.r2, self.w(&l.norm2), eps);
        put(&l.norm2, dw);
        let dr = add(dr, &dn);
        put(&l.o, r::matmul_atb(&dr, &kept.o, tokens));
        let d_o = r::matmul_ab(&dr, self.w(&l.o), dim);
        let (dq, dk, dv) = r::attention_backward(heads, &self.nodes(), (&kept.q, &kept.k, &kept.v), &d_o);
        let (mut dqkv, qw, kw) = self.with_rope(l, |rope| r::rope_backward(&dq, &dk, &kept.qkv, rope));
        let from = (heads.q + heads.kv) * heads.dim;
        for (row, dv) in dqkv.chunks_mut(heads.qkv()).zip(dv.chunks(heads.kv * heads.dim)) {
            row[from..].copy_from_slice(dv);
        }
        put(&l.qk_norm, [qw, kw].concat());
        put(&l.qkv, r::matmul_atb(&dqkv, &kept.y1, tokens));
        let dy1 = r::matmul_ab(&dqkv, self.w(&l.qkv), heads.qkv());
        let (dn, dw) = r::rms_norm_backward(&dy1, &kept.r1, self.w(&l.norm1), eps);
        put(&l.norm1, dw);
        add(&dr, &dn)
    }

    /// (log-probabilities, gradient of `sum(slopes * logprob)` in the layout's order).
    fn run(&self, slopes: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let Shape { dim, vocab, .. } = self.shape;
        let ids = self.sequences.concat();
        let embedding = self.w(&self.layout.embedding);
        let mut x: Vec<f64> = ids.iter().flat_map(|&id| embedding[id as usize * dim..][..dim].to_vec()).collect();
        let mut kept = Vec::new();
        for l in &self.layout.layers {
            let (keep, out) = self.layer(l, x);
            kept.push(keep);
            x = out;
        }
        let hidden = self.norm(&x, &self.layout.final_norm);
        let logits = r::matmul_abt(&hidden, embedding, dim);
        let next = |s: &Vec<u32>| -> Vec<i32> { s[1..].iter().map(|&id| id as i32).chain([-1]).collect() };
        let target: Vec<i32> = self.sequences.iter().flat_map(next).collect();
        let (logprob, _) = r::head(&logits, &target);

        let mut grad = vec![0.0; self.layout.len];
        let dlogits = r::head_backward(&logits, &target, slopes, &vec![0.0; slopes.len()]);
        let mut dembedding = r::matmul_atb(&dlogits, &hidden, ids.len());
        let dhidden = r::matmul_ab(&dlogits, embedding, vocab);
        let (w, eps) = (self.w(&self.layout.final_norm), f64::from(self.shape.eps));
        let (mut dr, dw) = r::rms_norm_backward(&dhidden, &x, w, eps);
        grad[self.layout.final_norm.clone()].copy_from_slice(&dw);
        for (l, kept) in self.layout.layers.iter().zip(&kept).rev() {
            dr = self.layer_backward(l, kept, &dr, &mut grad);
        }
        for (id, d) in ids.iter().zip(dr.chunks(dim)) {
            dembedding[*id as usize * dim..][..dim].iter_mut().zip(d).for_each(|(sum, d)| *sum += d);
        }
        grad[self.layout.embedding.clone()].copy_from_slice(&dembedding);
        (logprob, grad)
    }
}
