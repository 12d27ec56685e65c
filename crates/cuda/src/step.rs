//! Training step of a Qwen3-style transformer, composed of the kernels: forward, head, backward, AdamW.
//!
//! All parameters lie in one flat array (and so do master weights, moments and gradients), so that norm and update are one
//! launch each. Kept per layer for the backward: the two residual sums, qkv, attention output, gates and ups (28 KB per
//! token and layer at the 0.6B shape). Norm outputs, rotated queries and keys and the SwiGLU output are recomputed: each
//! costs one pass over memory, and together they would be half as much again.

use std::ops::Range;

use crate::adamw::{self, AdamW, Norm, State};
use crate::attention::{self, DQkv, Qkv, Rows, RowsMut, Saved};
use crate::buffer::{Buffer, Float, View};
use crate::embed::{self, Ids};
use crate::error::{Result, ensure};
use crate::gpu::Gpu;
use crate::head::{self, Gradient, Head};
use crate::matmul::{Matmul, Matrix, MatrixMut, Product, Store};
use crate::rope::{self, Heads, QkNorm, Rotation};
use crate::{norm, random, swiglu};

/// Dimensions of a model with tied embeddings.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
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
    pub fn qwen3_06b() -> Self {
        let heads = Heads { q: 16, kv: 8, dim: 128 };
        Self { layers: 28, dim: 1024, heads, ffn: 3072, vocab: 151_936, theta: 1e6, eps: 1e-6 }
    }

    /// Qwen3-4B.
    pub fn qwen3_4b() -> Self {
        let heads = Heads { q: 32, kv: 8, dim: 128 };
        Self { layers: 36, dim: 2560, heads, ffn: 9728, ..Self::qwen3_06b() }
    }
}

/// Where each tensor lies in the flat arrays.
#[derive(Clone, Debug)]
pub struct Layout {
    /// [vocab, dim].
    pub embedding: Range<usize>,
    pub layers: Vec<LayerLayout>,
    pub final_norm: Range<usize>,
    pub len: usize,
}

/// Tensors of one layer; matrices are [out, in].
#[derive(Clone, Debug)]
pub struct LayerLayout {
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
    pub fn new(shape: &Shape) -> Self {
        let mut len = 0;
        let mut next = |size: usize| {
            let at = len..len + size;
            // Tensors begin at multiples of 256 bytes in bf16, as cuBLASLt's fastest kernels want.
            len = at.end.next_multiple_of(128);
            at
        };
        let Shape { dim, heads, ffn, .. } = *shape;
        let embedding = next(shape.vocab * dim);
        let layers = (0..shape.layers)
            .map(|_| LayerLayout {
                norm1: next(dim),
                qkv: next(heads.qkv() * dim),
                qk_norm: next(2 * heads.dim),
                o: next(dim * heads.q * heads.dim),
                norm2: next(dim),
                gate_up: next(2 * ffn * dim),
                down: next(dim * ffn),
            })
            .collect();
        let final_norm = next(dim);
        Self { embedding, layers, final_norm, len }
    }
}

/// Packed tokens of one step.
#[derive(Debug)]
pub struct Batch {
    ids: Ids,
    /// Token each position is scored on; below zero for none.
    target: Buffer<i32>,
    position: Buffer<i32>,
    plan: attention::Plan,
    /// Length of the longest sequence.
    longest: usize,
}

impl Batch {
    /// Sequences one after another; every token is scored on its successor, the last of a sequence on nothing.
    pub fn packed(gpu: &Gpu, sequences: &[Vec<u32>], vocab: usize) -> Result<Self> {
        let ids: Vec<u32> = sequences.concat();
        let successors = |s: &Vec<u32>| -> Vec<i32> { s[1..].iter().map(|&id| id as i32).chain([-1]).collect() };
        let target: Vec<i32> = sequences.iter().flat_map(successors).collect();
        let position: Vec<i32> = sequences.iter().flat_map(|s| 0..s.len() as i32).collect();
        let lengths: Vec<usize> = sequences.iter().map(Vec::len).collect();
        Ok(Self {
            ids: Ids::new(gpu, &ids, vocab)?,
            target: Buffer::from_slice(gpu, &target)?,
            position: Buffer::from_slice(gpu, &position)?,
            plan: attention::Plan::packed(gpu, &lengths)?,
            longest: lengths.into_iter().max().unwrap_or_default(),
        })
    }

