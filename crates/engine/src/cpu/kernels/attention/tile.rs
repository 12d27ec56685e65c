//! Online softmax: a tile of query rows that absorbs one block of keys and values after another.

use crate::cpu::kernels::attention::{Heads, KEYS};
use crate::cpu::kernels::matmul::{Accumulate, PANEL, Panels, multiply};
use crate::cpu::kernels::matrix::{MatMut, MatRef};
use crate::cpu::kernels::simd::{Isa, Kernel, LANES, Simd};

/// Tile of query rows of one key head. Feed key blocks in order, then [`Tile::finish`] each row.
#[derive(Debug)]
pub struct Tile<'s> {
    pub(crate) isa: Isa,
    pub(crate) heads: Heads,
    pub(crate) rows: usize,
    /// `[rows][dim]`, scaled.
    pub(crate) q: &'s mut [f32],
    /// `[rows][padded]`, not yet divided by `sum`.
    pub(crate) out: &'s mut [f32],
    pub(crate) max: &'s mut [f32],
    pub(crate) sum: &'s mut [f32],
    /// `[rows][KEYS]`.
    pub(crate) scores: &'s mut [f32],
}

impl<'s> Tile<'s> {
    /// Floats of scratch a tile of `rows` rows needs.
    pub fn scratch(heads: Heads, rows: usize) -> usize {
        let line = |n: usize| n.next_multiple_of(LANES);
        line(rows * heads.dim) + line(rows * heads.padded()) + rows * KEYS + 2 * line(rows)
    }

    pub fn new(isa: Isa, heads: Heads, rows: usize, scratch: &'s mut [f32]) -> Self {
        let line = |n: usize| n.next_multiple_of(LANES);
        let (q, rest) = scratch.split_at_mut(line(rows * heads.dim));
        let (out, rest) = rest.split_at_mut(line(rows * heads.padded()));
        let (scores, rest) = rest.split_at_mut(rows * KEYS);
        let (max, sum) = rest.split_at_mut(line(rows));
        out.fill(0.0);
        max.fill(f32::NEG_INFINITY);
        sum.fill(0.0);
        Self { isa, heads, rows, q, out, max, sum, scores }
    }

    /// Sets the query of a row.
    pub fn set(&mut self, row: usize, query: &[f32]) {
        let scale = self.heads.scale();
        let dim = self.heads.dim;
        for (to, &from) in self.q[row * dim..][..dim].iter_mut().zip(query) {
            *to = from * scale;
        }
    }

    /// Absorbs a block for the rows from `first` on. Keys that no row sees may hold any finite value.
    pub(crate) fn absorb(&mut self, block: Block<'_>, first: usize, seen: Seen) {
        let (dim, wide) = (self.heads.dim, self.heads.padded());
        assert!(block.keys.len() >= dim * KEYS && block.values.len() >= KEYS * wide && first < self.rows);
        self.isa.run(Absorb {
            q: &self.q[first * dim..self.rows * dim],
            scores: &mut self.scores[first * KEYS..self.rows * KEYS],
            out: &mut self.out[first * wide..self.rows * wide],
            max: &mut self.max[first..self.rows],
            sum: &mut self.sum[first..self.rows],
            block,
            seen,
            dim,
            wide,
        });
    }

    /// Writes the row's result and returns the logarithm of its softmax denominator.
    pub fn finish(&self, row: usize, out: &mut [f32]) -> f32 {
        let wide = self.heads.padded();
        let inverse = 1.0 / self.sum[row];
        for (to, &from) in out.iter_mut().zip(&self.out[row * wide..][..self.heads.dim]) {
            *to = from * inverse;
        }
        self.max[row] + self.sum[row].ln()
    }
}

/// A block of keys (`[dim][KEYS]`) and values (`[KEYS][padded]`).
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    pub keys: &'a [f32],
    pub values: &'a [f32],
    /// Prefetch addresses: keys and values of the next block.
    pub next: [*const f32; 2],
}

impl<'a> Block<'a> {
    /// A block without a successor, or whose successor is gathered into the same memory.
    pub fn new(keys: &'a [f32], values: &'a [f32]) -> Self {
        Self { keys, values, next: [keys.as_ptr(), values.as_ptr()] }
    }
}

/// Causal mask of a block, as the number of keys each row sees: `from + row / group` of them, at least 1, counted from
/// the first row that takes the block in.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    pub from: usize,
    pub group: usize,
}

impl Seen {
    /// All keys.
    pub const ALL: Self = Self { from: KEYS, group: 1 };

    /// The same number of keys for every row.
    pub fn first(keys: usize) -> Self {
        Self { from: keys, group: usize::MAX }
    }
}

/// Scores, their softmax and the weighted values, for all rows of a tile.
struct Absorb<'a> {
    q: &'a [f32],
    scores: &'a mut [f32],
    out: &'a mut [f32],
    max: &'a mut [f32],
    sum: &'a mut [f32],
    block: Block<'a>,
    seen: Seen,
    dim: usize,
    wide: usize,
}

impl Kernel for Absorb<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { q, scores, out, max, sum, block, seen, dim, wide } = self;
        let rows = max.len();
        // Keys that no row sees are not read: on average that is half of the page a request is filling.
        let count = (seen.from + (rows - 1) / seen.group).min(KEYS);
        let columns = if count <= LANES { LANES } else { KEYS };
        let keys = Panels { data: block.keys, panel_stride: 0, k_stride: KEYS };
        let to = MatMut::new(&mut *scores, rows, columns, KEYS);
        multiply(s, MatRef::new(q, rows, dim, dim), keys, block.next[0], to, Accumulate::Store);
        if seen.from < KEYS {
            for (row, line) in scores.chunks_exact_mut(KEYS).enumerate() {
                line[(seen.from + row / seen.group).min(KEYS)..].fill(f32::NEG_INFINITY);
            }
        }
        Softmax { scores: &mut *scores, max, sum, out: &mut *out, wide }.run(s);
        let values = Panels { data: block.values, panel_stride: PANEL, k_stride: wide };
        let weights = MatRef::new(scores, rows, count, KEYS);
        multiply(s, weights, values, block.next[1], MatMut::new(out, rows, wide, wide), Accumulate::Add);
    }
}

/// Scores become weights under the running maximum; earlier output and denominator are rescaled to it.
struct Softmax<'a> {
    scores: &'a mut [f32],
    max: &'a mut [f32],
    sum: &'a mut [f32],
    out: &'a mut [f32],
    wide: usize,
}

impl Kernel for Softmax<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let rows = self.scores.chunks_exact_mut(KEYS).zip(self.out.chunks_exact_mut(self.wide));
        for (((line, out), max), sum) in rows.zip(self.max).zip(self.sum) {
            let (low, high) = line.split_at_mut(LANES);
            let (a, b) = (s.load(low), s.load(high));
            let found = s.max_lane(s.max(a, b));
            let new = if found > *max { found } else { *max };
            let top = s.splat(new);
            let (a, b) = (s.exp_negative(s.sub(a, top)), s.exp_negative(s.sub(b, top)));
            s.store(low, a);
            s.store(high, b);
            let weight = s.sum(s.add(a, b));
            if new > *max {
                // The first block finds -inf here: factor 0 on an output of 0.
                let factor = s.lanes(s.exp_negative(s.splat(*max - new)))[0];
                *sum *= factor;
                let f = s.splat(factor);
                for v in out.as_chunks_mut::<LANES>().0 {
                    let scaled = s.mul(s.load(v), f);
                    s.store(v, scaled);
                }
                *max = new;
            }
            *sum += weight;
        }
    }
}
