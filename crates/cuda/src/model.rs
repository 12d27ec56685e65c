//! Forward pass of a Qwen3-style transformer, shared by training and sampling: weights, tables and the layers' steps.

use std::ops::Range;

use crate::attention::{self, Qkv, Rows};
use crate::buffer::{Buffer, Float, View};
use crate::embed::{self, Ids};
use crate::error::{Result, ensure};
use crate::gpu::Gpu;
use crate::head::{self, Head};
use crate::matmul::{Matmul, Matrix, MatrixMut, Product, Store};
use crate::rope::{self, Fused, Heads, QkNorm, Rotation};
use crate::shape::{Layout, Shape};
use crate::watch::Watch;
use crate::{adamw, norm, random, swiglu};

/// Packed batch of one step.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) ids: Ids,
    /// Target token of each position; negative for none.
    pub(crate) target: Buffer<i32>,
    pub(crate) position: Buffer<i32>,
    pub(crate) plan: attention::Plan,
    /// Length of the longest sequence.
    pub(crate) longest: usize,
}

impl Batch {
    /// Packed sequences; each token is scored on its successor, the last token of a sequence is not scored.
    pub(crate) fn packed(gpu: &Gpu, sequences: &[Vec<u32>], vocab: usize) -> Result<Self> {
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

    pub(crate) fn tokens(&self) -> usize {
        self.ids.len()
    }
}

/// Log-probability and entropy per token.
#[derive(Debug)]
pub(crate) struct Scores {
    pub logprob: Buffer<f32>,
    pub entropy: Buffer<f32>,
}

impl Scores {
    pub(crate) fn uninit(gpu: &Gpu, tokens: usize) -> Result<Self> {
        Ok(Self { logprob: Buffer::uninit(gpu, tokens)?, entropy: Buffer::uninit(gpu, tokens)? })
    }

    /// Destination of the head, with scratch for the sums of exponentials.
    pub(crate) fn written<'a>(&'a mut self, lse: &'a mut Buffer<f32>) -> head::Scores<'a> {
        let Self { logprob, entropy } = self;
        head::Scores { logprob: logprob.view_mut(), entropy: entropy.view_mut(), lse: lse.view_mut() }
    }
}

/// Activation checkpointing: the activations a training step keeps for the backward pass; the rest is recomputed. Always
/// kept: the two residual sums, qkv, and the attention's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keep {
    /// Rotated queries and keys; recomputing them costs a pass over memory.
    pub rotated: bool,
    /// Outputs of the two norms; recomputing them costs a pass over memory.
    pub normed: bool,
    /// Number of layers, counted from the last, whose gates and ups are kept; recomputing them costs a matrix product.
    pub gate_up: usize,
}

impl Default for Keep {
    fn default() -> Self {
        Self { rotated: false, normed: false, gate_up: usize::MAX }
    }
}

impl Keep {
    /// For a forward pass without a backward pass.
    const NOTHING: Self = Self { rotated: false, normed: false, gate_up: 0 };
}

/// Activations that the backward pass of one layer needs.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    /// Residual sum before attention, and its norm.
    pub r1: Buffer<T>,
    pub rstd1: Buffer<f32>,
    pub y1: Option<Buffer<T>>,
    pub attention: KeptAttention<T>,
    /// Residual sum before the feed-forward, and its norm.
    pub r2: Buffer<T>,
    pub rstd2: Buffer<f32>,
    pub y2: Option<Buffer<T>>,
    pub gate_up: Option<Buffer<T>>,
}

#[derive(Debug)]
pub(crate) struct KeptAttention<T> {
    pub qkv: Buffer<T>,
    pub rotated: Option<(Buffer<T>, Buffer<T>)>,
    pub o: Buffer<T>,
    pub lse: Buffer<f32>,
}

/// Input of a layer: the embedded tokens, or the output of the layer before, yet to be added to the residual sum.
#[derive(Debug)]
pub(crate) enum Input<T> {
    Embedding(Buffer<T>),
    Delta(Buffer<T>),
}

/// Weights on one GPU in `T` (bf16, or f32 in tests), and everything a pass over them needs.
#[derive(Debug)]
pub(crate) struct Model<T> {
    pub(crate) gpu: Gpu,
    pub(crate) matmul: Matmul,
    pub(crate) shape: Shape,
    pub(crate) layout: Layout,
    pub(crate) weights: Buffer<T>,
    pub(crate) table: Buffer<f32>,
    pub(crate) positions: usize,
    /// Number of tokens whose logits exist at a time.
    pub chunk: usize,
    pub(crate) watch: Option<Watch>,
}

/// Random weights in f32: matrices uniform with standard deviation 0.02, norms 1.
pub(crate) fn random_weights(gpu: &Gpu, layout: &Layout, seed: i32) -> Result<Buffer<f32>> {
    let mut weights = Buffer::zeros(gpu, layout.len)?;
    random::fill(gpu, &mut weights.view_mut(), seed, 0.0, 0.02 * 3f32.sqrt())?;
    random::fill(gpu, &mut weights.view_mut().slice(layout.norms.clone()), seed, 1.0, 0.0)?;
    Ok(weights)
}

