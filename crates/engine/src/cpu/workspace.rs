//! Activation workspace: buffers of a forward and backward pass, allocated before it and kept for the next.

use crate::config::Config;
use crate::cpu::buffer::Buffer;
use crate::cpu::kernels::head::Stats;
use crate::cpu::kernels::matmul::untransposed_len;
use crate::error::{EngineError, Result};
use crate::model::Keep;

/// Rows that one task computes together. Part of the arithmetic of norm gradients, which are summed per piece: not a
/// function of the number of threads.
pub(crate) const ROWS: usize = 64;

/// Columns of the vocabulary whose logits exist together in the backward pass, for all scored rows.
pub(crate) const VOCAB_STEP: usize = 512;

/// Activation workspace: kept activations and scratch. One workspace serves passes of any size.
#[derive(Debug, Default)]
pub struct Workspace {
    /// Bytes the buffers may take; `None` does not limit.
    pub limit: Option<u64>,
    pub(crate) keep: Keep,
    /// Residual stream at the entrance of each layer and after the last.
    pub(crate) streams: Vec<Buffer>,
    pub(crate) layers: Vec<LayerState>,
    /// Cosines and sines per row.
    pub(crate) angles: Buffer,
    /// Scored rows, ascending, and their normalised outputs.
    pub(crate) scored: ScoredRows,
    pub(crate) back: Back,
}

/// One layer's activations.
#[derive(Debug, Default)]
pub(crate) struct LayerState {
    pub(crate) rstd: Buffer,
    pub(crate) raw: Buffer,
    pub(crate) raw_rstd: Buffer,
    pub(crate) qkv: Buffer,
    pub(crate) attention: Buffer,
    pub(crate) lse: Buffer,
    pub(crate) mid: Buffer,
    pub(crate) mid_rstd: Buffer,
    pub(crate) gate_up: Buffer,
}

/// The rows that have targets.
#[derive(Debug, Default)]
pub(crate) struct ScoredRows {
    pub(crate) rows: Vec<usize>,
    /// Targets of each scored row: `order[starts[i]..starts[i + 1]]` are indices of targets.
    pub(crate) starts: Vec<usize>,
    pub(crate) order: Vec<usize>,
    pub(crate) normed: Buffer,
    pub(crate) rstd: Buffer,
    pub(crate) stats: Vec<Stats>,
    pub(crate) inverse_temperature: f32,
}

/// Buffers of the backward pass.
#[derive(Debug, Default)]
pub(crate) struct Back {
    /// Gradient of the residual stream after the current layer.
    pub(crate) dx: Buffer,
    /// Gradient of the residual stream between attention and MLP.
    pub(crate) dmid: Buffer,
    /// Normalised inputs, recomputed.
    pub(crate) normed: Buffer,
    pub(crate) hidden: Buffer,
    pub(crate) dattention: Buffer,
    pub(crate) dqkv: Buffer,
    pub(crate) delta: Buffer,
    /// Untransposed weights of the current layer, for dX = dY W.
    pub(crate) untransposed: Buffer,
    /// Norm gradients per piece of rows.
    pub(crate) partial: Buffer,
    pub(crate) dlogits: Buffer,
    pub(crate) dnormed: Buffer,
    /// Inner activations of an adapter and their gradients, for all rows.
    pub(crate) inner: Buffer,
    pub(crate) dinner: Buffer,
}

impl Workspace {
    /// Bytes that a pass over `rows` tokens needs, all of them scored.
    pub fn bytes(c: &Config, rows: usize, keep: Keep) -> u64 {
        4 * Self::floats(c, rows, rows, keep) as u64
    }

