//! Memory of passes on the device, and how many activations a pass can keep.

use hone_cuda::heads::wide;
use hone_engine::{Config, Keep};

/// Number of rows whose logits exist at a time.
pub(crate) const CHUNK: usize = 2048;
/// Headroom on the device, in bytes, beside optional activations: workspaces and fragmentation.
pub(crate) const RESERVE: u64 = 512 << 20;
/// Headroom below the limit, in bytes, for uncounted workspaces and tables.
const MARGIN: u64 = 256 << 20;

/// Size of a pass: number of rows, how many of them are scored, and bytes per value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PassSize<'a> {
    pub(crate) config: &'a Config,
    pub(crate) rows: usize,
    /// Number of scored rows.
    pub(crate) targets: usize,
    pub(crate) keep: Keep,
    pub(crate) element: u64,
}

/// Optional activations that a pass keeps; the backward pass recomputes the others.
///
/// Fields are in the order in which memory is given to them, by the time saved per byte. Per element, gates and ups (of two bytes)
/// and logits (of four) each save the same share of a matrix product; outputs of norms and rotations save passes over memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Number of layers, counted from the last, whose gates and ups are kept: a matrix product each.
    pub(crate) gates: usize,
    /// True if gates and ups are stored in gradient memory, which is budgeted there.
    pub(crate) lent: bool,
    /// Number of chunks of logits, counted from the first, that are kept for the backward pass: a matrix product each. They are
    /// freed before the backward pass of the last layer. One is free: a pass has memory for one chunk anyway.
    pub(crate) logits: usize,
    /// Number of layers, counted from the last, whose norm outputs are kept: two passes over memory each.
    pub(crate) normed: usize,
    /// Number of layers, counted from the last, whose rotated queries and keys are kept: a pass over memory each.
    pub(crate) rotated: usize,
}

impl<'a> PassSize<'a> {
    /// Size of a pass that scores every row.
    pub(crate) fn all_scored(config: &'a Config, rows: usize, keep: Keep, element: u64) -> Self {
        Self { config, rows, targets: rows, keep, element }
    }

    /// Minimum memory: with [`Keep::Everything`] the backward pass recomputes the gates and ups of every layer.
    pub(crate) fn least(self) -> u64 {
        self.bytes(Stored::default())
    }

    /// Number of layers, counted from the last, whose gates and ups fit in `limit` bytes.
    pub(crate) fn gates(self, limit: u64) -> usize {
        let most = if self.keep == Keep::Everything { self.config.layers } else { 0 };
        self.most(limit, most, |gates| Stored { gates, ..Stored::default() })
    }

    /// Optional activations that fit in `limit` bytes, the most expensive to recompute first. Gates and ups in `lent` memory do
    /// not count.
    pub(crate) fn stored(self, limit: u64, lent: bool) -> Stored {
        let gates = if lent { self.config.layers } else { self.gates(limit) };
        let stored = Stored { gates, lent, ..Stored::default() };
        if self.keep == Keep::Nothing {
            return stored;
        }
        let chunks = self.targets.div_ceil(CHUNK);
        // The first has its memory even where nothing is left to choose.
        let logits = self.most(limit, chunks, |logits| Stored { logits, ..stored }).max(1);
        let stored = Stored { logits, ..stored };
        let layers = if self.keep == Keep::Everything { self.config.layers } else { 0 };
        let normed = self.most(limit, layers, |normed| Stored { normed, ..stored });
        let stored = Stored { normed, ..stored };
        let rotated = self.most(limit, layers, |rotated| Stored { rotated, ..stored });
        Stored { rotated, ..stored }
    }

    /// Maximum count, up to `most`, that fits in `limit` bytes with headroom.
    fn most(self, limit: u64, most: usize, with: impl Fn(usize) -> Stored) -> usize {
        let limit = limit - (limit / 64).min(MARGIN);
        (1..=most).rev().find(|&count| self.bytes(with(count)) <= limit).unwrap_or(0)
    }