    pub fn tokens(&self) -> usize {
        self.ids.len()
    }
}

/// Log-probability and entropy per token.
#[derive(Debug)]
pub struct Scores {
    pub logprob: Buffer<f32>,
    pub entropy: Buffer<f32>,
}

/// What the backward of one layer needs of its forward.
#[derive(Debug)]
struct Kept<T> {
    /// Residual sum before attention, and its norm.
    r1: Buffer<T>,
    rstd1: Buffer<f32>,
    qkv: Buffer<T>,
    o: Buffer<T>,
    lse: Buffer<f32>,
    /// Residual sum before the feed-forward, and its norm.
    r2: Buffer<T>,
    rstd2: Buffer<f32>,
    gate_up: Buffer<T>,
}

/// What enters a layer: the embedded tokens, or the output of the layer before, yet to be added to the residual sum.
#[derive(Debug)]
enum Input<T> {
    Embedding(Buffer<T>),
    Delta(Buffer<T>),
}

/// Model, gradient and optimizer state on one GPU; weights and activations in `T` (bf16, or f32 in tests).
#[derive(Debug)]
pub struct Trainer<T> {
    gpu: Gpu,
    matmul: Matmul,
    shape: Shape,
    layout: Layout,
    master: Buffer<f32>,
    m: Buffer<f32>,
    v: Buffer<f32>,
    grad: Buffer<f32>,
    weights: Buffer<T>,
    table: Buffer<f32>,
    positions: usize,
    /// Tokens whose logits exist at one time.
    pub chunk: usize,
}

impl<T: Float> Trainer<T> {
    /// Random weights: matrices uniform with the deviation 0.02, norms 1.
    pub fn random(gpu: &Gpu, shape: Shape, positions: usize, seed: i32) -> Result<Self> {
        let layout = Layout::new(&shape);
        let mut master = Buffer::zeros(gpu, layout.len)?;
        random::fill(gpu, &mut master.view_mut(), seed, 0.0, 0.02 * 3f32.sqrt())?;
        let norms = layout.layers.iter().flat_map(|l| [&l.norm1, &l.norm2, &l.qk_norm]).chain([&layout.final_norm]);
        for norm in norms {
            random::fill(gpu, &mut master.view_mut().slice(norm.clone()), seed, 1.0, 0.0)?;
        }
        Self::new(gpu, shape, positions, master)
    }

    /// Weights from the host, in the order of [`Layout`].
    pub fn from_weights(gpu: &Gpu, shape: Shape, positions: usize, weights: &[f32]) -> Result<Self> {
        Self::new(gpu, shape, positions, Buffer::from_slice(gpu, weights)?)
    }

    fn new(gpu: &Gpu, shape: Shape, positions: usize, master: Buffer<f32>) -> Result<Self> {
        let layout = Layout::new(&shape);
        let len = layout.len;
        ensure(master.len() == len, "trainer", || format!("{} weights for {len}", master.len()))?;
        let mut weights = Buffer::uninit(gpu, len)?;
        adamw::round_copy(gpu, master.view(), &mut weights.view_mut())?;
        Ok(Self {
            gpu: gpu.clone(),
            matmul: Matmul::new(gpu)?,
            shape,
            layout,
            master,
            m: Buffer::zeros(gpu, len)?,
            v: Buffer::zeros(gpu, len)?,
            grad: Buffer::zeros(gpu, len)?,
            weights,
            table: Buffer::from_slice(gpu, &rope::table(positions, shape.heads.dim, shape.theta))?,
            positions,
            chunk: 2048,
        })
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub fn grad(&self) -> &Buffer<f32> {
        &self.grad
    }

    pub fn weights(&self) -> &Buffer<T> {
        &self.weights
    }

    pub fn zero_grad(&mut self) -> Result<()> {
        self.grad.fill_bytes(0)
    }

    fn weight(&self, range: &Range<usize>) -> View<'_, T> {
        self.weights.view().slice(range.clone())
    }

