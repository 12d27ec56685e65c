//! Transformer block on a few rows.
//!
//! Batch-invariant: every operation is per row, so no result depends on which rows are computed together.

use crate::cpu::Cpu;
use crate::cpu::kernels::matmul::{self, Accumulate, Packed};
use crate::cpu::kernels::matrix::{MatMut, MatRef};
use crate::cpu::kernels::simd::Isa;
use crate::cpu::kernels::{norm, rope, swiglu};
use crate::cpu::lora::Site;
use crate::lora::Module;
use crate::model::Net;

/// Parallelism of a matrix product.
#[derive(Debug, Clone, Copy)]
pub enum Spread<'a> {
    /// On this thread: the caller runs many tasks in parallel.
    Here(Isa),
    /// On all threads, with the columns divided among them: for few rows.
    Columns(&'a Cpu),
}

impl Spread<'_> {
    fn isa(self) -> Isa {
        match self {
            Self::Here(isa) => isa,
            Self::Columns(cpu) => cpu.isa(),
        }
    }
}

/// Fused projection of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Projection {
    Qkv,
    Out,
    GateUp,
    Down,
}

/// Buffers that the first half of a block fills, with one row per input row.
#[derive(Debug)]
pub struct Before<'a> {
    /// Normalised input, `[rows][hidden]`.
    pub normed: &'a mut [f32],
    /// `[rows]`.
    pub rstd: &'a mut [f32],
    /// Queries and keys before their norm, `[rows][(queries + keys) * dim]`; empty where the model has no such norm.
    pub raw: &'a mut [f32],
    /// `[rows][queries + keys]`; empty where the model has no such norm.
    pub raw_rstd: &'a mut [f32],
    /// `[rows][heads.width()]`.
    pub qkv: &'a mut [f32],
}

/// Buffers the second half of a block fills.
#[derive(Debug)]
pub struct After<'a> {
    pub gates: Gates<'a>,
    /// `[rows][mlp]`.
    pub hidden: &'a mut [f32],
}

/// Activations from the attention output to the gates of the MLP, which the backward pass reads.
#[derive(Debug)]
pub struct Gates<'a> {
    /// Residual stream after attention, `[rows][hidden]`.
    pub mid: &'a mut [f32],
    /// `[rows]`.
    pub rstd: &'a mut [f32],
    /// `[rows][hidden]`.
    pub normed: &'a mut [f32],
    /// `[rows][2 * mlp]`.
    pub gate_up: &'a mut [f32],
}

