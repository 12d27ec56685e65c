//! Flash attention, backward pass: scores are recomputed from the saved log-sum-exp.
//!
//! With P = exp(S - lse), D = rowsum(dO * O): dV = P^T dO, dS = P * (dO V^T - D), dQ = scale dS K, dK = dS^T (scale Q).
//!
//! Deterministic reduction: every sum has one order, determined by the shapes of heads and trees and never by the
//! number of threads. Keys are visited in the blocks of [`key_blocks`], which start anew with every token run of the
//! forest, and queries in tiles counted from the block they attend to. A query's gradient adds the blocks of its
//! ancestors' runs, then those of its own run, each block summed separately; a key's gradient adds the tiles of its
//! run's subtree, from its own block on.
//!
//! If there are enough trees and heads for all threads, one task computes a whole tree for a key head, and every block
//! of attention weights once. Otherwise the work is divided more finely, into two passes that each recompute the
//! weights: one owns the queries it writes, the other the keys and values. No two tasks ever add to the same place, and
//! both ways visit the same blocks and tiles in the same order: the bits do not depend on the choice, and no partial
//! sums are kept.

#![expect(unsafe_code, reason = "tasks write disjoint rows and heads of the gradients")]

use std::ops::Range;

use crate::cpu::kernels::attention::{Heads, KEYS, Piece, Span, pieces, put_rows, put_transposed};
use crate::cpu::kernels::matmul::{Accumulate, PANEL, Panels, block};
use crate::cpu::kernels::matrix::{MatMut, MatRef};
use crate::cpu::kernels::simd::{Isa, Kernel, LANES, Simd};
use crate::cpu::{Cpu, Shared, with_scratch};

/// Floats of queries, output gradients and query gradients that one task may hold: beyond, the two passes are as fast.
const WHOLE_TREE: usize = 1 << 22;

/// Input of the backward pass: the forward pass's input and results, and the gradient of its output.
#[derive(Debug, Clone, Copy)]
pub struct BackwardInput<'a> {
    pub qkv: &'a [f32],
    pub out: &'a [f32],
    pub lse: &'a [f32],
    pub dout: &'a [f32],
}

/// Writes the gradient of `qkv` into `dqkv`; `delta` (one float per row and head) is scratch.
pub fn backward(cpu: &Cpu, heads: Heads, spans: &[Span], from: BackwardInput<'_>, delta: &mut [f32], dqkv: &mut [f32]) {
    let (isa, dqkv) = (cpu.isa(), Shared::new(dqkv));
    let trees = trees(spans);
    let largest = trees.iter().map(|t| spans[t.start].subtree_end - spans[t.start].rows.start).max().unwrap_or(0);
    let fits = 3 * largest * heads.group() * heads.padded() <= WHOLE_TREE;
    if fits && (cpu.threads() == 1 || trees.len() * heads.keys >= 2 * cpu.threads()) {
        return cpu.parallel(trees.len() * heads.keys, |task| {
            let tree = &spans[trees[task / heads.keys].clone()];
            whole_tree(isa, heads, tree, task % heads.keys, from, dqkv);
        });
    }
    {
        let pieces = pieces(spans, heads, heads.tokens_per_tile());
        let delta = Shared::new(delta);
        cpu.parallel(pieces.len(), |task| queries(isa, heads, spans, pieces[task], from, delta, dqkv));
    }
    let pieces = pieces(spans, heads, KEYS);
    let delta = &*delta;
    cpu.parallel(pieces.len(), |task| keys(isa, heads, spans, pieces[task], from, delta, dqkv));
}

/// The spans of each tree: a root and everything up to the next root.
fn trees(spans: &[Span]) -> Vec<Range<usize>> {
    let roots: Vec<usize> = (0..spans.len()).filter(|&i| spans[i].chain.is_empty()).collect();
    let ends = roots.iter().skip(1).copied().chain(std::iter::once(spans.len()));
    roots.iter().zip(ends).map(|(&from, to)| from..to).collect()
}