impl<T: Float> Model<T> {
    /// Random weights: matrices uniform with standard deviation 0.02, norms 1.
    pub(crate) fn random(gpu: &Gpu, shape: Shape, positions: usize, seed: i32) -> Result<Self> {
        let wide = random_weights(gpu, &Layout::new(&shape), seed)?;
        let mut weights = Buffer::uninit(gpu, wide.len())?;
        adamw::round_copy(gpu, wide.view(), &mut weights.view_mut())?;
        Self::new(gpu, shape, positions, weights)
    }

    pub(crate) fn new(gpu: &Gpu, shape: Shape, positions: usize, weights: Buffer<T>) -> Result<Self> {
        let layout = Layout::new(&shape);
        ensure(weights.len() == layout.len, "model", || format!("{} weights for {}", weights.len(), layout.len))?;
        Ok(Self {
            gpu: gpu.clone(),
            matmul: Matmul::new(gpu)?,
            shape,
            layout,
            weights,
            table: Buffer::from_slice(gpu, &rope::table(positions, shape.heads.dim, shape.theta))?,
            positions,
            chunk: 2048,
            watch: None,
        })
    }

    /// Notes an output of a kernel if the step is watched.
    pub(crate) fn saw(&self, layer: impl Into<Option<usize>>, what: &str, output: &Buffer<T>) -> Result<()> {
        let Some(watch) = &self.watch else { return Ok(()) };
        let name = match layer.into() {
            Some(layer) => format!("layer {layer}, {what}"),
            None => what.to_owned(),
        };
        watch.see(&self.gpu, name, output)
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn weights(&self) -> &Buffer<T> {
        &self.weights
    }

    pub(crate) fn weight(&self, range: &Range<usize>) -> View<'_, T> {
        self.weights.view().slice(range.clone())
    }

    /// Rejects sequences longer than the table of positions.
    pub(crate) fn check(&self, batch: &Batch) -> Result<()> {
        ensure(batch.tokens() > 0 && batch.longest <= self.positions, "step", || {
            format!(
                "{} tokens, the longest sequence {}, of {} positions",
                batch.tokens(),
                batch.longest,
                self.positions
            )
        })
    }

    pub(crate) fn embedded(&self, batch: &Batch) -> Result<Buffer<T>> {
        let mut embedded = self.buffer(batch.tokens() * self.shape.dim)?;
        embed::forward(&self.gpu, self.weight(&self.layout.embedding), &batch.ids, &mut embedded.view_mut())?;
        self.saw(None, "embedding", &embedded)?;
        Ok(embedded)
    }

    /// Log-probabilities and entropies, with nothing kept for a backward pass.
    pub(crate) fn score(&self, batch: &Batch) -> Result<Scores> {
        self.check(batch)?;
        let mut input = Input::Embedding(self.embedded(batch)?);
        let mut last = None;
        for layer in 0..self.shape.layers {
            let (keep, delta) = self.layer_forward(layer, batch, &Keep::NOTHING, last.as_ref(), input)?;
            (last, input) = (Some(keep), Input::Delta(delta));
        }
        let (_, hidden, _) = self.enter(last.as_ref().map(|p| &p.r2), input, &self.layout.final_norm)?;
        let tokens = batch.tokens();
        let (mut scores, mut lse) = (Scores::uninit(&self.gpu, tokens)?, Buffer::uninit(&self.gpu, tokens)?);
        let call = self.head_call(batch, &hidden);
        head::forward(&self.gpu, &self.matmul, call, &mut scores.written(&mut lse), 0)?;
        Ok(scores)
    }

