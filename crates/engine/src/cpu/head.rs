//! LM head over a packed batch: logprobs, entropies and their gradient, one chunk of the vocabulary at a time, so that
//! the `[rows][vocab]` logits are never materialised.

#![expect(unsafe_code, reason = "tasks write disjoint rows")]

use crate::cpu::backward::add_pieces;
use crate::cpu::forward::by_rows;
use crate::cpu::kernels::head::{self, RowGrad, Stats, VOCAB};
use crate::cpu::kernels::matmul::{self, Accumulate};
use crate::cpu::kernels::matrix::{MatMut, MatRef};
use crate::cpu::kernels::norm;
use crate::cpu::workspace::{Back, ROWS, ScoredRows, VOCAB_STEP, Workspace};
use crate::cpu::{Shared, with_scratch};
use crate::forest::Target;
use crate::model::{Keep, LossGradients, Net, Scored};

/// Rows whose logits exist together in the forward pass.
const HEAD_ROWS: usize = 48;

impl ScoredRows {
    /// Finds the rows that have targets and the targets of each.
    pub(crate) fn index(&mut self, targets: &[Target], inverse_temperature: f32) {
        self.inverse_temperature = inverse_temperature;
        self.order.clear();
        self.order.extend(0..targets.len());
        self.order.sort_by_key(|&i| targets[i].row);
        self.rows.clear();
        self.starts.clear();
        for (at, &i) in self.order.iter().enumerate() {
            if self.rows.last() != Some(&targets[i].row) {
                self.rows.push(targets[i].row);
                self.starts.push(at);
            }
        }
        self.starts.push(targets.len());
        self.stats.clear();
        self.stats.resize(self.rows.len(), Stats::default());
    }
}

/// The targets of a scored row, as indices.
fn targets_of<'a>(starts: &[usize], order: &'a [usize], row: usize) -> &'a [usize] {
    &order[starts[row]..starts[row + 1]]
}