/// Blocks of a run's keys as (first row, rows). They affect the rounding, since each is summed separately.
fn key_blocks(run: &Range<usize>) -> impl Iterator<Item = (usize, usize)> + use<> {
    let end = run.end;
    run.clone().step_by(KEYS).map(move |key| (key, KEYS.min(end - key)))
}

/// The runs of all ancestors of a span, root first. Its chain has those that touch as one range.
fn ancestors<'a>(spans: &'a [Span], span: &'a Span) -> impl Iterator<Item = &'a Range<usize>> {
    span.chain.iter().flat_map(|range| {
        let first = spans.partition_point(|s| s.rows.start < range.start);
        spans[first..].iter().map(|s| &s.rows).take_while(|run| run.end <= range.end)
    })
}

/// Query rows with their outputs and gradients, rows of `padded` floats; and the scores of a tile of them.
struct Rows<'s> {
    q: &'s mut [f32],
    dout: &'s mut [f32],
    lse: &'s mut [f32],
    delta: &'s mut [f32],
    scores: &'s mut [f32],
    dscores: &'s mut [f32],
}

impl<'s> Rows<'s> {
    fn scratch(heads: Heads, rows: usize, tile: usize) -> usize {
        rows * 2 * heads.padded() + 2 * tile * KEYS + 2 * rows.next_multiple_of(LANES)
    }

    fn new(heads: Heads, rows: usize, tile: usize, scratch: &'s mut [f32]) -> Self {
        let (q, rest) = scratch.split_at_mut(rows * heads.padded());
        let (dout, rest) = rest.split_at_mut(rows * heads.padded());
        let (scores, rest) = rest.split_at_mut(tile * KEYS);
        let (dscores, rest) = rest.split_at_mut(tile * KEYS);
        let (lse, delta) = rest.split_at_mut(rows.next_multiple_of(LANES));
        Self { q, dout, lse, delta, scores, dscores }
    }

    /// Loads some tokens; `delta` is read from the buffer, or computed if there is none yet.
    fn fill(
        &mut self,
        isa: Isa,
        heads: Heads,
        head: usize,
        tokens: Range<usize>,
        from: BackwardInput<'_>,
        delta: Option<&[f32]>,
    ) {
        let (group, dim, wide) = (heads.group(), heads.dim, heads.padded());
        for i in 0..tokens.len() * group {
            let (token, query) = (tokens.start + i / group, head * group + i % group);
            let at = token * heads.queries + query;
            let (q, dout) = (&mut self.q[i * wide..][..wide], &mut self.dout[i * wide..][..wide]);
            q[dim..].fill(0.0);
            dout[dim..].fill(0.0);
            dout[..dim].copy_from_slice(&from.dout[at * dim..][..dim]);
            let query = &from.qkv[token * heads.width() + query * dim..][..dim];
            isa.run(Scale { from: query, factor: heads.scale(), to: &mut q[..dim] });
            self.lse[i] = from.lse[at];
            self.delta[i] = match delta {
                Some(delta) => delta[at],
                None => isa.run(Dot(&dout[..dim], &from.out[at * dim..][..dim])),
            };
        }
    }

    /// Weights and score gradients of some rows against a block of keys and values (`[dim][KEYS]` both).
    fn weigh(
        &mut self,
        isa: Isa,
        heads: Heads,
        rows: Range<usize>,
        block_t: [&[f32]; 2],
        visible: impl Fn(usize) -> usize,
    ) {
        let (dim, wide, count) = (heads.dim, heads.padded(), rows.len());
        let (scores, dscores) = (&mut self.scores[..count * KEYS], &mut self.dscores[..count * KEYS]);
        let panel = |data| Panels { data, panel_stride: 0, k_stride: KEYS };
        let (q, dout) = (&self.q[rows.start * wide..], &self.dout[rows.start * wide..]);
        let (q, dout) = (MatRef::new(q, count, dim, wide), MatRef::new(dout, count, dim, wide));
        block(isa, q, panel(block_t[0]), MatMut::of_rows(&mut *scores, KEYS), Accumulate::Store);
        block(isa, dout, panel(block_t[1]), MatMut::of_rows(&mut *dscores, KEYS), Accumulate::Store);
        for (row, line) in rows.clone().zip(scores.chunks_exact_mut(KEYS)) {
            let seen = visible(row);
            if seen < KEYS {
                line[seen..].fill(f32::NEG_INFINITY);
            }
        }
        isa.run(Weights { scores, dscores, lse: &self.lse[rows.clone()], delta: &self.delta[rows] });
    }

