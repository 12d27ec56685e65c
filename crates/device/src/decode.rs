//! Decoding step: rows of many sequences through all layers, and a drawn token for those that are due.
//!
//! Every row is a query of its own over its sequence's pages, one of a prompt as one of a reply: what a row computes does not
//! depend on how a prompt is cut into steps.

use hone_cuda::decode::{self, PAGE as BLOCK, Seen};
use hone_cuda::draw::{self, Ticket};
use hone_cuda::{Buffer, Float, View, embed, rope};
use hone_engine::Result;
use hone_engine::cpu::choose_on_host;
use hone_engine::generate::step::{Choice, Draw, PAGE, Refusal, Step};

use crate::batch::rounded;
use crate::cuda::fault;
use crate::forward::{Body, Entry, Projection};
use crate::pages::Pages;

/// What is sent to the device for a step, kept for the next.
#[derive(Debug, Default)]
pub struct Decoder {
    host: Vec<i32>,
    device: Option<Buffer<i32>>,
}

/// A step's integers on the device.
#[derive(Debug, Clone, Copy)]
struct Sent<'a> {
    id: View<'a, i32>,
    position: View<'a, i32>,
    slot: View<'a, i32>,
    length: View<'a, i32>,
    /// Rows after which a token is drawn.
    due: View<'a, i32>,
    table: View<'a, i32>,
    stride: usize,
    longest: usize,
}

impl Decoder {
    /// Lays out and sends the integers of a step. Rows past the step's own are of no sequence.
    fn send<'a, T: Float>(
        &'a mut self,
        body: &Body<'_, T>,
        step: &Step,
        pages: &Pages<T>,
    ) -> Result<(Sent<'a>, usize)> {
        let rows = rounded(step.rows());
        let (longest, paths) = (step.longest(), step.paths());
        let stride = longest.div_ceil(BLOCK).max(1);
        let due: Vec<i32> = step.runs().iter().filter(|r| r.samples).map(|r| (r.row + r.len - 1) as i32).collect();
        let due_rows = rounded(due.len());
        let host = &mut self.host;
        host.clear();
        host.resize(4 * rows + due_rows + rows * stride, 0);
        for (to, &token) in host.iter_mut().zip(step.tokens()) {
            *to = token as i32;
        }
        host[2 * rows..3 * rows].fill(-1);
        host[4 * rows..][..due.len()].copy_from_slice(&due);
        for run in step.runs() {
            let path = &paths[run.path.clone()];
            let block = |position: usize| pages.first_block(path[position / PAGE]) + position % PAGE / BLOCK;
            for i in 0..run.len {
                let (row, position) = (run.row + i, run.start + i);
                host[rows + row] = position as i32;
                host[2 * rows + row] = (block(position) * BLOCK + position % BLOCK) as i32;
                host[3 * rows + row] = position as i32 + 1;
                let table = &mut host[4 * rows + due_rows + row * stride..][..stride];
                for (at, to) in table.iter_mut().enumerate().take(position / BLOCK + 1) {
                    *to = block(at * BLOCK) as i32;
                }
            }
        }
        let device = match self.device.take().filter(|d| d.len() >= host.len()) {
            Some(device) => device,
            None => Buffer::uninit(body.gpu, host.len().next_power_of_two()).map_err(fault)?,
        };
        let device = self.device.insert(device);
        device.put(0, host).map_err(fault)?;
        let view = device.view();
        let part = |at: usize, len: usize| view.slice(at..at + len);
        let sent = Sent {
            id: part(0, rows),
            position: part(rows, rows),
            slot: part(2 * rows, rows),
            length: part(3 * rows, rows),
            due: part(4 * rows, due_rows),
            table: part(4 * rows + due_rows, rows * stride),
            stride,
            longest,
        };
        Ok((sent, due.len()))
    }

    pub(crate) fn run<T: Float, D: Draw>(
        &mut self,
        body: &Body<'_, T>,
        step: &Step,
        pages: &mut Pages<T>,
        draws: &mut [D],
    ) -> Result<()> {
        pages.prepare()?;
        let (sent, due) = self.send(body, step, pages)?;
        let angles = body.spec.angles(body.gpu, sent.longest)?;
        let (rows, dim) = (sent.id.len(), body.spec.config.hidden);
        let mut x = body.buffer(rows * dim)?;
        let embedding = body.weights.weight(&body.spec.params.embed);
        embed::gather(body.gpu, embedding, body.spec.config.vocab, sent.id, &mut x.view_mut()).map_err(fault)?;
        let mut delta: Option<Buffer<T>> = None;
        for layer in 0..body.spec.config.layers {
            let entry = match delta.take() {
                Some(delta) => Entry::Add(&x, delta),
                None => Entry::Sum(x),
            };
            let (sum, out) = body.decode_layer(layer, entry, &sent, &angles, pages)?;
            (x, delta) = (sum, Some(out));
        }
        if due == 0 {
            return Ok(());
        }
        let Some(delta) = delta else { return Ok(()) };
        let (_, hidden, _) = body.enter(Entry::Add(&x, delta), &body.spec.params.norm)?;
        let mut last = body.buffer(sent.due.len() * dim)?;
        embed::gather(body.gpu, hidden.view(), rows, sent.due, &mut last.view_mut()).map_err(fault)?;
        let logits = body.logits_of(last.view(), sent.due.len())?;
        drawn(body, &logits, &mut draws[..due])
    }
}

