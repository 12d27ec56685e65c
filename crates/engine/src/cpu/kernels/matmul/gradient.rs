//! Matrix products of the backward pass: weight gradients dW = dY^T X and input gradients dX = dY W.

use std::ops::Range;

use super::{Accumulate, Block, Out, PANEL, Panels, block};
use crate::cpu::kernels::matrix::{MatMut, MatRef};
use crate::cpu::kernels::simd::{Isa, Kernel, Simd};
use crate::cpu::{Cpu, Shared, with_scratch};

/// Rows of t that are summed in registers before they are added to the result, at most.
const DEPTH: usize = 192;

/// Height of a strip of the packed left operand of [`outer`]: a whole number of every instruction set's tiles.
const TALL: usize = 12;

/// Strips one task of [`outer`] packs at a time, at most.
const STRIPS: usize = 32;

/// Chunks of t with separate sums, at most.
const CHUNKS: usize = 4;

/// Largest result, in floats, that is summed in chunks.
const SMALL: usize = 1 << 20;

/// `C[n,k] += dY[t,n]^T X[t,k]`: the gradient of a weight matrix from that of its outputs and its inputs, on all
/// threads.
///
/// For a small result, tasks divide the rows of t, which are then read by the thread that wrote them, and packed once;
/// their sums are added in the order of the rows. For a large result, tasks divide the rows of the result. The choice,
/// and the number of chunks, depend on shapes and not on threads, because they affect the rounding.
pub fn outer(cpu: &Cpu, dy: MatRef<'_>, x: MatRef<'_>, c: &mut [f32]) {
    let (t, n, k) = (dy.rows, dy.cols, x.cols);
    assert!(x.rows == t && c.len() >= n * k);
    let chunks = if n * k <= SMALL { (t / DEPTH).clamp(1, CHUNKS) } else { 1 };
    let shares = shares(n.div_ceil(TALL), (cpu.threads() * 2).div_ceil(chunks));
    with_scratch((chunks - 1) * n * k, |sums| {
        let (first, sums_of) = (Shared::new(&mut *c), Shared::new(&mut *sums));
        cpu.parallel(chunks * shares.len(), |task| {
            let (chunk, share) = (task / shares.len(), &shares[task % shares.len()]);
            let (row, end) = (share.start * TALL, (share.end * TALL).min(n));
            let (t0, t1) = (chunk * t / chunks, (chunk + 1) * t / chunks);
            // SAFETY: each task writes its own rows of its own sum.
            let out = unsafe {
                match chunk {
                    0 => first.slice(row * k, (end - row) * k),
                    _ => sums_of.slice((chunk - 1) * n * k + row * k, (end - row) * k),
                }
            };
            if chunk > 0 {
                out.fill(0.0);
            }
            strips(cpu.isa(), dy.rows(t0..t1).columns(row..end), x.rows(t0..t1), out);
        });
        add_sums(cpu, sums, &mut c[..n * k]);
    });
}

/// Divides strips into shares for a number of tasks, the larger ones first.
fn shares(strips: usize, tasks: usize) -> Vec<Range<usize>> {
    let count = tasks.max(strips.div_ceil(STRIPS)).min(strips);
    let mut start = 0;
    let next = |i: usize| {
        let len = strips / count + usize::from(i < strips % count);
        start += len;
        start - len..start
    };
    (0..count).map(next).collect()
}

/// Adds the sums of the later chunks to that of the first, in their order.
fn add_sums(cpu: &Cpu, sums: &[f32], c: &mut [f32]) {
    const RUN: usize = 1 << 14;
    let len = c.len();
    if sums.is_empty() {
        return;
    }
    let c = Shared::new(c);
    cpu.parallel(len.div_ceil(RUN), |task| {
        let (at, n) = (task * RUN, RUN.min(len - task * RUN));
        // SAFETY: each task has its own run.
        let c = unsafe { c.slice(at, n) };
        for sum in sums.chunks_exact(len) {
            c.iter_mut().zip(&sum[at..]).for_each(|(c, s)| *c += s);
        }
    });
}