    /// Adds the share of some weighed rows to the gradients of a block of keys and values.
    fn add_to_keys(&self, isa: Isa, heads: Heads, rows: Range<usize>, keys: usize, dk: &mut [f32], dv: &mut [f32]) {
        let wide = heads.padded();
        let across = |data| MatRef::new(data, rows.len(), keys, KEYS).transposed();
        let right = |data| Panels { data, panel_stride: PANEL, k_stride: wide };
        let (q, dout) = (&self.q[rows.start * wide..], &self.dout[rows.start * wide..]);
        block(isa, across(&*self.scores), right(dout), MatMut::new(dv, keys, wide, wide), Accumulate::Add);
        block(isa, across(&*self.dscores), right(q), MatMut::new(dk, keys, wide, wide), Accumulate::Add);
    }

    /// Adds the share of a block of keys (`[KEYS][padded]`) to the gradients of some weighed rows.
    fn add_to_queries(&self, isa: Isa, heads: Heads, rows: Range<usize>, keys: &[f32], dq: &mut [f32]) {
        let wide = heads.padded();
        let keys = Panels { data: keys, panel_stride: PANEL, k_stride: wide };
        let left = MatRef::new(&*self.dscores, rows.len(), KEYS, KEYS);
        let dq = MatMut::new(&mut dq[rows.start * wide..], rows.len(), wide, wide);
        block(isa, left, keys, dq, Accumulate::Add);
    }
}

/// A block of keys and values as the products read them.
struct Block<'s> {
    keys_t: &'s mut [f32],
    values_t: &'s mut [f32],
    keys: &'s mut [f32],
}

impl<'s> Block<'s> {
    fn scratch(heads: Heads) -> usize {
        KEYS * (2 * heads.dim + heads.padded())
    }

    fn new(heads: Heads, scratch: &'s mut [f32]) -> Self {
        let (keys_t, rest) = scratch.split_at_mut(KEYS * heads.dim);
        let (values_t, keys) = rest.split_at_mut(KEYS * heads.dim);
        Self { keys_t, values_t, keys }
    }

    /// Loads `count` rows, zeros past them.
    fn load(&mut self, heads: Heads, head: usize, qkv: &[f32], row: usize, count: usize) {
        if count < KEYS {
            self.keys_t.fill(0.0);
            self.values_t.fill(0.0);
            self.keys.fill(0.0);
        }
        let (width, dim) = (heads.width(), heads.dim);
        let keys = &qkv[row * width + heads.key_column(head)..];
        put_transposed(keys, width, dim, count, 0, self.keys_t);
        put_rows(keys, width, dim, count, 0, heads.padded(), self.keys);
        put_transposed(&qkv[row * width + heads.value_column(head)..], width, dim, count, 0, self.values_t);
    }

    fn transposed(&self) -> [&[f32]; 2] {
        [&*self.keys_t, &*self.values_t]
    }
}

