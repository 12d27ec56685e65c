//! Row operations: biases, sums of rows, and the digest of a flat array. Formulas and layout: `kernels/rows.cu`.

#![expect(unsafe_code, reason = "launches kernels; shapes are checked first")]

use crate::buffer::{Buffer, Element, Float, View, ViewMut};
use crate::error::{Result, ensure};
use crate::gpu::{Gpu, Launch};
use crate::norm::column_sum;

/// Bias: `x += bias`, row by row.
pub fn bias_add<T: Float>(gpu: &Gpu, x: &mut ViewMut<'_, T>, bias: View<'_, T>) -> Result<()> {
    ensure(bias.len > 0 && x.len.is_multiple_of(bias.len), "bias", || format!("{} onto {}", bias.len, x.len))?;
    let kernel = format!("bias_add_{}", T::SUFFIX);
    let grid = (x.len.div_ceil(256).clamp(1, 1 << 16) as u32, 1);
    let launch = Launch { module: "rows", kernel: &kernel, grid, block: 256, shared: 0 };
    // SAFETY: as bias_add declares; lengths checked above.
    unsafe { gpu.launch(launch, &[(&*x).into(), bias.into(), (x.len as i64).into(), bias.len.into()]) }
}

/// Bias gradient: adds the sum of the rows of `dy` to `out`.
pub fn bias_sum<T: Float>(gpu: &Gpu, dy: View<'_, T>, out: &mut ViewMut<'_, f32>) -> Result<()> {
    let (width, rows) = (out.len, dy.len / out.len.max(1));
    ensure(width > 0 && dy.len == rows * width, "bias gradient", || format!("{} rows of {width}", dy.len))?;
    let parts = rows.div_ceil(32).clamp(1, 256);
    let mut partial = Buffer::<f32>::uninit(gpu, parts * width)?;
    let kernel = format!("bias_sum_{}", T::SUFFIX);
    let grid = (width.div_ceil(128) as u32, parts as u32);
    let launch = Launch { module: "rows", kernel: &kernel, grid, block: 128, shared: 0 };
    // SAFETY: as bias_sum declares; lengths checked above.
    unsafe { gpu.launch(launch, &[dy.into(), (&partial.view_mut()).into(), rows.into(), width.into()]) }?;
    column_sum(gpu, partial.view(), parts, out)
}

/// Runs of rows to sum: `order` lists rows of the source, `starts` delimits the run of each row of the result.
#[derive(Debug)]
pub struct Runs {
    order: Buffer<i32>,
    starts: Buffer<i32>,
    /// Number of rows of the source.
    of: usize,
}

impl Runs {
    /// Runs from the row of the result, out of `rows`, that each row of the source is added to.
    pub fn new(gpu: &Gpu, places: &[usize], rows: usize) -> Result<Self> {
        ensure(places.iter().all(|&p| p < rows), "rows", || format!("a row past {rows}"))?;
        let mut order: Vec<i32> = (0..places.len() as i32).collect();
        order.sort_by_key(|&i| (places[i as usize], i));
        let mut starts = vec![0i32; rows + 1];
        for &place in places {
            starts[place + 1] += 1;
        }
        for row in 0..rows {
            starts[row + 1] += starts[row];
        }
        Ok(Self {
            order: Buffer::from_slice(gpu, &order)?,
            starts: Buffer::from_slice(gpu, &starts)?,
            of: places.len(),
        })
    }
}

/// Segment sum: `to[row]` is the sum of the rows of `from` in its run, zeros for an empty run.
pub fn gather_sum<T: Float>(gpu: &Gpu, from: View<'_, T>, runs: &Runs, to: &mut ViewMut<'_, T>) -> Result<()> {
    let rows = runs.starts.len() - 1;
    let dim = to.len / rows.max(1);
    ensure(to.len == rows * dim && from.len >= runs.of * dim, "rows", || {
        format!("{} of {} rows into {} of {rows}", from.len, runs.of, to.len)
    })?;
    let kernel = format!("gather_sum_{}", T::SUFFIX);
    let launch = Launch { module: "rows", kernel: &kernel, grid: (rows as u32, 1), block: 128, shared: 0 };
    let args = [from.into(), runs.order.view().into(), runs.starts.view().into(), (&*to).into(), dim.into()];
    // SAFETY: as gather_sum declares; lengths checked above, runs when they were made.
    unsafe { gpu.launch(launch, &args) }
}

/// Digest of an array of whole 4-byte words: the same for the same bits on every GPU.
pub fn content<E: Element>(gpu: &Gpu, x: View<'_, E>) -> Result<[u64; 4]> {
    let bytes = x.len * size_of::<E>();
    ensure(bytes.is_multiple_of(4), "identity", || format!("{bytes} bytes"))?;
    let words = bytes / 4;
    let mut out = Buffer::<f64>::zeros(gpu, 4)?;
    let grid = (words.div_ceil(1024).clamp(1, gpu.processors() as usize * 16) as u32, 1);
    let launch = Launch { module: "rows", kernel: "content", grid, block: 256, shared: 0 };
    // SAFETY: as content declares; f64 and u64 are of one width, and the sums are read as bits.
    unsafe { gpu.launch(launch, &[x.into(), (words as i64).into(), (&out.view_mut()).into()]) }?;
    let words = out.read()?;
    Ok([0, 1, 2, 3].map(|i: usize| words[i].to_bits()))
}
