//! Forward pass over a packed batch.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hone_cuda::head::{self, Head, Logits, Scores};
use hone_cuda::matmul::{Matrix, MatrixMut, Product, Store};
use hone_cuda::{Buffer, Float, View, ViewMut, attention, embed};
use hone_engine::{EngineError, Forest, Keep, Pass, Result, Scored};

use crate::batch::{Batch, rounded};
use crate::body::{Body, Entry, Projection, Split};
use crate::cuda::fault;
use crate::loan::Loan;
use crate::memory::{CHUNK, PassSize, RESERVE, Stored};

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
    /// Last residual sum, the reciprocal root mean square of its rows, and the normed rows of the targets.
    pub(crate) last: Buffer<T>,
    pub(crate) rstd: Buffer<f32>,
    pub(crate) scored: Buffer<T>,
    pub(crate) inverse: f32,
    /// Scores of the targets (see [`Scores::of`]), and the logits that were kept; `None` if both are recomputed.
    pub(crate) scores: Buffer<f32>,
    pub(crate) logits: Option<Logits>,
    /// Gradient memory that holds the gates and ups.
    pub(crate) loan: Option<Loan>,
}

/// Kept activations of a layer: all of them, or only its input.
#[derive(Debug)]
pub(crate) enum Layer<T> {
    Whole(Box<Kept<T>>),
    Input(Buffer<T>),
}

#[derive(Debug)]
pub(crate) struct Kept<T> {
    pub(crate) r1: Buffer<T>,
    pub(crate) rstd1: Buffer<f32>,
    /// Outputs of the norms, rotated queries and keys, gates and ups are absent if they are recomputed.
    pub(crate) y1: Option<Buffer<T>>,
    pub(crate) qkv: Buffer<T>,
    pub(crate) split: Option<Split<T>>,
    /// Attention output, in the kernels' width.
    pub(crate) o: Buffer<T>,
    pub(crate) lse: Buffer<f32>,
    pub(crate) r2: Buffer<T>,
    pub(crate) rstd2: Buffer<f32>,
    pub(crate) y2: Option<Buffer<T>>,
    pub(crate) gate_up: Option<Buffer<T>>,
}

/// Activations that a pass keeps, and where.
#[derive(Debug)]
pub(crate) struct Stay {
    keep: Keep,
    stored: Stored,
    layers: usize,
    loan: Option<Loan>,
}

impl Stay {
    /// Nothing optional: for a layer that is recomputed, and for passes without a backward pass.
    pub(crate) const NOTHING: Self = Self {
        keep: Keep::Nothing,
        stored: Stored { gates: 0, lent: false, logits: 0, normed: 0, rotated: 0 },
        layers: usize::MAX,
        loan: None,
    };
    /// Each layer's input.
    pub(crate) const INPUTS: Self = Self { keep: Keep::Inputs, ..Self::NOTHING };

    /// True if the layer is among the last `count`.
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

impl<T: Float> Body<'_, T> {
    /// Forward pass of one layer: the activations for the backward pass, and the output that the next norm adds.
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

    /// Forward pass of all layers.
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

    /// Forward pass: scores of the targets; everything that a backward pass needs goes to `activations`.
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

    /// Activations that fit in memory; an error if a pass does not fit even without optional ones.
    fn room(&self, pass: Pass<'_>, keep: Keep, limit: Option<u64>) -> Result<Stay> {
        let (config, rows) = (&self.spec.config, pass.forest.rows());
        let padded = rounded(rows);
        // Memory for a pass is set aside by its rows: targets that share a row are not counted twice.
        let targets = rounded(pass.targets.len()).min(padded);
        let size = PassSize { config, rows: padded, targets, keep, element: size_of::<T>() as u64 };
        // Gradients are allocated in the first backward pass, after this pass has taken its memory.
        let promised = if keep == Keep::Nothing { 0 } else { self.weights.shared.promised.load(Ordering::Relaxed) };
        let (needed, free) = (size.least(), self.gpu.available().map_err(fault)?.saturating_sub(promised));
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

    /// Loan of an idle gradient array, if the gates and ups of every layer fit in it.
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
