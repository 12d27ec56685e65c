//! Flash attention: tiled causal attention over a forest of token runs that never materialises the T x T scores.
//!
//! Keys are visited in blocks of [`KEYS`] by *position in the chain*: block b holds positions 32b to 32b+31, wherever
//! their rows are. A query therefore adds the same numbers in the same order whether its prefix is shared with other
//! sequences, is its own, or comes from the pages of a KV cache; and since the rows of a tile do not influence each
//! other, sampling and training give the same bits.

mod backward;
mod forward;
mod tile;

pub use backward::{BackwardInput, backward};
pub use forward::forward;
pub use tile::{Block, Seen, Tile};

pub use crate::config::Heads;
use crate::cpu::kernels::matmul::PANEL;
pub use crate::forest::Span;
use crate::generate::step::PAGE;

/// Keys of a block, and of a page of the KV cache.
pub const KEYS: usize = PAGE;

/// Query rows (token x head of the group) that one task works on.
const TILE_ROWS: usize = 192;

impl Heads {
    /// Head width in whole panels: value blocks are padded with zeros to it.
    pub fn padded(self) -> usize {
        self.dim.next_multiple_of(PANEL)
    }

    pub(crate) fn tokens_per_tile(self) -> usize {
        (TILE_ROWS / self.group()).max(1)
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
pub(crate) fn put_transposed(source: &[f32], stride: usize, dim: usize, count: usize, at: usize, block: &mut [f32]) {
    for key in 0..count {
        for (d, &value) in source[key * stride..][..dim].iter().enumerate() {
            block[d * KEYS + at + key] = value;
        }
    }
}

/// Writes `count` rows of a head as rows `at..at + count` of a `[KEYS][padded]` block.
pub(crate) fn put_rows(
    source: &[f32],
    stride: usize,
    dim: usize,
    count: usize,
    at: usize,
    padded: usize,
    block: &mut [f32],
) {
    for key in 0..count {
        let row = &mut block[(at + key) * padded..][..padded];
        row[..dim].copy_from_slice(&source[key * stride..][..dim]);
        row[dim..].fill(0.0);
    }
}

#[cfg(test)]
mod tests;
