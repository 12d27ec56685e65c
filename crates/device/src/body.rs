//! The network of a pass on the device, and the steps of its layers: projections, norms, heads, SwiGLU.

use std::ops::Range;

use hone_cuda::attention::{Qkv, Rows};
use hone_cuda::matmul::{Matrix, MatrixMut, Product, Store};
use hone_cuda::rope::{self, Fused, QkNorm, Rotation};
use hone_cuda::watch::Watch;
use hone_cuda::{Buffer, Float, Gpu, Matmul, View, heads, norm, rows, swiglu};
use hone_engine::lora::Module;
use hone_engine::weights::LayerParams;
use hone_engine::{Net, Result};

use crate::cuda::{Cuda, Spec, fault};
use crate::lora::AdapterWeights;
use crate::weights::Parameters;

/// Input of a norm: a sum, or a sum and what is added to it first.
pub(crate) enum Entry<'e, T> {
    Sum(Buffer<T>),
    Add(&'e Buffer<T>, Buffer<T>),
}

/// (residual sum, normed, reciprocal root mean square of each row)
type Entered<T> = (Buffer<T>, Buffer<T>, Buffer<f32>);

/// Rotated queries and keys in the kernels' width, and values unless they are read from qkv in place.
#[derive(Debug)]
pub(crate) struct Split<T> {
    pub(crate) q: Buffer<T>,
    pub(crate) k: Buffer<T>,
    pub(crate) v: Option<Buffer<T>>,
}

/// Fused projection of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Projection {
    Qkv,
    Out,
    GateUp,
    Down,
}

impl Projection {
    pub(crate) fn range(self, layer: &LayerParams) -> &Range<usize> {
        match self {
            Self::Qkv => &layer.qkv,
            Self::Out => &layer.out,
            Self::GateUp => &layer.gate_up,
            Self::Down => &layer.down,
        }
    }

    pub(crate) fn bias(self, layer: &LayerParams) -> Option<&Range<usize>> {
        match self {
            Self::Qkv => layer.qkv_bias.as_ref(),
            Self::Out => layer.out_bias.as_ref(),
            Self::GateUp => layer.gate_up_bias.as_ref(),
            Self::Down => layer.down_bias.as_ref(),
        }
    }

    pub(crate) fn modules(self) -> &'static [Module] {
        match self {
            Self::Qkv => &[Module::Q, Module::K, Module::V],
            Self::Out => &[Module::O],
            Self::GateUp => &[Module::Gate, Module::Up],
            Self::Down => &[Module::Down],
        }
    }
}

/// Network as the passes see it.
#[derive(Debug)]
pub(crate) struct Body<'a, T> {
    pub(crate) gpu: &'a Gpu,
    pub(crate) matmul: &'a Matmul,
    pub(crate) spec: &'a Spec,
    pub(crate) weights: &'a Parameters<T>,
    pub(crate) adapter: Option<&'a AdapterWeights<T>>,
    pub(crate) watch: Option<&'a Watch>,
}

impl<T> Clone for Body<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Body<'_, T> {}

impl<'a, T: Float> Body<'a, T> {
    pub(crate) fn of(net: Net<'a, Cuda<T>>) -> Self {
        let weights = &net.model.weights;
        Self {
            gpu: weights.values.gpu(),
            matmul: &weights.values.shared.matmul,
            spec: &weights.spec,
            weights: &weights.values,
            adapter: net.adapter.map(|adapter| &adapter.weights),
            watch: None,
        }
    }

    /// Records an output of a kernel if the pass is watched.
    pub(crate) fn saw(&self, layer: Option<usize>, what: &str, output: &Buffer<T>) -> Result<()> {
        let Some(watch) = self.watch else { return Ok(()) };
        let name = layer.map_or_else(|| what.to_owned(), |layer| format!("layer {layer}, {what}"));
        watch.see(self.gpu, name, output).map_err(fault)
    }

    pub(crate) fn buffer(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::uninit(self.gpu, len).map_err(fault)
    }