impl<T: Float> Body<'_, T> {
    /// One layer: (residual sum, output of the feed-forward).
    fn decode_layer(
        &self,
        layer: usize,
        entry: Entry<'_, T>,
        sent: &Sent<'_>,
        angles: &Buffer<f32>,
        pages: &Pages<T>,
    ) -> Result<(Buffer<T>, Buffer<T>)> {
        let (at, rows, heads) = (self.layer(layer), sent.id.len(), self.spec.heads.padded());
        let (r1, y, _) = self.enter(entry, &at.input_norm)?;
        let qkv = self.project(layer, Projection::Qkv, y.view(), rows)?;
        drop(y);
        let Some(cache) = pages.layer(layer) else {
            return Err(hone_engine::EngineError::State("the cache has no pages".into()));
        };
        let rotation = self.rotation(angles, sent.position);
        let queries = if self.spec.whole() && rope::has_into_pages::<T>(heads) {
            let mut q = self.buffer(rows * heads.q * heads.dim)?;
            let norm = self.qk_norm(layer);
            rope::into_pages(self.gpu, heads, qkv.view(), norm, rotation, sent.slot, &mut q.view_mut(), cache)
                .map_err(fault)?;
            q
        } else {
            let split = self.split(layer, rotation, qkv.view())?;
            let operands = self.operands(&split, &qkv);
            decode::store(self.gpu, heads, operands.k, operands.v, sent.slot, cache).map_err(fault)?;
            split.q
        };
        let mut o = self.buffer(rows * heads.q * heads.dim)?;
        let (width, most) = (heads.q * heads.dim, 65_535 / heads.kv);
        for from in (0..rows).step_by(most) {
            let to = (from + most).min(rows);
            let seen = Seen {
                table: sent.table.slice(from * sent.stride..to * sent.stride),
                stride: sent.stride,
                length: sent.length.slice(from..to),
                longest: sent.longest,
            };
            let q = queries.view().slice(from * width..to * width);
            let mut o = o.view_mut();
            decode::over_pages(self.gpu, heads, q, cache, seen, &mut o.slice(from * width..to * width))
                .map_err(fault)?;
        }
        let packed = self.packed(&o)?;
        let out = self.project(layer, Projection::Out, packed.as_ref().unwrap_or(&o).view(), rows)?;
        drop((packed, o, queries, qkv));
        let (r2, y, _) = self.enter(Entry::Add(&r1, out), &at.post_norm)?;
        let gate_up = self.project(layer, Projection::GateUp, y.view(), rows)?;
        let act = self.gated(&gate_up)?;
        Ok((r2, self.project(layer, Projection::Down, act.view(), rows)?))
    }
}

/// Tokens for the draws. Plain ones are drawn on the device; where a mask or a truncation is on, the row comes to the host.
fn drawn<T: Float, D: Draw>(body: &Body<'_, T>, logits: &Buffer<f32>, draws: &mut [D]) -> Result<()> {
    let vocab = body.spec.config.vocab;
    let mut rows: Option<Vec<f32>> = None;
    let mut tickets = Vec::with_capacity(draws.len());
    let mut plain = Vec::with_capacity(draws.len());
    for (at, draw) in draws.iter_mut().enumerate() {
        let request = draw.request(vocab);
        let temperature = request.params.temperature;
        let on_device = request.allowed.is_none() && (temperature == 0.0 || !request.params.truncates());
        plain.push(on_device);
        if on_device {
            let unit = if temperature > 0.0 { request.rng.unit() } else { 0.0 };
            tickets.push(Ticket { temperature, unit });
            continue;
        }
        tickets.push(Ticket { temperature: 0.0, unit: 0.0 });
        let all = match &mut rows {
            Some(all) => all,
            none => none.insert(logits.read().map_err(fault)?),
        };
        let row = &mut all[at * vocab.next_multiple_of(8)..][..vocab];
        let choice = choose_on_host(row, request);
        draw.take(choice);
    }
    if plain.iter().all(|on_device| !on_device) {
        return Ok(());
    }
    let found = draw::draw(body.gpu, logits.view(), vocab, &tickets).map_err(fault)?;
    for ((draw, found), (on_device, ticket)) in draws.iter_mut().zip(found).zip(plain.into_iter().zip(tickets)) {
        if !on_device {
            continue;
        }
        draw.take(match found {
            Some((token, logprob)) => {
                let sampling_logprob = if ticket.temperature == 0.0 { 0.0 } else { logprob };
                Ok(Choice { token, logprob, sampling_logprob })
            }
            None => Err(Refusal::NotFinite),
        });
    }
    Ok(())
}
