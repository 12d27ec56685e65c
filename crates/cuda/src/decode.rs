//! Decode attention over a paged KV cache. Formulas and layout: `kernels/decode.cu`.

#![expect(unsafe_code, reason = "launches kernels; shapes are checked first")]

use half::bf16;

use crate::attention::Rows;
use crate::buffer::{Buffer, Float, View, ViewMut};
use crate::error::{Result, ensure};
use crate::gpu::{Arg, Gpu, Launch};
use crate::rope::Heads;

/// Tokens per page: the kernel's own constant.
pub const PAGE: usize = 16;
/// Keys per split: the kernel's own constant.
const SPAN: usize = 512;
/// Maximum number of query heads that share a key head.
const GROUP: usize = 8;

/// Keys and values of one layer, in pages: [pages, PAGE, kv_heads, head_dim].
#[derive(Debug)]
pub struct Cache {
    pub k: Buffer<bf16>,
    pub v: Buffer<bf16>,
    heads: Heads,
}

impl Cache {
    pub fn zeros(gpu: &Gpu, heads: Heads, pages: usize) -> Result<Self> {
        let len = pages * PAGE * heads.kv * heads.dim;
        Ok(Self { k: Buffer::zeros(gpu, len)?, v: Buffer::zeros(gpu, len)?, heads })
    }

    /// Elements of keys, and of values.
    pub fn len(&self) -> usize {
        self.k.len()
    }

    pub fn is_empty(&self) -> bool {
        self.k.is_empty()
    }

    fn pages(&self) -> usize {
        self.k.len() / (PAGE * self.heads.kv * self.heads.dim)
    }
}

/// Pages and lengths of a batch of sequences.
#[derive(Debug)]
pub struct Pages {
    table: Buffer<i32>,
    length: Buffer<i32>,
    stride: usize,
    longest: usize,
    /// Number of pages of the cache that this table was checked against.
    of: usize,
}

impl Pages {
    /// Rejects a page outside the cache and a sequence with too few pages: on the device they would read foreign memory.
    pub fn new(gpu: &Gpu, pages: &[Vec<usize>], lengths: &[usize], of: usize) -> Result<Self> {
        ensure(pages.len() == lengths.len(), "decode", || {
            format!("{} tables, {} lengths", pages.len(), lengths.len())
        })?;
        for (pages, &length) in pages.iter().zip(lengths) {
            ensure(pages.iter().all(|&p| p < of) && pages.len() * PAGE >= length, "decode", || {
                format!("{} pages of {PAGE} for {length} tokens, of {of} pages in the cache", pages.len())
            })?;
        }
        let stride = pages.iter().map(Vec::len).max().unwrap_or_default().max(1);
        let padded = |p: &Vec<usize>| -> Vec<i32> { (0..stride).map(|i| p.get(i).map_or(0, |&p| p as i32)).collect() };
        let table: Vec<i32> = pages.iter().flat_map(padded).collect();
        let length: Vec<i32> = lengths.iter().map(|&l| l as i32).collect();
        Ok(Self {
            table: Buffer::from_slice(gpu, &table)?,
            length: Buffer::from_slice(gpu, &length)?,
            stride,
            longest: lengths.iter().copied().max().unwrap_or_default(),
            of,
        })
    }
}

/// Attention of one query token per sequence over its cached keys; a sequence without keys gets zeros.
pub fn attention(
    gpu: &Gpu,
    heads: Heads,
    q: View<'_, bf16>,
    cache: &Cache,
    pages: &Pages,
    o: &mut ViewMut<'_, bf16>,
) -> Result<()> {
    let sequences = pages.length.len();
    let group = heads.q / heads.kv.max(1);
    let shape = (heads.dim == 64 || heads.dim == 128) && group * heads.kv == heads.q && (1..=GROUP).contains(&group);
    ensure(shape && heads == cache.heads && pages.of <= cache.pages(), "decode", || {
        format!(
            "{heads:?} with a cache of {:?} and {} pages; at most {GROUP} query heads per key head",
            cache.heads, pages.of
        )
    })?;
    ensure(q.len == sequences * heads.q * heads.dim && o.len == q.len, "decode", || {
        format!("q {}, o {} for {sequences} sequences of {heads:?}", q.len, o.len)
    })?;
    let splits = splits(pages.longest);
    let mut partial = Buffer::<f32>::uninit(gpu, partial_len(heads, sequences, splits))?;
    let place = Place { table: pages.table.view(), stride: pages.stride, length: pages.length.view(), splits };
    queue(gpu, heads, q, cache, place, &mut partial.view_mut(), o)
}