    pub(crate) fn layer(&self, layer: usize) -> &'a LayerParams {
        &self.spec.params.layers[layer]
    }

    /// Projection: rows of input times a fused matrix, with its bias and its adapters.
    pub(crate) fn project(
        &self,
        layer: usize,
        which: Projection,
        input: View<'_, T>,
        rows: usize,
    ) -> Result<Buffer<T>> {
        let width = which.range(self.layer(layer)).len() / (input.len() / rows);
        self.project_into(layer, which, input, rows, self.buffer(rows * width)?)
    }

    /// Like [`Self::project`], into an existing buffer.
    pub(crate) fn project_into(
        &self,
        layer: usize,
        which: Projection,
        input: View<'_, T>,
        rows: usize,
        mut out: Buffer<T>,
    ) -> Result<Buffer<T>> {
        let at = self.layer(layer);
        let range = which.range(at);
        let inner = input.len() / rows;
        let width = range.len() / inner;
        let (x, w) = (Matrix::new(input, rows, inner), Matrix::new(self.weights.weight(range), width, inner));
        let y = MatrixMut::new(out.view_mut(), rows, width);
        self.matmul.run(Product::ABt, x, w, y, Store::Set).map_err(fault)?;
        if let Some(bias) = which.bias(at) {
            rows::bias_add(self.gpu, &mut out.view_mut(), self.weights.weight(bias)).map_err(fault)?;
        }
        let Some(adapter) = self.adapter else { return Ok(out) };
        for site in adapter.sites(layer, which.modules()) {
            let thin = self.thin(adapter, &site.a, input, rows)?;
            let t = Matrix::new(thin.view(), rows, adapter.rank);
            let b = Matrix::new(adapter.values.weight(&site.b), site.outputs, adapter.rank);
            let mut view = out.view_mut();
            let columns = view.slice(site.column..rows * width);
            let y = MatrixMut::strided(columns, rows, site.outputs, width);
            self.matmul.scaled(Product::ABt, t, b, y, Store::Add, adapter.scale).map_err(fault)?;
        }
        Ok(out)
    }

    /// Inner activations of an adapter: `input · aᵀ`.
    pub(crate) fn thin(
        &self,
        adapter: &AdapterWeights<T>,
        a: &Range<usize>,
        input: View<'_, T>,
        rows: usize,
    ) -> Result<Buffer<T>> {
        let inner = input.len() / rows;
        let mut thin = self.buffer(rows * adapter.rank)?;
        let (x, a) = (Matrix::new(input, rows, inner), Matrix::new(adapter.values.weight(a), adapter.rank, inner));
        let t = MatrixMut::new(thin.view_mut(), rows, adapter.rank);
        self.matmul.run(Product::ABt, x, a, t, Store::Set).map_err(fault)?;
        Ok(thin)
    }

    /// RMSNorm of rows: (normed, reciprocal root mean square of each row).
    pub(crate) fn normed(&self, x: View<'_, T>, weight: &Range<usize>) -> Result<(Buffer<T>, Buffer<f32>)> {
        let mut y = self.buffer(x.len())?;
        let mut rstd = Buffer::uninit(self.gpu, x.len() / weight.len()).map_err(fault)?;
        let (w, eps) = (self.weights.weight(weight), self.spec.config.norm_eps);
        norm::forward(self.gpu, x, None, w, &mut y.view_mut(), &mut rstd.view_mut(), eps).map_err(fault)?;
        Ok((y, rstd))
    }

    /// Residual sum and its RMSNorm: (sum, normed, reciprocal root mean square of each row).
    pub(crate) fn enter(&self, entry: Entry<'_, T>, weight: &Range<usize>) -> Result<Entered<T>> {
        let (x, delta) = match entry {
            Entry::Sum(x) => {
                let (y, rstd) = self.normed(x.view(), weight)?;
                return Ok((x, y, rstd));
            }
            Entry::Add(x, delta) => (x, delta),
        };
        let (mut sum, mut y) = (self.buffer(x.len())?, self.buffer(x.len())?);
        let mut rstd = Buffer::uninit(self.gpu, x.len() / weight.len()).map_err(fault)?;
        let (w, eps) = (self.weights.weight(weight), self.spec.config.norm_eps);
        let add = Some((delta.view(), &mut sum.view_mut()));
        norm::forward(self.gpu, x.view(), add, w, &mut y.view_mut(), &mut rstd.view_mut(), eps).map_err(fault)?;
        Ok((sum, y, rstd))
    }

    /// Fused queries, keys and values of a layer, with its qk-norm.
    pub(crate) fn fused<'b>(&self, layer: usize, rotation: Rotation<'b>, qkv: View<'b, T>) -> Fused<'b, T>
    where
        'a: 'b,
    {
        Fused { qkv, norm: self.qk_norm(layer), rotation }
    }

    fn qk_norm(&self, layer: usize) -> Option<QkNorm<'a, T>> {
        let (q, k) = self.layer(layer).qk_norm.as_ref()?;
        Some(QkNorm { q: self.weights.weight(q), k: self.weights.weight(k) })
    }

    pub(crate) fn rotation<'b>(&self, angles: &'b Buffer<f32>, position: View<'b, i32>) -> Rotation<'b> {
        Rotation { table: angles.view(), position, eps: self.spec.config.norm_eps }
    }

    /// Queries, keys and values for attention.
    pub(crate) fn split(&self, layer: usize, rotation: Rotation<'_>, qkv: View<'_, T>) -> Result<Split<T>> {
        let (rows, own) = (rotation.position.len(), self.spec.heads);
        let heads = own.padded();
        let (mut q, mut k) = (self.buffer(rows * heads.q * heads.dim)?, self.buffer(rows * heads.kv * heads.dim)?);
        let fused = self.fused(layer, rotation, qkv);
        if self.spec.whole() {
            rope::forward(self.gpu, heads, fused, &mut q.view_mut(), &mut k.view_mut()).map_err(fault)?;
            return Ok(Split { q, k, v: None });
        }
        let mut v = self.buffer(rows * heads.kv * heads.dim)?;
        let (to_q, to_k, to_v) = (&mut q.view_mut(), &mut k.view_mut(), &mut v.view_mut());
        heads::split(self.gpu, own, fused, to_q, to_k, to_v).map_err(fault)?;
        Ok(Split { q, k, v: Some(v) })
    }

    pub(crate) fn operands<'b>(&self, split: &'b Split<T>, qkv: &'b Buffer<T>) -> Qkv<'b, T> {
        let heads = self.spec.heads.padded();
        let v = match &split.v {
            Some(v) => Rows { view: v.view(), stride: heads.kv * heads.dim },
            None => Rows { view: qkv.view().slice((heads.q + heads.kv) * heads.dim..qkv.len()), stride: heads.qkv() },
        };
        Qkv {
            q: Rows { view: split.q.view(), stride: heads.q * heads.dim },
            k: Rows { view: split.k.view(), stride: heads.kv * heads.dim },
            v,
        }
    }

    /// Attention output in the model's own width; `None` if it has that width already.
    pub(crate) fn packed(&self, o: &Buffer<T>) -> Result<Option<Buffer<T>>> {
        if self.spec.whole() {
            return Ok(None);
        }
        let mut packed = self.buffer(o.len() / self.spec.heads.wide * self.spec.heads.heads.dim)?;
        heads::pack(self.gpu, self.spec.heads, o.view(), &mut packed.view_mut()).map_err(fault)?;
        Ok(Some(packed))
    }

    pub(crate) fn gated(&self, gate_up: &Buffer<T>) -> Result<Buffer<T>> {
        let mut act = self.buffer(gate_up.len() / 2)?;
        swiglu::forward(self.gpu, gate_up.view(), &mut act.view_mut(), self.spec.config.mlp).map_err(fault)?;
        Ok(act)
    }
}
