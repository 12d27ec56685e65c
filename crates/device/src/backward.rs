//! Backward pass over a packed batch.

use std::ops::Range;

use hone_cuda::attention::{self, DQkv, RowsMut, Saved};
use hone_cuda::head::{self, Gradient, Scores};
use hone_cuda::matmul::{Matrix, MatrixMut, Product, Store};
use hone_cuda::rope::Rotation;
use hone_cuda::{Buffer, Float, View, ViewMut, embed, heads, norm, rope, rows, swiglu};
use hone_engine::{EngineError, LossGradients, Result, Trained};

use crate::body::{Body, Entry, Projection, Split};
use crate::cuda::{Cuda, fault};
use crate::forward::{Activations, Kept, Layer, State, Stay};

/// Gradients: of the weights, or of the adapter.
pub(crate) enum Grads<'g> {
    /// With the store mode of matrices: overwritten if nothing has been added yet.
    Full(ViewMut<'g, f32>, Store),
    Adapter(ViewMut<'g, f32>),
}

impl Grads<'_> {
    fn full(&mut self, range: &Range<usize>) -> Option<ViewMut<'_, f32>> {
        match self {
            Self::Full(grad, _) => Some(grad.slice(range.clone())),
            Self::Adapter(_) => None,
        }
    }

    /// Store mode of a matrix's gradient.
    fn store(&self) -> Store {
        match self {
            Self::Full(_, store) => *store,
            Self::Adapter(_) => Store::Add,
        }
    }

    fn adapter(&mut self, range: &Range<usize>) -> Option<ViewMut<'_, f32>> {
        match self {
            Self::Adapter(grad) => Some(grad.slice(range.clone())),
            Self::Full(..) => None,
        }
    }
}

