//! Rotary position embedding (RoPE) with fused qk-norm. Formulas and layout: `kernels/rope.cu`.

#![expect(unsafe_code, reason = "launches kernels; shapes are checked first")]

use half::bf16;

use crate::buffer::{Buffer, Float, View, ViewMut};
use crate::decode::Layer;
use crate::error::{Result, ensure};
use crate::gpu::{Gpu, Launch};
use crate::norm::column_sum;

/// Heads of one attention layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    pub q: usize,
    pub kv: usize,
    /// 64 or 128.
    pub dim: usize,
}

impl Heads {
    /// Width of a row of fused queries, keys and values.
    pub fn qkv(&self) -> usize {
        (self.q + 2 * self.kv) * self.dim
    }
}

/// Number of heads of a token that a group of lanes processes together.
const RUN: usize = 4;
/// Threads per block: of the forward pass and of decoding, then of the backward pass, which needs more registers.
const BLOCK: usize = 256;
const BACKWARD: usize = 128;
/// Resident blocks of the backward pass per processor.
const RESIDENT: usize = 3;

impl Heads {
    /// Number of groups of lanes for a token: queries, then keys.
    fn runs(&self) -> usize {
        self.q.div_ceil(RUN) + self.kv.div_ceil(RUN)
    }

    /// Number of `threads`-wide blocks for `items` groups of lanes, each lane holding 16 elements.
    fn blocks(&self, items: usize, threads: usize) -> usize {
        (items * self.dim / 16).div_ceil(threads)
    }
}

/// Weights of the norms of queries and keys, each `[head_dim]`.
#[derive(Clone, Copy, Debug)]
pub struct QkNorm<'a, T> {
    pub q: View<'a, T>,
    pub k: View<'a, T>,
}

/// Positions of the tokens and the table they index.
#[derive(Clone, Copy, Debug)]
pub struct Rotation<'a> {
    /// [positions, head_dim]: cosines, then sines. Every position must have its row.
    pub table: View<'a, f32>,
    pub position: View<'a, i32>,
    pub eps: f32,
}

/// Fused queries, keys and values of tokens, with the weights of qk-norm and the rotation.
#[derive(Clone, Copy, Debug)]
pub struct Fused<'a, T> {
    /// [tokens, width], as [`Heads::qkv`] gives the width.
    pub qkv: View<'a, T>,
    /// Absent for models without qk-norm.
    pub norm: Option<QkNorm<'a, T>>,
    pub rotation: Rotation<'a>,
}

/// Table for plain rotary embedding: [positions, head_dim], cosines then sines.
pub fn table(positions: usize, head_dim: usize, theta: f64) -> Vec<f32> {
    let half = head_dim / 2;
    let angle = |p: usize, i: usize| p as f64 * theta.powf(-2.0 * i as f64 / head_dim as f64);
    (0..positions)
        .flat_map(|p| {
            (0..half).map(move |i| angle(p, i).cos() as f32).chain((0..half).map(move |i| angle(p, i).sin() as f32))
        })
        .collect()
}

/// Rotated queries and keys from fused qkv.
pub fn forward<T: Float>(
    gpu: &Gpu,
    heads: Heads,
    fused: Fused<'_, T>,
    q: &mut ViewMut<'_, T>,
    k: &mut ViewMut<'_, T>,
) -> Result<()> {
    let Fused { qkv, norm, rotation } = fused;
    let tokens = rotation.position.len;
    check(heads, fused, (q.len, k.len))?;
    let kernel = format!("rope_forward_{}_{}", heads.dim, T::SUFFIX);
    let grid = (heads.blocks(tokens * heads.runs(), BLOCK) as u32, 1);
    let launch = Launch { module: "rope", kernel: &kernel, grid, block: BLOCK as u32, shared: 0 };
    let args = [
        qkv.into(),
        norm.map(|n| n.q).into(),
        norm.map(|n| n.k).into(),
        rotation.table.into(),
        rotation.position.into(),
        (&*q).into(),
        (&*k).into(),
        tokens.into(),
        heads.q.into(),
        heads.kv.into(),
        rotation.eps.into(),
    ];
    // SAFETY: as rope_forward declares; lengths checked above.
    unsafe { gpu.launch(launch, &args) }
}

