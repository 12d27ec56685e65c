//! Training step of a Qwen3-style transformer, composed of the kernels: forward, head, backward, AdamW.
//!
//! All parameters are in one flat array (as are master weights, moments and gradients), so that norm and update are one
//! launch each. [`Keep`] decides which activations of the forward pass are kept and which are recomputed (gradient
//! checkpointing).

use std::ops::Range;

use half::bf16;

use crate::adamw::{self, AdamW, Gradient, Norm, Parameters};
use crate::attention::{self, DQkv, RowsMut, Saved};
use crate::buffer::{Buffer, Float, View};
use crate::embed;
use crate::error::{CudaError, Result};
use crate::gpu::Gpu;
use crate::head;
use crate::matmul::{Matrix, MatrixMut, Product, Store};
pub(crate) use crate::model::{Batch, Keep, Scores};
use crate::model::{Input, Kept, KeptAttention, Model, random_weights};
use crate::moments::Moments;
use crate::rope::{self, Heads};
pub(crate) use crate::shape::{LayerLayout, Layout, Shape};
use crate::watch::Watch;
use crate::{norm, swiglu};

/// Model, gradient and optimizer state on one GPU.
#[derive(Debug)]
pub(crate) struct Trainer<T> {
    model: Model<T>,
    /// Low bits of the master weights, which bf16 weights lack.
    low: Option<Buffer<i16>>,
    moments: Moments,
    grad: Buffer<f32>,
    /// True if no gradient has been added since it was cleared: matrices are then overwritten rather than accumulated.
    fresh: bool,
    pub keep: Keep,
    /// Name of an output that tests make non-finite.
    poisoned: Option<String>,
}

impl<T: Float> Trainer<T> {
    /// Random weights: matrices uniform with standard deviation 0.02, norms 1.
    pub(crate) fn random(gpu: &Gpu, shape: Shape, positions: usize, seed: i32) -> Result<Self> {
        let master = random_weights(gpu, &Layout::new(&shape), seed)?;
        Self::new(gpu, shape, positions, master, Moments::full)
    }

    /// Like [`Trainer::random`], with 8-bit moments.
    pub(crate) fn random_packed(gpu: &Gpu, shape: Shape, positions: usize, seed: i32) -> Result<Self> {
        let master = random_weights(gpu, &Layout::new(&shape), seed)?;
        Self::new(gpu, shape, positions, master, Moments::packed)
    }

    /// Weights from the host, in the order of [`Layout`].
    pub(crate) fn from_weights(gpu: &Gpu, shape: Shape, positions: usize, weights: &[f32]) -> Result<Self> {
        Self::new(gpu, shape, positions, Buffer::from_slice(gpu, weights)?, Moments::full)
    }

    fn new(
        gpu: &Gpu,
        shape: Shape,
        positions: usize,
        master: Buffer<f32>,
        moments: fn(&Gpu, usize) -> Result<Moments>,
    ) -> Result<Self> {
        let len = master.len();
        let mut weights = Buffer::uninit(gpu, len)?;
        let mut low = if T::SUFFIX == bf16::SUFFIX { Some(Buffer::uninit(gpu, len)?) } else { None };
        let low_view = low.as_mut().map(Buffer::view_mut);
        adamw::split(gpu, master.view(), &mut Parameters { weight: weights.view_mut(), low: low_view })?;
        drop(master);
        Ok(Self {
            model: Model::new(gpu, shape, positions, weights)?,
            low,
            moments: moments(gpu, len)?,
            grad: Buffer::zeros(gpu, len)?,
            fresh: true,
            keep: Keep::default(),
            poisoned: None,
        })
    }

    /// Current weights, read in place by whatever samples during training.
    pub(crate) fn model(&self) -> &Model<T> {
        &self.model
    }

    pub(crate) fn model_mut(&mut self) -> &mut Model<T> {
        &mut self.model
    }

    pub(crate) fn grad(&self) -> &Buffer<f32> {
        &self.grad
    }

    /// Clears the gradient. Only the norms' is zeroed: the next pass overwrites the matrices' completely.
    pub(crate) fn zero_grad(&mut self) -> Result<()> {
        self.fresh = true;
        let norms = self.model.layout.norms.clone();
        self.grad.view_mut().slice(norms).clear(&self.model.gpu)
    }

