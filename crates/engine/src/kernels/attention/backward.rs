//! Gradients of attention. Two passes, each recomputing the weights of its blocks: one owns the queries it writes, one
//! the keys and values, so no two tasks ever add to the same place and the result does not depend on the threads.
//!
//! With P = exp(S - lse), D = rowsum(dO * O): dV = P^T dO, dS = P * (dO V^T - D), dQ = scale dS K, dK = dS^T (scale Q).

#![expect(unsafe_code, reason = "tasks write disjoint rows and heads of the gradients")]

use crate::cpu::{Cpu, Shared, with_scratch};
use crate::kernels::attention::{Heads, KEYS, Piece, Span, pieces, put_rows, put_transposed};
use crate::kernels::matmul::{Into, Left, PANEL, Panels, block};
use crate::kernels::simd::{Isa, Kernel, LANES, Simd};

/// What the backward pass reads: the forward's input and results, and the gradient of its output.
#[derive(Debug, Clone, Copy)]
pub struct Gradients<'a> {
    pub qkv: &'a [f32],
    pub out: &'a [f32],
    pub lse: &'a [f32],
    pub dout: &'a [f32],
}

/// Writes the gradient of `qkv` into `dqkv`; `delta` (one float per row and head) is scratch.
pub fn backward(cpu: &Cpu, heads: Heads, spans: &[Span], from: Gradients<'_>, delta: &mut [f32], dqkv: &mut [f32]) {
    let dqkv = Shared::new(dqkv);
    {
        let pieces = pieces(spans, heads, heads.tokens_per_tile());
        let delta = Shared::new(delta);
        cpu.parallel(pieces.len(), |task| queries(cpu.isa(), heads, spans, pieces[task], from, delta, dqkv));
    }
    let pieces = pieces(spans, heads, KEYS);
    let delta = &*delta;
    cpu.parallel(pieces.len(), |task| keys(cpu.isa(), heads, spans, pieces[task], from, delta, dqkv));
}

/// Buffers of one tile of query rows, all with rows of `padded` floats.
struct Rows<'s> {
    q: &'s mut [f32],
    dout: &'s mut [f32],
    lse: &'s mut [f32],
    delta: &'s mut [f32],
    scores: &'s mut [f32],
    dscores: &'s mut [f32],
}

impl<'s> Rows<'s> {
    fn scratch(heads: Heads, rows: usize) -> usize {
        rows * (2 * heads.padded() + 2 * KEYS) + 2 * rows.next_multiple_of(LANES)
    }

    fn new(heads: Heads, rows: usize, scratch: &'s mut [f32]) -> Self {
        let (q, rest) = scratch.split_at_mut(rows * heads.padded());
        let (dout, rest) = rest.split_at_mut(rows * heads.padded());
        let (scores, rest) = rest.split_at_mut(rows * KEYS);
        let (dscores, rest) = rest.split_at_mut(rows * KEYS);
        let (lse, delta) = rest.split_at_mut(rows.next_multiple_of(LANES));
        Self { q, dout, lse, delta, scores, dscores }
    }

    /// Takes in `len` tokens from `row`; `delta` is read from the buffer, or computed where there is none yet.
    fn fill(&mut self, heads: Heads, head: usize, row: usize, len: usize, from: Gradients<'_>, delta: Option<&[f32]>) {
        let (group, dim, wide) = (heads.group(), heads.dim, heads.padded());
        for i in 0..len * group {
            let (token, query) = (row + i / group, head * group + i % group);
            let at = token * heads.queries + query;
            let q = &mut self.q[i * wide..][..wide];
            for (to, &x) in q.iter_mut().zip(&from.qkv[token * heads.width() + query * dim..][..dim]) {
                *to = x * heads.scale();
            }
            q[dim..].fill(0.0);
            let dout = &mut self.dout[i * wide..][..wide];
            dout[..dim].copy_from_slice(&from.dout[at * dim..][..dim]);
            dout[dim..].fill(0.0);
            self.lse[i] = from.lse[at];
            self.delta[i] = match delta {
                Some(delta) => delta[at],
                None => dout.iter().zip(&from.out[at * dim..][..dim]).map(|(d, o)| d * o).sum(),
            };
        }
    }

    /// Scores and their gradients against a block of keys and values (`[dim][KEYS]` both), rows from `first` on.
    fn weigh(
        &mut self,
        isa: Isa,
        heads: Heads,
        rows: usize,
        first: usize,
        keys: &[f32],
        values: &[f32],
        visible: impl Fn(usize) -> usize,
    ) {
        let (dim, wide) = (heads.dim, heads.padded());
        let span = first * KEYS..rows * KEYS;
        let (scores, dscores) = (&mut self.scores[span.clone()], &mut self.dscores[span]);
        let panel = |data| Panels { data, panel_stride: 0, k_stride: KEYS };
        let left = |data| Left::rows(data, wide);
        block(isa, rows - first, KEYS, dim, left(&self.q[first * wide..]), panel(keys), scores, KEYS, Into::Store);
        block(
            isa,
            rows - first,
            KEYS,
            dim,
            left(&self.dout[first * wide..]),
            panel(values),
            dscores,
            KEYS,
            Into::Store,
        );
        for (row, line) in scores.chunks_exact_mut(KEYS).enumerate() {
            let seen = visible(first + row);
            if seen < KEYS {
                line[seen..].fill(f32::NEG_INFINITY);
            }
        }
        isa.run(Weights { scores, dscores, lse: &self.lse[first..rows], delta: &self.delta[first..rows] });
    }
}