/// Gradient of qkv's query and key part from the gradients of rotated queries and keys; `dw` ([2, head_dim], queries then
/// keys) is accumulated.
pub fn backward<T: Float>(
    gpu: &Gpu,
    heads: Heads,
    (dq, dk): (View<'_, T>, View<'_, T>),
    fused: Fused<'_, T>,
    dqkv: &mut ViewMut<'_, T>,
    dw: Option<&mut ViewMut<'_, f32>>,
) -> Result<()> {
    let Fused { qkv, norm, rotation } = fused;
    let tokens = rotation.position.len;
    check(heads, fused, (dq.len, dk.len))?;
    let fits = dqkv.len == qkv.len && dw.is_some() == norm.is_some();
    ensure(fits && dw.as_ref().is_none_or(|w| w.len == 2 * heads.dim), "rope backward", || {
        format!("dqkv {} for qkv {}; dw is [2, head_dim] with qk-norm and absent without", dqkv.len, qkv.len)
    })?;
    // Enough for every run of a token.
    let least = heads.blocks(heads.runs(), BACKWARD);
    let blocks = heads.blocks(tokens * heads.runs(), BACKWARD).min((gpu.processors() as usize * RESIDENT).max(least));
    let mut partial = Buffer::<f32>::uninit(gpu, blocks * 2 * heads.dim)?;
    let kernel = format!("rope_backward_{}_{}", heads.dim, T::SUFFIX);
    let launch =
        Launch { module: "rope", kernel: &kernel, grid: (blocks as u32, 1), block: BACKWARD as u32, shared: 0 };
    let args = [
        dq.into(),
        dk.into(),
        qkv.into(),
        norm.map(|n| n.q).into(),
        norm.map(|n| n.k).into(),
        rotation.table.into(),
        rotation.position.into(),
        (&*dqkv).into(),
        (&partial.view_mut()).into(),
        tokens.into(),
        heads.q.into(),
        heads.kv.into(),
        rotation.eps.into(),
    ];
    // SAFETY: as rope_backward declares; lengths checked above; the block has the threads the kernel counts on.
    unsafe { gpu.launch(launch, &args) }?;
    match dw {
        Some(dw) => column_sum(gpu, partial.view(), blocks, dw),
        None => Ok(()),
    }
}

/// Decoding into a paged cache, one new token per sequence: rotated queries to `q`, rotated keys and plain values to the
/// slots of `k_pages` and `v_pages`. The caller must ensure that slots are within the cache; a negative slot is skipped.
pub(crate) fn decode(
    gpu: &Gpu,
    heads: Heads,
    fused: Fused<'_, bf16>,
    slot: View<'_, i32>,
    q: &mut ViewMut<'_, bf16>,
    (k_pages, v_pages): (&mut ViewMut<'_, bf16>, &mut ViewMut<'_, bf16>),
) -> Result<()> {
    into_pages(gpu, heads, fused, slot, q, Layer { k: k_pages.view(), v: v_pages.view() })
}

/// True if [`into_pages`] has a kernel for the storage type.
pub fn has_into_pages<T: Float>(heads: Heads) -> bool {
    T::SUFFIX == "bf16" && (heads.dim == 64 || heads.dim == 128)
}

/// Rotated queries of rows to `q`, rotated keys and plain values to their slots of a layer's pages: one launch instead of two.
/// The caller must ensure that slots are within the cache; a negative slot is skipped.
pub fn into_pages<T: Float>(
    gpu: &Gpu,
    heads: Heads,
    fused: Fused<'_, T>,
    slot: View<'_, i32>,
    q: &mut ViewMut<'_, T>,
    layer: Layer<'_, T>,
) -> Result<()> {
    ensure(has_into_pages::<T>(heads), "rope decode", || format!("{heads:?} in {}", T::SUFFIX))?;
    let Fused { qkv, norm, rotation } = fused;
    let tokens = rotation.position.len;
    check(heads, fused, (q.len, tokens * heads.kv * heads.dim))?;
    ensure(slot.len == tokens, "rope decode", || format!("{} slots for {tokens} tokens", slot.len))?;
    let kernel = format!("rope_decode_{}", heads.dim);
    let grid = (heads.blocks(tokens * (heads.q + 2 * heads.kv), BLOCK) as u32, 1);
    let launch = Launch { module: "rope", kernel: &kernel, grid, block: BLOCK as u32, shared: 0 };
    let args = [
        qkv.into(),
        norm.map(|n| n.q).into(),
        norm.map(|n| n.k).into(),
        rotation.table.into(),
        rotation.position.into(),
        slot.into(),
        (&*q).into(),
        layer.k.into(),
        layer.v.into(),
        tokens.into(),
        heads.q.into(),
        heads.kv.into(),
        rotation.eps.into(),
    ];
    // SAFETY: as rope_decode declares; lengths checked above, slots by the caller.
    unsafe { gpu.launch(launch, &args) }
}

fn check<T: Float>(heads: Heads, fused: Fused<'_, T>, (q, k): (usize, usize)) -> Result<()> {
    let Fused { qkv, norm, rotation } = fused;
    let (tokens, qkv) = (rotation.position.len, qkv.len);
    ensure(heads.dim == 64 || heads.dim == 128, "rope", || format!("heads of {}; 64 and 128 exist", heads.dim))?;
    let fits = qkv == tokens * heads.qkv() && q == tokens * heads.q * heads.dim && k == tokens * heads.kv * heads.dim;
    let norms = norm.is_none_or(|n| n.q.len == heads.dim && n.k.len == heads.dim);
    // Items are counted in 32 bits.
    let counted = i32::try_from(tokens * heads.qkv() / 8).is_ok();
    ensure(counted && fits && norms && rotation.table.len.is_multiple_of(heads.dim), "rope", || {
        format!("{tokens} tokens of {heads:?}: qkv {qkv}, q {q}, k {k}, table {}", rotation.table.len)
    })
}
