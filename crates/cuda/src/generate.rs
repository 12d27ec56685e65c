//! Generation: prefill through the flash attention kernels into a paged KV cache, then one token per sequence and step, with
//! the step recorded as a CUDA graph. Weights are the model's own, read in place: an update of the policy is seen at the next step.

use std::collections::HashMap;

use half::bf16;

use crate::attention;
use crate::buffer::{Buffer, View};
use crate::decode::{self, Cache, PAGE, Place, Slots};
use crate::embed;
use crate::error::{Result, ensure};
use crate::gpu::Gpu;
use crate::graph::Graph;
use crate::matmul::{Matrix, MatrixMut, Product, Store};
use crate::model::{Batch, Input, Model};
use crate::rope::{self, Fused, Heads, Rotation};
use crate::sample::{self, Rows};
pub(crate) use crate::sample::{Sampled, Settings};
use crate::shape::Shape;
use crate::{norm, swiglu};

/// Prefill chunk: number of prompt tokens that go through the model together.
const PREFILL: usize = 16_384;
/// Number of steps queued before the host checks whether every sequence has ended.
const LOOK: usize = 16;

/// Request to continue one sequence.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub prompt: Vec<u32>,
    pub settings: Settings,
}

/// Capacity of a generator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Number of concurrent sequences.
    pub rows: usize,
    /// Maximum length of a sequence, prompt and new tokens together.
    pub length: usize,
    /// Maximum number of new tokens of a sequence.
    pub new_tokens: usize,
    /// Number of pages of the cache, of [`PAGE`] tokens each.
    pub pages: usize,
}

/// Activations of one decoding step, pinned so that the graph can refer to them.
#[derive(Debug)]
struct Scratch {
    residual: [Buffer<bf16>; 2],
    y: Buffer<bf16>,
    rstd: Buffer<f32>,
    qkv: Buffer<bf16>,
    q: Buffer<bf16>,
    o: Buffer<bf16>,
    partial: Buffer<f32>,
    delta: Buffer<bf16>,
    gate_up: Buffer<bf16>,
    act: Buffer<bf16>,
    logits: Buffer<f32>,
}

impl Scratch {
    fn new(gpu: &Gpu, shape: &Shape, rows: usize, splits: usize) -> Result<Self> {
        let wide = |width: usize| Buffer::<bf16>::zeros(gpu, rows * width);
        let heads = shape.heads;
        Ok(Self {
            residual: [wide(shape.dim)?, wide(shape.dim)?],
            y: wide(shape.dim)?,
            rstd: Buffer::zeros(gpu, rows)?,
            qkv: wide(heads.qkv())?,
            q: wide(heads.q * heads.dim)?,
            o: wide(heads.q * heads.dim)?,
            partial: Buffer::zeros(gpu, decode::partial_len(heads, rows, splits))?,
            delta: wide(shape.dim)?,
            gate_up: wide(2 * shape.ffn)?,
            act: wide(shape.ffn)?,
            logits: Buffer::zeros(gpu, rows * shape.vocab.next_multiple_of(8))?,
        })
    }
}

/// KV cache, sequences and recorded steps for one shape of model.
#[derive(Debug)]
pub(crate) struct Generator {
    caches: Vec<Cache>,
    rows: Rows,
    scratch: Scratch,
    room: Room,
    splits: usize,
    /// Recorded steps by number of rows and address of the weights.
    graphs: HashMap<(usize, u64), Graph>,
}

impl Generator {
    pub(crate) fn new(gpu: &Gpu, shape: &Shape, room: Room) -> Result<Self> {
        let splits = decode::splits(room.length);
        let stride = room.length.div_ceil(PAGE);
        Ok(Self {
            caches: (0..shape.layers).map(|_| Cache::zeros(gpu, shape.heads, room.pages)).collect::<Result<_>>()?,
            rows: Rows::new(gpu, room.rows, stride, room.new_tokens)?,
            scratch: Scratch::new(gpu, shape, room.rows, splits)?,
            room,
            splits,
            graphs: HashMap::new(),
        })
    }