    /// Scores of the batch; the gradient of `sum(dlogprob * logprob)` is added to [`Self::grad`].
    pub(crate) fn forward_backward(&mut self, batch: &Batch, dlogprob: View<'_, f32>) -> Result<Scores> {
        let model = &self.model;
        model.check(batch)?;
        let mut kept: Vec<Kept<T>> = Vec::with_capacity(model.shape.layers);
        let mut input = Input::Embedding(model.embedded(batch)?);
        for layer in 0..model.shape.layers {
            let (keep, delta) = model.layer_forward(layer, batch, &self.keep, kept.last(), input)?;
            kept.push(keep);
            input = Input::Delta(delta);
        }
        let (scores, mut dr) = self.head(batch, kept.last(), input, dlogprob)?;
        while let Some(keep) = kept.pop() {
            dr = self.layer_backward(kept.len(), batch, keep, dr)?;
        }
        let at = self.model.layout.embedding.clone();
        embed::backward(&self.model.gpu, dr.view(), &batch.ids, &mut self.grad.view_mut().slice(at))?;
        self.fresh = false;
        Ok(scores)
    }

    /// Training step: scores and the gradient norm before clipping. A non-finite gradient changes no weight; the error names
    /// the kernel output in which it began.
    pub(crate) fn step(
        &mut self,
        batch: &Batch,
        dlogprob: View<'_, f32>,
        settings: AdamW,
        max_norm: Option<f32>,
    ) -> Result<(Scores, f32)> {
        self.zero_grad()?;
        let scores = self.forward_backward(batch, dlogprob)?;
        let norm = self.update(settings, max_norm)?.read()?;
        if norm.is_finite() {
            return Ok((scores, norm));
        }
        let what = self.first_not_finite(batch, dlogprob)?;
        let what = what
            .unwrap_or_else(|| format!("the gradient's norm ({norm}), of a gradient each of whose parts is finite"));
        Err(CudaError::NotFinite { what })
    }

    /// Reruns a pass under a watch: name of the first non-finite output.
    fn first_not_finite(&mut self, batch: &Batch, dlogprob: View<'_, f32>) -> Result<Option<String>> {
        let poisoned = self.poisoned.clone();
        self.model.watch = Some(Watch::new(&self.model.gpu, true, poisoned)?);
        self.zero_grad()?;
        let done = self.forward_backward(batch, dlogprob).map(drop);
        let watch = self.model.watch.take();
        self.zero_grad()?;
        done?;
        watch.map_or(Ok(None), |w| w.found())
    }

    /// Names of the outputs of a pass in order, for tests.
    pub(crate) fn outputs(&mut self, batch: &Batch, dlogprob: View<'_, f32>) -> Result<Vec<String>> {
        self.model.watch = Some(Watch::new(&self.model.gpu, false, None)?);
        self.zero_grad()?;
        let done = self.forward_backward(batch, dlogprob).map(drop);
        let watch = self.model.watch.take();
        done?;
        Ok(watch.map(|w| w.names()).unwrap_or_default())
    }

    /// Makes one output non-finite in every pass from now on, for tests.
    pub(crate) fn poison(&mut self, output: Option<&str>) -> Result<()> {
        self.poisoned = output.map(str::to_owned);
        self.model.watch = output.map(|name| Watch::new(&self.model.gpu, false, Some(name.to_owned()))).transpose()?;
        Ok(())
    }

    /// Store mode of a matrix's gradient.
    fn store(&self) -> Store {
        if self.fresh { Store::Set } else { Store::Add }
    }

    /// Clips by the global norm and updates the weights. The norm stays on the device until it is read.
    pub(crate) fn update(&mut self, settings: AdamW, max_norm: Option<f32>) -> Result<Norm> {
        let norm = Norm::of(&self.model.gpu, self.grad.view(), max_norm)?;
        let (gpu, weights, grad) = (&self.model.gpu, &mut self.model.weights, self.grad.view());
        let mut parameters = Parameters { weight: weights.view_mut(), low: self.low.as_mut().map(Buffer::view_mut) };
        let gradient = Gradient { values: grad, decays: None, norm: Some(&norm) };
        adamw::step(gpu, settings.factors(), &mut parameters, &mut self.moments.views(), gradient)?;
        Ok(norm)
    }