    /// Scores of the batch; the gradient of `sum(dlogprob * logprob)` is added to [`Self::grad`].
    pub fn forward_backward(&mut self, batch: &Batch, dlogprob: View<'_, f32>) -> Result<Scores> {
        ensure(batch.tokens() > 0 && batch.longest <= self.positions, "step", || {
            format!(
                "{} tokens, the longest sequence {}, of {} positions",
                batch.tokens(),
                batch.longest,
                self.positions
            )
        })?;
        let mut embedded = self.buffer(batch.tokens() * self.shape.dim)?;
        embed::forward(&self.gpu, self.weight(&self.layout.embedding), &batch.ids, &mut embedded.view_mut())?;
        let mut kept: Vec<Kept<T>> = Vec::with_capacity(self.shape.layers);
        let mut input = Input::Embedding(embedded);
        for layer in 0..self.shape.layers {
            let (keep, delta) = self.layer_forward(layer, batch, kept.last(), input)?;
            kept.push(keep);
            input = Input::Delta(delta);
        }
        let (scores, mut dr) = self.head(batch, kept.last(), input, dlogprob)?;
        while let Some(keep) = kept.pop() {
            dr = self.layer_backward(kept.len(), batch, &keep, dr)?;
        }
        let at = self.layout.embedding.clone();
        embed::backward(&self.gpu, dr.view(), &batch.ids, &mut self.grad.view_mut().slice(at))?;
        Ok(scores)
    }

    /// Clips by the global norm and updates the weights. The norm stays on the device until it is read.
    pub fn update(&mut self, settings: AdamW, max_norm: Option<f32>) -> Result<Norm> {
        let norm = Norm::of(&self.gpu, self.grad.view(), max_norm)?;
        let mut state = State {
            master: self.master.view_mut(),
            m: self.m.view_mut(),
            v: self.v.view_mut(),
            copy: self.weights.view_mut(),
        };
        adamw::step(&self.gpu, settings, &mut state, self.grad.view(), Some(&norm))?;
        Ok(norm)
    }

    fn buffer(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::uninit(&self.gpu, len)
    }

    /// `rows x out = input · weightᵀ`.
    fn project(&self, input: View<'_, T>, weight: &Range<usize>, rows: usize) -> Result<Buffer<T>> {
        let inner = input.len() / rows;
        let width = weight.len() / inner;
        let mut out = self.buffer(rows * width)?;
        self.matmul.run(
            Product::ABt,
            Matrix::new(input, rows, inner),
            Matrix::new(self.weight(weight), width, inner),
            MatrixMut::new(out.view_mut(), rows, width),
            Store::Set,
        )?;
        Ok(out)
    }

    /// Gradients of a projection: of its weight (added) and of its input (returned).
    fn project_backward(
        &mut self,
        dout: View<'_, T>,
        input: View<'_, T>,
        weight: &Range<usize>,
        rows: usize,
    ) -> Result<Buffer<T>> {
        let (width, inner) = (dout.len() / rows, input.len() / rows);
        let (dout, input) = (Matrix::new(dout, rows, width), Matrix::new(input, rows, inner));
        let mut grad = self.grad.view_mut();
        let grad = MatrixMut::new(grad.slice(weight.clone()), width, inner);
        self.matmul.run(Product::AtB, dout, input, grad, Store::Add)?;
        let mut dinput = self.buffer(rows * inner)?;
        let weight = Matrix::new(self.weight(weight), width, inner);
        self.matmul.run(Product::AB, dout, weight, MatrixMut::new(dinput.view_mut(), rows, inner), Store::Set)?;
        Ok(dinput)
    }

