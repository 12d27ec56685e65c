//! Batch-invariant matrix products (GEMM): a fixed order of summation.
//!
//! `C[m,n] = sum over k of A[m,k] * B[k,n]`, k ascending, one accumulator per element: a row of the result has the same
//! bits regardless of which other rows are computed with it, how the work is divided, and the number of threads.
//! Sampler and learner agree because both use this kernel. `B` is read in panels of 32 columns; weights are packed that
//! way once per version ([`Packed`]), which makes products of a few rows (decoding) fast too.

#![expect(unsafe_code, reason = "the register tile reads through pointers; bounds are asserted at the entrance")]

mod gradient;

pub use gradient::outer;
pub(crate) use gradient::{pack_untransposed, rows_untransposed, untransposed_len};

use crate::cpu::kernels::matrix::{MatMut, MatRef};
use crate::cpu::kernels::simd::{Isa, Kernel, LANES, Simd, prefetch};
use crate::cpu::{Cpu, Shared};

/// Columns of a panel.
pub(crate) const PANEL: usize = 32;

/// A weight matrix `W[n,k]` (n outputs, as Hugging Face stores it) laid out for `x W^T` by [`pack`].
#[derive(Debug, Clone, Copy)]
pub struct Packed<'a> {
    pub outputs: usize,
    pub inputs: usize,
    /// Panel p holds `W[32p..32p+32, :]` transposed, k rows of 32, zeros past n.
    pub data: &'a [f32],
}

/// Floats that [`pack`] writes.
pub(crate) fn packed_len(outputs: usize, inputs: usize) -> usize {
    outputs.next_multiple_of(PANEL) * inputs
}

/// Lays `W[outputs, inputs]` out as [`Packed::data`].
pub fn pack(cpu: &Cpu, weights: &[f32], outputs: usize, inputs: usize, out: &mut [f32]) {
    assert!(weights.len() >= outputs * inputs && out.len() >= packed_len(outputs, inputs));
    let out = Shared::new(out);
    cpu.parallel(outputs.div_ceil(PANEL), |panel| {
        // SAFETY: each task writes its own panel.
        let to = unsafe { out.slice(panel * PANEL * inputs, PANEL * inputs) };
        let rows = PANEL.min(outputs - panel * PANEL);
        transpose_panel(&weights[panel * PANEL * inputs..][..rows * inputs], inputs, inputs, rows, to);
    });
}

impl<'a> Packed<'a> {
    /// The panels of outputs from `first` on, as an operand of [`block`].
    fn operand(self, first_panel: usize) -> Panels<'a> {
        Panels {
            data: &self.data[first_panel * PANEL * self.inputs..],
            panel_stride: PANEL * self.inputs,
            k_stride: PANEL,
        }
    }
}

/// `out[k][j] = source[j][k]` for j < rows, 0 for the other columns of the panel.
pub(crate) fn transpose_panel(source: &[f32], stride: usize, inputs: usize, rows: usize, out: &mut [f32]) {
    assert!(rows <= PANEL && out.len() >= inputs * PANEL);
    if rows < PANEL {
        out[..inputs * PANEL].fill(0.0);
    }
    // Eight inputs at a time: the panel's lines are then written while they are in L1.
    for k0 in (0..inputs).step_by(8) {
        let k1 = (k0 + 8).min(inputs);
        for j in 0..rows {
            let row = &source[j * stride + k0..j * stride + k1];
            for (k, &value) in row.iter().enumerate() {
                out[(k0 + k) * PANEL + j] = value;
            }
        }
    }
}

/// Right operand: column j of row k is `data[(j / 32) * panel_stride + k * k_stride + j % 32]`. All 32 columns of a
/// panel must be readable, the ones past n included.
#[derive(Debug, Clone, Copy)]
pub struct Panels<'a> {
    pub data: &'a [f32],
    pub panel_stride: usize,
    pub k_stride: usize,
}

/// Accumulation mode: overwrite the result, or add to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accumulate {
    Store,
    Add,
}

/// `C[m,n]` (=|+=) `A[m,k] B[k,n]` on this thread.
pub fn block(isa: Isa, a: MatRef<'_>, b: Panels<'_>, c: MatMut<'_>, mode: Accumulate) {
    assert_eq!(a.rows, c.rows, "rows of the left operand and of the result");
    // SAFETY: a view's rows are inside its slice.
    unsafe { block_ptr(isa, a, b, c.cols, Out { data: c.data.as_mut_ptr(), stride: c.stride, mode }) }
}

/// # Safety
/// As many rows of `n` floats as `a` has, `out.stride` apart, must be writable at `out.data`.
unsafe fn block_ptr(isa: Isa, a: MatRef<'_>, b: Panels<'_>, n: usize, out: Out) {
    if a.rows == 0 || n == 0 {
        return;
    }
    let k = a.cols;
    if k > 0 {
        let last_b = (n.div_ceil(PANEL) - 1) * b.panel_stride + (k - 1) * b.k_stride + PANEL;
        assert!(b.data.len() >= last_b, "right operand {} for {k}x{n}", b.data.len());
    }
    isa.run(Block { a, b, n, out, ahead: b.panel_stride });
}

