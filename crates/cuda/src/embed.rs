//! Embedding lookup and its gradient. Formulas and layout: `kernels/embed.cu`.

#![expect(unsafe_code, reason = "launches kernels; shapes are checked first")]

use crate::buffer::{Buffer, Float, View, ViewMut};
use crate::error::{Result, ensure};
use crate::gpu::{Gpu, Launch};

/// Token ids on the device, with their order by id for the gradient.
#[derive(Debug)]
pub struct Ids {
    id: Buffer<i32>,
    /// Indices of the tokens, sorted by id and, within an id, by place.
    order: Buffer<i32>,
    /// Start of each distinct id's run in `order`, and the end.
    starts: Buffer<i32>,
    vocab: usize,
}

impl Ids {
    /// Rejects ids outside the vocabulary: on the device they would read foreign memory.
    pub fn new(gpu: &Gpu, ids: &[u32], vocab: usize) -> Result<Self> {
        ensure(ids.iter().all(|&id| (id as usize) < vocab), "embed", || {
            format!("token id {} in a vocabulary of {vocab}", ids.iter().max().copied().unwrap_or_default())
        })?;
        let mut order: Vec<i32> = (0..ids.len() as i32).collect();
        order.sort_by_key(|&i| (ids[i as usize], i));
        let id_at = |at: usize| ids[order[at] as usize];
        let mut starts: Vec<i32> =
            (0..order.len()).filter(|&at| at == 0 || id_at(at) != id_at(at - 1)).map(|at| at as i32).collect();
        starts.push(ids.len() as i32);
        let id: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
        Ok(Self {
            id: Buffer::from_slice(gpu, &id)?,
            order: Buffer::from_slice(gpu, &order)?,
            starts: Buffer::from_slice(gpu, &starts)?,
            vocab,
        })
    }

    pub fn len(&self) -> usize {
        self.id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.id.is_empty()
    }
}

/// Embedding lookup: rows of the table, one per token.
pub fn forward<T: Float>(gpu: &Gpu, table: View<'_, T>, ids: &Ids, out: &mut ViewMut<'_, T>) -> Result<()> {
    let dim = check(table.len, ids, out.len)?;
    let kernel = format!("embed_forward_{}", T::SUFFIX);
    let launch = Launch { module: "embed", kernel: &kernel, grid: (ids.len() as u32, 1), block: 128, shared: 0 };
    // SAFETY: as embed_forward declares; lengths checked above and ids when they were made.
    unsafe { gpu.launch(launch, &[table.into(), ids.id.view().into(), (&*out).into(), dim.into()]) }
}

/// Rows of the table by ids on the device. The caller must ensure that ids are below `rows`.
pub fn gather<T: Float>(
    gpu: &Gpu,
    table: View<'_, T>,
    rows: usize,
    id: View<'_, i32>,
    out: &mut ViewMut<'_, T>,
) -> Result<()> {
    let dim = table.len / rows.max(1);
    ensure(dim.is_multiple_of(8) && table.len == rows * dim && out.len == id.len * dim, "gather", || {
        format!("table {} of {rows} rows, {} ids, {} elements", table.len, id.len, out.len)
    })?;
    let kernel = format!("embed_forward_{}", T::SUFFIX);
    let launch = Launch { module: "embed", kernel: &kernel, grid: (id.len as u32, 1), block: 128, shared: 0 };
    // SAFETY: as embed_forward declares; lengths checked above, ids by the caller.
    unsafe { gpu.launch(launch, &[table.into(), id.into(), (&*out).into(), dim.into()]) }
}

/// Embedding gradient: adds the gradients of the rows to the table's.
pub fn backward<T: Float>(gpu: &Gpu, dout: View<'_, T>, ids: &Ids, dtable: &mut ViewMut<'_, f32>) -> Result<()> {
    let dim = check(dtable.len, ids, dout.len)?;
    let kernel = format!("embed_backward_{}", T::SUFFIX);
    let grid = (ids.starts.len() as u32 - 1, 1);
    let launch = Launch { module: "embed", kernel: &kernel, grid, block: 128, shared: 0 };
    let (id, order, starts) = (ids.id.view(), ids.order.view(), ids.starts.view());
    // SAFETY: as embed_backward declares; lengths checked above and ids when they were made.
    unsafe { gpu.launch(launch, &[dout.into(), id.into(), order.into(), starts.into(), (&*dtable).into(), dim.into()]) }
}

fn check(table: usize, ids: &Ids, rows: usize) -> Result<usize> {
    let dim = table / ids.vocab;
    ensure(dim.is_multiple_of(8) && table == ids.vocab * dim && rows == ids.len() * dim, "embed", || {
        format!("table {table} for a vocabulary of {}, {} tokens, {rows} elements", ids.vocab, ids.len())
    })?;
    Ok(dim)
}