    /// Continues all requests together.
    pub(crate) fn generate(&mut self, model: &Model<bf16>, requests: &[Request]) -> Result<Vec<Sampled>> {
        let steps = self.prefill(model, requests)?;
        self.decode(model, requests.len(), steps)?;
        self.rows.read(requests.len())
    }

    /// Pages of each request, from the first page on.
    fn pages(&self, requests: &[Request]) -> Result<Vec<Vec<usize>>> {
        let mut next = 0;
        let mut tables = Vec::with_capacity(requests.len());
        for request in requests {
            let whole = request.prompt.len() + request.settings.new_tokens;
            ensure(whole <= self.room.length, "generate", || {
                format!("a sequence of {whole} tokens, room for {}", self.room.length)
            })?;
            let count = whole.div_ceil(PAGE);
            tables.push((next..next + count).collect());
            next += count;
        }
        ensure(next <= self.room.pages && requests.len() <= self.room.rows, "generate", || {
            format!("{} sequences of {next} pages, room for {} of {}", requests.len(), self.room.rows, self.room.pages)
        })?;
        Ok(tables)
    }

    /// Prefill: prompts into the cache and the first new token of each; returns how many steps may follow.
    pub(crate) fn prefill(&mut self, model: &Model<bf16>, requests: &[Request]) -> Result<usize> {
        let tables = self.pages(requests)?;
        let prompts: Vec<usize> = requests.iter().map(|r| r.prompt.len()).collect();
        let settings: Vec<Settings> = requests.iter().map(|r| r.settings).collect();
        self.rows.begin(&settings, &prompts, &tables)?;
        let dim = model.shape.dim;
        let mut last = Buffer::<bf16>::uninit(&model.gpu, requests.len() * dim)?;
        let mut from = 0;
        while from < requests.len() {
            let mut to = from + 1;
            let mut tokens = prompts[from];
            while to < requests.len() && tokens + prompts[to] <= PREFILL {
                tokens += prompts[to];
                to += 1;
            }
            let mut out = last.view_mut();
            let hidden = self.prompts(model, &requests[from..to], &tables[from..to])?;
            let ends: Vec<i32> = prompts[from..to]
                .iter()
                .scan(0, |at, &p| {
                    *at += p as i32;
                    Some(*at - 1)
                })
                .collect();
            let ends = Buffer::from_slice(&model.gpu, &ends)?;
            let out = &mut out.slice(from * dim..to * dim);
            embed::gather(&model.gpu, hidden.view(), tokens, ends.view(), out)?;
            from = to;
        }
        choose(model, last.view(), &mut self.scratch.logits, &mut self.rows, requests.len())?;
        Ok(requests.iter().map(|r| r.settings.new_tokens).max().unwrap_or(1) - 1)
    }

    /// Hidden states of packed prompts; keys and values go to their pages.
    fn prompts(&mut self, model: &Model<bf16>, requests: &[Request], tables: &[Vec<usize>]) -> Result<Buffer<bf16>> {
        let sequences: Vec<Vec<u32>> = requests.iter().map(|r| r.prompt.clone()).collect();
        let batch = Batch::packed(&model.gpu, &sequences, model.shape.vocab)?;
        model.check(&batch)?;
        let slots: Vec<usize> = sequences
            .iter()
            .zip(tables)
            .flat_map(|(s, table)| (0..s.len()).map(|t| table[t / PAGE] * PAGE + t % PAGE))
            .collect();
        let slots = Slots::new(&model.gpu, &slots, &self.caches[0])?;
        let mut input = Input::Embedding(model.embedded(&batch)?);
        let mut residual: Option<Buffer<bf16>> = None;
        for layer in 0..model.shape.layers {
            let (r, delta) = self.prompt_layer(model, layer, &batch, &slots, residual.as_ref(), input)?;
            (residual, input) = (Some(r), Input::Delta(delta));
        }
        Ok(model.enter(residual.as_ref(), input, &model.layout.final_norm)?.1)
    }