/// All gradients of one tree for one key head.
fn whole_tree(isa: Isa, heads: Heads, tree: &[Span], head: usize, from: BackwardInput<'_>, dqkv: Shared<'_>) {
    let (group, wide, tokens) = (heads.group(), heads.padded(), heads.tokens_per_tile());
    let (first, end) = (tree[0].rows.start, tree[0].subtree_end);
    let rows = (end - first) * group;
    let own = Rows::scratch(heads, rows, tokens * group);
    with_scratch(own + rows * wide + Block::scratch(heads) + 2 * KEYS * wide, |scratch| {
        let (scratch, rest) = scratch.split_at_mut(own);
        let (dq, rest) = rest.split_at_mut(rows * wide);
        let (blocks, rest) = rest.split_at_mut(Block::scratch(heads));
        let (dk, dv) = rest.split_at_mut(KEYS * wide);
        let (mut all, mut block) = (Rows::new(heads, rows, tokens * group, scratch), Block::new(heads, blocks));
        all.fill(isa, heads, head, first..end, from, None);
        dq.fill(0.0);
        for span in tree {
            for (key, count) in key_blocks(&span.rows) {
                block.load(heads, head, from.qkv, key, count);
                dk.fill(0.0);
                dv.fill(0.0);
                for row in (key..span.subtree_end).step_by(tokens) {
                    let until = (row + tokens).min(span.subtree_end);
                    let tile = (row - first) * group..(until - first) * group;
                    all.weigh(isa, heads, tile.clone(), block.transposed(), |r| {
                        (first + r / group + 1 - key).min(count)
                    });
                    all.add_to_keys(isa, heads, tile.clone(), count, dk, dv);
                    all.add_to_queries(isa, heads, tile, block.keys, dq);
                }
                store_keys(heads, head, key, count, dk, dv, dqkv);
            }
        }
        store_queries(isa, heads, head, first, dq, rows, dqkv);
    });
}

/// Gradients of the queries of one piece; also stores their `delta`.
fn queries(
    isa: Isa,
    heads: Heads,
    spans: &[Span],
    piece: Piece,
    from: BackwardInput<'_>,
    delta: Shared<'_>,
    dqkv: Shared<'_>,
) {
    let (group, wide) = (heads.group(), heads.padded());
    let span = &spans[piece.span];
    let rows = piece.len * group;
    let own = Rows::scratch(heads, rows, rows);
    with_scratch(own + rows * wide + Block::scratch(heads), |scratch| {
        let (scratch, rest) = scratch.split_at_mut(own);
        let (dq, blocks) = rest.split_at_mut(rows * wide);
        let (mut tile, mut block) = (Rows::new(heads, rows, rows, scratch), Block::new(heads, blocks));
        tile.fill(isa, heads, piece.head, piece.row..piece.row + piece.len, from, None);
        dq.fill(0.0);
        let seen = span.rows.start..piece.row + piece.len;
        for run in ancestors(spans, span).chain(std::iter::once(&seen)) {
            for (key, count) in key_blocks(run) {
                block.load(heads, piece.head, from.qkv, key, count);
                // Ancestors' rows all come before the piece: every key is visible.
                let rows = key.saturating_sub(piece.row) * group..rows;
                let visible = |r: usize| (piece.row + r / group + 1 - key).min(count);
                tile.weigh(isa, heads, rows.clone(), block.transposed(), visible);
                tile.add_to_queries(isa, heads, rows, block.keys, dq);
            }
        }
        for row in 0..rows {
            let (token, head) = (piece.row + row / group, piece.head * group + row % group);
            // SAFETY: a piece alone writes its rows for its query heads.
            unsafe { delta.slice(token * heads.queries + head, 1)[0] = tile.delta[row] };
        }
        store_queries(isa, heads, piece.head, piece.row, dq, rows, dqkv);
    });
}

/// Gradients of the keys and values of one block of rows: all rows of the subtree from the block on attend to it.
fn keys(
    isa: Isa,
    heads: Heads,
    spans: &[Span],
    piece: Piece,
    from: BackwardInput<'_>,
    delta: &[f32],
    dqkv: Shared<'_>,
) {
    let (group, wide, tokens) = (heads.group(), heads.padded(), heads.tokens_per_tile());
    let own = Rows::scratch(heads, tokens * group, tokens * group);
    with_scratch(own + Block::scratch(heads) + 2 * KEYS * wide, |scratch| {
        let (scratch, rest) = scratch.split_at_mut(own);
        let (blocks, rest) = rest.split_at_mut(Block::scratch(heads));
        let (dk, dv) = rest.split_at_mut(KEYS * wide);
        let (mut tile, mut block) =
            (Rows::new(heads, tokens * group, tokens * group, scratch), Block::new(heads, blocks));
        dk.fill(0.0);
        dv.fill(0.0);
        block.load(heads, piece.head, from.qkv, piece.row, piece.len);
        let end = spans[piece.span].subtree_end;
        for row in (piece.row..end).step_by(tokens) {
            let len = tokens.min(end - row);
            tile.fill(isa, heads, piece.head, row..row + len, from, Some(delta));
            let visible = |r: usize| (row + r / group + 1 - piece.row).min(piece.len);
            tile.weigh(isa, heads, 0..len * group, block.transposed(), visible);
            tile.add_to_keys(isa, heads, 0..len * group, piece.len, dk, dv);
        }
        store_keys(heads, piece.head, piece.row, piece.len, dk, dv, dqkv);
    });
}