    /// Peak memory: during the backward pass of a layer, or that of the head.
    fn bytes(self, stored: Stored) -> u64 {
        let Self { config: c, rows, targets, keep, element } = self;
        let wide = wide(c.heads.dim).unwrap_or(128);
        let (q, kv) = (c.heads.queries * wide, c.heads.keys * wide);
        let (rows, layers, hidden) = (rows as u64, c.layers as u64, element * c.hidden as u64);
        let gate_up = element * 2 * c.mlp as u64;
        // Both residual sums, qkv, attention's output; factors of norms and softmax.
        let layer = 2 * hidden + element * (c.heads.width() + q) as u64 + 4 * (c.heads.queries + 2) as u64;
        // Values are copied where heads are not of the kernels' width.
        let copied = if wide == c.heads.dim { 0 } else { kv };
        let own = if stored.lent { 0 } else { stored.gates as u64 };
        let chosen = gate_up * own
            + 2 * hidden * stored.normed as u64
            + element * (q + kv + copied) as u64 * stored.rotated as u64;
        // Per row: what stays, and a layer that leaves nothing or only its input.
        let (kept, passing) = match keep {
            Keep::Nothing => (0, layer + gate_up),
            Keep::Inputs => (hidden * layers, layer + gate_up),
            Keep::Everything => (layer * layers + chosen, 0),
        };
        // The layer whose gates and ups are computed again has them beside those that are kept.
        let again = if keep == Keep::Everything && stored.gates < c.layers { gate_up } else { 0 };
        let backward = if keep == Keep::Nothing { 0 } else { 4 };
        let ffn = element * ((2 + backward) * c.mlp) as u64 + 4 * hidden + again;
        let attention = element * (3 * (q + 2 * kv) + c.heads.width()) as u64 + 4 * hidden;
        let chunk = 4 * targets.min(CHUNK) as u64 * c.vocab.next_multiple_of(8) as u64;
        let head = chunk * stored.logits.max(1) as u64 + 2 * hidden * (rows + targets as u64);
        rows * kept + (rows * (passing + ffn.max(attention))).max(head)
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

    fn pass(config: &Config) -> PassSize<'_> {
        PassSize::all_scored(config, 8192, Keep::Everything, 2)
    }

    /// Limits from the least of a pass to the most that it can use.
    fn limits(pass: PassSize<'_>) -> impl Iterator<Item = u64> {
        let all = Stored { gates: 36, lent: false, logits: 4, normed: 36, rotated: 36 };
        (pass.least()..pass.bytes(all) + (1 << 29)).step_by(1 << 28)
    }

    #[test]
    fn gates_are_kept_as_far_as_there_is_room() {
        let config = large();
        let pass = pass(&config);
        assert_eq!(pass.gates(u64::MAX), 36);
        assert_eq!(pass.gates(0), 0);
        let mut before = 0;
        let bytes = |gates| pass.bytes(Stored { gates, ..Stored::default() });
        for limit in limits(pass) {
            let gates = pass.gates(limit);
            assert!(gates >= before && (gates == 0 || bytes(gates) <= limit));
            assert!(gates == 36 || bytes(gates + 1) + MARGIN > limit, "one more would fit");
            before = gates;
        }
        assert_eq!(before, 36);
        assert_eq!(PassSize { keep: Keep::Inputs, ..pass }.gates(u64::MAX), 0, "inputs alone are kept");
    }

    #[test]
    fn memory_that_is_left_goes_to_logits_then_norms_then_rotations() {
        let config = large();
        let pass = pass(&config);
        let all = Stored { gates: 36, lent: true, logits: 4, normed: 36, rotated: 36 };
        // Beside weights, gradients and 8-bit moments of four billion parameters within 60 GB.
        let stored = pass.stored(19_650_000_000, true);
        assert_eq!(Stored { rotated: 36, ..stored }, all);
        assert!((20..36).contains(&stored.rotated), "{stored:?}");
        assert_eq!(pass.stored(u64::MAX, false), Stored { lent: false, ..all });
        for lent in [false, true] {
            for limit in limits(pass) {
                let stored = pass.stored(limit, lent);
                let order = [stored.gates < 36, stored.logits < 4, stored.normed < 36, stored.rotated == 0];
                assert!(order.is_sorted() || pass.bytes(stored) + (1 << 29) > limit, "{stored:?}");
                assert!(pass.bytes(stored) <= limit, "{stored:?} in {limit}");
            }
        }
    }

    #[test]
    fn one_chunk_of_logits_stays_where_a_backward_pass_follows() {
        let config = large();
        let pass = pass(&config);
        let least = Stored { gates: 36, lent: true, logits: 1, ..Stored::default() };
        assert_eq!(pass.stored(pass.least(), true), least);
        assert_eq!(pass.bytes(Stored { logits: 1, ..Stored::default() }), pass.least());
        for (targets, chunks) in [(8, 1), (2048, 1), (2056, 2)] {
            assert_eq!(PassSize { targets, ..pass }.stored(u64::MAX, true).logits, chunks);
        }
        let inputs = PassSize { keep: Keep::Inputs, ..pass };
        assert_eq!(inputs.stored(u64::MAX, false), Stored { logits: 4, ..Stored::default() });
        assert_eq!(PassSize { keep: Keep::Nothing, ..pass }.stored(u64::MAX, false), Stored::default());
    }
}