/// Number of splits for sequences of at most `longest` tokens.
pub(crate) fn splits(longest: usize) -> usize {
    longest.div_ceil(SPAN).max(1)
}

/// Elements of scratch memory that [`queue`] needs.
pub(crate) fn partial_len(heads: Heads, sequences: usize, splits: usize) -> usize {
    if splits == 1 { 0 } else { sequences * heads.q * splits * (heads.dim + 2) }
}

/// Page table and lengths on the device. The caller must ensure that pages are within the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub table: View<'a, i32>,
    pub stride: usize,
    pub length: View<'a, i32>,
    /// At least as many as the longest sequence needs.
    pub splits: usize,
}

/// Queues the kernels without allocating.
pub(crate) fn queue(
    gpu: &Gpu,
    heads: Heads,
    q: View<'_, bf16>,
    cache: &Cache,
    place: Place<'_>,
    partial: &mut ViewMut<'_, f32>,
    o: &mut ViewMut<'_, bf16>,
) -> Result<()> {
    let (sequences, splits) = (place.length.len, place.splits);
    let fits = q.len == sequences * heads.q * heads.dim && o.len == q.len;
    let scratch = partial.len >= partial_len(heads, sequences, splits) && place.table.len >= sequences * place.stride;
    ensure(fits && scratch && heads == cache.heads, "decode", || {
        format!("q {}, o {}, partial {}, {sequences} sequences, {splits} splits", q.len, o.len, partial.len)
    })?;
    let kernel = format!("decode_{}_{}", heads.dim, heads.q / heads.kv);
    let grid = (splits as u32, (heads.kv * sequences) as u32);
    let launch = Launch { module: "decode", kernel: &kernel, grid, block: 128, shared: 0 };
    let scale = 1.0 / (heads.dim as f32).sqrt();
    let args = [
        q.into(),
        cache.k.view().into(),
        cache.v.view().into(),
        place.table.into(),
        place.stride.into(),
        place.length.into(),
        (&*partial).into(),
        (&*o).into(),
        heads.kv.into(),
        scale.into(),
    ];
    // SAFETY: as decode.cu declares; lengths checked above, pages by whoever made the table.
    unsafe { gpu.launch(launch, &args) }?;
    if splits == 1 {
        return Ok(());
    }
    let kernel = format!("decode_merge_{}", heads.dim);
    let grid = ((sequences * heads.q).div_ceil(4) as u32, 1);
    let launch = Launch { module: "decode", kernel: &kernel, grid, block: 128, shared: 0 };
    let args =
        [partial.view().into(), place.length.into(), (&*o).into(), splits.into(), heads.q.into(), sequences.into()];
    // SAFETY: as decode_merge declares; `partial` has a place per sequence, head and split.
    unsafe { gpu.launch(launch, &args) }
}

/// Keys and values of one layer in a cache of whole pages: where they begin; blocks of [`PAGE`] tokens are numbered from there.
#[derive(Clone, Copy, Debug)]
pub struct Layer<'a, T> {
    pub k: View<'a, T>,
    pub v: View<'a, T>,
}

/// Page table of query rows: the blocks of each row's sequence, and the number of keys it sees.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// [rows, stride] numbers of blocks of [`PAGE`] tokens.
    pub table: View<'a, i32>,
    pub stride: usize,
    /// Number of keys of each row; 0 gives zeros.
    pub length: View<'a, i32>,
    /// Maximum number of keys of a row.
    pub longest: usize,
}

/// Bytes of scratch that [`over_pages`] takes per row, where the longest row sees `longest` tokens.
pub fn scratch_bytes(heads: Heads, longest: usize) -> usize {
    size_of::<f32>() * partial_len(heads, 1, splits(longest)).max(1)
}

