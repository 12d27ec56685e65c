//! Forward pass over a packed batch.

use std::ops::Range;
use std::sync::Arc;

use hone_cuda::attention::{self, Qkv, Rows};
use hone_cuda::head::{self, Head, Logits, Scores};
use hone_cuda::matmul::{Matrix, MatrixMut, Product, Store};
use hone_cuda::rope::{self, QkNorm, Rotation};
use hone_cuda::watch::Watch;
use hone_cuda::{Buffer, Float, Gpu, Matmul, View, ViewMut, embed, heads, norm, rows, swiglu};
use hone_engine::lora::Module;
use hone_engine::weights::LayerParams;
use hone_engine::{EngineError, Forest, Keep, Net, Pass, Result, Scored};

use crate::batch::{Batch, rounded};
use crate::cuda::{Cuda, Spec, fault};
use crate::loan::Loan;
use crate::lora::AdapterWeights;
use crate::memory::{CHUNK, PassSize, RESERVE, Stored};
use crate::weights::Parameters;

/// Activations that a pass keeps, and its memory limit.
#[derive(Debug)]
pub struct Activations<T> {
    pub(crate) limit: Option<u64>,
    pub(crate) state: Option<State<T>>,
}

/// Results of the forward pass that the backward pass needs.
#[derive(Debug)]
pub(crate) struct State<T> {
    pub(crate) batch: Batch,
    pub(crate) angles: Arc<Buffer<f32>>,
    pub(crate) layers: Vec<Layer<T>>,
    /// Last residual sum, its norm's factor, and the normed rows of the targets.
    pub(crate) last: Buffer<T>,
    pub(crate) rstd: Buffer<f32>,
    pub(crate) scored: Buffer<T>,
    pub(crate) inverse: f32,
    /// Scores of the targets (see [`Scores::of`]), and the logits that were kept; `None` where both are computed again.
    pub(crate) scores: Buffer<f32>,
    pub(crate) logits: Option<Logits>,
    /// Gradient memory that gates and ups lie in.
    pub(crate) loan: Option<Loan>,
}

/// A layer's activations, or only its input.
#[derive(Debug)]
pub(crate) enum Layer<T> {
    Whole(Box<Kept<T>>),
    Input(Buffer<T>),
}

#[derive(Debug)]
pub(crate) struct Kept<T> {
    pub(crate) r1: Buffer<T>,
    pub(crate) rstd1: Buffer<f32>,
    /// Outputs of the norms, rotated queries and keys, gates and ups are absent where they are computed again.
    pub(crate) y1: Option<Buffer<T>>,
    pub(crate) qkv: Buffer<T>,
    pub(crate) split: Option<Split<T>>,
    /// Attention's output, of the kernels' width.
    pub(crate) o: Buffer<T>,
    pub(crate) lse: Buffer<f32>,
    pub(crate) r2: Buffer<T>,
    pub(crate) rstd2: Buffer<f32>,
    pub(crate) y2: Option<Buffer<T>>,
    pub(crate) gate_up: Option<Buffer<T>>,
}

/// Activations that stay, and where.
#[derive(Debug)]
pub(crate) struct Stay {
    keep: Keep,
    stored: Stored,
    layers: usize,
    loan: Option<Loan>,
}

impl Stay {
    /// Only what a layer's pass itself leaves: for a layer that is computed again, and for passes without a backward.
    pub(crate) const NOTHING: Self = Self {
        keep: Keep::Nothing,
        stored: Stored { gates: 0, lent: false, logits: 0, normed: 0, rotated: 0 },
        layers: usize::MAX,
        loan: None,
    };
    /// Each layer's input.
    pub(crate) const INPUTS: Self = Self { keep: Keep::Inputs, ..Self::NOTHING };

    /// The layer is among the last `count`.
    fn last(&self, count: usize, layer: usize) -> bool {
        layer + count >= self.layers
    }

    /// Activations of a layer that are kept.
    fn of<T>(&self, layer: usize, mut kept: Kept<T>) -> Option<Layer<T>> {
        if !self.last(self.stored.gates, layer) {
            kept.gate_up = None;
        }
        match self.keep {
            Keep::Nothing => None,
            Keep::Everything => Some(Layer::Whole(Box::new(kept))),
            Keep::Inputs => Some(Layer::Input(kept.r1)),
        }
    }
}

/// Input of a norm: a sum, or a sum and an addend.
pub(crate) enum Entry<'e, T> {
    Sum(Buffer<T>),
    Add(&'e Buffer<T>, Buffer<T>),
}

/// (residual sum, normed, factor of each row)
type Entered<T> = (Buffer<T>, Buffer<T>, Buffer<f32>);

