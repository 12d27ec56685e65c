//! Decoding step (continuous batching): rows of many sequences through all layers, and a sampled token for those that are due.
//!
//! A row of a reply is a query over its sequence's pages. Prompts use flash attention (`prompts.rs`).

use std::ops::Range;

use hone_cuda::buffer::Element;
use hone_cuda::decode::{self, PAGE as BLOCK, Seen};
use hone_cuda::draw::{self, Drawn, Masks, Ticket};
use hone_cuda::{Buffer, Float, Gpu, View, embed, rope};
use hone_engine::generate::step::{Choice, Draw, DrawRequest, Refusal, Run, Step};
use hone_engine::{EngineError, Result};

use crate::batch::rounded;
use crate::body::{Body, Entry, Projection};
use crate::cuda::{Spec, fault};
use crate::graphs::Graphs;
use crate::pages::Pages;
use crate::prompts::{Division, Part};

/// Scratch of attention over pages, in bytes: a long prompt's rows are launched in parts that fit.
const SCRATCH: usize = 256 << 20;

/// Memory and recorded steps of one generator.
#[derive(Debug, Default)]
pub struct Decoder {
    host: Vec<i32>,
    /// Integer inputs of a step.
    device: Option<Buffer<i32>>,
    logits: Option<Buffer<f32>>,
    masks: Masks,
    graphs: Graphs,
}

/// Integer inputs of a step on the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent<'a> {
    id: View<'a, i32>,
    position: View<'a, i32>,
    slot: View<'a, i32>,
    length: View<'a, i32>,
    /// Rows after which a token is sampled.
    due: View<'a, i32>,
    /// Blocks of each row whose attention is over pages.
    table: View<'a, i32>,
    stride: usize,
    longest: usize,
}

/// Sizes that determine which kernels a step launches, and over which parts of its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    pub(crate) rows: usize,
    pub(crate) due: usize,
    /// Number of rows whose attention is over pages.
    pub(crate) paged: usize,
    /// Number of keys of the longest sequence, rounded up.
    pub(crate) longest: usize,
}

impl Layout {
    fn of<T: Float>(step: &Step, spec: &Spec) -> (Self, Division) {
        let due = step.runs().iter().filter(|run| run.samples).count();
        let few = |rows: usize| if rows <= 64 { rows.next_power_of_two().max(8) } else { rounded(rows) };
        // A decode step reads every weight, for one row or for sixty: a few more cost nothing, and make fewer graphs.
        let round = if one_each(step) { few } else { rounded };
        let rows = round(step.rows());
        let division = Division::of::<T>(step, spec, rows);
        let paged = division.paged.iter().map(Range::len).sum();
        (Self { rows, due: round(due), paged, longest: reach(step.longest()) }, division)
    }

    /// Number of blocks of the longest sequence.
    fn stride(self) -> usize {
        self.longest.div_ceil(BLOCK)
    }

    fn integers(self) -> usize {
        4 * self.rows + self.due + self.paged * self.stride()
    }
}

/// True if every row belongs to a reply: one new token per sequence, and a draw after it.
fn one_each(step: &Step) -> bool {
    step.runs().iter().all(|run| run.len == 1 && run.samples)
}

/// Padded number of keys of a step: few distinct values, so that a recorded step serves many.
fn reach(longest: usize) -> usize {
    longest.next_multiple_of(if longest <= 4096 { 512 } else { 4096 })
}

impl Decoder {
    /// Lays out the integers of a step. Padding rows belong to no sequence.
    fn fill<T: Float>(&mut self, step: &Step, layout: Layout, division: &Division, pages: &Pages<T>) {
        let (Layout { rows, due, .. }, stride) = (layout, layout.stride());
        let path = |run: &Run| &step.paths()[run.path.clone()];
        let host = &mut self.host;
        host.clear();
        host.resize(layout.integers(), 0);
        for (to, &token) in host.iter_mut().zip(step.tokens()) {
            *to = token as i32;
        }
        host[2 * rows..3 * rows].fill(-1);
        let last = step.runs().iter().filter(|run| run.samples).map(|run| (run.row + run.len - 1) as i32);
        host[4 * rows..].iter_mut().zip(last).for_each(|(to, row)| *to = row);
        for run in step.runs() {
            for (row, position) in (run.row..).zip(run.start..run.start + run.len) {
                host[rows + row] = position as i32;
                host[2 * rows + row] = pages.slot(path(run), position) as i32;
                host[3 * rows + row] = position as i32 + 1;
            }
        }
        let tables = host[4 * rows + due..].chunks_exact_mut(stride);
        for ((run, position), table) in division.over_pages(step.runs()).zip(tables) {
            for (at, to) in table.iter_mut().enumerate().take(position / BLOCK + 1) {
                *to = (pages.slot(path(run), at * BLOCK) / BLOCK) as i32;
            }
        }
    }

