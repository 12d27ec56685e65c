//! Backward pass over a packed batch, written out by hand.
//!
//! Each layer is two sweeps over the rows (MLP, then projections) with attention between them, and one product per
//! weight matrix. A gradient is added in the same order on any number of threads.

#![expect(unsafe_code, reason = "tasks write disjoint rows")]

use crate::cpu::forward::by_rows;
use crate::cpu::kernels::attention::{self, BackwardInput};
use crate::cpu::kernels::matmul::{self, Accumulate, pack_untransposed, rows_untransposed, untransposed_len};
use crate::cpu::kernels::matrix::{MatMut, MatRef};
use crate::cpu::kernels::{norm, rope, swiglu};
use crate::cpu::lora::{Inner, Site};
use crate::cpu::{Shared, with_scratch};
use crate::error::{EngineError, Result};
use crate::forest::Forest;
use crate::lora::Module;
use crate::model::{Keep, LossGradients, Net, Pass, Trained};

use crate::cpu::block::{Gates, Projection, Spread, modules};
use crate::cpu::workspace::{Back, LayerState, ROWS, Workspace};

/// Gradients of the trained parameters, on the host.
enum Grads<'g> {
    Full(&'g mut [f32]),
    Adapter(&'g mut [f32]),
}

impl<'g> From<Trained<'g>> for Grads<'g> {
    fn from(trained: Trained<'g>) -> Self {
        match trained {
            Trained::Full(grad) => Self::Full(grad),
            Trained::Adapter(grad) => Self::Adapter(grad),
        }
    }
}

impl Grads<'_> {
    fn full(&mut self) -> Option<&mut [f32]> {
        match self {
            Self::Full(grad) => Some(grad),
            Self::Adapter(_) => None,
        }
    }
}

/// Untransposed weights of a layer, laid out for dX = dY W.
struct Untransposed<'a> {
    down: &'a [f32],
    gate_up: &'a [f32],
    out: &'a [f32],
    qkv: &'a [f32],
}

/// Input of a layer in the backward pass: the rows that entered it.
#[derive(Clone, Copy)]
struct LayerInput<'a> {
    layer: usize,
    forest: &'a Forest,
    /// Residual stream, `[rows][hidden]`.
    x: &'a [f32],
    /// RoPE angles, `[rows][dim]`.
    angles: &'a [f32],
}

/// Inner gradients of an adapter: `rows` rows per module; a task writes those from `at` on.
#[derive(Clone, Copy)]
struct InnerRows<'a> {
    gradients: Shared<'a>,
    rows: usize,
    at: usize,
}