/// Gradients of the queries of one piece; also stores their `delta`.
fn queries(
    isa: Isa,
    heads: Heads,
    spans: &[Span],
    piece: Piece,
    from: Gradients<'_>,
    delta: Shared<'_>,
    dqkv: Shared<'_>,
) {
    let (width, group, dim, wide) = (heads.width(), heads.group(), heads.dim, heads.padded());
    let span = &spans[piece.span];
    let rows = piece.len * group;
    let own = Rows::scratch(heads, rows);
    with_scratch(own + rows * wide + KEYS * (2 * dim + wide), |scratch| {
        let (scratch, rest) = scratch.split_at_mut(own);
        let (dq, rest) = rest.split_at_mut(rows * wide);
        let (kt, rest) = rest.split_at_mut(KEYS * dim);
        let (vt, kr) = rest.split_at_mut(KEYS * dim);
        let mut tile = Rows::new(heads, rows, scratch);
        tile.fill(heads, piece.head, piece.row, piece.len, from, None);
        dq.fill(0.0);
        let seen = span.rows.start..piece.row + piece.len;
        for range in span.chain.iter().chain(std::iter::once(&seen)) {
            for row in range.clone().step_by(KEYS) {
                let count = KEYS.min(range.end - row);
                load_keys(heads, piece.head, from.qkv, row, count, kt, vt);
                if count < KEYS {
                    kr.fill(0.0);
                }
                put_rows(&from.qkv[row * width + heads.key_column(piece.head)..], width, dim, count, 0, wide, kr);
                // Ancestors' rows all come before the piece: every key is visible.
                let first = row.saturating_sub(piece.row) * group;
                tile.weigh(isa, heads, rows, first, kt, vt, |r| (piece.row + r / group + 1 - row).min(count));
                let keys = Panels { data: kr, panel_stride: PANEL, k_stride: wide };
                let left = Left::rows(&tile.dscores[first * KEYS..], KEYS);
                block(isa, rows - first, wide, KEYS, left, keys, &mut dq[first * wide..], wide, Into::Add);
            }
        }
        for row in 0..rows {
            let (token, head) = (piece.row + row / group, piece.head * group + row % group);
            // SAFETY: a piece alone writes its rows for its query heads.
            unsafe {
                delta.slice(token * heads.queries + head, 1)[0] = tile.delta[row];
                let out = dqkv.slice(token * width + head * dim, dim);
                for (to, &x) in out.iter_mut().zip(&dq[row * wide..]) {
                    *to = x * heads.scale();
                }
            }
        }
    });
}

/// Gradients of the keys and values of one block of rows: all rows of the subtree from the block on look at it.
fn keys(isa: Isa, heads: Heads, spans: &[Span], piece: Piece, from: Gradients<'_>, delta: &[f32], dqkv: Shared<'_>) {
    let (width, group, dim, wide) = (heads.width(), heads.group(), heads.dim, heads.padded());
    let tokens = heads.tokens_per_tile();
    let own = Rows::scratch(heads, tokens * group);
    with_scratch(own + KEYS * (2 * dim + 2 * wide), |scratch| {
        let (scratch, rest) = scratch.split_at_mut(own);
        let (kt, rest) = rest.split_at_mut(KEYS * dim);
        let (vt, rest) = rest.split_at_mut(KEYS * dim);
        let (dk, dv) = rest.split_at_mut(KEYS * wide);
        let mut tile = Rows::new(heads, tokens * group, scratch);
        dk.fill(0.0);
        dv.fill(0.0);
        load_keys(heads, piece.head, from.qkv, piece.row, piece.len, kt, vt);
        let end = spans[piece.span].subtree_end;
        for row in (piece.row..end).step_by(tokens) {
            let len = tokens.min(end - row);
            let rows = len * group;
            tile.fill(heads, piece.head, row, len, from, Some(delta));
            tile.weigh(isa, heads, rows, 0, kt, vt, |r| (row + r / group + 1 - piece.row).min(piece.len));
            let across = |data| Left { data, row_stride: 1, k_stride: KEYS };
            let right = |data| Panels { data, panel_stride: PANEL, k_stride: wide };
            block(isa, piece.len, wide, rows, across(&*tile.scores), right(&*tile.dout), dv, wide, Into::Add);
            block(isa, piece.len, wide, rows, across(&*tile.dscores), right(&*tile.q), dk, wide, Into::Add);
        }
        for key in 0..piece.len {
            let at = (piece.row + key) * width;
            // SAFETY: a piece alone writes its rows for its key head.
            unsafe {
                dqkv.slice(at + heads.key_column(piece.head), dim).copy_from_slice(&dk[key * wide..][..dim]);
                dqkv.slice(at + heads.value_column(piece.head), dim).copy_from_slice(&dv[key * wide..][..dim]);
            }
        }
    });
}

/// Keys and values of `count` rows, transposed, zeros past them.
fn load_keys(heads: Heads, head: usize, qkv: &[f32], row: usize, count: usize, kt: &mut [f32], vt: &mut [f32]) {
    if count < KEYS {
        kt.fill(0.0);
        vt.fill(0.0);
    }
    let source = &qkv[row * heads.width()..];
    put_transposed(&source[heads.key_column(head)..], heads.width(), heads.dim, count, 0, kt);
    put_transposed(&source[heads.value_column(head)..], heads.width(), heads.dim, count, 0, vt);
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
                let weight = s.exp(s.sub(s.load(p), lse));
                let grad = s.mul(weight, s.sub(s.load(d), delta));
                s.store(p, weight);
                s.store(d, grad);
            }
        }
    }
}