    pub(crate) fn run<T: Float, D: Draw>(
        &mut self,
        body: &Body<'_, T>,
        step: &Step,
        pages: &mut Pages<T>,
        draws: &mut [D],
    ) -> Result<()> {
        pages.prepare()?;
        let (layout, division) = Layout::of::<T>(step, body.spec);
        self.fill(step, layout, &division, pages);
        let device = room(&mut self.device, body.gpu, layout.integers())?;
        device.put(0, &self.host).map_err(fault)?;
        let logits = room(&mut self.logits, body.gpu, layout.due * body.spec.config.vocab.next_multiple_of(8))?;
        let sent = Sent::of(device, layout);
        let angles = body.spec.angles(body.gpu, sent.longest)?;
        let prompts = division.parts(body.gpu, step, pages)?;
        let call = Call { sent, angles: &angles, pages, prompts, paged: division.paged };
        // Prompts are long enough to keep the device busy; a token for each sequence is not.
        if one_each(step) {
            self.graphs.run(body, layout, &call, logits)?;
        } else {
            body.decode(&call, logits)?;
        }
        let due = step.runs().iter().filter(|run| run.samples).count();
        drawn(body, logits, &mut self.masks, &mut draws[..due])
    }
}

/// The buffer of a slot, reallocated if it is too short.
fn room<'a, E: Element>(slot: &'a mut Option<Buffer<E>>, gpu: &Gpu, len: usize) -> Result<&'a mut Buffer<E>> {
    let buffer = match slot.take().filter(|buffer| buffer.len() >= len) {
        Some(buffer) => buffer,
        None => Buffer::uninit(gpu, len.next_power_of_two()).map_err(fault)?,
    };
    Ok(slot.insert(buffer))
}

impl<'a> Sent<'a> {
    fn of(device: &'a Buffer<i32>, layout: Layout) -> Self {
        let (Layout { rows, due, paged, longest }, stride) = (layout, layout.stride());
        let part = |at: usize, len: usize| device.view().slice(at..at + len);
        Self {
            id: part(0, rows),
            position: part(rows, rows),
            slot: part(2 * rows, rows),
            length: part(3 * rows, rows),
            due: part(4 * rows, due),
            table: part(4 * rows + due, paged * stride),
            stride,
            longest,
        }
    }
}

/// Inputs of a step's kernels other than the weights.
pub(crate) struct Call<'a, T> {
    pub(crate) sent: Sent<'a>,
    pub(crate) angles: &'a Buffer<f32>,
    pub(crate) pages: &'a Pages<T>,
    /// Rows for flash attention, and rows whose attention is over pages.
    prompts: Vec<Part>,
    paged: Vec<Range<usize>>,
}

impl<T> Call<'_, T> {
    /// Device address of the step's integers.
    pub(crate) fn address(&self) -> u64 {
        self.sent.id.address()
    }
}