/// One task of [`outer`]: some rows of a result from some rows of both operands.
fn strips(isa: Isa, dy: MatRef<'_>, x: MatRef<'_>, c: &mut [f32]) {
    let (t, n, k) = (dy.rows, dy.cols, x.cols);
    let padded = k.next_multiple_of(PANEL);
    let blocks = t.div_ceil(DEPTH).max(1);
    let depth = t.div_ceil(blocks);
    with_scratch(depth * (padded + n.next_multiple_of(TALL)), |scratch| {
        let (panels, strips) = scratch.split_at_mut(depth * padded);
        for first in (0..t).step_by(depth.max(1)) {
            let depth = depth.min(t - first);
            pack_rows::<TALL>(dy.rows(first..first + depth), strips);
            pack_rows::<PANEL>(x.rows(first..first + depth), panels);
            isa.run(Strips { left: strips, panels, depth, n, k, c });
        }
    });
}

/// Adds the product of packed strips and packed panels to the result.
struct Strips<'a> {
    left: &'a [f32],
    panels: &'a [f32],
    depth: usize,
    n: usize,
    k: usize,
    c: &'a mut [f32],
}

impl Kernel for Strips<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { left, panels, depth, n, k, c } = self;
        for column in (0..k).step_by(PANEL) {
            for row in (0..n).step_by(TALL) {
                let (m, n) = (TALL.min(n - row), PANEL.min(k - column));
                let (a, b) = (&left[row * depth..][..TALL * depth], &panels[column * depth..][..PANEL * depth]);
                let c = &mut c[row * k + column..][..(m - 1) * k + n];
                let a = MatRef::new(a, depth, m, TALL).transposed();
                let b = Panels { data: b, panel_stride: 0, k_stride: PANEL };
                let out = Out { data: c.as_mut_ptr(), stride: k, mode: Accumulate::Add };
                Block { a, b, n, out, ahead: PANEL * depth }.run(simd);
            }
        }
    }
}

/// Copies a matrix with contiguous rows into groups of `W` columns, each group's rows contiguous.
fn pack_rows<const W: usize>(source: MatRef<'_>, out: &mut [f32]) {
    let (depth, out) = (source.rows, out.as_chunks_mut::<W>().0);
    for row in 0..depth {
        let from = &source.data[row * source.row_stride..][..source.cols];
        let (whole, tail) = from.as_chunks::<W>();
        // Whole groups are the rule, and as arrays they are a few vector moves instead of a call.
        for (group, values) in whole.iter().enumerate() {
            out[group * depth + row] = *values;
        }
        if !tail.is_empty() {
            let line = &mut out[whole.len() * depth + row];
            line[..tail.len()].copy_from_slice(tail);
            line[tail.len()..].fill(0.0);
        }
    }
}

/// Untransposed layout: `W[n,k]` as the right operand of dX = dY W, in panels of 32 inputs, n rows each.
pub(crate) fn pack_untransposed(cpu: &Cpu, w: &[f32], n: usize, k: usize, out: &mut [f32]) {
    assert!(w.len() >= n * k && out.len() >= untransposed_len(n, k));
    let out = Shared::new(out);
    cpu.parallel(k.div_ceil(PANEL), |panel| {
        // SAFETY: each task writes its own panel.
        let to = unsafe { out.slice(panel * PANEL * n, PANEL * n) };
        let columns = panel * PANEL..k.min((panel + 1) * PANEL);
        pack_rows::<PANEL>(MatRef::new(w, n, k, k).columns(columns), to);
    });
}

/// Floats that [`pack_untransposed`] writes.
pub(crate) fn untransposed_len(n: usize, k: usize) -> usize {
    k.next_multiple_of(PANEL) * n
}

/// `dX[m,k]` (=|+=) `dY[m,n] W[n,k]` on this thread, with `w` from [`pack_untransposed`].
pub(crate) fn rows_untransposed(isa: Isa, dy: MatRef<'_>, w: &[f32], dx: MatMut<'_>, mode: Accumulate) {
    block(isa, dy, Panels { data: w, panel_stride: PANEL * dy.cols, k_stride: PANEL }, dx, mode);
}
