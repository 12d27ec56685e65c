//! RMSNorm with fused residual addition. Formulas and layout: `kernels/rms_norm.cu`.

#![expect(unsafe_code, reason = "launches kernels; shapes are checked first")]

use crate::buffer::{Buffer, Float, View, ViewMut};
use crate::error::{Result, ensure};
use crate::gpu::{Gpu, Launch};

/// Maximum row width: a thread owns eight columns, and a block has 1,024 threads.
pub const WIDEST: usize = 8192;

/// Rows per processor up to which the forward pass gives each row a block: a processor holds that many warps' loads at a time.
const FEW: usize = 8;
/// Groups of 256 columns that a warp of the forward pass can hold, by kernel; bf16 only.
const VECTORS: [usize; 4] = [4, 8, 10, 16];
/// Resident threads of the backward pass per processor: each takes 64 registers.
const RESIDENT: usize = 1024;

/// RMSNorm `y = norm(x) * w`, and `rstd` per row. With `delta`, the sum `x + delta` is normalised, and written to `sum`.
pub fn forward<T: Float>(
    gpu: &Gpu,
    x: View<'_, T>,
    delta: Option<(View<'_, T>, &mut ViewMut<'_, T>)>,
    w: View<'_, T>,
    y: &mut ViewMut<'_, T>,
    rstd: &mut ViewMut<'_, f32>,
    eps: f32,
) -> Result<()> {
    let (dim, rows) = (w.len, rstd.len);
    let whole = dim.is_multiple_of(8) && dim > 0 && dim <= WIDEST;
    ensure(whole && x.len == rows * dim && y.len == x.len, "rms_norm", || {
        format!(
            "x {}, y {}, w {dim}, rows {rows}; the row length must be a multiple of 8, at most {WIDEST}",
            x.len, y.len
        )
    })?;
    let (delta, sum) = match &delta {
        Some((delta, sum)) => {
            ensure(delta.len == x.len && sum.len == x.len, "rms_norm", || {
                format!("delta {} and sum {} for x {}", delta.len, sum.len, x.len)
            })?;
            (Some(*delta), Some(&**sum))
        }
        None => (None, None),
    };
    // Few rows leave most of the GPU idle with a warp each: they get a block. The bits are the same.
    let few = rows <= gpu.processors() as usize * FEW;
    let held = VECTORS.iter().find(|&&vectors| T::SUFFIX == "bf16" && !few && dim <= vectors * 256);
    let (kernel, blocks, block) = match held {
        Some(vectors) => (format!("rms_norm_forward_{vectors}"), rows.div_ceil(4), 128),
        None => (format!("rms_norm_block_{}", T::SUFFIX), rows, (dim / 8).next_multiple_of(32)),
    };
    let launch =
        Launch { module: "rms_norm", kernel: &kernel, grid: (blocks as u32, 1), block: block as u32, shared: 0 };
    let args = [
        x.into(),
        delta.into(),
        w.into(),
        sum.into(),
        (&*y).into(),
        (&*rstd).into(),
        rows.into(),
        dim.into(),
        eps.into(),
    ];
    // SAFETY: as both kernels declare; lengths checked above, and a lane of the one and a thread of the other for every 8 columns.
    unsafe { gpu.launch(launch, &args) }
}

/// Inputs of the backward pass from the forward pass: the sum that was normalised, `rstd` per row, and the weights.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a, T> {
    pub r: View<'a, T>,
    pub rstd: View<'a, f32>,
    pub w: View<'a, T>,
}

/// Gradient of the sum `r`, plus `above` (the gradient that bypasses the norm), into `dr`; `dw` is accumulated.
pub fn backward<T: Float>(
    gpu: &Gpu,
    dy: View<'_, T>,
    saved: Saved<'_, T>,
    above: Option<View<'_, T>>,
    dr: &mut ViewMut<'_, T>,
    dw: &mut ViewMut<'_, f32>,
) -> Result<()> {
    let Saved { r, rstd, w } = saved;
    let (dim, rows) = (w.len, rstd.len);
    let fits = dy.len == rows * dim && r.len == dy.len && dr.len == dy.len && dw.len == dim;
    ensure(
        dim.is_multiple_of(8) && dim <= WIDEST && fits && above.is_none_or(|a| a.len == dy.len),
        "rms_norm backward",
        || {
            format!(
                "dy {}, r {}, dr {}, w {dim}, dw {}, rows {rows}; at most {WIDEST} columns",
                dy.len, r.len, dr.len, dw.len
            )
        },
    )?;
    let block = dim.div_ceil(8).next_multiple_of(32);
    // As many blocks as run at a time: each has a row of partial sums, and fetches ahead.
    let blocks = rows.min(gpu.processors() as usize * (RESIDENT / block).max(1));
    let mut partial = Buffer::<f32>::uninit(gpu, blocks * dim)?;
    let kernel = format!("rms_norm_backward_{}", T::SUFFIX);
    let launch =
        Launch { module: "rms_norm", kernel: &kernel, grid: (blocks as u32, 1), block: block as u32, shared: 0 };
    let args = [
        dy.into(),
        r.into(),
        rstd.into(),
        w.into(),
        above.into(),
        (&*dr).into(),
        (&partial.view_mut()).into(),
        rows.into(),
        dim.into(),
    ];
    // SAFETY: as rms_norm_backward declares; lengths checked above, and a block has a thread for every 8 columns.
    unsafe { gpu.launch(launch, &args) }?;
    column_sum(gpu, partial.view(), blocks, dw)
}

/// Column sums: `out += sum of the rows`, in row order.
pub(crate) fn column_sum(gpu: &Gpu, partial: View<'_, f32>, rows: usize, out: &mut ViewMut<'_, f32>) -> Result<()> {
    let dim = out.len;
    ensure(partial.len == rows * dim, "column_sum", || format!("{} is not {rows} rows of {dim}", partial.len))?;
    let grid = (dim.div_ceil(32) as u32, 1);
    let launch = Launch { module: "rms_norm", kernel: "column_sum", grid, block: 1024, shared: 0 };
    // SAFETY: as column_sum declares; length checked above.
    unsafe { gpu.launch(launch, &[partial.into(), (&*out).into(), rows.into(), dim.into()]) }
}