    /// One layer over prompts: (residual sum, output of the feed-forward).
    fn prompt_layer(
        &mut self,
        model: &Model<bf16>,
        layer: usize,
        batch: &Batch,
        slots: &Slots,
        residual: Option<&Buffer<bf16>>,
        input: Input<bf16>,
    ) -> Result<(Buffer<bf16>, Buffer<bf16>)> {
        let at = &model.layout.layers[layer];
        let (tokens, heads) = (batch.tokens(), model.shape.heads);
        let (r1, y, _) = model.enter(residual, input, &at.norm1)?;
        let qkv = model.project(y.view(), &at.qkv, tokens)?;
        drop(y);
        let (q, k) = model.rotate(layer, batch, qkv.view())?;
        let operands = model.operands(&q, &k, &qkv);
        decode::write_at(&model.gpu, &mut self.caches[layer], operands.k, operands.v, slots)?;
        let mut o = model.buffer(tokens * heads.q * heads.dim)?;
        let mut lse = Buffer::uninit(&model.gpu, tokens * heads.q)?;
        attention::forward(&model.gpu, heads, &batch.plan, operands, &mut o.view_mut(), &mut lse.view_mut())?;
        let out = model.project(o.view(), &at.o, tokens)?;
        let (r2, y, _) = model.enter(Some(&r1), Input::Delta(out), &at.norm2)?;
        let gate_up = model.project(y.view(), &at.gate_up, tokens)?;
        let mut act = model.buffer(tokens * model.shape.ffn)?;
        swiglu::forward(&model.gpu, gate_up.view(), &mut act.view_mut(), model.shape.ffn)?;
        Ok((r2, model.project(act.view(), &at.down, tokens)?))
    }

    /// Decodes up to `steps` more tokens for the first `count` rows.
    pub(crate) fn decode(&mut self, model: &Model<bf16>, count: usize, steps: usize) -> Result<()> {
        if steps == 0 || count == 0 {
            return Ok(());
        }
        let key = (count, model.weights.view().pointer);
        let mut done = 0;
        if !self.graphs.contains_key(&key) {
            // Once without a graph: kernels are loaded by their first launch, which cannot be recorded.
            self.step(model, count)?;
            done = 1;
            let graph = Graph::record(&model.gpu, || self.step(model, count))?;
            self.graphs.insert(key, graph);
        }
        while done < steps {
            let run = LOOK.min(steps - done);
            if let Some(graph) = self.graphs.get(&key) {
                (0..run).try_for_each(|_| graph.launch())?;
            }
            done += run;
            if done < steps && self.rows.all_done()? {
                break;
            }
        }
        Ok(())
    }

    /// Tokens that the first `count` sequences have drawn so far. Waits for the device.
    pub(crate) fn read(&self, count: usize) -> Result<Vec<Sampled>> {
        self.rows.read(count)
    }

    /// Queues one token for each of the first `count` rows. Allocates nothing.
    pub(crate) fn step(&mut self, model: &Model<bf16>, count: usize) -> Result<()> {
        let Shape { layers, dim, eps, vocab, .. } = model.shape;
        let embedding = model.weight(&model.layout.embedding);
        let first = &mut self.scratch.residual[0].first_mut(count * dim);
        embed::gather(&model.gpu, embedding, vocab, self.rows.id.first(count), first)?;
        // Nothing to add before the first layer.
        self.scratch.delta.first_mut(count * dim).clear(&model.gpu)?;
        for layer in 0..layers {
            self.layer(model, layer, count)?;
        }
        let Scratch { residual: [r0, r1], y, rstd, delta, logits, .. } = &mut self.scratch;
        let add = Some((delta.first(count * dim), &mut r1.first_mut(count * dim)));
        let (weight, out) = (model.weight(&model.layout.final_norm), &mut y.first_mut(count * dim));
        norm::forward(&model.gpu, r0.first(count * dim), add, weight, out, &mut rstd.first_mut(count), eps)?;
        choose(model, y.first(count * dim), logits, &mut self.rows, count)
    }