impl Net<'_> {
    /// Adds the gradient of the loss to `trained`.
    pub(super) fn backward_pass(
        &self,
        pass: Pass<'_>,
        gradients: LossGradients<'_>,
        ws: &mut Workspace,
        trained: Trained<'_>,
    ) -> Result<()> {
        let (c, rows, mut trained) = (&self.model.config, pass.forest.rows(), Grads::from(trained));
        if ws.keep == Keep::Nothing || ws.scored.order.len() != pass.targets.len() {
            let what = "the preceding forward pass was of another batch or kept no activations";
            return Err(EngineError::Batch(what.into()));
        }
        self.score_backward(pass.targets, gradients, ws, trained.full(), rows);
        for layer in (0..c.layers).rev() {
            let state = if ws.keep == Keep::Everything { layer } else { 0 };
            let x = &ws.streams[layer];
            if ws.keep == Keep::Inputs {
                self.attend(layer, pass.forest, x, &ws.angles, &mut ws.layers[state]);
                self.gates_again(layer, rows, x, &mut ws.layers[state]);
            }
            let input = LayerInput { layer, forest: pass.forest, x, angles: &ws.angles };
            self.layer_backward(input, &mut ws.layers[state], &mut ws.back, &mut trained);
        }
        if let Some(full) = trained.full() {
            let grad = &mut full[self.model.weights.params.embed.clone()];
            for (&token, dx) in pass.forest.tokens.iter().zip(ws.back.dx.chunks_exact(c.hidden)) {
                grad[token as usize * c.hidden..][..c.hidden].iter_mut().zip(dx).for_each(|(g, d)| *g += d);
            }
        }
        Ok(())
    }

    /// Activation recomputation (gradient checkpointing): the part of a layer's second half that [`Keep::Inputs`] did
    /// not keep.
    fn gates_again(&self, layer: usize, rows: usize, x: &[f32], state: &mut LayerState) {
        let (c, cpu) = (&self.model.config, &self.model.device);
        let (hidden, out_width) = (c.hidden, c.heads.out_width());
        let attention = &state.attention;
        let (mid, rstd) = (Shared::new(&mut state.mid), Shared::new(&mut state.mid_rstd));
        let gate_up = Shared::new(&mut state.gate_up);
        by_rows(cpu, rows, |at, n| {
            with_scratch(n * hidden, |normed| {
                // SAFETY: each task has its own rows.
                let (mid, rstd, gate_up) = unsafe {
                    (
                        mid.slice(at * hidden, n * hidden),
                        rstd.slice(at, n),
                        gate_up.slice(at * 2 * c.mlp, n * 2 * c.mlp),
                    )
                };
                let (x, attention) = (&x[at * hidden..][..n * hidden], &attention[at * out_width..][..n * out_width]);
                let mut gates = Gates { mid, rstd, normed, gate_up };
                self.up_to_gates(Spread::Here(cpu.isa()), layer, x, attention, &mut gates);
            });
        });
    }

    /// Backward pass of one layer: turns `back.dx` from the gradient of the layer's output into that of its input.
    fn layer_backward(&self, input: LayerInput<'_>, state: &mut LayerState, back: &mut Back, trained: &mut Grads<'_>) {
        let (c, cpu, layer) = (&self.model.config, &self.model.device, input.layer);
        let p = &self.model.weights.params.layers[layer];
        let (rows, hidden, out_width) = (input.forest.rows(), c.hidden, c.heads.out_width());
        self.pack_layer(layer, &mut back.untransposed);
        self.mlp_rows(layer, rows, state, back);
        if let Some(full) = trained.full() {
            add_pieces(&back.partial, rows, hidden, &mut full[p.post_norm.clone()]);
        }
        let matrix = |data, cols| MatRef::new(data, rows, cols, cols);
        let inner = &mut Inner { values: &mut back.inner, gradients: &back.dinner };
        let (dx, dgates) = (matrix(&back.dx, hidden), matrix(&state.gate_up, 2 * c.mlp));
        self.weight_gradient(layer, Projection::Down, dx, matrix(&back.hidden, c.mlp), trained, inner);
        self.weight_gradient(layer, Projection::GateUp, dgates, matrix(&back.normed, hidden), trained, inner);
        let (dmid, attended) = (matrix(&back.dmid, hidden), matrix(&state.attention, out_width));
        self.weight_gradient(layer, Projection::Out, dmid, attended, trained, inner);

        let from = BackwardInput { qkv: &state.qkv, out: &state.attention, lse: &state.lse, dout: &back.dattention };
        attention::backward(cpu, c.heads, &input.forest.spans, from, &mut back.delta, &mut back.dqkv);

        self.qkv_rows(input, state, back);
        if let Some(full) = trained.full() {
            let stride = hidden + 2 * c.heads.dim;
            add_columns(&back.partial, rows, stride, 0, &mut full[p.input_norm.clone()]);
            if let Some((q_norm, k_norm)) = &p.qk_norm {
                add_columns(&back.partial, rows, stride, hidden, &mut full[q_norm.clone()]);
                add_columns(&back.partial, rows, stride, hidden + c.heads.dim, &mut full[k_norm.clone()]);
            }
        }
        let matrix = |data, cols| MatRef::new(data, rows, cols, cols);
        let inner = &mut Inner { values: &mut back.inner, gradients: &back.dinner };
        let (dqkv, normed) = (matrix(&back.dqkv, c.heads.width()), matrix(&back.normed, hidden));
        self.weight_gradient(layer, Projection::Qkv, dqkv, normed, trained, inner);
    }

    /// Rows from the layer's output back to the attention's: fills `dmid`, `dattention`, `hidden`, `normed`, and
    /// replaces `gate_up` by its gradient.
    fn mlp_rows(&self, layer: usize, rows: usize, state: &mut LayerState, back: &mut Back) {
        let (c, cpu, w) = (&self.model.config, &self.model.device, &self.model.weights);
        let (hidden, mlp, out_width, isa) = (c.hidden, c.mlp, c.heads.out_width(), cpu.isa());
        let untransposed = self.untransposed(&back.untransposed);
        let weight = &w.values[w.params.layers[layer].post_norm.clone()];
        self.grow_inner(rows, &mut back.inner, &mut back.dinner);
        let (dx, mid, mid_rstd) = (&back.dx, &state.mid, &state.mid_rstd);
        let (gate_up, inner) = (Shared::new(&mut state.gate_up), Shared::new(&mut back.dinner));
        let (dmid, dattention) = (Shared::new(&mut back.dmid), Shared::new(&mut back.dattention));
        let (normed, h, partial) =
            (Shared::new(&mut back.normed), Shared::new(&mut back.hidden), Shared::new(&mut back.partial));
        by_rows(cpu, rows, |at, n| {
            let inner = InnerRows { gradients: inner, rows, at };
            with_scratch(n * (mlp + hidden), |scratch| {
                let (dh, dn) = scratch.split_at_mut(n * mlp);
                // SAFETY: each task has its own rows and its own piece of the norm gradient.
                unsafe {
                    let dx = &dx[at * hidden..][..n * hidden];
                    let (x, y) = (MatRef::of_rows(dx, hidden), MatMut::of_rows(&mut *dh, mlp));
                    rows_untransposed(isa, x, untransposed.down, y, Accumulate::Store);
                    self.adapter_rows(layer, Projection::Down, dx, dh, inner);
                    let gate_up = gate_up.slice(at * 2 * mlp, n * 2 * mlp);
                    swiglu::backward(isa, gate_up, mlp, dh, h.slice(at * mlp, n * mlp));

                    let (mid, rstd) = (&mid[at * hidden..][..n * hidden], &mid_rstd[at..at + n]);
                    norm::apply(isa, mid, weight, rstd, normed.slice(at * hidden, n * hidden));
                    let (x, y) = (MatRef::of_rows(gate_up, 2 * mlp), MatMut::of_rows(&mut *dn, hidden));
                    rows_untransposed(isa, x, untransposed.gate_up, y, Accumulate::Store);
                    self.adapter_rows(layer, Projection::GateUp, gate_up, dn, inner);
                    let dmid = dmid.slice(at * hidden, n * hidden);
                    dmid.copy_from_slice(dx);
                    let sums = partial.slice(at / ROWS * hidden, hidden);
                    sums.fill(0.0);
                    norm::backward(isa, mid, weight, rstd, dn, dmid, sums);

                    let dout = dattention.slice(at * out_width, n * out_width);
                    let (x, y) = (MatRef::of_rows(dmid, hidden), MatMut::of_rows(&mut *dout, out_width));
                    rows_untransposed(isa, x, untransposed.out, y, Accumulate::Store);
                    self.adapter_rows(layer, Projection::Out, dmid, dout, inner);
                }
            });
        });
    }

    /// Rows from queries, keys and values back to the layer's input: rotates `dqkv` back, fills `normed` and `dx`.
    fn qkv_rows(&self, input: LayerInput<'_>, state: &LayerState, back: &mut Back) {
        let LayerInput { layer, forest, x, angles } = input;
        let (c, cpu, w) = (&self.model.config, &self.model.device, &self.model.weights);
        let (hidden, width, dim, isa) = (c.hidden, c.heads.width(), c.heads.dim, cpu.isa());
        let stride = hidden + 2 * dim;
        let untransposed = self.untransposed(&back.untransposed);
        let weight = &w.values[w.params.layers[layer].input_norm.clone()];
        let (dmid, inner) = (&back.dmid, Shared::new(&mut back.dinner));
        let (dqkv, normed) = (Shared::new(&mut back.dqkv), Shared::new(&mut back.normed));
        let (dx, partial) = (Shared::new(&mut back.dx), Shared::new(&mut back.partial));
        let rows = forest.rows();
        by_rows(cpu, rows, |at, n| {
            let inner = InnerRows { gradients: inner, rows, at };
            with_scratch(n * hidden, |dn| {
                // SAFETY: each task has its own rows and its own piece of the norm gradients.
                unsafe {
                    let dqkv = dqkv.slice(at * width, n * width);
                    let (sums, qk_sums) = partial.slice(at / ROWS * stride, stride).split_at_mut(hidden);
                    sums.fill(0.0);
                    qk_sums.fill(0.0);
                    self.rotate_back(layer, at, angles, state, dqkv, qk_sums);
                    let (x, rstd) = (&x[at * hidden..][..n * hidden], &state.rstd[at..at + n]);
                    norm::apply(isa, x, weight, rstd, normed.slice(at * hidden, n * hidden));
                    let (dy, dnormed) = (MatRef::of_rows(dqkv, width), MatMut::of_rows(&mut *dn, hidden));
                    rows_untransposed(isa, dy, untransposed.qkv, dnormed, Accumulate::Store);
                    self.adapter_rows(layer, Projection::Qkv, dqkv, dn, inner);
                    let dx = dx.slice(at * hidden, n * hidden);
                    dx.copy_from_slice(&dmid[at * hidden..][..n * hidden]);
                    norm::backward(isa, x, weight, rstd, dn, dx, sums);
                }
            });
        });
    }

    /// Backward pass of RoPE and query-key norm for a few rows from `at`.
    fn rotate_back(
        &self,
        layer: usize,
        at: usize,
        angles: &[f32],
        state: &LayerState,
        dqkv: &mut [f32],
        sums: &mut [f32],
    ) {
        let (c, w, isa) = (&self.model.config, &self.model.weights, self.model.device.isa());
        let (dim, heads) = (c.heads.dim, c.heads.queries + c.heads.keys);
        let (rotated, queries) = (heads * dim, c.heads.out_width());
        with_scratch(rotated, |scratch| {
            for (i, row) in dqkv.chunks_exact_mut(c.heads.width()).enumerate() {
                let (cos, sin) = angles[(at + i) * dim..][..dim].split_at(dim / 2);
                let dqk = &mut row[..rotated];
                rope::backward(isa, dqk, cos, sin);
                if let Some((q_norm, k_norm)) = &w.params.layers[layer].qk_norm {
                    let raw = &state.raw[(at + i) * rotated..][..rotated];
                    let rstd = &state.raw_rstd[(at + i) * heads..][..heads];
                    let (q_sums, k_sums) = sums.split_at_mut(dim);
                    scratch.fill(0.0);
                    let (dq, dk) = scratch.split_at_mut(queries);
                    let (q, k) = raw.split_at(queries);
                    norm::backward(
                        isa,
                        q,
                        &w.values[q_norm.clone()],
                        &rstd[..c.heads.queries],
                        &dqk[..queries],
                        dq,
                        q_sums,
                    );
                    norm::backward(
                        isa,
                        k,
                        &w.values[k_norm.clone()],
                        &rstd[c.heads.queries..],
                        &dqk[queries..],
                        dk,
                        k_sums,
                    );
                    dqk.copy_from_slice(scratch);
                }
            }
        });
    }

    /// Adds the gradient of a projection's parameters, from that of its outputs and its inputs.
    fn weight_gradient(
        &self,
        layer: usize,
        which: Projection,
        dy: MatRef<'_>,
        x: MatRef<'_>,
        trained: &mut Grads<'_>,
        inner: &mut Inner<'_>,
    ) {
        let (cpu, p) = (&self.model.device, &self.model.weights.params.layers[layer]);
        let (range, bias) = match which {
            Projection::Qkv => (&p.qkv, &p.qkv_bias),
            Projection::Out => (&p.out, &p.out_bias),
            Projection::GateUp => (&p.gate_up, &p.gate_up_bias),
            Projection::Down => (&p.down, &p.down_bias),
        };
        match trained {
            Grads::Full(full) => {
                matmul::outer(cpu, dy, x, &mut full[range.clone()]);
                if let Some(bias) = bias {
                    let sums = &mut full[bias.clone()];
                    for dy in dy.data[..dy.rows * dy.cols].chunks_exact(dy.cols) {
                        sums.iter_mut().zip(dy).for_each(|(s, d)| *s += d);
                    }
                }
            }
            Grads::Adapter(grad) => {
                if let Some(adapter) = self.adapter.map(|a| &a.weights) {
                    for &module in modules(which) {
                        let gradients = &inner.gradients[slot(module) * dy.rows * adapter.rank()..];
                        let inner = &mut Inner { values: &mut *inner.values, gradients };
                        adapter.gradient(cpu, Site { layer, module }, dy, x, inner, grad);
                    }
                }
            }
        }
    }

    /// The adapter's share of an input gradient for a few rows; leaves the inner gradients in `inner`.
    ///
    /// # Safety
    /// No other task may hold these rows of `inner`.
    unsafe fn adapter_rows(&self, layer: usize, which: Projection, dy: &[f32], dx: &mut [f32], inner: InnerRows<'_>) {
        let Some(adapter) = self.adapter.map(|a| &a.weights) else { return };
        let c = &self.model.config;
        let (n, k) = match which {
            Projection::Qkv => (c.heads.width(), c.hidden),
            Projection::Out => (c.hidden, c.heads.out_width()),
            Projection::GateUp => (2 * c.mlp, c.hidden),
            Projection::Down => (c.hidden, c.mlp),
        };
        let (dy, rank) = (MatRef::of_rows(dy, n), adapter.rank());
        for &module in modules(which) {
            let first = slot(module) * inner.rows + inner.at;
            // SAFETY: each module has its own slot, and these rows are this task's.
            let dinner = unsafe { inner.gradients.slice(first * rank, dy.rows * rank) };
            let dx = MatMut::of_rows(&mut *dx, k);
            adapter.input_gradient(self.model.device.isa(), Site { layer, module }, dy, dx, dinner);
        }
    }

    fn grow_inner(&self, rows: usize, inner: &mut crate::cpu::buffer::Buffer, dinner: &mut crate::cpu::buffer::Buffer) {
        if let Some(adapter) = self.adapter.map(|a| &a.weights) {
            inner.grow(rows * adapter.rank());
            dinner.grow(4 * rows * adapter.rank());
        }
    }

    fn pack_layer(&self, layer: usize, out: &mut [f32]) {
        let (c, cpu, w) = (&self.model.config, &self.model.device, &self.model.weights);
        let (p, width, out_width) = (&w.params.layers[layer], c.heads.width(), c.heads.out_width());
        let mut rest = out;
        for (range, n, k) in [
            (&p.down, c.hidden, c.mlp),
            (&p.gate_up, 2 * c.mlp, c.hidden),
            (&p.out, c.hidden, out_width),
            (&p.qkv, width, c.hidden),
        ] {
            let (to, after) = rest.split_at_mut(untransposed_len(n, k));
            pack_untransposed(cpu, &w.values[range.clone()], n, k, to);
            rest = after;
        }
    }

    fn untransposed<'b>(&self, buffer: &'b [f32]) -> Untransposed<'b> {
        let c = &self.model.config;
        let (down, rest) = buffer.split_at(untransposed_len(c.hidden, c.mlp));
        let (gate_up, rest) = rest.split_at(untransposed_len(2 * c.mlp, c.hidden));
        let (out, qkv) = rest.split_at(untransposed_len(c.hidden, c.heads.out_width()));
        Untransposed { down, gate_up, out, qkv }
    }
}

/// Slot of a module in the inner gradients. Modules of one sweep over the rows have different ones.
fn slot(module: Module) -> usize {
    match module {
        Module::Q | Module::Gate => 0,
        Module::K | Module::Up => 1,
        Module::V | Module::Down => 2,
        Module::O => 3,
    }
}

/// Adds up the pieces of a norm gradient, in order.
pub(crate) fn add_pieces(partial: &[f32], rows: usize, width: usize, out: &mut [f32]) {
    add_columns(partial, rows, width, 0, out);
}

fn add_columns(partial: &[f32], rows: usize, stride: usize, column: usize, out: &mut [f32]) {
    for piece in partial.chunks_exact(stride).take(rows.div_ceil(ROWS)) {
        out.iter_mut().zip(&piece[column..]).for_each(|(g, d)| *g += d);
    }
}