/// Rotated queries and keys of the kernels' width, and values where they are not read out of qkv.
#[derive(Debug)]
pub(crate) struct Split<T> {
    pub(crate) q: Buffer<T>,
    pub(crate) k: Buffer<T>,
    pub(crate) v: Option<Buffer<T>>,
}

/// A fused matrix of a layer.
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

/// A network as the passes see it.
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

    /// Notes an output of a kernel where the pass is watched.
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

    /// Rows of input times a fused matrix, with its bias and its adapters.
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

    /// As [`Self::project`], in memory that is there already.
    fn project_into(
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

    /// `input · aᵀ`: the inner rows of an adapter.
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

    /// Norm of rows: (normed, factor of each).
    pub(crate) fn normed(&self, x: View<'_, T>, weight: &Range<usize>) -> Result<(Buffer<T>, Buffer<f32>)> {
        let mut y = self.buffer(x.len())?;
        let mut rstd = Buffer::uninit(self.gpu, x.len() / weight.len()).map_err(fault)?;
        let (w, eps) = (self.weights.weight(weight), self.spec.config.norm_eps);
        norm::forward(self.gpu, x, None, w, &mut y.view_mut(), &mut rstd.view_mut(), eps).map_err(fault)?;
        Ok((y, rstd))
    }

    /// Residual sum and its norm: (sum, normed, factor of each).
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

    pub(crate) fn qk_norm(&self, layer: usize) -> Option<QkNorm<'a, T>> {
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
        let norm = self.qk_norm(layer);
        if self.spec.whole() {
            rope::forward(self.gpu, heads, qkv, norm, rotation, &mut q.view_mut(), &mut k.view_mut()).map_err(fault)?;
            return Ok(Split { q, k, v: None });
        }
        let mut v = self.buffer(rows * heads.kv * heads.dim)?;
        let (to_q, to_k, to_v) = (&mut q.view_mut(), &mut k.view_mut(), &mut v.view_mut());
        heads::split(self.gpu, own, qkv, norm, rotation, to_q, to_k, to_v).map_err(fault)?;
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

    /// Attention's output of the model's own width; `None` where it has it already.
    pub(crate) fn packed(&self, o: &Buffer<T>) -> Result<Option<Buffer<T>>> {
        if self.spec.whole() {
            return Ok(None);
        }
        let mut packed = self.buffer(o.len() / self.spec.heads.wide * self.spec.heads.heads.dim)?;
        heads::pack(self.gpu, self.spec.heads, o.view(), &mut packed.view_mut()).map_err(fault)?;
        Ok(Some(packed))
    }

    /// One layer: the activations for the backward pass, and the output that the next norm adds.
    pub(crate) fn layer_forward(
        &self,
        layer: usize,
        batch: &Batch,
        angles: &Buffer<f32>,
        entry: Entry<'_, T>,
        stay: &Stay,
    ) -> Result<(Kept<T>, Buffer<T>)> {
        let (at, rows, heads) = (self.layer(layer), batch.padded, self.spec.heads.padded());
        let (r1, y, rstd1) = self.enter(entry, &at.input_norm)?;
        self.saw(Some(layer), "norm before attention", &y)?;
        let qkv = self.project(layer, Projection::Qkv, y.view(), rows)?;
        self.saw(Some(layer), "qkv", &qkv)?;
        let y1 = stay.last(stay.stored.normed, layer).then_some(y);
        let split = self.split(layer, self.rotation(angles, batch.position.view()), qkv.view())?;
        self.saw(Some(layer), "rotated queries", &split.q)?;
        self.saw(Some(layer), "rotated keys", &split.k)?;
        let mut o = self.buffer(rows * heads.q * heads.dim)?;
        let mut lse = Buffer::uninit(self.gpu, rows * heads.q).map_err(fault)?;
        let operands = self.operands(&split, &qkv);
        attention::forward(self.gpu, heads, &batch.plan, operands, &mut o.view_mut(), &mut lse.view_mut())
            .map_err(fault)?;
        self.saw(Some(layer), "attention", &o)?;
        let split = stay.last(stay.stored.rotated, layer).then_some(split);
        let packed = self.packed(&o)?;
        let out = self.project(layer, Projection::Out, packed.as_ref().unwrap_or(&o).view(), rows)?;
        drop(packed);
        self.saw(Some(layer), "projection of attention", &out)?;
        let (r2, y, rstd2) = self.enter(Entry::Add(&r1, out), &at.post_norm)?;
        self.saw(Some(layer), "norm before the feed-forward", &y)?;
        let gates = 2 * rows * self.spec.config.mlp;
        let place = match stay.loan.as_ref().and_then(|loan| loan.place(at, gates)) {
            Some(place) => place,
            None => self.buffer(gates)?,
        };
        let gate_up = self.project_into(layer, Projection::GateUp, y.view(), rows, place)?;
        self.saw(Some(layer), "gates and ups", &gate_up)?;
        let y2 = stay.last(stay.stored.normed, layer).then_some(y);
        let act = self.gated(&gate_up)?;
        self.saw(Some(layer), "SwiGLU", &act)?;
        let mlp = self.project(layer, Projection::Down, act.view(), rows)?;
        self.saw(Some(layer), "feed-forward", &mlp)?;
        Ok((Kept { r1, rstd1, y1, qkv, split, o, lse, r2, rstd2, y2, gate_up: Some(gate_up) }, mlp))
    }

    pub(crate) fn gated(&self, gate_up: &Buffer<T>) -> Result<Buffer<T>> {
        let mut act = self.buffer(gate_up.len() / 2)?;
        swiglu::forward(self.gpu, gate_up.view(), &mut act.view_mut(), self.spec.config.mlp).map_err(fault)?;
        Ok(act)
    }

    /// All layers: (last residual sum, its normed rows, factor of each, what was kept).
    pub(crate) fn layers(&self, batch: &Batch, angles: &Buffer<f32>, stay: &Stay) -> Result<Through<T>> {
        let params = &self.spec.params;
        let mut x = self.buffer(batch.padded * self.spec.config.hidden)?;
        embed::forward(self.gpu, self.weights.weight(&params.embed), &batch.ids, &mut x.view_mut()).map_err(fault)?;
        self.saw(None, "embedding", &x)?;
        let mut kept = Vec::new();
        // The layer before, whose sum the next norm adds to, and its output.
        let mut before: Option<(Kept<T>, Buffer<T>)> = None;
        let mut first = Some(x);
        for layer in 0..self.spec.config.layers {
            let (through, previous) = match (before.take(), first.take()) {
                (Some((whole, out)), _) => {
                    (self.layer_forward(layer, batch, angles, Entry::Add(&whole.r2, out), stay)?, Some(whole))
                }
                (None, Some(x)) => (self.layer_forward(layer, batch, angles, Entry::Sum(x), stay)?, None),
                (None, None) => break,
            };
            kept.extend(previous.and_then(|whole| stay.of(layer - 1, whole)));
            before = Some(through);
        }
        let Some((whole, out)) = before else {
            return Err(EngineError::Batch("a model has at least one layer".into()));
        };
        let (last, hidden, rstd) = self.enter(Entry::Add(&whole.r2, out), &params.norm)?;
        self.saw(None, "final norm", &hidden)?;
        kept.extend(stay.of(self.spec.config.layers - 1, whole));
        Ok(Through { last, hidden, rstd, kept })
    }

    pub(crate) fn head_call<'b>(&'b self, hidden: View<'b, T>, token: View<'b, i32>, inverse: f32) -> Head<'b, T> {
        Head {
            hidden,
            embedding: self.weights.weight(&self.spec.params.head),
            target: token,
            vocab: self.spec.config.vocab,
            chunk: CHUNK,
            inverse,
        }
    }

    /// Scores of the targets; everything a backward pass needs goes to `activations`.
    pub(crate) fn forward(&self, pass: Pass<'_>, keep: Keep, activations: &mut Activations<T>) -> Result<Scored> {
        activations.state = None;
        if pass.forest.rows() == 0 || pass.targets.is_empty() {
            return Ok(Scored::default());
        }
        let stay = self.room(pass, keep, activations.limit)?;
        let batch = Batch::new(self.gpu, self.spec, pass.forest, pass.targets)?;
        let angles = self.spec.angles(self.gpu, batch.longest)?;
        let Through { last, hidden, rstd, kept } = self.layers(&batch, &angles, &stay)?;
        let scored = self.scored(&batch, hidden)?;
        let targets = &batch.targets;
        let inverse = 1.0 / pass.temperature;
        // All in one array: one copy brings them to the host.
        let mut scores = Buffer::<f32>::uninit(self.gpu, 3 * targets.padded).map_err(fault)?;
        let call = self.head_call(scored.view(), targets.token.view(), inverse);
        let logits = head::forward(self.gpu, self.matmul, call, &mut Scores::of(&mut scores), stay.stored.logits)
            .map_err(fault)?;
        let found = scores.read().map_err(fault)?;
        let (logprobs, entropies) = found.split_at(targets.padded);
        let result =
            Scored { logprobs: logprobs[..targets.count].to_vec(), entropies: entropies[..targets.count].to_vec() };
        if keep != Keep::Nothing {
            let (loan, logits) = (stay.loan, Some(logits));
            let layers = kept;
            activations.state =
                Some(State { batch, angles, layers, last, rstd, scored, inverse, scores, logits, loan });
        }
        Ok(result)
    }

    /// Normed rows of the targets.
    pub(crate) fn scored(&self, batch: &Batch, hidden: Buffer<T>) -> Result<Buffer<T>> {
        let mut scored = self.buffer(batch.targets.padded * self.spec.config.hidden)?;
        let to = &mut scored.view_mut();
        embed::gather(self.gpu, hidden.view(), batch.padded, batch.targets.row.view(), to).map_err(fault)?;
        Ok(scored)
    }

    /// Activations that there is room for; an error where the least of a pass does not fit.
    fn room(&self, pass: Pass<'_>, keep: Keep, limit: Option<u64>) -> Result<Stay> {
        let (config, rows) = (&self.spec.config, pass.forest.rows());
        let padded = rounded(rows);
        // Memory for a pass is set aside by its rows: targets that share a row are not counted twice.
        let targets = rounded(pass.targets.len()).min(padded);
        let size = PassSize { config, rows: padded, targets, keep, element: size_of::<T>() as u64 };
        let (needed, free) = (size.least(), self.gpu.available().map_err(fault)?);
        let (stated, asked) = (limit.is_some(), limit.unwrap_or(u64::MAX));
        let limit = asked.min(free);
        if needed > limit {
            return Err(EngineError::Memory { needed, limit, rows });
        }
        let loan = self.loan(keep, size.rows);
        let mut stored = size.stored(asked.min(free.saturating_sub(RESERVE)), loan.is_some());
        if !stated && loan.is_none() {
            // Gradients and moments may not be allocated yet, and nobody has left room for them.
            stored = Stored { logits: stored.logits.min(1), normed: 0, rotated: 0, ..stored };
        }
        Ok(Stay { keep, stored, layers: config.layers, loan })
    }

    /// Memory of a gradient without content, where the gates and ups of every layer fit in it.
    fn loan(&self, keep: Keep, rows: usize) -> Option<Loan> {
        if keep != Keep::Everything || self.adapter.is_some() {
            return None;
        }
        let loan = self.weights.shared.idle.borrow(self.spec.params.table.len())?;
        let gates = 2 * rows * self.spec.config.mlp;
        let fits = self.spec.params.layers.iter().all(|layer| loan.place::<T>(layer, gates).is_some());
        fits.then_some(loan)
    }

    /// Logits of the rows from `first` on.
    pub(crate) fn logits(&self, forest: &Forest, first: usize) -> Result<Vec<f32>> {
        let batch = Batch::new(self.gpu, self.spec, forest, &[])?;
        let angles = self.spec.angles(self.gpu, batch.longest)?;
        let hidden = self.layers(&batch, &angles, &Stay::NOTHING)?.hidden;
        let (vocab, dim) = (self.spec.config.vocab, self.spec.config.hidden);
        let mut out = Vec::new();
        for from in (first..batch.rows).step_by(CHUNK) {
            let to = (from + CHUNK).min(batch.rows);
            let logits = self.logits_of(hidden.view().slice(from * dim..to * dim), to - from)?.read().map_err(fault)?;
            out.extend(logits.chunks_exact(vocab.next_multiple_of(8)).flat_map(|row| &row[..vocab]));
        }
        Ok(out)
    }

    /// Logits of normed rows, `[rows][vocabulary rounded up to 8]`.
    pub(crate) fn logits_of(&self, hidden: View<'_, T>, rows: usize) -> Result<Buffer<f32>> {
        let stride = self.spec.config.vocab.next_multiple_of(8);
        let mut logits = Buffer::<f32>::uninit(self.gpu, rows * stride).map_err(fault)?;
        self.logits_into(hidden, rows, logits.view_mut())?;
        Ok(logits)
    }

    pub(crate) fn logits_into(&self, hidden: View<'_, T>, rows: usize, to: ViewMut<'_, f32>) -> Result<()> {
        let (vocab, dim) = (self.spec.config.vocab, self.spec.config.hidden);
        let w = Matrix::new(self.weights.weight(&self.spec.params.head), vocab, dim);
        let y = MatrixMut::strided(to, rows, vocab, vocab.next_multiple_of(8));
        self.matmul.run(Product::ABt, Matrix::new(hidden, rows, dim), w, y, Store::Set).map_err(fault)
    }
}

/// Output of the last layer.
pub(crate) struct Through<T> {
    pub(crate) last: Buffer<T>,
    pub(crate) hidden: Buffer<T>,
    pub(crate) rstd: Buffer<f32>,
    pub(crate) kept: Vec<Layer<T>>,
}
