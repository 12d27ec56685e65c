//! Bytes that passes take on the device, and how much of the activations a pass can keep.

use hone_cuda::heads::wide;
use hone_engine::{Config, Keep};

/// Rows of logits that exist at one time.
pub(crate) const CHUNK: usize = 2048;
/// Bytes that are left free where activations are kept by choice: workspaces, and memory in pieces.
pub(crate) const RESERVE: u64 = 512 << 20;

/// Size of a pass: number of rows, all of them scored, and bytes per value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PassSize<'a> {
    pub(crate) config: &'a Config,
    pub(crate) rows: usize,
    pub(crate) keep: Keep,
    pub(crate) element: u64,
}

/// Activations that a pass keeps by choice; the backward pass computes the others again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Layers, the last ones, whose gates and ups are kept: a matrix product each.
    pub(crate) gates: usize,
    /// True if they are stored in the gradients' memory, which is budgeted there.
    pub(crate) lent: bool,
    /// Outputs of both norms of every layer: a pass over memory each.
    pub(crate) normed: bool,
    /// Rotated queries and keys of every layer: a pass over memory.
    pub(crate) rotated: bool,
}

impl PassSize<'_> {
    /// The least it takes: with [`Keep::Everything`] the backward pass computes every layer's gates and ups again.
    pub(crate) fn least(self) -> u64 {
        self.bytes(Stored::default())
    }

    /// Number of layers, counted from the last, whose gates and ups fit in `limit` bytes.
    pub(crate) fn gates(self, limit: u64) -> usize {
        let most = if self.keep == Keep::Everything { self.config.layers } else { 0 };
        let fits = |gates| self.bytes(Stored { gates, ..Stored::default() }) <= limit;
        (0..=most).rev().find(|&gates| gates == 0 || fits(gates)).unwrap_or(0)
    }

    /// Activations that fit in `limit` bytes, those that are most expensive to recompute first. Gates and ups in `lent` memory do
    /// not count.
    pub(crate) fn stored(self, limit: u64, lent: bool) -> Stored {
        let gates = if lent { self.config.layers } else { self.gates(limit) };
        let least = Stored { gates, lent, ..Stored::default() };
        if self.keep != Keep::Everything || gates < self.config.layers {
            return least;
        }
        let more = [(true, true), (true, false)].map(|(normed, rotated)| Stored { normed, rotated, ..least });
        more.into_iter().find(|&stored| self.bytes(stored) <= limit).unwrap_or(least)
    }

    fn bytes(self, stored: Stored) -> u64 {
        let Self { config: c, rows, keep, element } = self;
        let own = if stored.lent { 0 } else { stored.gates as u64 };
        let wide = wide(c.heads.dim).unwrap_or(128);
        let (q, kv) = (c.heads.queries * wide, c.heads.keys * wide);
        let rows64 = rows as u64;
        let gate_up = element * 2 * c.mlp as u64;
        // Both residual sums, qkv, attention's output; factors of norms and softmax.
        let layer = element * (2 * c.hidden + c.heads.width() + q) as u64 + 4 * (c.heads.queries + 2) as u64;
        let normed = if stored.normed { 2 * c.hidden } else { 0 };
        // Values are copied where heads are not of the kernels' width.
        let rotated = if stored.rotated { q + 2 * kv } else { 0 };
        let more = normed + rotated;
        let kept = match keep {
            Keep::Nothing => layer + gate_up,
            Keep::Inputs => layer + gate_up + element * (c.hidden * c.layers) as u64,
            Keep::Everything => (layer + element * more as u64) * c.layers as u64 + gate_up * own,
        };
        // The layer whose gates and ups are computed again has them beside those that are kept.
        let again = if keep == Keep::Everything && stored.gates < c.layers { gate_up } else { 0 };
        let backward = if keep == Keep::Nothing { 0 } else { 4 };
        let ffn = element * ((2 + backward) * c.mlp + 4 * c.hidden) as u64 + again;
        let attention = element * (3 * (q + 2 * kv) + c.heads.width() + 4 * c.hidden) as u64;
        let logits = 4 * rows.min(CHUNK) as u64 * c.vocab.next_multiple_of(8) as u64;
        rows64 * kept + (rows64 * ffn.max(attention)).max(logits + rows64 * element * 4 * c.hidden as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_engine::config::Shape;

    /// Qwen3-4B's shape.
    fn large() -> Config {
        let shape = Shape {
            vocab: 151_936,
            hidden: 2560,
            mlp: 9728,
            layers: 36,
            heads: 32,
            key_heads: 8,
            head_dim: 128,
            ..Shape::default()
        };
        Shape { context: 40_960, tied: true, ..shape }.config().unwrap()
    }

    #[test]
    fn gates_are_kept_as_far_as_there_is_room() {
        let config = large();
        let pass = PassSize { config: &config, rows: 8192, keep: Keep::Everything, element: 2 };
        assert_eq!(pass.gates(u64::MAX), 36);
        assert_eq!(pass.gates(0), 0);
        let mut before = 0;
        let bytes = |gates| pass.bytes(Stored { gates, ..Stored::default() });
        for limit in (pass.least()..bytes(36) + (1 << 29)).step_by(1 << 28) {
            let gates = pass.gates(limit);
            assert!(gates >= before && bytes(gates) <= limit);
            assert!(gates == 36 || bytes(gates + 1) > limit, "one more would fit");
            before = gates;
        }
        assert_eq!(before, 36);
        assert_eq!(PassSize { keep: Keep::Inputs, ..pass }.gates(u64::MAX), 0, "inputs alone are kept");
    }

    #[test]
    fn norms_and_rotations_are_kept_once_all_gates_are() {
        let config = large();
        let pass = PassSize { config: &config, rows: 8192, keep: Keep::Everything, element: 2 };
        let all = Stored { gates: 36, lent: true, normed: true, rotated: true };
        // Beside weights, gradients and 8-bit moments of four billion parameters within 60 GB.
        assert_eq!(pass.stored(19_500_000_000, true), all);
        assert_eq!(pass.stored(u64::MAX, false), Stored { lent: false, ..all });
        assert_eq!(pass.stored(pass.least(), true), Stored { gates: 36, lent: true, ..Stored::default() });
        let mut before = 0;
        for limit in (pass.least()..pass.bytes(Stored { lent: false, ..all })).step_by(1 << 28) {
            let stored = pass.stored(limit, false);
            assert!(pass.bytes(stored) <= limit && (stored.gates == 36 || !stored.normed && !stored.rotated));
            assert!(pass.bytes(stored) >= before);
            before = pass.bytes(stored);
        }
    }
}