impl Net<'_> {
    /// Norm and head of the scored rows.
    pub(crate) fn score(&self, targets: &[Target], ws: &mut Workspace) -> Scored {
        let (c, cpu) = (&self.model.config, &self.model.device);
        let (hidden, stream) = (c.hidden, &ws.streams[ws.last_stream(c.layers)]);
        let (inverse, scored) = (ws.scored.inverse_temperature, &mut ws.scored);
        let (rows, starts, order) = (&scored.rows, &scored.starts, &scored.order);
        // A row's own logit per target, until its denominator is known.
        let mut out = Scored { logprobs: vec![0.0; targets.len()], entropies: vec![0.0; targets.len()] };
        let (logprobs, entropies) = (Shared::new(&mut out.logprobs), Shared::new(&mut out.entropies));
        let (normed, rstd) = (Shared::new(&mut scored.normed), Shared::new(&mut scored.rstd));
        let stats = Shared::new(&mut scored.stats);
        cpu.parallel(rows.len().div_ceil(HEAD_ROWS), |task| {
            let (first, n) = (task * HEAD_ROWS, HEAD_ROWS.min(rows.len() - task * HEAD_ROWS));
            with_scratch(n * (hidden + VOCAB), |scratch| {
                let (x, logits) = scratch.split_at_mut(n * hidden);
                for (to, row) in x.chunks_exact_mut(hidden).zip(&rows[first..]) {
                    to.copy_from_slice(&stream[row * hidden..][..hidden]);
                }
                // SAFETY: each task has its own scored rows, and a target belongs to one row.
                unsafe {
                    let (normed, stats) = (normed.slice(first * hidden, n * hidden), stats.slice(first, n));
                    self.final_norm(cpu.isa(), x, normed, rstd.slice(first, n));
                    self.read_vocabulary(normed, logits, |v0, i, logits| {
                        head::absorb(cpu.isa(), logits, inverse, &mut stats[i]);
                        for &t in targets_of(starts, order, first + i) {
                            let column = (targets[t].token as usize).checked_sub(v0);
                            if let Some(z) = column.and_then(|v| logits.get(v)) {
                                logprobs.slice(t, 1)[0] = *z;
                            }
                        }
                    });
                    for (i, stats) in stats.iter().enumerate() {
                        for &t in targets_of(starts, order, first + i) {
                            let logprob = &mut logprobs.slice(t, 1)[0];
                            *logprob = stats.logprob(*logprob);
                            entropies.slice(t, 1)[0] = stats.entropy();
                        }
                    }
                }
            });
        });
        out
    }

    /// Calls `visit(first column, row, logits)` for every chunk of the logits of a few rows.
    fn read_vocabulary(&self, normed: &[f32], logits: &mut [f32], mut visit: impl FnMut(usize, usize, &mut [f32])) {
        let (c, w, isa) = (&self.model.config, &self.model.weights, self.model.device.isa());
        let normed = MatRef::of_rows(normed, c.hidden);
        for v0 in (0..c.vocab).step_by(VOCAB) {
            let width = VOCAB.min(c.vocab - v0);
            let chunk = MatMut::new(&mut *logits, normed.rows, width, VOCAB);
            matmul::outputs(isa, normed, w.packed(w.head), v0, chunk, Accumulate::Store);
            for (row, logits) in logits.chunks_exact_mut(VOCAB).take(normed.rows).enumerate() {
                visit(v0, row, &mut logits[..width]);
            }
        }
    }

    /// Backward pass of head and final norm: writes the gradient of the last residual stream to `back.dx`, and adds the
    /// gradients of head and norm where they are trained.
    pub(crate) fn score_backward(
        &self,
        targets: &[Target],
        gradients: LossGradients<'_>,
        ws: &mut Workspace,
        mut full: Option<&mut [f32]>,
        rows: usize,
    ) {
        let (c, p) = (&self.model.config, &self.model.weights.params);
        let scored_rows = ws.scored.rows.len();
        ws.back.grow(c, rows, scored_rows);
        ws.back.dx[..rows * c.hidden].fill(0.0);
        if scored_rows == 0 {
            return;
        }
        let grads = row_grads(&ws.scored, gradients);
        ws.back.dnormed[..scored_rows * c.hidden].fill(0.0);
        for v0 in (0..c.vocab).step_by(VOCAB_STEP) {
            self.vocabulary_step(v0, targets, gradients, &grads, &ws.scored, &mut ws.back);
            if let Some(full) = &mut full {
                let step = VOCAB_STEP.min(c.vocab - v0);
                let grad = &mut full[p.head.start + v0 * c.hidden..][..step * c.hidden];
                let dy = MatRef::new(&ws.back.dlogits, scored_rows, step, VOCAB_STEP.min(c.vocab));
                let x = MatRef::new(&ws.scored.normed, scored_rows, c.hidden, c.hidden);
                matmul::outer(&self.model.device, dy, x, grad);
            }
        }
        self.final_norm_backward(ws, full);
    }

    /// Gradients of one chunk of logits for all scored rows, and their share of the gradient of the rows.
    fn vocabulary_step(
        &self,
        v0: usize,
        targets: &[Target],
        gradients: LossGradients<'_>,
        grads: &[RowGrad],
        scored: &ScoredRows,
        back: &mut Back,
    ) {
        let (c, cpu, w) = (&self.model.config, &self.model.device, &self.model.weights);
        let (hidden, inverse) = (c.hidden, scored.inverse_temperature);
        let (stride, step) = (VOCAB_STEP.min(c.vocab), VOCAB_STEP.min(c.vocab - v0));
        let head = &w.values[w.params.head.start + v0 * hidden..][..step * hidden];
        matmul::pack_untransposed(cpu, head, step, hidden, &mut back.untransposed);
        let untransposed = &back.untransposed;
        let (dlogits, dnormed) = (Shared::new(&mut back.dlogits), Shared::new(&mut back.dnormed));
        cpu.parallel(grads.len().div_ceil(HEAD_ROWS), |task| {
            let (first, n) = (task * HEAD_ROWS, HEAD_ROWS.min(grads.len() - task * HEAD_ROWS));
            // SAFETY: each task has its own scored rows.
            let (logits, dx) =
                unsafe { (dlogits.slice(first * stride, n * stride), dnormed.slice(first * hidden, n * hidden)) };
            let x = MatRef::new(&scored.normed[first * hidden..], n, hidden, hidden);
            let chunk = MatMut::new(&mut *logits, n, step, stride);
            matmul::outputs(cpu.isa(), x, w.packed(w.head), v0, chunk, Accumulate::Store);
            for (i, row) in logits.chunks_exact_mut(stride).enumerate() {
                let row = &mut row[..step];
                head::gradient(cpu.isa(), row, inverse, grads[first + i]);
                for &t in targets_of(&scored.starts, &scored.order, first + i) {
                    if let Some(d) = (targets[t].token as usize).checked_sub(v0).and_then(|v| row.get_mut(v)) {
                        *d += gradients.dlogp[t] * inverse;
                    }
                }
            }
            let dlogits = MatRef::new(logits, n, step, stride);
            matmul::rows_untransposed(cpu.isa(), dlogits, untransposed, MatMut::of_rows(dx, hidden), Accumulate::Add);
        });
    }

    fn final_norm_backward(&self, ws: &mut Workspace, full: Option<&mut [f32]>) {
        let (c, cpu, w) = (&self.model.config, &self.model.device, &self.model.weights);
        let (hidden, weight) = (c.hidden, &w.values[w.params.norm.clone()]);
        let stream = &ws.streams[ws.last_stream(c.layers)];
        let (scored, dnormed) = (&ws.scored, &ws.back.dnormed);
        let count = scored.rows.len();
        let (dx, partial) = (Shared::new(&mut ws.back.dx), Shared::new(&mut ws.back.partial));
        by_rows(cpu, count, |at, n| {
            // SAFETY: each task has its own scored rows, which are different rows of the stream.
            unsafe {
                let sums = partial.slice(at / ROWS * hidden, hidden);
                sums.fill(0.0);
                for i in at..at + n {
                    let row = scored.rows[i];
                    let (x, dy) = (&stream[row * hidden..][..hidden], &dnormed[i * hidden..][..hidden]);
                    norm::backward(cpu.isa(), x, weight, &scored.rstd[i..=i], dy, dx.slice(row * hidden, hidden), sums);
                }
            }
        });
        if let Some(full) = full {
            add_pieces(&ws.back.partial, count, hidden, &mut full[w.params.norm.clone()]);
        }
    }
}

fn row_grads(scored: &ScoredRows, gradients: LossGradients<'_>) -> Vec<RowGrad> {
    let one = |(row, stats): (usize, &Stats)| {
        let targets = targets_of(&scored.starts, &scored.order, row);
        RowGrad {
            dlogp: targets.iter().map(|&t| gradients.dlogp[t]).sum(),
            dentropy: targets.iter().map(|&t| gradients.dentropy.get(t).copied().unwrap_or(0.0)).sum(),
            lse: stats.lse(),
            entropy: stats.entropy(),
        }
    };
    scored.stats.iter().enumerate().map(one).collect()
}

impl Workspace {
    /// Index of the stream after the last layer.
    fn last_stream(&self, layers: usize) -> usize {
        if self.keep == Keep::Nothing { layers % 2 } else { layers }
    }
}
