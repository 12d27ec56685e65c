//! Forward pass over a packed batch.

#![expect(unsafe_code, reason = "tasks write disjoint rows")]

use crate::cpu::block::{After, Before, Gates, Spread};
use crate::cpu::kernels::attention;
use crate::cpu::workspace::{LayerState, ROWS, Workspace};
use crate::cpu::{Cpu, Shared, with_scratch};
use crate::error::Result;
use crate::forest::Forest;
use crate::model::{Keep, Net, Pass, Scored};

impl Net<'_> {
    /// Logprobs and entropies of the targets.
    pub(super) fn forward_pass(&self, pass: Pass<'_>, keep: Keep, ws: &mut Workspace) -> Result<Scored> {
        let rows = pass.forest.rows();
        ws.scored.index(pass.targets, 1.0 / pass.temperature);
        ws.prepare(&self.model.config, rows, ws.scored.rows.len(), keep)?;
        self.stream(pass.forest, ws);
        Ok(self.score(pass.targets, ws))
    }

    /// Hidden states after the final norm, `[rows][hidden]`: the input of the head.
    pub(super) fn hidden(&self, forest: &Forest, ws: &mut Workspace) -> Result<Vec<f32>> {
        let (hidden, rows) = (self.model.config.hidden, forest.rows());
        ws.prepare(&self.model.config, rows, 0, Keep::Nothing)?;
        self.stream(forest, ws);
        let stream = &ws.streams[self.model.config.layers % 2][..rows * hidden];
        let (mut out, mut rstd) = (vec![0.0; rows * hidden], vec![0.0; rows]);
        self.final_norm(self.model.device.isa(), stream, &mut out, &mut rstd);
        Ok(out)
    }

    /// Runs all layers: fills the residual streams and the activations that are kept.
    fn stream(&self, forest: &Forest, ws: &mut Workspace) {
        let rows = forest.rows();
        self.fill_angles(forest, &mut ws.angles);
        self.embed(&forest.tokens, &mut ws.streams[0][..rows * self.model.config.hidden]);
        for layer in 0..self.model.config.layers {
            let (from, to) = match ws.keep {
                Keep::Nothing => (layer % 2, 1 - layer % 2),
                _ => (layer, layer + 1),
            };
            let state = if ws.keep == Keep::Everything { layer } else { 0 };
            let [x, next] = pair(&mut ws.streams, from, to);
            self.attend(layer, forest, &x[..], &ws.angles, &mut ws.layers[state]);
            self.finish_layer(layer, rows, x, &mut ws.layers[state], next);
        }
    }

    /// The first half of a layer, for all rows: queries, keys, values, attention.
    pub(crate) fn attend(&self, layer: usize, forest: &Forest, x: &[f32], angles: &[f32], state: &mut LayerState) {
        let (c, cpu, rows) = (&self.model.config, &self.model.device, forest.rows());
        let (hidden, width, dim) = (c.hidden, c.heads.width(), c.heads.dim);
        let raw_heads = if c.qk_norm { c.heads.queries + c.heads.keys } else { 0 };
        let (rstd, qkv) = (Shared::new(&mut state.rstd), Shared::new(&mut state.qkv));
        let (raw, raw_rstd) = (Shared::new(&mut state.raw), Shared::new(&mut state.raw_rstd));
        by_rows(cpu, rows, |at, n| {
            with_scratch(n * hidden, |normed| {
                // SAFETY: each task has its own rows.
                let mut before = unsafe {
                    Before {
                        normed,
                        rstd: rstd.slice(at, n),
                        raw: raw.slice(at * raw_heads * dim, n * raw_heads * dim),
                        raw_rstd: raw_rstd.slice(at * raw_heads, n * raw_heads),
                        qkv: qkv.slice(at * width, n * width),
                    }
                };
                let x = &x[at * hidden..][..n * hidden];
                self.before_attention(Spread::Here(cpu.isa()), layer, x, &angles[at * dim..][..n * dim], &mut before);
            });
        });
        let out = &mut state.attention[..rows * c.heads.out_width()];
        let lse = &mut state.lse[..rows * c.heads.queries];
        attention::forward(cpu, c.heads, &forest.spans, &state.qkv, out, lse);
    }

    /// The second half of a layer, for all rows.
    fn finish_layer(&self, layer: usize, rows: usize, x: &[f32], state: &mut LayerState, next: &mut [f32]) {
        let (c, cpu) = (&self.model.config, &self.model.device);
        let (hidden, out_width, mlp) = (c.hidden, c.heads.out_width(), c.mlp);
        let attention = &state.attention;
        let (mid, rstd) = (Shared::new(&mut state.mid), Shared::new(&mut state.mid_rstd));
        let (gate_up, next) = (Shared::new(&mut state.gate_up), Shared::new(next));
        by_rows(cpu, rows, |at, n| {
            with_scratch(n * (hidden + mlp), |scratch| {
                let (normed, inner) = scratch.split_at_mut(n * hidden);
                // SAFETY: each task has its own rows.
                let (mut after, next) = unsafe {
                    let gates = Gates {
                        mid: mid.slice(at * hidden, n * hidden),
                        rstd: rstd.slice(at, n),
                        normed,
                        gate_up: gate_up.slice(at * 2 * mlp, n * 2 * mlp),
                    };
                    let after = After { gates, hidden: inner };
                    (after, next.slice(at * hidden, n * hidden))
                };
                let x = &x[at * hidden..][..n * hidden];
                let attention = &attention[at * out_width..][..n * out_width];
                self.after_attention(Spread::Here(cpu.isa()), layer, x, attention, &mut after, next);
            });
        });
    }

    /// RoPE angles of every row: cosines, then sines.
    fn fill_angles(&self, forest: &Forest, angles: &mut [f32]) {
        let dim = self.model.config.heads.dim;
        for (span, &key) in forest.spans.iter().zip(&forest.rope_keys) {
            let table = self.model.weights.angles.get(key, span.position + span.rows.len());
            for row in span.rows.clone() {
                let (cos, sin) = table.at(forest.positions[row] as usize);
                let (to_cos, to_sin) = angles[row * dim..][..dim].split_at_mut(dim / 2);
                to_cos.copy_from_slice(cos);
                to_sin.copy_from_slice(sin);
            }
        }
    }
}

/// Calls `task(first row, rows)` for pieces of [`ROWS`] rows, on all threads.
pub(crate) fn by_rows(cpu: &Cpu, rows: usize, task: impl Fn(usize, usize) + Send + Sync) {
    cpu.parallel(rows.div_ceil(ROWS), |piece| task(piece * ROWS, ROWS.min(rows - piece * ROWS)));
}

/// Two different buffers of a list: one to read, one to write.
fn pair<T>(list: &mut [T], read: usize, write: usize) -> [&mut T; 2] {
    let (low, high) = list.split_at_mut(read.max(write));
    let (a, b) = (&mut low[read.min(write)], &mut high[0]);
    if read < write { [a, b] } else { [b, a] }
}
