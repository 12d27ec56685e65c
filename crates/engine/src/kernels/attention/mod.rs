//! Flash attention: tiled causal attention over a forest of token runs that never materialises the T x T scores.
//!
//! Keys are visited in blocks of [`KEYS`] by *position in the chain*: block b holds positions 32b to 32b+31, wherever
//! their rows are. A query therefore adds the same numbers in the same order whether its prefix is shared with other
//! sequences, is its own, or comes from the pages of a KV cache; and since the rows of a tile do not influence each
//! other, sampling and training give the same bits.

mod backward;
mod forward;
mod tile;

use std::ops::Range;

pub use backward::{BackwardInput, backward};
pub use forward::forward;
pub use tile::{Block, Seen, Tile};

use crate::kernels::matmul::PANEL;

/// Keys of a block, and of a page of the KV cache.
pub const KEYS: usize = 32;

/// Query rows (token x head of the group) that one task works on.
const TILE_ROWS: usize = 192;

/// Grouped-query attention heads of one layer. Rows of `qkv` hold all queries, then all keys, then all values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heads {
    pub queries: usize,
    pub keys: usize,
    pub dim: usize,
}

impl Heads {
    /// Query heads per key head.
    pub fn group(self) -> usize {
        self.queries / self.keys
    }

    /// Width of a qkv row.
    pub fn width(self) -> usize {
        (self.queries + 2 * self.keys) * self.dim
    }

    /// Width of an output row.
    pub fn out_width(self) -> usize {
        self.queries * self.dim
    }

    /// Factor on the scores.
    pub fn scale(self) -> f32 {
        1.0 / (self.dim as f32).sqrt()
    }

    /// Head width in whole panels: value blocks are padded with zeros to it.
    pub fn padded(self) -> usize {
        self.dim.next_multiple_of(PANEL)
    }

    pub(crate) fn key_column(self, head: usize) -> usize {
        (self.queries + head) * self.dim
    }

    pub(crate) fn value_column(self, head: usize) -> usize {
        (self.queries + self.keys + head) * self.dim
    }

    pub(crate) fn tokens_per_tile(self) -> usize {
        (TILE_ROWS / self.group()).max(1)
    }
}

/// Token run of a packed batch, and the ancestors it attends to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Its rows.
    pub rows: Range<usize>,
    /// Position of its first token.
    pub position: usize,
    /// Rows of its ancestors, root first. Their lengths add up to `position`.
    pub chain: Vec<Range<usize>>,
    /// End of the rows of all its descendants, which follow it directly.
    pub subtree_end: usize,
}

impl Span {
    /// The rows of positions `from..to` of the chain, as (position - from, rows).
    fn locate(&self, from: usize, to: usize) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let mut start = 0;
        self.chain.iter().chain(std::iter::once(&self.rows)).filter_map(move |rows| {
            let (first, last) = (from.max(start), to.min(start + rows.len()));
            let offset = rows.start + first - start.min(first);
            start += rows.len();
            (first < last).then(|| (first - from, offset..offset + last - first))
        })
    }
}

/// One task: some tokens of a span, for one key head.
#[derive(Debug, Clone, Copy)]
struct Piece {
    span: usize,
    head: usize,
    /// First row and number of rows.
    row: usize,
    len: usize,
}

/// Cuts the spans into pieces of at most `tokens` rows, per key head.
fn pieces(spans: &[Span], heads: Heads, tokens: usize) -> Vec<Piece> {
    let mut out = Vec::new();
    for (span, s) in spans.iter().enumerate() {
        for row in s.rows.clone().step_by(tokens) {
            for head in 0..heads.keys {
                out.push(Piece { span, head, row, len: tokens.min(s.rows.end - row) });
            }
        }
    }
    out
}

/// Writes `count` rows of a head as columns `at..at + count` of a `[dim][KEYS]` block.
pub fn put_transposed(source: &[f32], stride: usize, dim: usize, count: usize, at: usize, block: &mut [f32]) {
    for key in 0..count {
        for (d, &value) in source[key * stride..][..dim].iter().enumerate() {
            block[d * KEYS + at + key] = value;
        }
    }
}

/// Writes `count` rows of a head as rows `at..at + count` of a `[KEYS][padded]` block.
pub fn put_rows(source: &[f32], stride: usize, dim: usize, count: usize, at: usize, padded: usize, block: &mut [f32]) {
    for key in 0..count {
        let row = &mut block[(at + key) * padded..][..padded];
        row[..dim].copy_from_slice(&source[key * stride..][..dim]);
        row[dim..].fill(0.0);
    }
}

#[cfg(test)]
mod tests;
