//! Batch-invariant matrix products (GEMM): a fixed order of summation.
//!
//! `C[m,n] = sum over k of A[m,k] * B[k,n]`, k ascending, one accumulator per element: a row of the result is the same
//! bits whatever other rows are computed with it, however the work is cut, on any number of threads. Sampler and
//! learner agree because both end here. `B` is read in panels of 32 columns; weights are packed that way once per
//! version ([`Packed`]), which is what makes products of a few rows (decoding) fast too.

#![expect(unsafe_code, reason = "the register tile reads through pointers; bounds are asserted at the entrance")]

mod gradient;

pub use gradient::{outer, pack_untransposed, rows_untransposed, untransposed_len};

use crate::cpu::{Cpu, Shared};
use crate::kernels::simd::{Isa, Kernel, LANES, Simd, prefetch};

/// Columns of a panel.
pub const PANEL: usize = 32;

/// A weight matrix `W[n,k]` (n outputs, as Hugging Face stores it) laid out for `x W^T` by [`pack`].
#[derive(Debug, Clone, Copy)]
pub struct Packed<'a> {
    pub outputs: usize,
    pub inputs: usize,
    /// Panel p holds `W[32p..32p+32, :]` transposed, k rows of 32, zeros past n.
    pub data: &'a [f32],
}