/// `C[m,n]` (=|+=) `A[m,k] B[k,n]` inside a kernel. `next` is the address of the next product's operand, to prefetch.
#[inline(always)]
pub(super) fn multiply<S: Simd>(
    simd: S,
    a: MatRef<'_>,
    b: Panels<'_>,
    next: *const f32,
    c: MatMut<'_>,
    mode: Accumulate,
) {
    let (m, n, k) = (a.rows, c.cols, a.cols);
    assert!(m > 0 && n > 0 && k > 0 && n.is_multiple_of(LANES) && m == c.rows);
    assert!(b.data.len() >= (n.div_ceil(PANEL) - 1) * b.panel_stride + (k - 1) * b.k_stride + PANEL);
    let ahead = (next as usize).wrapping_sub(b.data.as_ptr() as usize) / size_of::<f32>();
    let out = Out { data: c.data.as_mut_ptr(), stride: c.stride, mode };
    Block { a, b, n, out, ahead }.run(simd);
}

/// A checked product.
pub(super) struct Block<'a> {
    pub(super) a: MatRef<'a>,
    pub(super) b: Panels<'a>,
    /// Columns of the result.
    pub(super) n: usize,
    pub(super) out: Out,
    /// Prefetch distance, in floats, from an element of `b` to the one the next tile reads in its place. May point past
    /// the end.
    pub(super) ahead: usize,
}

/// Result of a product: rows `stride` floats apart.
#[derive(Clone, Copy)]
pub(super) struct Out {
    pub(super) data: *mut f32,
    pub(super) stride: usize,
    pub(super) mode: Accumulate,
}

/// Position of a register tile: its first row, and its first column as an offset in a panel.
#[derive(Clone, Copy)]
struct At {
    row: usize,
    panel: usize,
    offset: usize,
}

impl Kernel for Block<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let wide = S::TILE.rows > 6;
        let panels = self.n.div_ceil(PANEL);
        // A few rows take several panels at once: enough independent sums to hide the latency of the multiply-add.
        let group = match (wide, self.a.rows) {
            (true, 1..=3) => 4,
            (true, 4..=6) | (false, 1) => 2,
            _ => 1,
        };
        let mut panel = 0;
        while panel < panels {
            let whole = self.n / PANEL;
            let width = if panel + group <= whole { group } else { 1 };
            match (wide, width) {
                (true, 4) => self.narrow::<S, 8>(simd, panel),
                (_, 2) => self.narrow::<S, 4>(simd, panel),
                (true, _) if self.n - panel * PANEL <= LANES => self.tall::<S, 1>(simd, panel, 0),
                (true, _) => self.tall::<S, 2>(simd, panel, 0),
                (false, _) => {
                    self.tall::<S, 1>(simd, panel, 0);
                    self.tall::<S, 1>(simd, panel, LANES);
                }
            }
            panel += width;
        }
    }
}