/// Writes query gradients of `rows` rows from token `first` on. Only the task that owns them may call it.
fn store_queries(isa: Isa, heads: Heads, head: usize, first: usize, dq: &[f32], rows: usize, dqkv: Shared<'_>) {
    let (group, dim, wide) = (heads.group(), heads.dim, heads.padded());
    for row in 0..rows {
        let (token, query) = (first + row / group, head * group + row % group);
        // SAFETY: tasks own different rows or different heads.
        let out = unsafe { dqkv.slice(token * heads.width() + query * dim, dim) };
        isa.run(Scale { from: &dq[row * wide..][..dim], factor: heads.scale(), to: out });
    }
}

/// Writes gradients of `count` keys and values from row `first` on. Only the task that owns them may call it.
fn store_keys(heads: Heads, head: usize, first: usize, count: usize, dk: &[f32], dv: &[f32], dqkv: Shared<'_>) {
    let (dim, wide) = (heads.dim, heads.padded());
    for key in 0..count {
        let at = (first + key) * heads.width();
        // SAFETY: tasks own different rows or different heads.
        unsafe {
            dqkv.slice(at + heads.key_column(head), dim).copy_from_slice(&dk[key * wide..][..dim]);
            dqkv.slice(at + heads.value_column(head), dim).copy_from_slice(&dv[key * wide..][..dim]);
        }
    }
}

/// `to = from * factor`.
struct Scale<'a> {
    from: &'a [f32],
    factor: f32,
    to: &'a mut [f32],
}

impl Kernel for Scale<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let factor = s.splat(self.factor);
        let ((from, from_tail), (to, to_tail)) = (self.from.as_chunks::<LANES>(), self.to.as_chunks_mut::<LANES>());
        for (from, to) in from.iter().zip(to) {
            s.store(to, s.mul(s.load(from), factor));
        }
        from_tail.iter().zip(to_tail).for_each(|(from, to)| *to = from * self.factor);
    }
}

/// The product of two vectors.
struct Dot<'a>(&'a [f32], &'a [f32]);

impl Kernel for Dot<'_> {
    type Out = f32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let ((a, a_tail), (b, b_tail)) = (self.0.as_chunks::<LANES>(), self.1.as_chunks::<LANES>());
        let mut sum = s.fma(s.load_part(a_tail), s.load_part(b_tail), s.splat(0.0));
        for (a, b) in a.iter().zip(b) {
            sum = s.fma(s.load(a), s.load(b), sum);
        }
        s.sum(sum)
    }
}

/// Scores become weights P, gradients of weights become gradients of scores.
struct Weights<'a> {
    scores: &'a mut [f32],
    dscores: &'a mut [f32],
    lse: &'a [f32],
    delta: &'a [f32],
}

impl Kernel for Weights<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let rows = self.scores.chunks_exact_mut(KEYS).zip(self.dscores.chunks_exact_mut(KEYS));
        for (((scores, dscores), &lse), &delta) in rows.zip(self.lse).zip(self.delta) {
            let (lse, delta) = (s.splat(lse), s.splat(delta));
            for (p, d) in scores.as_chunks_mut::<LANES>().0.iter_mut().zip(dscores.as_chunks_mut::<LANES>().0) {
                let weight = s.exp_negative(s.sub(s.load(p), lse));
                let grad = s.mul(weight, s.sub(s.load(d), delta));
                s.store(p, weight);
                s.store(d, grad);
            }
        }
    }
}
