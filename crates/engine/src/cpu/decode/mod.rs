//! Decoding step (continuous batching): rows of many requests through all layers, and a sampled token for those that are
//! due.
//!
//! Many rows are divided among the threads, each taking its own through everything between two attentions. Few rows are
//! computed together, the columns of each product divided.

#![expect(unsafe_code, reason = "tasks write disjoint rows and draws")]

mod attention;
mod choose;
mod pages;

pub use pages::{PageShape, Pages};

use crate::cpu::block::{After, Before, Gates, Spread};
use crate::cpu::buffer::Buffer;
use crate::cpu::decode::attention::Plan;
use crate::cpu::{Cpu, Shared, with_scratch};
use crate::generate::step::{Draw, Step};
use crate::model::Net;

/// Below this many rows per thread, reading the weights costs more than the arithmetic: threads then divide the
/// weights, not the rows.
const FEW_ROWS: usize = 6;

/// Maximum rows per task: its activations then stay in L2.
const ROWS: usize = 48;

/// Buffers of a step, kept for the next.
#[derive(Debug, Default)]
pub struct Decoder {
    x: Buffer,
    next: Buffer,
    angles: Buffer,
    qkv: Buffer,
    attention: Buffer,
    logits: Buffer,
    plan: Plan,
    /// Row of every token to draw.
    due: Vec<usize>,
}

impl Decoder {
    /// Computes keys, values and draws of a step. Pages must exist for all rows.
    pub(super) fn run<D: Draw>(&mut self, net: Net<'_>, step: &Step, pages: &Pages, draws: &mut [D]) {
        let (net, rows) = (&net, step.rows());
        let cpu = &*net.model.device;
        self.prepare(net, step);
        assert_eq!(self.due.len(), draws.len(), "every run that samples has a draw");
        self.plan.cut(step, net.model.config.heads, cpu.threads());
        self.between(net, None, Some(0), rows);
        let last = net.model.config.layers - 1;
        for layer in 0..last {
            self.plan.run(cpu, step, pages, layer, &self.qkv, &mut self.attention);
            self.between(net, Some(layer), Some(layer + 1), rows);
        }
        self.plan.run(cpu, step, pages, last, &self.qkv, &mut self.attention);
        self.keep_due(net);
        self.between(net, Some(last), None, self.due.len());
        self.sample(net, draws);
    }

    /// Moves the rows that are due to the front: the others are needed only for the last layer's keys and values.
    fn keep_due(&mut self, net: &Net<'_>) {
        let (hidden, out_width) = (net.model.config.hidden, net.model.config.heads.out_width());
        for (to, &row) in self.due.iter().enumerate() {
            self.x.copy_within(row * hidden..(row + 1) * hidden, to * hidden);
            self.attention.copy_within(row * out_width..(row + 1) * out_width, to * out_width);
        }
    }

    fn prepare(&mut self, net: &Net<'_>, step: &Step) {
        let (c, rows) = (&net.model.config, step.rows());
        let dim = c.heads.dim;
        self.x.grow(rows * c.hidden);
        self.next.grow(rows * c.hidden);
        self.angles.grow(rows * dim);
        self.qkv.grow(rows * c.heads.width());
        self.attention.grow(rows * c.heads.out_width());
        self.due.clear();
        let table = net.model.weights.angles.get(0, step.longest());
        for run in step.runs() {
            for (i, angles) in self.angles[run.row * dim..][..run.len * dim].chunks_exact_mut(dim).enumerate() {
                let (cos, sin) = table.at(run.start + i);
                angles[..dim / 2].copy_from_slice(cos);
                angles[dim / 2..].copy_from_slice(sin);
            }
            if run.samples {
                self.due.push(run.row + run.len - 1);
            }
        }
        net.embed(step.tokens(), &mut self.x[..rows * c.hidden]);
    }