    fn layer(&mut self, model: &Model<bf16>, layer: usize, count: usize) -> Result<()> {
        let at = &model.layout.layers[layer];
        let Shape { dim, heads, ffn, eps, .. } = model.shape;
        let Heads { q: qh, kv, dim: width } = heads;
        let gpu = &model.gpu;
        let Scratch { residual: [r0, r1], y, rstd, qkv, q, o, partial, delta, gate_up, act, .. } = &mut self.scratch;
        let (row, wide) = (count * dim, count * qh * width);
        // The residual sum is in r0; in r1 after adding the previous layer; in r0 again after adding attention.
        let (w, add) = (model.weight(&at.norm1), Some((delta.first(row), &mut r1.first_mut(row))));
        norm::forward(gpu, r0.first(row), add, w, &mut y.first_mut(row), &mut rstd.first_mut(count), eps)?;
        project(model, y.first(row), &at.qkv, count, qkv)?;
        let rotation =
            Rotation { table: model.table.view(), position: self.rows.position.first(count), eps: model.shape.eps };
        let cache = &mut self.caches[layer];
        let pages = (&mut cache.k.view_mut(), &mut cache.v.view_mut());
        let qkv = qkv.first(count * (qh + 2 * kv) * width);
        let fused = Fused { qkv, norm: Some(model.qk_norm(layer)), rotation };
        rope::decode(gpu, heads, fused, self.rows.slot.first(count), &mut q.first_mut(wide), pages)?;
        let place = Place {
            table: self.rows.table.view(),
            stride: self.rows.stride,
            length: self.rows.length.first(count),
            splits: self.splits,
        };
        decode::queue(gpu, heads, q.first(wide), cache, place, &mut partial.view_mut(), &mut o.first_mut(wide))?;
        project(model, o.first(wide), &at.o, count, delta)?;
        let (w, add) = (model.weight(&at.norm2), Some((delta.first(row), &mut r0.first_mut(row))));
        norm::forward(gpu, r1.first(row), add, w, &mut y.first_mut(row), &mut rstd.first_mut(count), eps)?;
        project(model, y.first(row), &at.gate_up, count, gate_up)?;
        swiglu::forward(gpu, gate_up.first(2 * count * ffn), &mut act.first_mut(count * ffn), ffn)?;
        project(model, act.first(count * ffn), &at.down, count, delta)
    }
}

/// `out = input · weightᵀ` for `rows` rows, into a buffer that may be longer.
fn project(
    model: &Model<bf16>,
    input: View<'_, bf16>,
    weight: &std::ops::Range<usize>,
    rows: usize,
    out: &mut Buffer<bf16>,
) -> Result<()> {
    let inner = input.len() / rows;
    let width = weight.len() / inner;
    let weight = Matrix::new(model.weight(weight), width, inner);
    let out = MatrixMut::new(out.first_mut(rows * width), rows, width);
    model.matmul.run(Product::ABt, Matrix::new(input, rows, inner), weight, out, Store::Set)
}

/// Logits of normed hidden states and the choice of a token for each.
fn choose(
    model: &Model<bf16>,
    hidden: View<'_, bf16>,
    logits: &mut Buffer<f32>,
    rows: &mut Rows,
    count: usize,
) -> Result<()> {
    let Shape { dim, vocab, .. } = model.shape;
    let stride = vocab.next_multiple_of(8);
    let out = MatrixMut::strided(logits.first_mut(count * stride), count, vocab, stride);
    let embedding = Matrix::new(model.weight(&model.layout.embedding), vocab, dim);
    model.matmul.run(Product::ABt, Matrix::new(hidden, count, dim), embedding, out, Store::Set)?;
    sample::sample(&model.gpu, logits.first(count * stride), vocab, rows, count)
}
