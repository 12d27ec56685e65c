//! RMSNorm with the residual addition fused in. Formulas and layout: `kernels/rms_norm.cu`.

#![expect(unsafe_code, reason = "launches kernels; shapes are checked first")]

use crate::buffer::{Buffer, Float, View, ViewMut};
use crate::error::{Result, ensure};
use crate::gpu::{Gpu, Launch};

/// Widest row: a thread of the backward owns eight columns, and a block has 1,024 threads.
pub const WIDEST: usize = 8192;

/// Rows per processor up to which the forward gives each a block: a processor holds that many warps' loads at a time.
const FEW: usize = 8;

/// `y = norm(x) * w`, and `rstd` per row. With `delta`, the sum `x + delta` is normed and written to `sum`.
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
    ensure(dim.is_multiple_of(8) && dim > 0 && x.len == rows * dim && y.len == x.len, "rms_norm", || {
        format!("x {}, y {}, w {dim}, rows {rows}; the row length must be a multiple of 8", x.len, y.len)
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
    let few = rows <= gpu.processors() as usize * FEW && dim <= WIDEST;
    let (name, blocks, block) =
        if few { ("few", rows, (dim / 8).next_multiple_of(32)) } else { ("forward", rows.div_ceil(8), 256) };
    let kernel = format!("rms_norm_{name}_{}", T::SUFFIX);
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
    // SAFETY: as rms_norm_forward and rms_norm_few declare; lengths checked above, and a block of the latter has a thread for
    // every 8 columns.
    unsafe { gpu.launch(launch, &args) }
}

/// Gradient of the normed sum, plus `above` (the gradient that reaches it past the norm), into `dr`; `dw` is added to.
#[expect(clippy::too_many_arguments, reason = "gradients, activations and results of one kernel launch")]
pub fn backward<T: Float>(
    gpu: &Gpu,
    dy: View<'_, T>,
    r: View<'_, T>,
    rstd: View<'_, f32>,
    w: View<'_, T>,
    above: Option<View<'_, T>>,
    dr: &mut ViewMut<'_, T>,
    dw: &mut ViewMut<'_, f32>,
) -> Result<()> {
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
    let blocks = rows.min(gpu.processors() as usize * 6);
    let mut partial = Buffer::<f32>::uninit(gpu, blocks * dim)?;
    let kernel = format!("rms_norm_backward_{}", T::SUFFIX);
    let block = dim.div_ceil(8).next_multiple_of(32) as u32;
    let launch = Launch { module: "rms_norm", kernel: &kernel, grid: (blocks as u32, 1), block, shared: 0 };
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

/// `out += sum of the rows`, in row order.
pub(crate) fn column_sum(gpu: &Gpu, partial: View<'_, f32>, rows: usize, out: &mut ViewMut<'_, f32>) -> Result<()> {
    let dim = out.len;
    ensure(partial.len == rows * dim, "column_sum", || format!("{} is not {rows} rows of {dim}", partial.len))?;
    let grid = (dim.div_ceil(32) as u32, 1);
    let launch = Launch { module: "rms_norm", kernel: "column_sum", grid, block: 1024, shared: 0 };
    // SAFETY: as column_sum declares; length checked above.
    unsafe { gpu.launch(launch, &[partial.into(), (&*out).into(), rows.into(), dim.into()]) }
}