    /// Gradients of a projection: of its weight (stored) and of its input (returned).
    fn project_backward(
        &mut self,
        dout: View<'_, T>,
        input: View<'_, T>,
        weight: &Range<usize>,
        rows: usize,
    ) -> Result<Buffer<T>> {
        let store = self.store();
        let Self { model, grad, .. } = self;
        let (width, inner) = (dout.len() / rows, input.len() / rows);
        let (dout, input) = (Matrix::new(dout, rows, width), Matrix::new(input, rows, inner));
        let mut grad = grad.view_mut();
        let grad = MatrixMut::new(grad.slice(weight.clone()), width, inner);
        model.matmul.run(Product::AtB, dout, input, grad, store)?;
        let mut dinput = model.buffer(rows * inner)?;
        let weight = Matrix::new(model.weight(weight), width, inner);
        model.matmul.run(Product::AB, dout, weight, MatrixMut::new(dinput.view_mut(), rows, inner), Store::Set)?;
        Ok(dinput)
    }

    /// Final norm and head: (scores, gradient of the last residual sum).
    fn head(
        &mut self,
        batch: &Batch,
        last: Option<&Kept<T>>,
        input: Input<T>,
        dlogprob: View<'_, f32>,
    ) -> Result<(Scores, Buffer<T>)> {
        let store = self.store();
        let Self { model, grad, .. } = self;
        let (gpu, tokens) = (&model.gpu, batch.tokens());
        let at = model.layout.final_norm.clone();
        let (r, hidden, rstd) = model.enter(last.map(|p| &p.r2), input, &at)?;
        let (mut scores, mut lse) = (Scores::uninit(gpu, tokens)?, Buffer::uninit(gpu, tokens)?);
        model.saw(None, "final norm", &hidden)?;
        let mut dhidden = model.buffer(hidden.len())?;
        let mut grad = grad.view_mut();
        let gradient = head::Gradient {
            dlogprob,
            dentropy: None,
            dhidden: dhidden.view_mut(),
            dembedding: Some(grad.slice(model.layout.embedding.clone())),
            store,
        };
        let call = model.head_call(batch, &hidden);
        head::backward(gpu, &model.matmul, call, &mut scores.written(&mut lse), None, gradient)?;
        self.model.saw(None, "gradient of the final norm's output", &dhidden)?;
        let dr = self.norm_backward(&dhidden, &r, &rstd, &at, None)?;
        Ok((scores, dr))
    }

    fn norm_backward(
        &mut self,
        dy: &Buffer<T>,
        r: &Buffer<T>,
        rstd: &Buffer<f32>,
        weight: &Range<usize>,
        above: Option<&Buffer<T>>,
    ) -> Result<Buffer<T>> {
        let Self { model, grad, .. } = self;
        let mut dr = model.buffer(dy.len())?;
        let saved = norm::Saved { r: r.view(), rstd: rstd.view(), w: model.weight(weight) };
        let (above, mut grad) = (above.map(Buffer::view), grad.view_mut());
        let dw = &mut grad.slice(weight.clone());
        norm::backward(&model.gpu, dy.view(), saved, above, &mut dr.view_mut(), dw)?;
        Ok(dr)
    }