    fn qk_norm(&self, layer: usize) -> QkNorm<'_, T> {
        let both = self.weight(&self.layout.layers[layer].qk_norm);
        let dim = self.shape.heads.dim;
        QkNorm { q: both.slice(0..dim), k: both.slice(dim..2 * dim) }
    }

    fn rotation<'a>(&'a self, batch: &'a Batch) -> Rotation<'a> {
        Rotation { table: self.table.view(), position: batch.position.view(), eps: self.shape.eps }
    }

    /// Rotated queries and keys.
    fn rotate(&self, layer: usize, batch: &Batch, qkv: View<'_, T>) -> Result<(Buffer<T>, Buffer<T>)> {
        let (tokens, heads) = (batch.tokens(), self.shape.heads);
        let (mut q, mut k) = (self.buffer(tokens * heads.q * heads.dim)?, self.buffer(tokens * heads.kv * heads.dim)?);
        let norm = Some(self.qk_norm(layer));
        rope::forward(&self.gpu, heads, qkv, norm, self.rotation(batch), &mut q.view_mut(), &mut k.view_mut())?;
        Ok((q, k))
    }

    fn operands<'a>(&self, q: &'a Buffer<T>, k: &'a Buffer<T>, qkv: &'a Buffer<T>) -> Qkv<'a, T> {
        let Heads { q: qh, kv, dim } = self.shape.heads;
        Qkv {
            q: Rows { view: q.view(), stride: qh * dim },
            k: Rows { view: k.view(), stride: kv * dim },
            v: Rows { view: qkv.view().slice((qh + kv) * dim..qkv.len()), stride: self.shape.heads.qkv() },
        }
    }

    /// Norm of rows: (normed, rstd).
    fn normed(&self, x: View<'_, T>, weight: &Range<usize>) -> Result<(Buffer<T>, Buffer<f32>)> {
        let mut y = self.buffer(x.len())?;
        let mut rstd = Buffer::uninit(&self.gpu, x.len() / weight.len())?;
        let eps = self.shape.eps;
        norm::forward(&self.gpu, x, None, self.weight(weight), &mut y.view_mut(), &mut rstd.view_mut(), eps)?;
        Ok((y, rstd))
    }

    /// Norm of the layer's input: (residual sum, normed, rstd). `previous` holds the sum that a delta is added to.
    fn enter(
        &self,
        previous: Option<&Buffer<T>>,
        input: Input<T>,
        weight: &Range<usize>,
    ) -> Result<(Buffer<T>, Buffer<T>, Buffer<f32>)> {
        match (input, previous) {
            (Input::Delta(delta), Some(x)) => {
                let (mut sum, mut y) = (self.buffer(x.len())?, self.buffer(x.len())?);
                let mut rstd = Buffer::uninit(&self.gpu, x.len() / weight.len())?;
                let (w, eps) = (self.weight(weight), self.shape.eps);
                let add = Some((delta.view(), &mut sum.view_mut()));
                norm::forward(&self.gpu, x.view(), add, w, &mut y.view_mut(), &mut rstd.view_mut(), eps)?;
                Ok((sum, y, rstd))
            }
            (Input::Embedding(x) | Input::Delta(x), _) => {
                let (y, rstd) = self.normed(x.view(), weight)?;
                Ok((x, y, rstd))
            }
        }
    }

    /// One layer: (kept for the backward, output of the feed-forward, which the next norm adds).
    fn layer_forward(
        &self,
        layer: usize,
        batch: &Batch,
        previous: Option<&Kept<T>>,
        input: Input<T>,
    ) -> Result<(Kept<T>, Buffer<T>)> {
        let at = &self.layout.layers[layer];
        let (tokens, heads) = (batch.tokens(), self.shape.heads);
        let (r1, y, rstd1) = self.enter(previous.map(|p| &p.r2), input, &at.norm1)?;
        let qkv = self.project(y.view(), &at.qkv, tokens)?;
        let (q, k) = self.rotate(layer, batch, qkv.view())?;
        let mut o = self.buffer(tokens * heads.q * heads.dim)?;
        let mut lse = Buffer::uninit(&self.gpu, tokens * heads.q)?;
        let operands = self.operands(&q, &k, &qkv);
        attention::forward(&self.gpu, heads, &batch.plan, operands, &mut o.view_mut(), &mut lse.view_mut())?;
        let out = self.project(o.view(), &at.o, tokens)?;
        let (r2, y, rstd2) = self.enter(Some(&r1), Input::Delta(out), &at.norm2)?;
        let gate_up = self.project(y.view(), &at.gate_up, tokens)?;
        let mut act = self.buffer(tokens * self.shape.ffn)?;
        swiglu::forward(&self.gpu, gate_up.view(), &mut act.view_mut(), self.shape.ffn)?;
        let mlp = self.project(act.view(), &at.down, tokens)?;
        Ok((Kept { r1, rstd1, qkv, o, lse, r2, rstd2, gate_up }, mlp))
    }

    /// Final norm and head: (scores, gradient of the last residual sum).
    fn head(
        &mut self,
        batch: &Batch,
        last: Option<&Kept<T>>,
        input: Input<T>,
        dlogprob: View<'_, f32>,
    ) -> Result<(Scores, Buffer<T>)> {
        let tokens = batch.tokens();
        let at = self.layout.final_norm.clone();
        let (r, hidden, rstd) = self.enter(last.map(|p| &p.r2), input, &at)?;
        let (mut logprob, mut entropy) = (Buffer::uninit(&self.gpu, tokens)?, Buffer::uninit(&self.gpu, tokens)?);
        let mut dhidden = self.buffer(hidden.len())?;
        let call = Head {
            hidden: hidden.view(),
            embedding: self.weights.view().slice(self.layout.embedding.clone()),
            target: batch.target.view(),
            vocab: self.shape.vocab,
            chunk: self.chunk,
        };
        let mut grad = self.grad.view_mut();
        let gradient = Gradient {
            dlogprob,
            dentropy: None,
            dhidden: dhidden.view_mut(),
            dembedding: grad.slice(self.layout.embedding.clone()),
        };
        let (gpu, matmul) = (&self.gpu, &self.matmul);
        head::run(gpu, matmul, call, &mut logprob.view_mut(), &mut entropy.view_mut(), Some(gradient))?;
        let dr = self.norm_backward(&dhidden, &r, &rstd, &at, None)?;
        Ok((Scores { logprob, entropy }, dr))
    }

    fn norm_backward(
        &mut self,
        dy: &Buffer<T>,
        r: &Buffer<T>,
        rstd: &Buffer<f32>,
        weight: &Range<usize>,
        above: Option<&Buffer<T>>,
    ) -> Result<Buffer<T>> {
        let mut dr = self.buffer(dy.len())?;
        let w = self.weights.view().slice(weight.clone());
        let mut grad = self.grad.view_mut();
        let (above, dw) = (above.map(Buffer::view), &mut grad.slice(weight.clone()));
        norm::backward(&self.gpu, dy.view(), r.view(), rstd.view(), w, above, &mut dr.view_mut(), dw)?;
        Ok(dr)
    }

    /// Gradient of the layer's input sum from that of its output.
    fn layer_backward(&mut self, layer: usize, batch: &Batch, kept: &Kept<T>, dr: Buffer<T>) -> Result<Buffer<T>> {
        let at = self.layout.layers[layer].clone();
        let tokens = batch.tokens();
        let dr = self.ffn_backward(&at, tokens, kept, dr)?;
        let d_o = self.project_backward(dr.view(), kept.o.view(), &at.o, tokens)?;
        let dqkv = self.attention_backward(layer, batch, kept, &d_o)?;
        let (y, _) = self.normed(kept.r1.view(), &at.norm1)?;
        let dy = self.project_backward(dqkv.view(), y.view(), &at.qkv, tokens)?;
        self.norm_backward(&dy, &kept.r1, &kept.rstd1, &at.norm1, Some(&dr))
    }

    fn ffn_backward(&mut self, at: &LayerLayout, tokens: usize, kept: &Kept<T>, dr: Buffer<T>) -> Result<Buffer<T>> {
        let (dim, ffn) = (self.shape.dim, self.shape.ffn);
        let mut dact = self.buffer(tokens * ffn)?;
        let d = Matrix::new(dr.view(), tokens, dim);
        let down = Matrix::new(self.weight(&at.down), dim, ffn);
        self.matmul.run(Product::AB, d, down, MatrixMut::new(dact.view_mut(), tokens, ffn), Store::Set)?;
        let (mut dgate_up, mut act) = (self.buffer(2 * tokens * ffn)?, self.buffer(tokens * ffn)?);
        let again = Some(&mut act.view_mut());
        swiglu::backward(&self.gpu, dact.view(), kept.gate_up.view(), &mut dgate_up.view_mut(), again, ffn)?;
        let mut grad = self.grad.view_mut();
        let grad_down = MatrixMut::new(grad.slice(at.down.clone()), dim, ffn);
        self.matmul.run(Product::AtB, d, Matrix::new(act.view(), tokens, ffn), grad_down, Store::Add)?;
        drop((dact, act));
        let (y, _) = self.normed(kept.r2.view(), &at.norm2)?;
        let dy = self.project_backward(dgate_up.view(), y.view(), &at.gate_up, tokens)?;
        self.norm_backward(&dy, &kept.r2, &kept.rstd2, &at.norm2, Some(&dr))
    }

    fn attention_backward(
        &mut self,
        layer: usize,
        batch: &Batch,
        kept: &Kept<T>,
        d_o: &Buffer<T>,
    ) -> Result<Buffer<T>> {
        let (tokens, heads) = (batch.tokens(), self.shape.heads);
        let Heads { q: qh, kv, dim } = heads;
        let (q, k) = self.rotate(layer, batch, kept.qkv.view())?;
        let (mut dq, mut dk) = (self.buffer(q.len())?, self.buffer(k.len())?);
        let mut dqkv = self.buffer(tokens * heads.qkv())?;
        let len = dqkv.len();
        let saved = Saved { o: kept.o.view(), lse: kept.lse.view(), d_o: d_o.view() };
        let mut dqkv_view = dqkv.view_mut();
        let mut out = DQkv {
            dq: RowsMut { view: dq.view_mut(), stride: qh * dim },
            dk: RowsMut { view: dk.view_mut(), stride: kv * dim },
            dv: RowsMut { view: dqkv_view.slice((qh + kv) * dim..len), stride: heads.qkv() },
        };
        attention::backward(&self.gpu, heads, &batch.plan, self.operands(&q, &k, &kept.qkv), saved, &mut out)?;
        let at = self.layout.layers[layer].qk_norm.clone();
        // Fields rather than methods: the gradient is borrowed beside them.
        let both = self.weights.view().slice(at.clone());
        let norm = Some(QkNorm { q: both.slice(0..dim), k: both.slice(dim..2 * dim) });
        let rotation = Rotation { table: self.table.view(), position: batch.position.view(), eps: self.shape.eps };
        let (pair, mut grad) = ((dq.view(), dk.view()), self.grad.view_mut());
        let dw = Some(&mut grad.slice(at));
        rope::backward(&self.gpu, heads, pair, kept.qkv.view(), norm, rotation, &mut dqkv.view_mut(), dw)?;
        Ok(dqkv)
    }
}