/// Attention of one query per row over its cached keys, in the storage type of the cache. The caller must ensure that blocks
/// are within the cache.
pub fn over_pages<T: Float>(
    gpu: &Gpu,
    heads: Heads,
    q: View<'_, T>,
    layer: Layer<'_, T>,
    seen: Seen<'_>,
    o: &mut ViewMut<'_, T>,
) -> Result<()> {
    let (rows, group) = (seen.length.len, heads.q / heads.kv.max(1));
    let shape = (heads.dim == 64 || heads.dim == 128) && group * heads.kv == heads.q && (1..=GROUP).contains(&group);
    let fits = q.len == rows * heads.q * heads.dim && o.len == q.len && seen.table.len >= rows * seen.stride;
    ensure(shape && fits && seen.longest <= seen.stride * PAGE, "decode", || {
        format!("{heads:?}, q {}, o {}, {rows} rows; at most {GROUP} query heads per key head", q.len, o.len)
    })?;
    let scale = 1.0 / (heads.dim as f32).sqrt();
    let head: [Arg; 6] =
        [q.into(), layer.k.into(), layer.v.into(), seen.table.into(), seen.stride.into(), seen.length.into()];
    if T::SUFFIX == "f32" {
        let kernel = format!("decode_f32_{}", heads.dim);
        let grid = ((rows * heads.q).div_ceil(4) as u32, 1);
        let launch = Launch { module: "decode_f32", kernel: &kernel, grid, block: 128, shared: 0 };
        let tail: [Arg; 5] = [(&*o).into(), rows.into(), heads.q.into(), heads.kv.into(), scale.into()];
        // SAFETY: as decode_f32 declares; lengths checked above, blocks by whoever made the table.
        return unsafe { gpu.launch(launch, &[&head[..], &tail].concat()) };
    }
    let splits = splits(seen.longest);
    let mut partial = Buffer::<f32>::uninit(gpu, partial_len(heads, rows, splits))?;
    let kernel = format!("decode_{}_{group}", heads.dim);
    // The grid's second dimension has 65,535 places.
    let most = 65_535 / heads.kv;
    ensure(rows <= most, "decode", || format!("{rows} rows; at most {most} at once"))?;
    let launch = Launch {
        module: "decode",
        kernel: &kernel,
        grid: (splits as u32, (heads.kv * rows) as u32),
        block: 128,
        shared: 0,
    };
    let tail: [Arg; 4] = [(&partial.view_mut()).into(), (&*o).into(), heads.kv.into(), scale.into()];
    // SAFETY: as decode.cu declares; lengths checked above, blocks by whoever made the table.
    unsafe { gpu.launch(launch, &[&head[..], &tail].concat()) }?;
    if splits == 1 {
        return Ok(());
    }
    let kernel = format!("decode_merge_{}", heads.dim);
    let grid = ((rows * heads.q).div_ceil(4) as u32, 1);
    let launch = Launch { module: "decode", kernel: &kernel, grid, block: 128, shared: 0 };
    let args = [partial.view().into(), seen.length.into(), (&*o).into(), splits.into(), heads.q.into(), rows.into()];
    // SAFETY: as decode_merge declares; `partial` has a place per row, head and split.
    unsafe { gpu.launch(launch, &args) }
}

/// Writes keys and values of rows to their slots (block * [`PAGE`] + place) of a layer; a negative slot is skipped.
/// The caller must ensure that slots are within the cache.
pub fn store<T: Float>(
    gpu: &Gpu,
    heads: Heads,
    k: Rows<'_, T>,
    v: Rows<'_, T>,
    slot: View<'_, i32>,
    layer: Layer<'_, T>,
) -> Result<()> {
    let (count, width) = (slot.len, heads.kv * heads.dim);
    let covers = |r: Rows<'_, T>| count == 0 || (count - 1) * r.stride + width <= r.view.len;
    ensure(covers(k) && covers(v) && k.stride.is_multiple_of(8) && v.stride.is_multiple_of(8), "cache write", || {
        format!("{count} tokens of {width}, k {}, v {}", k.view.len, v.view.len)
    })?;
    // The kernel counts in halves of four bytes.
    let halves = size_of::<T>() / 2;
    let launch = Launch { module: "decode", kernel: "cache_write", grid: (count as u32, 1), block: 128, shared: 0 };
    let args = [
        k.view.into(),
        ((k.stride * halves) as i64).into(),
        v.view.into(),
        ((v.stride * halves) as i64).into(),
        slot.into(),
        layer.k.into(),
        layer.v.into(),
        (width * halves).into(),
    ];
    // SAFETY: as cache_write declares; lengths checked above.
    unsafe { gpu.launch(launch, &args) }
}