impl Block<'_> {
    /// At most six rows against `NV / 2` whole panels.
    #[inline(always)]
    fn narrow<S: Simd, const NV: usize>(&self, simd: S, panel: usize) {
        // SAFETY: `block_ptr` checked both operands, its caller the result; the panels are whole.
        unsafe {
            let out = Out { data: self.out.data.add(panel * PANEL), ..self.out };
            let at = At { row: 0, panel, offset: 0 };
            match self.a.rows {
                1 => self.tile::<S, 1, NV, false>(simd, at, out),
                2 => self.tile::<S, 2, NV, false>(simd, at, out),
                3 => self.tile::<S, 3, NV, false>(simd, at, out),
                4 => self.tile::<S, 4, NV, false>(simd, at, out),
                5 => self.tile::<S, 5, NV, false>(simd, at, out),
                _ => self.tile::<S, 6, NV, false>(simd, at, out),
            }
        }
    }

    /// All rows against `NV` vectors of one panel, from column `offset` of it on.
    #[inline(always)]
    fn tall<S: Simd, const NV: usize>(&self, simd: S, panel: usize, offset: usize) {
        let column = panel * PANEL + offset;
        if column >= self.n {
            return;
        }
        let valid = (NV * LANES).min(self.n - column);
        // Tiles of about the same height: a last one of a row or two would leave most of the unit idle.
        let tiles = self.a.rows.div_ceil(S::TILE.rows);
        let mut row = 0;
        for tile in 0..tiles {
            let rows = (self.a.rows - row).div_ceil(tiles - tile);
            let at = At { row, panel, offset };
            // SAFETY: `block_ptr` checked both operands, its caller the result. A tile that would reach past column n
            // goes through `edge`, which has room for all of it.
            unsafe {
                let c = self.out.data.add(row * self.out.stride + column);
                let out = Out { data: c, ..self.out };
                if valid == NV * LANES {
                    if tile == 0 {
                        self.rows_tile::<S, NV, true>(simd, rows, at, out);
                    } else {
                        self.rows_tile::<S, NV, false>(simd, rows, at, out);
                    }
                } else {
                    let mut edge = [0.0f32; 12 * PANEL];
                    let to = Out { data: edge.as_mut_ptr(), stride: PANEL, mode: Accumulate::Store };
                    self.rows_tile::<S, NV, false>(simd, rows, at, to);
                    for (i, line) in edge.chunks_exact(PANEL).take(rows).enumerate() {
                        let line_out = std::slice::from_raw_parts_mut(c.add(i * out.stride), valid);
                        match out.mode {
                            Accumulate::Store => line_out.copy_from_slice(&line[..valid]),
                            Accumulate::Add => line_out.iter_mut().zip(line).for_each(|(c, v)| *c += v),
                        }
                    }
                }
            }
            row += rows;
        }
    }

    #[inline(always)]
    unsafe fn rows_tile<S: Simd, const NV: usize, const AHEAD: bool>(&self, simd: S, rows: usize, at: At, out: Out) {
        macro_rules! pick {
            ($($n:literal)*) => {
                match rows {
                    // Arms above the tile's height are never taken; the constant condition lets them compile away.
                    // SAFETY: the caller's promise.
                    $($n if $n <= S::TILE.rows => unsafe { self.tile::<S, $n, NV, AHEAD>(simd, at, out) },)*
                    _ => {}
                }
            };
        }
        pick!(12 11 10 9 8 7 6 5 4 3 2 1);
    }

    /// Register tile: `MR` rows and `NV` vectors from `at` on; `AHEAD` prefetches the operand of the next tile.
    #[inline(always)]
    unsafe fn tile<S: Simd, const MR: usize, const NV: usize, const AHEAD: bool>(&self, simd: S, at: At, out: Out) {
        let (rs, cs) = (self.a.row_stride, self.a.col_stride);
        // SAFETY: all reads are inside the operands that `block_ptr` checked; the result is the caller's promise.
        unsafe {
            let mut a = self.a.data.as_ptr().add(at.row * rs);
            let mut b = self.b.data.as_ptr().add(at.panel * self.b.panel_stride + at.offset);
            let mut acc = [[simd.splat(0.0); NV]; MR];
            for _ in 0..self.a.cols {
                let mut bv = [simd.splat(0.0); NV];
                for (j, v) in bv.iter_mut().enumerate() {
                    let column = (j / 2) * self.b.panel_stride + (j % 2) * LANES;
                    *v = simd.load_ptr(b.add(column));
                    if AHEAD {
                        prefetch(b.wrapping_add(column.wrapping_add(self.ahead)));
                    }
                }
                for (i, sums) in acc.iter_mut().enumerate() {
                    let x = simd.splat(*a.add(i * rs));
                    for (sum, &v) in sums.iter_mut().zip(&bv) {
                        *sum = simd.fma(x, v, *sum);
                    }
                }
                a = a.wrapping_add(cs);
                b = b.wrapping_add(self.b.k_stride);
            }
            for (i, sums) in acc.iter().enumerate() {
                for (j, &sum) in sums.iter().enumerate() {
                    let c = out.data.add(i * out.stride + j * LANES);
                    let value = if out.mode == Accumulate::Add { simd.add(simd.load_ptr(c), sum) } else { sum };
                    simd.store_ptr(c, value);
                }
            }
        }
    }
}

/// `y[m, outputs]` (=|+=) `x[m, inputs] W^T` on this thread.
pub fn rows(isa: Isa, x: MatRef<'_>, w: Packed<'_>, y: MatMut<'_>, mode: Accumulate) {
    assert!(x.cols == w.inputs && y.cols == w.outputs, "{} to {} by {} x {}", x.cols, y.cols, w.outputs, w.inputs);
    block(isa, x, w.operand(0), y, mode);
}

/// Like [`rows`], for the outputs from `first` (a multiple of [`PANEL`]) on, one per column of `y`.
pub fn outputs(isa: Isa, x: MatRef<'_>, w: Packed<'_>, first: usize, y: MatMut<'_>, mode: Accumulate) {
    assert!(first.is_multiple_of(PANEL) && first + y.cols <= w.outputs && x.cols == w.inputs);
    block(isa, x, w.operand(first / PANEL), y, mode);
}

/// Like [`rows`], on all threads, for few rows: the columns are divided.
pub fn columns(cpu: &Cpu, x: MatRef<'_>, w: Packed<'_>, y: MatMut<'_>, mode: Accumulate) {
    assert!(x.cols == w.inputs && y.cols == w.outputs && x.rows == y.rows);
    if x.rows == 0 {
        return;
    }
    let panels = w.outputs.div_ceil(PANEL);
    let share = panels.div_ceil(cpu.threads()).next_multiple_of(4);
    let (stride, y) = (y.stride, Shared::new(y.data));
    cpu.parallel(panels.div_ceil(share), |part| {
        let first = part * share;
        let n = (share * PANEL).min(w.outputs - first * PANEL);
        // SAFETY: a view's rows are inside its slice; parts write disjoint columns.
        unsafe {
            let out = Out { data: y.ptr().add(first * PANEL), stride, mode };
            block_ptr(cpu.isa(), x, w.operand(first), n, out);
        }
    });
}

#[cfg(test)]
mod tests;