/// Floats that [`pack`] writes.
pub fn packed_len(outputs: usize, inputs: usize) -> usize {
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
pub fn transpose_panel(source: &[f32], stride: usize, inputs: usize, rows: usize, out: &mut [f32]) {
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

/// Left operand: element (i, k) is `data[i * row_stride + k * k_stride]`.
#[derive(Debug, Clone, Copy)]
pub struct Left<'a> {
    pub data: &'a [f32],
    pub row_stride: usize,
    pub k_stride: usize,
}

impl<'a> Left<'a> {
    /// Rows of `stride` floats.
    pub fn rows(data: &'a [f32], stride: usize) -> Self {
        Self { data, row_stride: stride, k_stride: 1 }
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

/// `C[m,n]` (=|+=) `A[m,k] B[k,n]` on this thread. Row i of C starts at `c[i * c_stride]`.
pub fn block(
    isa: Isa,
    m: usize,
    n: usize,
    k: usize,
    a: Left<'_>,
    b: Panels<'_>,
    c: &mut [f32],
    c_stride: usize,
    mode: Accumulate,
) {
    if m == 0 || n == 0 {
        return;
    }
    assert!(
        c.len() >= (m - 1) * c_stride + n && (m == 1 || c_stride >= n),
        "result {} for {m}x{n}/{c_stride}",
        c.len()
    );
    // SAFETY: `c` is in bounds by the assertion above.
    unsafe { block_ptr(isa, m, n, k, a, b, c.as_mut_ptr(), c_stride, mode) }
}

/// # Safety
/// `m` rows of `n` floats, `c_stride` apart, must be writable at `c`.
unsafe fn block_ptr(
    isa: Isa,
    m: usize,
    n: usize,
    k: usize,
    a: Left<'_>,
    b: Panels<'_>,
    c: *mut f32,
    c_stride: usize,
    mode: Accumulate,
) {
    if k > 0 {
        let last_a = (m - 1) * a.row_stride + (k - 1) * a.k_stride;
        assert!(a.data.len() > last_a, "left operand {} for {m}x{k}", a.data.len());
        let last_b = (n.div_ceil(PANEL) - 1) * b.panel_stride + (k - 1) * b.k_stride + PANEL;
        assert!(b.data.len() >= last_b, "right operand {} for {k}x{n}", b.data.len());
    }
    isa.run(Block { m, n, k, a, b, c, c_stride, mode, ahead: b.panel_stride });
}

/// `C[m,n]` (=|+=) `A[m,k] B[k,n]` inside a kernel, with rows of A and C as far apart as `strides` says. `next` is the
/// address of the next product's operand, to prefetch.
#[inline(always)]
pub(super) fn multiply<S: Simd>(
    simd: S,
    [m, n, k]: [usize; 3],
    strides: [usize; 2],
    a: &[f32],
    b: Panels<'_>,
    next: *const f32,
    c: &mut [f32],
    mode: Accumulate,
) {
    assert!(m > 0 && n > 0 && k > 0 && n.is_multiple_of(LANES) && strides[0] >= k && strides[1] >= n);
    assert!(a.len() >= (m - 1) * strides[0] + k && c.len() >= (m - 1) * strides[1] + n);
    assert!(b.data.len() >= (n.div_ceil(PANEL) - 1) * b.panel_stride + (k - 1) * b.k_stride + PANEL);
    let ahead = (next as usize).wrapping_sub(b.data.as_ptr() as usize) / size_of::<f32>();
    let (a, c) = (Left::rows(a, strides[0]), c.as_mut_ptr());
    Block { m, n, k, a, b, c, c_stride: strides[1], mode, ahead }.run(simd);
}

/// A checked product.
pub(super) struct Block<'a> {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) a: Left<'a>,
    pub(super) b: Panels<'a>,
    pub(super) c: *mut f32,
    pub(super) c_stride: usize,
    pub(super) mode: Accumulate,
    /// Prefetch distance, in floats, from an element of `b` to the one the next tile reads in its place. May point past
    /// the end.
    pub(super) ahead: usize,
}

impl Kernel for Block<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let wide = S::TILE.rows > 6;
        let panels = self.n.div_ceil(PANEL);
        // A few rows take several panels at once: enough independent sums to hide the latency of the multiply-add.
        let group = match (wide, self.m) {
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
            let c = self.c.add(panel * PANEL);
            match self.m {
                1 => self.tile::<S, 1, NV, false>(simd, 0, panel, 0, c, self.c_stride, self.mode),
                2 => self.tile::<S, 2, NV, false>(simd, 0, panel, 0, c, self.c_stride, self.mode),
                3 => self.tile::<S, 3, NV, false>(simd, 0, panel, 0, c, self.c_stride, self.mode),
                4 => self.tile::<S, 4, NV, false>(simd, 0, panel, 0, c, self.c_stride, self.mode),
                5 => self.tile::<S, 5, NV, false>(simd, 0, panel, 0, c, self.c_stride, self.mode),
                _ => self.tile::<S, 6, NV, false>(simd, 0, panel, 0, c, self.c_stride, self.mode),
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
        let tiles = self.m.div_ceil(S::TILE.rows);
        let mut row = 0;
        for tile in 0..tiles {
            let rows = (self.m - row).div_ceil(tiles - tile);
            // SAFETY: `block_ptr` checked both operands, its caller the result. A tile that would reach past column n
            // goes through `edge`, which has room for all of it.
            unsafe {
                let c = self.c.add(row * self.c_stride + column);
                if valid == NV * LANES {
                    if tile == 0 {
                        self.rows_tile::<S, NV, true>(simd, rows, row, panel, offset, c, self.c_stride, self.mode);
                    } else {
                        self.rows_tile::<S, NV, false>(simd, rows, row, panel, offset, c, self.c_stride, self.mode);
                    }
                } else {
                    let mut edge = [0.0f32; 12 * PANEL];
                    let to = edge.as_mut_ptr();
                    self.rows_tile::<S, NV, false>(simd, rows, row, panel, offset, to, PANEL, Accumulate::Store);
                    for (i, line) in edge.chunks_exact(PANEL).take(rows).enumerate() {
                        let out = std::slice::from_raw_parts_mut(c.add(i * self.c_stride), valid);
                        match self.mode {
                            Accumulate::Store => out.copy_from_slice(&line[..valid]),
                            Accumulate::Add => out.iter_mut().zip(line).for_each(|(c, v)| *c += v),
                        }
                    }
                }
            }
            row += rows;
        }
    }

    #[inline(always)]
    unsafe fn rows_tile<S: Simd, const NV: usize, const AHEAD: bool>(
        &self,
        simd: S,
        rows: usize,
        row: usize,
        panel: usize,
        offset: usize,
        c: *mut f32,
        c_stride: usize,
        mode: Accumulate,
    ) {
        macro_rules! pick {
            ($($n:literal)*) => {
                match rows {
                    // Arms above the tile's height are never taken; the constant condition lets them compile away.
                    // SAFETY: the caller's promise.
                    $($n if $n <= S::TILE.rows => unsafe { self.tile::<S, $n, NV, AHEAD>(simd, row, panel, offset, c, c_stride, mode) },)*
                    _ => {}
                }
            };
        }
        pick!(12 11 10 9 8 7 6 5 4 3 2 1);
    }

    /// The register tile: `MR` rows from `row`, `NV` vectors from column `offset` of `panel`; `AHEAD` prefetches
    /// what the next tile reads.
    #[inline(always)]
    unsafe fn tile<S: Simd, const MR: usize, const NV: usize, const AHEAD: bool>(
        &self,
        simd: S,
        row: usize,
        panel: usize,
        offset: usize,
        c: *mut f32,
        c_stride: usize,
        mode: Accumulate,
    ) {
        let (rs, cs) = (self.a.row_stride, self.a.k_stride);
        // SAFETY: all reads are inside the operands that `block_ptr` checked; the result is the caller's promise.
        unsafe {
            let mut a = self.a.data.as_ptr().add(row * rs);
            let mut b = self.b.data.as_ptr().add(panel * self.b.panel_stride + offset);
            let mut acc = [[simd.splat(0.0); NV]; MR];
            for _ in 0..self.k {
                let mut bv = [simd.splat(0.0); NV];
                for (j, v) in bv.iter_mut().enumerate() {
                    let at = (j / 2) * self.b.panel_stride + (j % 2) * LANES;
                    *v = simd.load_ptr(b.add(at));
                    if AHEAD {
                        prefetch(b.wrapping_add(at.wrapping_add(self.ahead)));
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
                    let out = c.add(i * c_stride + j * LANES);
                    let value = if mode == Accumulate::Add { simd.add(simd.load_ptr(out), sum) } else { sum };
                    simd.store_ptr(out, value);
                }
            }
        }
    }
}

/// `y[m, outputs]` (=|+=) `x[m, inputs] W^T` on this thread.
pub fn rows(isa: Isa, m: usize, x: Left<'_>, w: Packed<'_>, y: &mut [f32], y_stride: usize, mode: Accumulate) {
    block(isa, m, w.outputs, w.inputs, x, w.operand(0), y, y_stride, mode);
}

/// As [`rows`] for the outputs `first..first + n` only, `first` a multiple of [`PANEL`].
pub fn outputs(
    isa: Isa,
    m: usize,
    x: Left<'_>,
    w: Packed<'_>,
    first: usize,
    n: usize,
    y: &mut [f32],
    y_stride: usize,
    mode: Accumulate,
) {
    assert!(first.is_multiple_of(PANEL) && first + n <= w.outputs);
    block(isa, m, n, w.inputs, x, w.operand(first / PANEL), y, y_stride, mode);
}

/// As [`rows`] on all threads, for few rows: the columns are divided.
pub fn columns(cpu: &Cpu, m: usize, x: Left<'_>, w: Packed<'_>, y: &mut [f32], y_stride: usize, mode: Accumulate) {
    if m == 0 {
        return;
    }
    let panels = w.outputs.div_ceil(PANEL);
    let share = panels.div_ceil(cpu.threads()).next_multiple_of(4);
    assert!(y.len() >= (m - 1) * y_stride + w.outputs && (m == 1 || y_stride >= w.outputs));
    let y = Shared::new(y);
    cpu.parallel(panels.div_ceil(share), |part| {
        let first = part * share;
        let n = (share * PANEL).min(w.outputs - first * PANEL);
        // SAFETY: in bounds by the assertion; parts write disjoint columns.
        unsafe {
            block_ptr(cpu.isa(), m, n, w.inputs, x, w.operand(first), y.ptr().add(first * PANEL), y_stride, mode);
        }
    });
}

#[cfg(test)]
mod tests;