    /// Makes room for a forward pass.
    pub(crate) fn prepare(&mut self, c: &Config, rows: usize, scored: usize, keep: Keep) -> Result<()> {
        self.keep = keep;
        if let Some(limit) = self.limit {
            let needed = 4 * Self::floats(c, rows, scored, keep) as u64;
            if needed > limit {
                return Err(EngineError::Memory { needed, limit, rows });
            }
        }
        let streams = if keep == Keep::Nothing { 2 } else { c.layers + 1 };
        let layers = if keep == Keep::Everything { c.layers } else { 1 };
        self.streams.resize_with(streams.max(self.streams.len()), Buffer::default);
        self.layers.resize_with(layers.max(self.layers.len()), LayerState::default);
        for stream in &mut self.streams[..streams] {
            stream.grow(rows * c.hidden);
        }
        for layer in &mut self.layers[..layers] {
            layer.grow(c, rows);
        }
        self.angles.grow(rows * c.heads.dim);
        self.scored.normed.grow(scored * c.hidden);
        self.scored.rstd.grow(scored);
        Ok(())
    }

    /// Floats that a forward pass (and its backward pass, if anything is kept for one) needs.
    pub(crate) fn floats(c: &Config, rows: usize, scored: usize, keep: Keep) -> usize {
        let streams = if keep == Keep::Nothing { 2 } else { c.layers + 1 };
        let layers = if keep == Keep::Everything { c.layers } else { 1 };
        let forward =
            rows * (streams * c.hidden + layers * LayerState::width(c) + c.heads.dim) + scored * (c.hidden + 1);
        match keep {
            Keep::Nothing => forward,
            _ => forward + Back::sizes(c, rows, scored).iter().sum::<usize>(),
        }
    }
}

impl LayerState {
    fn widths(c: &Config) -> [usize; 9] {
        let rotated = if c.qk_norm { c.heads.queries + c.heads.keys } else { 0 };
        [
            1,
            rotated * c.heads.dim,
            rotated,
            c.heads.width(),
            c.heads.out_width(),
            c.heads.queries,
            c.hidden,
            1,
            2 * c.mlp,
        ]
    }

    fn width(c: &Config) -> usize {
        Self::widths(c).iter().sum()
    }

    fn grow(&mut self, c: &Config, rows: usize) {
        let buffers = [
            &mut self.rstd,
            &mut self.raw,
            &mut self.raw_rstd,
            &mut self.qkv,
            &mut self.attention,
            &mut self.lse,
            &mut self.mid,
            &mut self.mid_rstd,
            &mut self.gate_up,
        ];
        for (buffer, width) in buffers.into_iter().zip(Self::widths(c)) {
            buffer.grow(rows * width);
        }
    }
}

impl Back {
    fn sizes(c: &Config, rows: usize, scored: usize) -> [usize; 11] {
        let (width, out) = (c.heads.width(), c.heads.out_width());
        let untransposed = untransposed_len(width, c.hidden)
            + untransposed_len(c.hidden, out)
            + untransposed_len(2 * c.mlp, c.hidden)
            + untransposed_len(c.hidden, c.mlp);
        let step = VOCAB_STEP.min(c.vocab);
        [
            rows * c.hidden,
            rows * c.hidden,
            rows * c.hidden,
            rows * c.mlp,
            rows * out,
            rows * width,
            rows * c.heads.queries,
            untransposed.max(untransposed_len(step, c.hidden)),
            rows.max(scored).div_ceil(ROWS) * (c.hidden + 2 * c.heads.dim),
            scored * step,
            scored * c.hidden,
        ]
    }

    pub(crate) fn grow(&mut self, c: &Config, rows: usize, scored: usize) {
        let buffers = [
            &mut self.dx,
            &mut self.dmid,
            &mut self.normed,
            &mut self.hidden,
            &mut self.dattention,
            &mut self.dqkv,
            &mut self.delta,
            &mut self.untransposed,
            &mut self.partial,
            &mut self.dlogits,
            &mut self.dnormed,
        ];
        for (buffer, size) in buffers.into_iter().zip(Self::sizes(c, rows, scored)) {
            buffer.grow(size);
        }
    }
}