    /// The second half of one layer and the first half of the following, which no row of another request enters.
    fn between(&mut self, net: &Net<'_>, finish: Option<usize>, start: Option<usize>, rows: usize) {
        let (c, cpu) = (&net.model.config, &net.model.device);
        let (hidden, out_width, width, dim) = (c.hidden, c.heads.out_width(), c.heads.width(), c.heads.dim);
        let (angles, attention) = (&self.angles, &self.attention);
        let (x, next, qkv) = (Shared::new(&mut self.x), Shared::new(&mut self.next), Shared::new(&mut self.qkv));
        let task = |spread: Spread<'_>, at: usize, n: usize| {
            // SAFETY: each task has its own rows.
            let (x, next, qkv) = unsafe {
                (
                    x.slice(at * hidden, n * hidden),
                    next.slice(at * hidden, n * hidden),
                    qkv.slice(at * width, n * width),
                )
            };
            let mut input = &*x;
            if let Some(layer) = finish {
                let attention = &attention[at * out_width..][..n * out_width];
                after(net, spread, layer, input, attention, next);
                input = next;
            }
            if let Some(layer) = start {
                before(net, spread, layer, input, &angles[at * dim..][..n * dim], qkv);
            }
        };
        by_rows(cpu, rows, task);
        if finish.is_some() {
            std::mem::swap(&mut self.x, &mut self.next);
        }
    }

    /// Head and draw for the rows that are due.
    fn sample<D: Draw>(&mut self, net: &Net<'_>, draws: &mut [D]) {
        let (c, cpu) = (&net.model.config, &*net.model.device);
        let (hidden, due, x) = (c.hidden, &self.due, &self.x);
        self.logits.grow(due.len() * c.vocab);
        let (logits, draws) = (Shared::new(&mut self.logits), Shared::new(draws));
        // SAFETY: every due row has its own draw and its own logits.
        let choose = |at: usize| unsafe {
            let (draw, logits) = (&mut draws.slice(at, 1)[0], logits.slice(at * c.vocab, c.vocab));
            let drawn = choose::with_scratch(|scratch| {
                let request = draw.request(logits.len());
                choose::choose(cpu.isa(), logits, request.params, request.allowed, request.rng, scratch)
            });
            draw.take(drawn);
        };
        let many = is_many(cpu, due.len());
        by_rows(cpu, due.len(), |spread, at, n| {
            with_scratch(n * (hidden + 1), |scratch| {
                let (normed, rstd) = scratch.split_at_mut(n * hidden);
                net.final_norm(cpu.isa(), &x[at * hidden..][..n * hidden], normed, rstd);
                // SAFETY: each task has its own rows.
                net.logits(spread, normed, unsafe { logits.slice(at * c.vocab, n * c.vocab) });
            });
            if many {
                (at..at + n).for_each(choose);
            }
        });
        if !many {
            cpu.parallel(due.len(), choose);
        }
    }
}

fn is_many(cpu: &Cpu, rows: usize) -> bool {
    rows >= FEW_ROWS * cpu.threads()
}

/// Calls `task(spread, first row, rows)`: once for few rows, for equal shares on all threads for many.
fn by_rows(cpu: &Cpu, rows: usize, task: impl Fn(Spread<'_>, usize, usize) + Send + Sync) {
    if rows == 0 {
        return;
    }
    if !is_many(cpu, rows) {
        return task(Spread::Columns(cpu), 0, rows);
    }
    let rounds = rows.div_ceil(cpu.threads() * ROWS);
    let share = rows.div_ceil(cpu.threads() * rounds);
    cpu.parallel(rows.div_ceil(share), |i| {
        task(Spread::Here(cpu.isa()), i * share, share.min(rows - i * share));
    });
}

fn before(net: &Net<'_>, spread: Spread<'_>, layer: usize, x: &[f32], angles: &[f32], qkv: &mut [f32]) {
    let c = &net.model.config;
    let n = x.len() / c.hidden;
    let heads = if c.qk_norm { c.heads.queries + c.heads.keys } else { 0 };
    with_scratch(n * (c.hidden + heads * c.heads.dim + heads + 1), |scratch| {
        let (normed, rest) = scratch.split_at_mut(n * c.hidden);
        let (raw, rest) = rest.split_at_mut(n * heads * c.heads.dim);
        let (raw_rstd, rstd) = rest.split_at_mut(n * heads);
        net.before_attention(spread, layer, x, angles, &mut Before { normed, rstd, raw, raw_rstd, qkv });
    });
}

fn after(net: &Net<'_>, spread: Spread<'_>, layer: usize, x: &[f32], attention: &[f32], next: &mut [f32]) {
    let c = &net.model.config;
    let n = x.len() / c.hidden;
    with_scratch(n * (2 * c.hidden + 3 * c.mlp + 1), |scratch| {
        let (mid, rest) = scratch.split_at_mut(n * c.hidden);
        let (normed, rest) = rest.split_at_mut(n * c.hidden);
        let (gate_up, rest) = rest.split_at_mut(n * 2 * c.mlp);
        let (hidden, rstd) = rest.split_at_mut(n * c.mlp);
        let gates = Gates { mid, rstd, normed, gate_up };
        net.after_attention(spread, layer, x, attention, &mut After { gates, hidden }, next);
    });
}