impl<T: Float> Body<'_, T> {
    /// Forward pass of the rows through all layers, and the logits of those that are due.
    pub(crate) fn decode(&self, call: &Call<'_, T>, logits: &mut Buffer<f32>) -> Result<()> {
        let (sent, due) = (&call.sent, call.sent.due.len());
        let (rows, dim) = (sent.id.len(), self.spec.config.hidden);
        let mut x = self.buffer(rows * dim)?;
        let embedding = self.weights.weight(&self.spec.params.embed);
        embed::gather(self.gpu, embedding, self.spec.config.vocab, sent.id, &mut x.view_mut()).map_err(fault)?;
        let mut delta: Option<Buffer<T>> = None;
        for layer in 0..self.spec.config.layers {
            let entry = match delta.take() {
                Some(delta) => Entry::Add(&x, delta),
                None => Entry::Sum(x),
            };
            let (sum, out) = self.decode_layer(layer, entry, call)?;
            (x, delta) = (sum, Some(out));
        }
        let Some(delta) = delta.filter(|_| due > 0) else { return Ok(()) };
        let (_, hidden, _) = self.enter(Entry::Add(&x, delta), &self.spec.params.norm)?;
        let mut last = self.buffer(due * dim)?;
        embed::gather(self.gpu, hidden.view(), rows, sent.due, &mut last.view_mut()).map_err(fault)?;
        let width = self.spec.config.vocab.next_multiple_of(8);
        self.logits_into(last.view(), due, logits.first_mut(due * width))
    }

    /// One layer: (residual sum, output of the feed-forward).
    fn decode_layer(&self, layer: usize, entry: Entry<'_, T>, call: &Call<'_, T>) -> Result<(Buffer<T>, Buffer<T>)> {
        let Call { sent, angles, pages, prompts, paged } = call;
        let (at, rows, heads) = (self.layer(layer), sent.id.len(), self.spec.heads.padded());
        let (r1, y, _) = self.enter(entry, &at.input_norm)?;
        let qkv = self.project(layer, Projection::Qkv, y.view(), rows)?;
        drop(y);
        let Some(cache) = pages.layer(layer) else {
            return Err(EngineError::Device(
                "the cache has no pages; this is a defect of Hone, please report it".into(),
            ));
        };
        let rotation = self.rotation(angles, sent.position);
        let mut o = self.buffer(rows * heads.q * heads.dim)?;
        if prompts.is_empty() && self.spec.whole() && rope::has_into_pages::<T>(heads) {
            let mut q = self.buffer(rows * heads.q * heads.dim)?;
            let fused = self.fused(layer, rotation, qkv.view());
            rope::into_pages(self.gpu, heads, fused, sent.slot, &mut q.view_mut(), cache).map_err(fault)?;
            self.over_pages(paged, &q, cache, sent, &mut o)?;
        } else {
            let split = self.split(layer, rotation, qkv.view())?;
            let operands = self.operands(&split, &qkv);
            decode::store(self.gpu, heads, operands.k, operands.v, sent.slot, cache).map_err(fault)?;
            for part in prompts {
                self.flash(part, operands, cache, &mut o)?;
            }
            self.over_pages(paged, &split.q, cache, sent, &mut o)?;
        }
        drop(qkv);
        let packed = self.packed(&o)?;
        let out = self.project(layer, Projection::Out, packed.as_ref().unwrap_or(&o).view(), rows)?;
        drop((packed, o));
        let (r2, y, _) = self.enter(Entry::Add(&r1, out), &at.post_norm)?;
        let gate_up = self.project(layer, Projection::GateUp, y.view(), rows)?;
        let act = self.gated(&gate_up)?;
        Ok((r2, self.project(layer, Projection::Down, act.view(), rows)?))
    }

    /// Attention of some of the rows over their pages.
    fn over_pages(
        &self,
        paged: &[Range<usize>],
        queries: &Buffer<T>,
        cache: decode::Layer<'_, T>,
        sent: &Sent<'_>,
        o: &mut Buffer<T>,
    ) -> Result<()> {
        let heads = self.spec.heads.padded();
        let (width, stride) = (heads.q * heads.dim, sent.stride);
        // Rows are independent: more launches have the same bits.
        let most = (65_535 / heads.kv).min(SCRATCH / decode::scratch_bytes(heads, sent.longest)).max(1);
        let mut first = 0;
        for rows in paged {
            for from in rows.clone().step_by(most) {
                let to = (from + most).min(rows.end);
                let table = sent.table.slice(first * stride..(first + to - from) * stride);
                let seen = Seen { table, stride, length: sent.length.slice(from..to), longest: sent.longest };
                let (q, o) =
                    (queries.view().slice(from * width..to * width), &mut o.part_mut(from * width..to * width));
                decode::over_pages(self.gpu, heads, q, cache, seen, o).map_err(fault)?;
                first += to - from;
            }
        }
        Ok(())
    }
}

/// Samples the tokens of all draws on the device.
fn drawn<T: Float, D: Draw>(
    body: &Body<'_, T>,
    logits: &Buffer<f32>,
    masks: &mut Masks,
    draws: &mut [D],
) -> Result<()> {
    let vocab = body.spec.config.vocab;
    masks.clear();
    let mut ticket = |draw: &mut D| {
        let DrawRequest { params, allowed, rng } = draw.request(vocab);
        Ticket {
            temperature: params.temperature,
            // One number per token, whatever becomes of it; none at temperature 0.
            unit: if params.temperature > 0.0 { rng.unit() } else { 0.0 },
            top_k: params.top_k,
            top_p: params.top_p,
            min_p: params.min_p,
            mask: allowed.map(|allowed| masks.push(allowed, vocab)),
        }
    };
    let tickets: Vec<Ticket> = draws.iter_mut().map(&mut ticket).collect();
    if tickets.is_empty() {
        return Ok(());
    }
    let found = draw::draw(body.gpu, logits.view(), vocab, &tickets, masks).map_err(fault)?;
    for (draw, found) in draws.iter_mut().zip(found) {
        draw.take(match found {
            Drawn::Token { token, logprob, sampling_logprob } => Ok(Choice { token, logprob, sampling_logprob }),
            Drawn::NotFinite => Err(Refusal::NotFinite),
            Drawn::NothingAllowed => Err(Refusal::NothingAllowed),
        });
    }
    Ok(())
}