    pub(crate) fn head_call<'a>(&'a self, batch: &'a Batch, hidden: &'a Buffer<T>) -> Head<'a, T> {
        Head {
            hidden: hidden.view(),
            embedding: self.weight(&self.layout.embedding),
            target: batch.target.view(),
            vocab: self.shape.vocab,
            chunk: self.chunk,
            inverse: 1.0,
        }
    }

    pub(crate) fn buffer(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::uninit(&self.gpu, len)
    }

    /// `rows x out = input · weightᵀ`.
    pub(crate) fn project(&self, input: View<'_, T>, weight: &Range<usize>, rows: usize) -> Result<Buffer<T>> {
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

    pub(crate) fn qk_norm(&self, layer: usize) -> QkNorm<'_, T> {
        let both = self.weight(&self.layout.layers[layer].qk_norm);
        let dim = self.shape.heads.dim;
        QkNorm { q: both.slice(0..dim), k: both.slice(dim..2 * dim) }
    }

    pub(crate) fn rotation<'a>(&'a self, batch: &'a Batch) -> Rotation<'a> {
        Rotation { table: self.table.view(), position: batch.position.view(), eps: self.shape.eps }
    }

    pub(crate) fn fused<'a>(&'a self, layer: usize, batch: &'a Batch, qkv: View<'a, T>) -> Fused<'a, T> {
        Fused { qkv, norm: Some(self.qk_norm(layer)), rotation: self.rotation(batch) }
    }

    /// Rotated queries and keys.
    pub(crate) fn rotate(&self, layer: usize, batch: &Batch, qkv: View<'_, T>) -> Result<(Buffer<T>, Buffer<T>)> {
        let (tokens, heads) = (batch.tokens(), self.shape.heads);
        let (mut q, mut k) = (self.buffer(tokens * heads.q * heads.dim)?, self.buffer(tokens * heads.kv * heads.dim)?);
        rope::forward(&self.gpu, heads, self.fused(layer, batch, qkv), &mut q.view_mut(), &mut k.view_mut())?;
        Ok((q, k))
    }

    pub(crate) fn operands<'a>(&self, q: &'a Buffer<T>, k: &'a Buffer<T>, qkv: &'a Buffer<T>) -> Qkv<'a, T> {
        let Heads { q: qh, kv, dim } = self.shape.heads;
        Qkv {
            q: Rows { view: q.view(), stride: qh * dim },
            k: Rows { view: k.view(), stride: kv * dim },
            v: Rows { view: qkv.view().slice((qh + kv) * dim..qkv.len()), stride: self.shape.heads.qkv() },
        }
    }

    /// RMSNorm of rows: (normed, rstd).
    pub(crate) fn normed(&self, x: View<'_, T>, weight: &Range<usize>) -> Result<(Buffer<T>, Buffer<f32>)> {
        let mut y = self.buffer(x.len())?;
        let mut rstd = Buffer::uninit(&self.gpu, x.len() / weight.len())?;
        let eps = self.shape.eps;
        norm::forward(&self.gpu, x, None, self.weight(weight), &mut y.view_mut(), &mut rstd.view_mut(), eps)?;
        Ok((y, rstd))
    }

    /// RMSNorm of the layer's input: (residual sum, normed, rstd). `previous` holds the sum that a delta is added to.
    pub(crate) fn enter(
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

    /// RMSNorm of a residual sum, recomputed unless its output was kept.
    pub(crate) fn again(&self, kept: Option<Buffer<T>>, r: &Buffer<T>, weight: &Range<usize>) -> Result<Buffer<T>> {
        match kept {
            Some(y) => Ok(y),
            None => Ok(self.normed(r.view(), weight)?.0),
        }
    }

    /// Forward pass of one layer: (activations kept for the backward pass, output of the feed-forward, which the next norm adds).
    pub(crate) fn layer_forward(
        &self,
        layer: usize,
        batch: &Batch,
        keep: &Keep,
        previous: Option<&Kept<T>>,
        input: Input<T>,
    ) -> Result<(Kept<T>, Buffer<T>)> {
        let at = &self.layout.layers[layer];
        let (tokens, heads) = (batch.tokens(), self.shape.heads);
        let (r1, y1, rstd1) = self.enter(previous.map(|p| &p.r2), input, &at.norm1)?;
        self.saw(layer, "norm before attention", &y1)?;
        let qkv = self.project(y1.view(), &at.qkv, tokens)?;
        self.saw(layer, "qkv", &qkv)?;
        let y1 = keep.normed.then_some(y1);
        let (q, k) = self.rotate(layer, batch, qkv.view())?;
        self.saw(layer, "rotated queries", &q)?;
        self.saw(layer, "rotated keys", &k)?;
        let mut o = self.buffer(tokens * heads.q * heads.dim)?;
        let mut lse = Buffer::uninit(&self.gpu, tokens * heads.q)?;
        let operands = self.operands(&q, &k, &qkv);
        attention::forward(&self.gpu, heads, &batch.plan, operands, &mut o.view_mut(), &mut lse.view_mut())?;
        self.saw(layer, "attention", &o)?;
        let attention = KeptAttention { qkv, rotated: keep.rotated.then_some((q, k)), o, lse };
        let out = self.project(attention.o.view(), &at.o, tokens)?;
        self.saw(layer, "projection of attention", &out)?;
        let (r2, y2, rstd2) = self.enter(Some(&r1), Input::Delta(out), &at.norm2)?;
        self.saw(layer, "norm before the feed-forward", &y2)?;
        let gate_up = self.project(y2.view(), &at.gate_up, tokens)?;
        self.saw(layer, "gates and ups", &gate_up)?;
        let y2 = keep.normed.then_some(y2);
        let mut act = self.buffer(tokens * self.shape.ffn)?;
        swiglu::forward(&self.gpu, gate_up.view(), &mut act.view_mut(), self.shape.ffn)?;
        self.saw(layer, "SwiGLU", &act)?;
        let gate_up = (layer + keep.gate_up.min(self.shape.layers) >= self.shape.layers).then_some(gate_up);
        let mlp = self.project(act.view(), &at.down, tokens)?;
        self.saw(layer, "feed-forward", &mlp)?;
        Ok((Kept { r1, rstd1, y1, attention, r2, rstd2, y2, gate_up }, mlp))
    }
}