    /// Gradient of the layer's input sum from that of its output.
    fn layer_backward(&mut self, layer: usize, batch: &Batch, kept: Kept<T>, dr: Buffer<T>) -> Result<Buffer<T>> {
        let at = self.model.layout.layers[layer].clone();
        let tokens = batch.tokens();
        let Kept { r1, rstd1, y1, attention, r2, rstd2, y2, gate_up } = kept;
        let y2 = self.model.again(y2, &r2, &at.norm2)?;
        let gate_up = match gate_up {
            Some(kept) => kept,
            None => self.model.project(y2.view(), &at.gate_up, tokens)?,
        };
        let dy = self.ffn_backward(&at, tokens, &y2, gate_up, &dr)?;
        self.model.saw(layer, "gradient of the feed-forward", &dy)?;
        drop(y2);
        let dr = self.norm_backward(&dy, &r2, &rstd2, &at.norm2, Some(&dr))?;
        self.model.saw(layer, "gradient of the norm before the feed-forward", &dr)?;
        drop((dy, r2));
        let d_o = self.project_backward(dr.view(), attention.o.view(), &at.o, tokens)?;
        self.model.saw(layer, "gradient of the projection of attention", &d_o)?;
        let dqkv = self.attention_backward(layer, batch, attention, &d_o)?;
        self.model.saw(layer, "gradient of attention", &dqkv)?;
        let y1 = self.model.again(y1, &r1, &at.norm1)?;
        let dy = self.project_backward(dqkv.view(), y1.view(), &at.qkv, tokens)?;
        self.model.saw(layer, "gradient of qkv", &dy)?;
        let dr = self.norm_backward(&dy, &r1, &rstd1, &at.norm1, Some(&dr))?;
        self.model.saw(layer, "gradient of the norm before attention", &dr)?;
        Ok(dr)
    }

    /// Gradient of the feed-forward's normed input `y`.
    fn ffn_backward(
        &mut self,
        at: &LayerLayout,
        tokens: usize,
        y: &Buffer<T>,
        gate_up: Buffer<T>,
        dr: &Buffer<T>,
    ) -> Result<Buffer<T>> {
        let store = self.store();
        let Self { model, grad, .. } = self;
        let (dim, ffn) = (model.shape.dim, model.shape.ffn);
        let mut dact = model.buffer(tokens * ffn)?;
        let d = Matrix::new(dr.view(), tokens, dim);
        let down = Matrix::new(model.weight(&at.down), dim, ffn);
        model.matmul.run(Product::AB, d, down, MatrixMut::new(dact.view_mut(), tokens, ffn), Store::Set)?;
        let (mut dgate_up, mut act) = (model.buffer(2 * tokens * ffn)?, model.buffer(tokens * ffn)?);
        let again = Some(&mut act.view_mut());
        swiglu::backward(&model.gpu, dact.view(), gate_up.view(), &mut dgate_up.view_mut(), again, ffn)?;
        drop((dact, gate_up));
        let mut grad = grad.view_mut();
        let grad_down = MatrixMut::new(grad.slice(at.down.clone()), dim, ffn);
        model.matmul.run(Product::AtB, d, Matrix::new(act.view(), tokens, ffn), grad_down, store)?;
        drop(act);
        self.project_backward(dgate_up.view(), y.view(), &at.gate_up, tokens)
    }

    fn attention_backward(
        &mut self,
        layer: usize,
        batch: &Batch,
        kept: KeptAttention<T>,
        d_o: &Buffer<T>,
    ) -> Result<Buffer<T>> {
        let Self { model, grad, .. } = self;
        let (tokens, heads) = (batch.tokens(), model.shape.heads);
        let Heads { q: qh, kv, dim } = heads;
        let KeptAttention { qkv, rotated, o, lse } = kept;
        let (q, k) = match rotated {
            Some(kept) => kept,
            None => model.rotate(layer, batch, qkv.view())?,
        };
        let (mut dq, mut dk) = (model.buffer(q.len())?, model.buffer(k.len())?);
        let mut dqkv = model.buffer(tokens * heads.qkv())?;
        let len = dqkv.len();
        let saved = Saved { o: o.view(), lse: lse.view(), d_o: d_o.view() };
        let mut dqkv_view = dqkv.view_mut();
        let mut out = DQkv {
            dq: RowsMut { view: dq.view_mut(), stride: qh * dim },
            dk: RowsMut { view: dk.view_mut(), stride: kv * dim },
            dv: RowsMut { view: dqkv_view.slice((qh + kv) * dim..len), stride: heads.qkv() },
        };
        attention::backward(&model.gpu, heads, &batch.plan, model.operands(&q, &k, &qkv), saved, &mut out)?;
        let at = model.layout.layers[layer].qk_norm.clone();
        let (pair, mut grad) = ((dq.view(), dk.view()), grad.view_mut());
        let dw = Some(&mut grad.slice(at));
        let fused = model.fused(layer, batch, qkv.view());
        rope::backward(&model.gpu, heads, pair, fused, &mut dqkv.view_mut(), dw)?;
        Ok(dqkv)
    }
}