impl Net<'_> {
    /// Rows of the embedding.
    pub fn embed(&self, tokens: &[u32], x: &mut [f32]) {
        let hidden = self.model.config.hidden;
        let table = &self.model.weights.values[self.model.weights.params.embed.clone()];
        for (row, &token) in x.chunks_exact_mut(hidden).zip(tokens) {
            row.copy_from_slice(&table[token as usize * hidden..][..hidden]);
        }
    }

    /// RMSNorm, QKV projection and RoPE: from the residual stream to queries, keys and values, rotated by `angles` (per
    /// row: cosines, then sines).
    pub(crate) fn before_attention(
        &self,
        spread: Spread<'_>,
        layer: usize,
        x: &[f32],
        angles: &[f32],
        b: &mut Before<'_>,
    ) {
        let (c, w) = (&self.model.config, &self.model.weights);
        let (isa, p) = (spread.isa(), &w.params.layers[layer]);
        norm::forward(isa, x, &w.values[p.input_norm.clone()], c.norm_eps, b.normed, b.rstd);
        self.project(spread, layer, Projection::Qkv, b.normed, b.qkv, Accumulate::Store);
        let (dim, rotated) = (c.heads.dim, (c.heads.queries + c.heads.keys) * c.heads.dim);
        let queries = c.heads.out_width();
        for (row, (qkv, angles)) in b.qkv.chunks_exact_mut(c.heads.width()).zip(angles.chunks_exact(dim)).enumerate() {
            let qk = &mut qkv[..rotated];
            if let Some((q_norm, k_norm)) = &p.qk_norm {
                let raw = &mut b.raw[row * rotated..][..rotated];
                raw.copy_from_slice(qk);
                let heads = c.heads.queries + c.heads.keys;
                let (q_rstd, k_rstd) = b.raw_rstd[row * heads..][..heads].split_at_mut(c.heads.queries);
                let (q, k) = qk.split_at_mut(queries);
                norm::forward(isa, &raw[..queries], &w.values[q_norm.clone()], c.norm_eps, q, q_rstd);
                norm::forward(isa, &raw[queries..], &w.values[k_norm.clone()], c.norm_eps, k, k_rstd);
            }
            let (cos, sin) = angles.split_at(dim / 2);
            rope::forward(isa, qk, cos, sin);
        }
    }

    /// Output projection, RMSNorm and SwiGLU MLP: from the attention output to the residual stream after the block,
    /// written to `next`.
    pub(crate) fn after_attention(
        &self,
        spread: Spread<'_>,
        layer: usize,
        x: &[f32],
        attention: &[f32],
        a: &mut After<'_>,
        next: &mut [f32],
    ) {
        self.up_to_gates(spread, layer, x, attention, &mut a.gates);
        next.copy_from_slice(a.gates.mid);
        swiglu::forward(spread.isa(), a.gates.gate_up, self.model.config.mlp, a.hidden);
        self.project(spread, layer, Projection::Down, a.hidden, next, Accumulate::Add);
    }

    /// Part of [`Net::after_attention`] whose results the backward pass reads.
    pub(crate) fn up_to_gates(
        &self,
        spread: Spread<'_>,
        layer: usize,
        x: &[f32],
        attention: &[f32],
        g: &mut Gates<'_>,
    ) {
        let (c, w) = (&self.model.config, &self.model.weights);
        g.mid.copy_from_slice(x);
        self.project(spread, layer, Projection::Out, attention, g.mid, Accumulate::Add);
        let weight = &w.values[w.params.layers[layer].post_norm.clone()];
        norm::forward(spread.isa(), g.mid, weight, c.norm_eps, g.normed, g.rstd);
        self.project(spread, layer, Projection::GateUp, g.normed, g.gate_up, Accumulate::Store);
    }

    /// The final norm.
    pub fn final_norm(&self, isa: Isa, x: &[f32], normed: &mut [f32], rstd: &mut [f32]) {
        let w = &self.model.weights;
        norm::forward(isa, x, &w.values[w.params.norm.clone()], self.model.config.norm_eps, normed, rstd);
    }

    /// Logits of a few normalised rows, `[rows][vocab]`.
    pub fn logits(&self, spread: Spread<'_>, normed: &[f32], logits: &mut [f32]) {
        let w = &self.model.weights;
        product(spread, normed, w.packed(w.head), logits, Accumulate::Store);
    }

    pub(crate) fn project(
        &self,
        spread: Spread<'_>,
        layer: usize,
        which: Projection,
        x: &[f32],
        y: &mut [f32],
        mode: Accumulate,
    ) {
        let w = &self.model.weights;
        let (all, p) = (&w.layers[layer], &w.params.layers[layer]);
        let (matrix, bias) = match which {
            Projection::Qkv => (all.qkv, &p.qkv_bias),
            Projection::Out => (all.out, &p.out_bias),
            Projection::GateUp => (all.gate_up, &p.gate_up_bias),
            Projection::Down => (all.down, &p.down_bias),
        };
        product(spread, x, w.packed(matrix), y, mode);
        if let Some(bias) = bias {
            let bias = &w.values[bias.clone()];
            for row in y.chunks_exact_mut(bias.len()) {
                row.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
            }
        }
        if let Some(adapter) = self.adapter {
            for &module in modules(which) {
                let (x, y) = (MatRef::of_rows(x, matrix.inputs), MatMut::of_rows(y, matrix.outputs));
                adapter.weights.add(spread.isa(), Site { layer, module }, x, y);
            }
        }
    }
}

/// Adapter modules of a fused projection, in the order of its outputs.
pub(crate) fn modules(which: Projection) -> &'static [Module] {
    match which {
        Projection::Qkv => &[Module::Q, Module::K, Module::V],
        Projection::Out => &[Module::O],
        Projection::GateUp => &[Module::Gate, Module::Up],
        Projection::Down => &[Module::Down],
    }
}

fn product(spread: Spread<'_>, x: &[f32], w: Packed<'_>, y: &mut [f32], mode: Accumulate) {
    let x = MatRef::of_rows(x, w.inputs);
    let y = MatMut::new(y, x.rows, w.outputs, w.outputs);
    match spread {
        Spread::Here(isa) => matmul::rows(isa, x, w, y, mode),
        Spread::Columns(cpu) => matmul::columns(cpu, x, w, y, mode),
    }
}
