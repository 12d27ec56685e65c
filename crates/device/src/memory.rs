//! Bytes that passes take on the device.

use hone_cuda::heads::wide;
use hone_engine::{Config, Keep};

/// Rows of logits that exist at one time.
pub(crate) const CHUNK: usize = 2048;

/// Bytes of the activations of a pass over `rows` tokens, all of them scored, in a storage of `element` bytes.
pub(crate) fn pass_bytes(c: &Config, rows: usize, keep: Keep, element: u64) -> u64 {
    let wide = wide(c.heads.dim).unwrap_or(128);
    let (q, kv) = (c.heads.queries * wide, c.heads.keys * wide);
    let rows64 = rows as u64;
    let layer = element * (2 * c.hidden + c.heads.width() + 2 * q + 2 * kv + 2 * c.mlp) as u64
        + 4 * (c.heads.queries + 2) as u64;
    let kept = match keep {
        Keep::Nothing => layer,
        Keep::Inputs => layer + element * (c.hidden * c.layers) as u64,
        Keep::Everything => layer * c.layers as u64,
    };
    let backward = if keep == Keep::Nothing { 0 } else { 4 };
    let ffn = rows64 * element * ((2 + backward) * c.mlp + 4 * c.hidden) as u64;
    let logits = rows.min(CHUNK) as u64 * c.vocab as u64 * (4 + if backward > 0 { element } else { 0 });
    rows64 * kept + ffn.max(logits + rows64 * element * 3 * c.hidden as u64)
}
