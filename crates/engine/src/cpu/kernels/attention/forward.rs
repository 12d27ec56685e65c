//! Flash attention, forward pass over a packed batch.

#![expect(unsafe_code, reason = "tasks write disjoint rows and heads of the output")]

use std::ops::Range;

use crate::cpu::kernels::attention::{Block, Heads, KEYS, Seen, Span, Tile, pieces, put_rows, put_transposed};
use crate::cpu::{Cpu, Shared, with_scratch};

/// `out[row][head]` and the log denominators `lse[row][head]` from `qkv[row]`.
pub fn forward(cpu: &Cpu, heads: Heads, spans: &[Span], qkv: &[f32], out: &mut [f32], lse: &mut [f32]) {
    let (width, group, dim, wide) = (heads.width(), heads.group(), heads.dim, heads.padded());
    let pieces = pieces(spans, heads, heads.tokens_per_tile());
    let (out, lse) = (Shared::new(out), Shared::new(lse));
    cpu.parallel(pieces.len(), |task| {
        let piece = pieces[task];
        let span = &spans[piece.span];
        let rows = piece.len * group;
        // A block of keys and values after the tile's own scratch.
        let tile_scratch = Tile::scratch(heads, rows);
        with_scratch(tile_scratch + KEYS * (dim + wide), |scratch| {
            let (scratch, blocks) = scratch.split_at_mut(tile_scratch);
            let (keys, values) = blocks.split_at_mut(KEYS * dim);
            let mut tile = Tile::new(cpu.isa(), heads, rows, scratch);
            for row in 0..rows {
                let column = (piece.head * group + row % group) * dim;
                tile.set(row, &qkv[(piece.row + row / group) * width + column..][..dim]);
            }
            let start = span.position + piece.row - span.rows.start;
            for from in (0..start + piece.len).step_by(KEYS) {
                gather(heads, span, piece.head, qkv, from..start + piece.len, keys, values);
                let first = from.saturating_sub(start) * group;
                tile.absorb(Block::new(keys, values), first, Seen { from: (start + 1).max(from + 1) - from, group });
            }
            for row in 0..rows {
                let (token, head) = (piece.row + row / group, piece.head * group + row % group);
                // SAFETY: a piece alone writes its rows for its heads.
                unsafe {
                    let value = tile.finish(row, out.slice((token * heads.queries + head) * dim, dim));
                    lse.slice(token * heads.queries + head, 1)[0] = value;
                }
            }
        });
    });
}

/// Collects the block at the first of these positions of a chain, zeros past the last.
fn gather(
    heads: Heads,
    span: &Span,
    head: usize,
    qkv: &[f32],
    positions: Range<usize>,
    keys: &mut [f32],
    values: &mut [f32],
) {
    let (width, dim, wide) = (heads.width(), heads.dim, heads.padded());
    let Range { start: from, end } = positions;
    if end < from + KEYS {
        keys.fill(0.0);
        values.fill(0.0);
    }
    for (at, rows) in span.locate(from, end.min(from + KEYS)) {
        let source = &qkv[rows.start * width..];
        put_transposed(&source[heads.key_column(head)..], width, dim, rows.len(), at, keys);
        put_rows(&source[heads.value_column(head)..], width, dim, rows.len(), at, wide, values);
    }
}