/// Reads keys and values of slots of a layer, one after the other; a negative slot gives zeros. The caller must ensure that
/// slots are within the cache.
pub fn gather<T: Float>(
    gpu: &Gpu,
    heads: Heads,
    layer: Layer<'_, T>,
    slot: View<'_, i32>,
    k: &mut ViewMut<'_, T>,
    v: &mut ViewMut<'_, T>,
) -> Result<()> {
    let (count, width) = (slot.len, heads.kv * heads.dim);
    ensure(k.len == count * width && v.len == k.len && width.is_multiple_of(8), "cache read", || {
        format!("{count} tokens of {width}, k {}, v {}", k.len, v.len)
    })?;
    // The kernel counts in halves of four bytes.
    let width = width * size_of::<T>() / 2;
    let launch = Launch { module: "decode", kernel: "cache_read", grid: (count as u32, 1), block: 128, shared: 0 };
    let args = [layer.k.into(), layer.v.into(), slot.into(), (&*k).into(), (&*v).into(), width.into()];
    // SAFETY: as cache_read declares; lengths checked above.
    unsafe { gpu.launch(launch, &args) }
}

/// Writes keys and values of new tokens into the cache; `slots` are page * PAGE + place.
pub fn write(gpu: &Gpu, cache: &mut Cache, k: Rows<'_, bf16>, v: Rows<'_, bf16>, slots: &[usize]) -> Result<()> {
    let slots = Slots::new(gpu, slots, cache)?;
    write_at(gpu, cache, k, v, &slots)
}

/// Slots of new tokens on the device, checked against a cache.
#[derive(Debug)]
pub(crate) struct Slots {
    slot: Buffer<i32>,
    /// Number of slots of the cache they were checked against.
    of: usize,
}

impl Slots {
    pub(crate) fn new(gpu: &Gpu, slots: &[usize], cache: &Cache) -> Result<Self> {
        let of = cache.pages() * PAGE;
        ensure(slots.iter().all(|&s| s < of), "cache write", || format!("slot past the {of} places of the cache"))?;
        let slot: Vec<i32> = slots.iter().map(|&s| s as i32).collect();
        Ok(Self { slot: Buffer::from_slice(gpu, &slot)?, of })
    }
}

/// [`write`] with the slots on the device: the same ones serve every layer.
pub(crate) fn write_at(
    gpu: &Gpu,
    cache: &mut Cache,
    k: Rows<'_, bf16>,
    v: Rows<'_, bf16>,
    slots: &Slots,
) -> Result<()> {
    let width = cache.heads.kv * cache.heads.dim;
    let count = slots.slot.len();
    let covers = |r: Rows<'_, bf16>| count == 0 || (count - 1) * r.stride + width <= r.view.len;
    let fits = covers(k) && covers(v) && k.stride.is_multiple_of(8) && v.stride.is_multiple_of(8);
    ensure(fits && slots.of <= cache.pages() * PAGE, "cache write", || {
        format!("{count} tokens of {width}, k {}, v {}, {} places", k.view.len, v.view.len, slots.of)
    })?;
    let launch = Launch { module: "decode", kernel: "cache_write", grid: (count as u32, 1), block: 128, shared: 0 };
    let args = [
        k.view.into(),
        (k.stride as i64).into(),
        v.view.into(),
        (v.stride as i64).into(),
        slots.slot.view().into(),
        (&cache.k.view_mut()).into(),
        (&cache.v.view_mut()).into(),
        width.into(),
    ];
    // SAFETY: as cache_write declares; lengths and slots checked above.
    unsafe { gpu.launch(launch, &args) }
}
