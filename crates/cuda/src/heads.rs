//! Head padding: heads of any even width up to 128 in the kernels' heads of 64 or 128. Formulas and layout: `kernels/heads.cu`.

#![expect(unsafe_code, reason = "launches kernels; shapes are checked first")]

use crate::buffer::{Buffer, Float, View, ViewMut};
use crate::error::{Result, ensure};
use crate::gpu::{Gpu, Launch};
use crate::norm::column_sum;
use crate::rope::{Fused, Heads};

/// Padded width of a head, 64 or 128; `None` if it is too wide or odd.
pub fn wide(dim: usize) -> Option<usize> {
    match dim {
        _ if !dim.is_multiple_of(2) || dim == 0 => None,
        1..=64 => Some(64),
        65..=128 => Some(128),
        _ => None,
    }
}

/// Heads of a model, and their padded width in the kernels.
#[derive(Clone, Copy, Debug)]
pub struct Padded {
    pub heads: Heads,
    pub wide: usize,
}

impl Padded {
    /// Heads as attention sees them.
    pub fn padded(&self) -> Heads {
        Heads { dim: self.wide, ..self.heads }
    }

    /// Factor on queries: attention divides by the root of its own (padded) width.
    fn gain(&self) -> f32 {
        (self.wide as f32 / self.heads.dim as f32).sqrt()
    }

    fn check<T: Float>(&self, fused: Fused<'_, T>, parts: [usize; 3]) -> Result<()> {
        let Fused { qkv, rotation, .. } = fused;
        let (tokens, qkv) = (rotation.position.len, qkv.len);
        let Heads { q, kv, dim } = self.heads;
        let fits = qkv == tokens * self.heads.qkv()
            && parts == [tokens * q * self.wide, tokens * kv * self.wide, tokens * kv * self.wide];
        ensure(fits && wide(dim) == Some(self.wide) && rotation.table.len.is_multiple_of(dim), "heads", || {
            format!("{tokens} tokens of {self:?}: qkv {qkv}, parts {parts:?}, table {}", rotation.table.len)
        })
    }
}

/// Padded queries, keys and values, after qk-norm and rotation.
pub fn split<T: Float>(
    gpu: &Gpu,
    heads: Padded,
    fused: Fused<'_, T>,
    q: &mut ViewMut<'_, T>,
    k: &mut ViewMut<'_, T>,
    v: &mut ViewMut<'_, T>,
) -> Result<()> {
    let Fused { qkv, norm, rotation } = fused;
    let tokens = rotation.position.len;
    heads.check(fused, [q.len, k.len, v.len])?;
    let kernel = format!("heads_split_{}", T::SUFFIX);
    let Heads { q: qh, kv, dim } = heads.heads;
    let grid = ((tokens * (qh + 2 * kv)).div_ceil(8) as u32, 1);
    let launch = Launch { module: "heads", kernel: &kernel, grid, block: 256, shared: 0 };
    let args = [
        qkv.into(),
        norm.map(|n| n.q).into(),
        norm.map(|n| n.k).into(),
        rotation.table.into(),
        rotation.position.into(),
        (&*q).into(),
        (&*k).into(),
        (&*v).into(),
        tokens.into(),
        qh.into(),
        kv.into(),
        dim.into(),
        heads.wide.into(),
        rotation.eps.into(),
        heads.gain().into(),
    ];
    // SAFETY: as heads_split declares; lengths checked above.
    unsafe { gpu.launch(launch, &args) }
}

/// Gradient of qkv from those of padded queries, keys and values; `dw` (norm weights of queries, of keys) is accumulated.
pub fn merge<T: Float>(
    gpu: &Gpu,
    heads: Padded,
    [dq, dk, dv]: [View<'_, T>; 3],
    fused: Fused<'_, T>,
    dqkv: &mut ViewMut<'_, T>,
    dw: Option<[ViewMut<'_, f32>; 2]>,
) -> Result<()> {
    let Fused { qkv, norm, rotation } = fused;
    let tokens = rotation.position.len;
    heads.check(fused, [dq.len, dk.len, dv.len])?;
    let Heads { q: qh, kv, dim } = heads.heads;
    ensure(dqkv.len == qkv.len, "heads backward", || format!("dqkv {} for qkv {}", dqkv.len, qkv.len))?;
    let blocks = (tokens * (qh + 2 * kv)).div_ceil(8).clamp(1, gpu.processors() as usize * 4);
    let mut partial = Buffer::<f32>::uninit(gpu, 2 * blocks * dim)?;
    let kernel = format!("heads_merge_{}", T::SUFFIX);
    let launch = Launch { module: "heads", kernel: &kernel, grid: (blocks as u32, 1), block: 256, shared: 0 };
    let args = [
        dq.into(),
        dk.into(),
        dv.into(),
        qkv.into(),
        norm.map(|n| n.q).into(),
        norm.map(|n| n.k).into(),
        rotation.table.into(),
        rotation.position.into(),
        (&*dqkv).into(),
        (&partial.view_mut()).into(),
        tokens.into(),
        qh.into(),
        kv.into(),
        dim.into(),
        heads.wide.into(),
        rotation.eps.into(),
        heads.gain().into(),
    ];
    // SAFETY: as heads_merge declares; lengths checked above; the block has the 8 warps the kernel counts on.
    unsafe { gpu.launch(launch, &args) }?;
    if let (Some(dw), Some(_)) = (dw, norm) {
        for (which, mut dw) in dw.into_iter().enumerate() {
            let part = partial.view().slice(which * blocks * dim..(which + 1) * blocks * dim);
            column_sum(gpu, part, blocks, &mut dw.reborrow())?;
        }
    }
    Ok(())
}

/// Attention output without padding.
pub fn pack<T: Float>(gpu: &Gpu, heads: Padded, from: View<'_, T>, to: &mut ViewMut<'_, T>) -> Result<()> {
    copy(gpu, "heads_pack", heads, from, to, (heads.wide, heads.heads.dim))
}

/// Gradient of the attention output, padded with zeros.
pub fn spread<T: Float>(gpu: &Gpu, heads: Padded, from: View<'_, T>, to: &mut ViewMut<'_, T>) -> Result<()> {
    copy(gpu, "heads_spread", heads, from, to, (heads.heads.dim, heads.wide))
}

fn copy<T: Float>(
    gpu: &Gpu,
    name: &'static str,
    heads: Padded,
    from: View<'_, T>,
    to: &mut ViewMut<'_, T>,
    (inner, outer): (usize, usize),
) -> Result<()> {
    let count = from.len / inner;
    ensure(from.len == count * inner && to.len == count * outer, name, || format!("{} into {}", from.len, to.len))?;
    let kernel = format!("{name}_{}", T::SUFFIX);
    let grid = (to.len.div_ceil(256).clamp(1, 1 << 16) as u32, 1);
    let launch = Launch { module: "heads", kernel: &kernel, grid, block: 256, shared: 0 };
    let args = [from.into(), (&*to).into(), (count as i64).into(), heads.heads.dim.into(), heads.wide.into()];
    // SAFETY: as heads_pack and heads_spread declare; lengths checked above.
    unsafe { gpu.launch(launch, &args) }
}
