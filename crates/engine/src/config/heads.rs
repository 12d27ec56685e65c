//! Attention heads of a layer.

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

    pub(crate) fn key_column(self, head: usize) -> usize {
        (self.queries + head) * self.dim
    }

    pub(crate) fn value_column(self, head: usize) -> usize {
        (self.queries + self.keys + head) * self.dim
    }
}