impl<T: Float> Body<'_, T> {
    /// Adds the gradient of the loss to `trained`.
    pub(crate) fn backward(
        &self,
        gradients: LossGradients<'_>,
        activations: &mut Activations<T>,
        trained: Trained<'_, Cuda<T>>,
    ) -> Result<()> {
        if gradients.dlogp.is_empty() {
            return Ok(());
        }
        let state = activations.state.take().filter(|s| s.batch.targets.count == gradients.dlogp.len());
        let Some(mut state) = state else {
            let what = "the forward pass before was of another batch or kept nothing for a backward pass";
            return Err(EngineError::Batch(what.into()));
        };
        let mut grads = match trained {
            Trained::Full(flat) => {
                // Gates and ups may lie where the gradients of their layer's matrices go: they are read before.
                let (buffer, fresh) = flat.overwritten(state.loan.as_ref())?;
                let mut view = buffer.lent_mut();
                for range in self.spec.added.iter().filter(|_| fresh) {
                    view.slice(range.clone()).clear(self.gpu).map_err(fault)?;
                }
                Grads::Full(view, if fresh { Store::Set } else { Store::Add })
            }
            Trained::Adapter(flat) => Grads::Adapter(flat.view_mut()?),
        };
        let dr = self.descend(gradients, &mut state, &mut grads)?;
        if !self.finite(&dr)? {
            self.search(gradients, state, &mut grads)?;
        }
        Ok(())
    }

    /// Gradients of all parameters, and of the embedded tokens.
    pub(crate) fn descend(
        &self,
        loss: LossGradients<'_>,
        state: &mut State<T>,
        grads: &mut Grads<'_>,
    ) -> Result<Buffer<T>> {
        let mut dr = self.head_backward(loss, state, grads)?;
        while let Some(kept) = state.layers.pop() {
            let layer = state.layers.len();
            let kept = match kept {
                Layer::Whole(kept) => *kept,
                Layer::Input(x) => {
                    self.layer_forward(layer, &state.batch, &state.angles, Entry::Sum(x), &Stay::NOTHING)?.0
                }
            };
            dr = self.layer_backward(layer, state, kept, dr, grads)?;
        }
        if let Some(mut grad) = grads.full(&self.spec.params.embed) {
            embed::backward(self.gpu, dr.view(), &state.batch.ids, &mut grad).map_err(fault)?;
        }
        Ok(dr)
    }

    /// Gradient of the last residual sum.
    fn head_backward(&self, loss: LossGradients<'_>, state: &mut State<T>, grads: &mut Grads<'_>) -> Result<Buffer<T>> {
        let (targets, dim) = (&state.batch.targets, self.spec.config.hidden);
        let dlogprob = targets.gradients(self.gpu, loss.dlogp)?;
        let dentropy = match loss.dentropy {
            [] => None,
            gradients => Some(targets.gradients(self.gpu, gradients)?),
        };
        let mut dscored = self.buffer(targets.padded * dim)?;
        let store = grads.store();
        let gradient = Gradient {
            dlogprob: dlogprob.view(),
            dentropy: dentropy.as_ref().map(Buffer::view),
            dhidden: dscored.view_mut(),
            dembedding: grads.full(&self.spec.params.head),
            store,
        };
        let call = self.head_call(state.scored.view(), targets.token.view(), state.inverse);
        let (mut scores, logits) = (Scores::of(&mut state.scores), state.logits.take());
        head::backward(self.gpu, self.matmul, call, &mut scores, logits, gradient).map_err(fault)?;
        self.saw(None, "gradient of the scored rows", &dscored)?;
        let mut dhidden = self.buffer(state.batch.padded * dim)?;
        rows::gather_sum(self.gpu, dscored.view(), &targets.runs, &mut dhidden.view_mut()).map_err(fault)?;
        drop(dscored);
        self.norm_backward(&dhidden, &state.last, &state.rstd, &self.spec.params.norm, None, grads)
    }

    fn norm_backward(
        &self,
        dy: &Buffer<T>,
        r: &Buffer<T>,
        rstd: &Buffer<f32>,
        weight: &Range<usize>,
        above: Option<&Buffer<T>>,
        grads: &mut Grads<'_>,
    ) -> Result<Buffer<T>> {
        let mut dr = self.buffer(dy.len())?;
        let mut unused = None;
        let mut dw = self.or_unused(grads.full(weight), weight.len(), &mut unused)?;
        let saved = norm::Saved { r: r.view(), rstd: rstd.view(), w: self.weights.weight(weight) };
        let above = above.map(Buffer::view);
        norm::backward(self.gpu, dy.view(), saved, above, &mut dr.view_mut(), &mut dw).map_err(fault)?;
        Ok(dr)
    }

    /// Destination for the gradient of a frozen parameter.
    fn or_unused<'b>(
        &self,
        wanted: Option<ViewMut<'b, f32>>,
        len: usize,
        unused: &'b mut Option<Buffer<f32>>,
    ) -> Result<ViewMut<'b, f32>> {
        match wanted {
            Some(view) => Ok(view),
            None => Ok(unused.insert(Buffer::zeros(self.gpu, len).map_err(fault)?).view_mut()),
        }
    }

    /// Gradients of a projection: of its parameters (accumulated) and of its input (returned).
    fn project_backward(
        &self,
        layer: usize,
        which: Projection,
        dout: View<'_, T>,
        input: View<'_, T>,
        grads: &mut Grads<'_>,
    ) -> Result<Buffer<T>> {
        self.parameter_gradients(layer, which, dout, input, grads)?;
        let mut dinput = self.input_gradient(layer, which, dout)?;
        let inner = self.inner(which);
        let width = which.range(self.layer(layer)).len() / inner;
        self.adapter_backward(layer, which, (dout, width), (input, inner), &mut dinput, grads)?;
        Ok(dinput)
    }

    /// Gradients of a projection's matrix and bias.
    fn parameter_gradients(
        &self,
        layer: usize,
        which: Projection,
        dout: View<'_, T>,
        input: View<'_, T>,
        grads: &mut Grads<'_>,
    ) -> Result<()> {
        let (at, inner) = (self.layer(layer), self.inner(which));
        let (range, count) = (which.range(at), input.len() / inner);
        let width = range.len() / inner;
        let (d, x) = (Matrix::new(dout, count, width), Matrix::new(input, count, inner));
        let store = grads.store();
        if let Some(grad) = grads.full(range) {
            self.matmul.run(Product::AtB, d, x, MatrixMut::new(grad, width, inner), store).map_err(fault)?;
        }
        if let Some(mut grad) = which.bias(at).and_then(|bias| grads.full(bias)) {
            rows::bias_sum(self.gpu, dout, &mut grad).map_err(fault)?;
        }
        Ok(())
    }

    /// Gradient of a projection's input, without that through its adapters.
    fn input_gradient(&self, layer: usize, which: Projection, dout: View<'_, T>) -> Result<Buffer<T>> {
        let (range, inner) = (which.range(self.layer(layer)), self.inner(which));
        let width = range.len() / inner;
        let count = dout.len() / width;
        let mut dinput = self.buffer(count * inner)?;
        let (d, w) = (Matrix::new(dout, count, width), Matrix::new(self.weights.weight(range), width, inner));
        let to = MatrixMut::new(dinput.view_mut(), count, inner);
        self.matmul.run(Product::AB, d, w, to, Store::Set).map_err(fault)?;
        Ok(dinput)
    }

    /// Gradient of gates and ups; `act` receives the activation.
    fn gated_backward(&self, dact: &Buffer<T>, gate_up: &Buffer<T>, act: Option<&mut Buffer<T>>) -> Result<Buffer<T>> {
        let mut dgate_up = self.buffer(gate_up.len())?;
        let (mut act, mlp) = (act.map(Buffer::view_mut), self.spec.config.mlp);
        let to = &mut dgate_up.view_mut();
        swiglu::backward(self.gpu, dact.view(), gate_up.view(), to, act.as_mut(), mlp).map_err(fault)?;
        Ok(dgate_up)
    }

    /// Width of a projection's input.
    fn inner(&self, which: Projection) -> usize {
        let c = &self.spec.config;
        match which {
            Projection::Qkv | Projection::GateUp => c.hidden,
            Projection::Out => c.heads.out_width(),
            Projection::Down => c.mlp,
        }
    }

    fn adapter_backward(
        &self,
        layer: usize,
        which: Projection,
        (dout, width): (View<'_, T>, usize),
        (input, inner): (View<'_, T>, usize),
        dinput: &mut Buffer<T>,
        grads: &mut Grads<'_>,
    ) -> Result<()> {
        let Some(adapter) = self.adapter else { return Ok(()) };
        let (count, rank, scale) = (input.len() / inner, adapter.rank, adapter.scale);
        for site in adapter.sites(layer, which.modules()) {
            let thin = self.thin(adapter, &site.a, input, count)?;
            let d = Matrix::strided(dout.slice(site.column..dout.len()), count, site.outputs, width);
            let (t, x) = (Matrix::new(thin.view(), count, rank), Matrix::new(input, count, inner));
            if let Some(grad) = grads.adapter(&site.b) {
                self.matmul
                    .scaled(Product::AtB, d, t, MatrixMut::new(grad, site.outputs, rank), Store::Add, scale)
                    .map_err(fault)?;
            }
            let mut dthin = self.buffer(count * rank)?;
            let b = Matrix::new(adapter.values.weight(&site.b), site.outputs, rank);
            let to = MatrixMut::new(dthin.view_mut(), count, rank);
            self.matmul.scaled(Product::AB, d, b, to, Store::Set, scale).map_err(fault)?;
            let dt = Matrix::new(dthin.view(), count, rank);
            if let Some(grad) = grads.adapter(&site.a) {
                self.matmul.run(Product::AtB, dt, x, MatrixMut::new(grad, rank, inner), Store::Add).map_err(fault)?;
            }
            let a = Matrix::new(adapter.values.weight(&site.a), rank, inner);
            let to = MatrixMut::new(dinput.view_mut(), count, inner);
            self.matmul.run(Product::AB, dt, a, to, Store::Add).map_err(fault)?;
        }
        Ok(())
    }

    /// Gradient of the layer's input sum from that of its output.
    fn layer_backward(
        &self,
        layer: usize,
        state: &State<T>,
        kept: Kept<T>,
        dr: Buffer<T>,
        grads: &mut Grads<'_>,
    ) -> Result<Buffer<T>> {
        let at = self.layer(layer);
        let Kept { r1, rstd1, y1, qkv, split, o, lse, r2, rstd2, y2, gate_up } = kept;
        let dy = self.ffn_backward(layer, &r2, (y2, gate_up), &dr, grads)?;
        self.saw(Some(layer), "gradient of the feed-forward", &dy)?;
        let dr = self.norm_backward(&dy, &r2, &rstd2, &at.post_norm, Some(&dr), grads)?;
        self.saw(Some(layer), "gradient of the norm before the feed-forward", &dr)?;
        drop((dy, r2));
        let packed = self.packed(&o)?;
        let d_o =
            self.project_backward(layer, Projection::Out, dr.view(), packed.as_ref().unwrap_or(&o).view(), grads)?;
        drop(packed);
        self.saw(Some(layer), "gradient of the projection of attention", &d_o)?;
        let split = match split {
            Some(kept) => kept,
            None => self.split(layer, self.rotation(&state.angles, state.batch.position.view()), qkv.view())?,
        };
        let dqkv = self.attention_backward(layer, state, (qkv, split, o, lse), d_o, grads)?;
        self.saw(Some(layer), "gradient of attention", &dqkv)?;
        let y = match y1 {
            Some(kept) => kept,
            None => self.normed(r1.view(), &at.input_norm)?.0,
        };
        let dy = self.project_backward(layer, Projection::Qkv, dqkv.view(), y.view(), grads)?;
        self.saw(Some(layer), "gradient of qkv", &dy)?;
        drop((y, dqkv));
        let dr = self.norm_backward(&dy, &r1, &rstd1, &at.input_norm, Some(&dr), grads)?;
        self.saw(Some(layer), "gradient of the norm before attention", &dr)?;
        Ok(dr)
    }

    /// Gradient of the feed-forward's normed input.
    fn ffn_backward(
        &self,
        layer: usize,
        r2: &Buffer<T>,
        (y, gate_up): (Option<Buffer<T>>, Option<Buffer<T>>),
        dr: &Buffer<T>,
        grads: &mut Grads<'_>,
    ) -> Result<Buffer<T>> {
        let normed = || Ok(self.normed(r2.view(), &self.layer(layer).post_norm)?.0);
        let (gate_up, y) = if let Some(kept) = gate_up {
            (kept, y)
        } else {
            let y: Buffer<T> = y.map_or_else(normed, Ok)?;
            (self.project(layer, Projection::GateUp, y.view(), r2.len() / self.spec.config.hidden)?, Some(y))
        };
        let dgate_up = if self.adapter.is_some() {
            let act = self.gated(&gate_up)?;
            let dact = self.project_backward(layer, Projection::Down, dr.view(), act.view(), grads)?;
            let dgate_up = self.gated_backward(&dact, &gate_up, None)?;
            drop(gate_up);
            dgate_up
        } else {
            // The activation is computed again by the pass that needs the same gates and ups.
            let dact = self.input_gradient(layer, Projection::Down, dr.view())?;
            let mut act = self.buffer(dact.len())?;
            let dgate_up = self.gated_backward(&dact, &gate_up, Some(&mut act))?;
            // The gradients of the layer's matrices begin here: gates and ups may lie in their memory.
            drop((dact, gate_up));
            self.parameter_gradients(layer, Projection::Down, dr.view(), act.view(), grads)?;
            dgate_up
        };
        let y = y.map_or_else(normed, Ok)?;
        self.project_backward(layer, Projection::GateUp, dgate_up.view(), y.view(), grads)
    }

    fn attention_backward(
        &self,
        layer: usize,
        state: &State<T>,
        (qkv, split, o, lse): (Buffer<T>, Split<T>, Buffer<T>, Buffer<f32>),
        d_o: Buffer<T>,
        grads: &mut Grads<'_>,
    ) -> Result<Buffer<T>> {
        let (own, heads) = (self.spec.heads, self.spec.heads.padded());
        let (whole, rotation) = (self.spec.whole(), self.rotation(&state.angles, state.batch.position.view()));
        let d_o = if whole {
            d_o
        } else {
            let mut wide = self.buffer(o.len())?;
            heads::spread(self.gpu, own, d_o.view(), &mut wide.view_mut()).map_err(fault)?;
            wide
        };
        let (mut dq, mut dk) = (self.buffer(split.q.len())?, self.buffer(split.k.len())?);
        let mut dv = self.buffer(if whole { 0 } else { split.k.len() })?;
        let mut dqkv = self.buffer(qkv.len())?;
        let mut into = dqkv.view_mut();
        let (len, inner) = (qkv.len(), heads.kv * heads.dim);
        let dv_rows = if whole {
            RowsMut { view: into.slice((heads.q + heads.kv) * heads.dim..len), stride: heads.qkv() }
        } else {
            RowsMut { view: dv.view_mut(), stride: inner }
        };
        let mut out = DQkv {
            dq: RowsMut { view: dq.view_mut(), stride: heads.q * heads.dim },
            dk: RowsMut { view: dk.view_mut(), stride: inner },
            dv: dv_rows,
        };
        let saved = Saved { o: o.view(), lse: lse.view(), d_o: d_o.view() };
        let operands = self.operands(&split, &qkv);
        attention::backward(self.gpu, heads, &state.batch.plan, operands, saved, &mut out).map_err(fault)?;
        self.rotated_backward(layer, rotation, [&dq, &dk, &dv], &qkv, &mut dqkv, grads)?;
        Ok(dqkv)
    }

    /// Backward pass of rotation and qk-norm.
    fn rotated_backward(
        &self,
        layer: usize,
        rotation: Rotation<'_>,
        [dq, dk, dv]: [&Buffer<T>; 3],
        qkv: &Buffer<T>,
        dqkv: &mut Buffer<T>,
        grads: &mut Grads<'_>,
    ) -> Result<()> {
        let (own, fused) = (self.spec.heads, self.fused(layer, rotation, qkv.view()));
        let dim = own.heads.dim;
        let mut to = dqkv.view_mut();
        // The weights of both norms follow each other where heads are a multiple of 16 wide.
        let mut unused = None;
        let dw = match &self.layer(layer).qk_norm {
            None => None,
            Some((q, k)) => Some(self.or_unused(grads.full(&(q.start..k.end)), k.end - q.start, &mut unused)?),
        };
        if self.spec.whole() {
            let (pair, mut dw) = ((dq.view(), dk.view()), dw);
            return rope::backward(self.gpu, own.heads, pair, fused, &mut to, dw.as_mut()).map_err(fault);
        }
        let dw = dw.map(|both| {
            let len = both.len();
            let (q, rest) = both.split(dim);
            let (_, k) = rest.split(len - 2 * dim);
            [q, k]
        });
        heads::merge(self.gpu, own, [dq.view(), dk.view(), dv.view()], fused, &mut to, dw).map_err(fault)
    }
}
