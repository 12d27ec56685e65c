//! One step of the running batch: rows of many requests through all layers, and a token for those that are due.
//!
//! Many rows are divided among the threads, each taking its own through everything between two attentions. Few rows are
//! computed together, the columns of each product divided.

#![expect(unsafe_code, reason = "tasks write disjoint rows, pages and jobs")]

use std::ops::Range;

use crate::buffer::Buffer;
use crate::cpu::{Cpu, Shared, with_scratch};
use crate::generate::cache::NodeId;
use crate::generate::choose;
use crate::generate::job::Job;
use crate::generate::pages::Pages;
use crate::generate::pages_of;
use crate::kernels::attention::{Heads, KEYS, Tile, put_rows, put_transposed};
use crate::kernels::simd::Isa;
use crate::model::layer::{After, Before, Net, Spread};
use crate::policy::Snapshot;

/// Below this many rows per thread, reading the weights costs more than the arithmetic: threads then share the weights
/// and not the rows.
const FEW_ROWS: usize = 6;

/// Rows a task takes at most: its activations then stay in L2.
const ROWS: usize = 48;

/// Rows of one job in a step: its tokens from `computed` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) job: usize,
    pub(super) row: usize,
    pub(super) len: usize,
    /// Whether the last row's token is followed by a sampled one.
    pub(super) samples: bool,
}

/// Where a part's sequence lies: a copy of what its job knows, because jobs themselves do not cross threads.
#[derive(Debug, Clone)]
struct Place {
    /// First row, and its position in the sequence.
    row: usize,
    start: usize,
    len: usize,
    /// The sequence's pages, in `Forward::paths`.
    path: Range<usize>,
}

/// Attention of one task for one key head: some rows of a prompt, or the rows of decoding requests that share pages.
#[derive(Debug, Clone)]
struct Piece {
    head: usize,
    work: Work,
    cost: usize,
}

#[derive(Debug, Clone)]
enum Work {
    /// `len` rows of a place, from its row `from` on. Its only piece stores the keys and values itself.
    Prompt { place: usize, from: usize, len: usize, alone: bool },
    /// Places of one row each, whose first `shared` pages are the same.
    Decode { places: Range<usize>, shared: usize },
}

/// Buffers of a step, kept for the next.
#[derive(Debug, Default)]
pub(super) struct Forward {
    x: Buffer,
    next: Buffer,
    angles: Buffer,
    qkv: Buffer,
    attention: Buffer,
    logits: Buffer,
    tokens: Vec<u32>,
    places: Vec<Place>,
    paths: Vec<NodeId>,
    pieces: Vec<Piece>,
    /// Ranges of pieces that cost about the same.
    tasks: Vec<Range<usize>>,
    /// Job and row of every token to sample.
    due: Vec<(usize, usize)>,
}

impl Forward {
    /// Computes the parts' keys, values and tokens. Pages must be there for all rows; `computed` of the jobs is left to
    /// the caller.
    pub(super) fn run(&mut self, snapshot: &Snapshot, pages: &Pages, jobs: &mut [Job], parts: &[Part]) {
        let net = snapshot.net();
        let rows = parts.last().map_or(0, |p| p.row + p.len);
        self.prepare(&net, jobs, parts, rows);
        self.plan_attention(net.model.config.heads, net.model.cpu.threads());
        self.between(&net, None, Some(0), rows);
        for layer in 0..net.model.config.layers {
            self.attend(&net, layer, pages);
            let following = (layer + 1 < net.model.config.layers).then_some(layer + 1);
            self.between(&net, Some(layer), following, rows);
        }
        self.sample(snapshot, jobs, rows);
    }

    fn prepare(&mut self, net: &Net<'_>, jobs: &[Job], parts: &[Part], rows: usize) {
        let c = &net.model.config;
        let dim = c.heads.dim;
        self.x.grow(rows * c.hidden);
        self.next.grow(rows * c.hidden);
        self.angles.grow(rows * dim);
        self.qkv.grow(rows * c.heads.width());
        self.attention.grow(rows * c.heads.out_width());
        self.tokens.clear();
        self.places.clear();
        self.paths.clear();
        self.due.clear();
        let end = parts.iter().map(|p| jobs[p.job].computed + p.len).max().unwrap_or(0);
        let table = net.model.angles.get(0, end);
        for part in parts {
            let job = &jobs[part.job];
            self.tokens.extend_from_slice(&job.tokens[job.computed..][..part.len]);
            for (i, angles) in self.angles[part.row * dim..][..part.len * dim].chunks_exact_mut(dim).enumerate() {
                let (cos, sin) = table.at(job.computed + i);
                angles[..dim / 2].copy_from_slice(cos);
                angles[dim / 2..].copy_from_slice(sin);
            }
            let path = self.paths.len()..self.paths.len() + job.path.len();
            self.paths.extend_from_slice(&job.path);
            self.places.push(Place { row: part.row, start: job.computed, len: part.len, path });
            if part.samples {
                self.due.push((part.job, part.row + part.len - 1));
            }
        }
        net.embed(&self.tokens, &mut self.x[..rows * c.hidden]);
    }

    /// The second half of one layer and the first half of the following, which no row of another request enters.
    fn between(&mut self, net: &Net<'_>, finish: Option<usize>, start: Option<usize>, rows: usize) {
        let (c, cpu) = (&net.model.config, &net.model.cpu);
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

    /// Cuts attention into tasks of about the same cost: a decoding request is too little for one, a long prompt too
    /// much.
    fn plan_attention(&mut self, heads: Heads, threads: usize) {
        let Self { places, paths, pieces, tasks, .. } = self;
        pieces.clear();
        let decoding = places.iter().filter(|p| p.len == 1).count();
        let most = (decoding * heads.keys / (2 * threads)).clamp(1, heads.tokens_per_tile());
        let mut at = 0;
        while at < places.len() {
            if places[at].len > 1 {
                plan_prompt(heads, at, &places[at], pieces);
                at += 1;
                continue;
            }
            let (end, shared) = sharing(places, paths, at, most);
            let own: usize = places[at..end].iter().map(|p| p.path.len() - shared).sum();
            let work = Work::Decode { places: at..end, shared };
            pieces.extend((0..heads.keys).map(|head| Piece { head, work: work.clone(), cost: 4 * (own + shared) }));
            at = end;
        }
        let share = pieces.iter().map(|p| p.cost).sum::<usize>() / (threads * 4) + 1;
        tasks.clear();
        let (mut first, mut sum) = (0, 0);
        for (i, piece) in pieces.iter().enumerate() {
            sum += piece.cost;
            if sum >= share || i + 1 == pieces.len() {
                tasks.push(first..i + 1);
                (first, sum) = (i + 1, 0);
            }
        }
    }

    fn attend(&mut self, net: &Net<'_>, layer: usize, pages: &Pages) {
        let (cpu, heads) = (&net.model.cpu, net.model.config.heads);
        let (pieces, tasks) = (&self.pieces, &self.tasks);
        let layer = Layer {
            isa: cpu.isa(),
            heads,
            pages,
            index: layer,
            places: &self.places,
            paths: &self.paths,
            qkv: &self.qkv,
        };
        let waits = |piece: &Piece| matches!(piece.work, Work::Prompt { alone: false, .. });
        if pieces.iter().any(waits) {
            cpu.parallel(pieces.len(), |task| {
                if let Piece { head, work: Work::Prompt { place, from: 0, alone: false, .. }, .. } = pieces[task] {
                    layer.store(place, head);
                }
            });
        }
        let out = Shared::new(&mut self.attention);
        cpu.parallel(tasks.len(), |task| {
            for Piece { head, work, .. } in &pieces[tasks[task].clone()] {
                match work {
                    Work::Prompt { place, from, len, alone } => {
                        if *alone {
                            layer.store(*place, *head);
                        }
                        layer.attend(*place, *head, *from, *len, out);
                    }
                    Work::Decode { places, shared } => layer.attend_together(places.clone(), *head, *shared, out),
                }
            }
        });
    }

    /// Head and choice for the rows that are due.
    fn sample(&mut self, snapshot: &Snapshot, jobs: &mut [Job], rows: usize) {
        let net = snapshot.net();
        let (c, cpu) = (&net.model.config, &net.model.cpu);
        let (hidden, due, x) = (c.hidden, &self.due, &self.x[..rows * c.hidden]);
        self.logits.grow(due.len() * c.vocab);
        let (logits, jobs) = (Shared::new(&mut self.logits), Shared::new(jobs));
        // SAFETY: a job is due at most once; every due row has its own logits.
        let choose = |at: usize| unsafe {
            let (job, logits) = (&mut jobs.slice(due[at].0, 1)[0], logits.slice(at * c.vocab, c.vocab));
            choose::with_scratch(|scratch| job.advance(cpu.isa(), c, &snapshot.version, logits, scratch));
        };
        let many = is_many(cpu, due.len());
        by_rows(cpu, due.len(), |spread, at, n| {
            with_scratch(n * (2 * hidden + 1), |scratch| {
                let (last, rest) = scratch.split_at_mut(n * hidden);
                let (normed, rstd) = rest.split_at_mut(n * hidden);
                for (to, (_, row)) in last.chunks_exact_mut(hidden).zip(&due[at..]) {
                    to.copy_from_slice(&x[row * hidden..][..hidden]);
                }
                net.final_norm(cpu.isa(), last, normed, rstd);
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
    let turns = rows.div_ceil(cpu.threads() * ROWS);
    let share = rows.div_ceil(cpu.threads() * turns);
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
        net.after_attention(spread, layer, x, attention, &mut After { mid, rstd, normed, gate_up, hidden }, next);
    });
}

/// Pieces of a prompt that takes more than one row.
fn plan_prompt(heads: Heads, place: usize, p: &Place, pieces: &mut Vec<Piece>) {
    let tokens = heads.tokens_per_tile();
    for from in (0..p.len).step_by(tokens) {
        let len = tokens.min(p.len - from);
        let cost = pages_of(p.start + from + len) * (len * heads.group() + 2);
        let work = Work::Prompt { place, from, len, alone: p.len <= tokens };
        pieces.extend((0..heads.keys).map(|head| Piece { head, work: work.clone(), cost }));
    }
}

/// The end of a run of decoding places that are better computed together, and the number of pages they share.
///
/// A page is read once for all who share it; a member that shares less than the others makes these others read the
/// difference one by one.
fn sharing(places: &[Place], paths: &[NodeId], first: usize, most: usize) -> (usize, usize) {
    let whole = |place: &Place| &paths[place.path.clone()][..place.start / KEYS];
    let start = whole(&places[first]);
    let (mut end, mut shared) = (first + 1, start.len());
    for place in places[first + 1..].iter().take(most - 1).take_while(|p| p.len == 1) {
        let common = start[..shared].iter().zip(whole(place)).take_while(|(a, b)| a == b).count();
        if common <= (shared - common) * (end - first - 1) {
            break;
        }
        (end, shared) = (end + 1, common);
    }
    (end, if end == first + 1 { 0 } else { shared })
}

/// One layer of a step.
struct Layer<'a> {
    isa: Isa,
    heads: Heads,
    pages: &'a Pages,
    index: usize,
    places: &'a [Place],
    paths: &'a [NodeId],
    qkv: &'a [f32],
}

impl Layer<'_> {
    fn path(&self, place: usize) -> &[NodeId] {
        &self.paths[self.places[place].path.clone()]
    }

    /// Puts the keys and values of a place's rows into their pages.
    fn store(&self, place: usize, head: usize) {
        let (heads, path, place) = (self.heads, self.path(place), &self.places[place]);
        let (width, dim, end) = (heads.width(), heads.dim, place.start + place.len);
        let mut position = place.start;
        while position < end {
            let at = position % KEYS;
            let count = (KEYS - at).min(end - position);
            let row = &self.qkv[(place.row + position - place.start) * width..];
            // SAFETY: positions that are not computed yet lie in pages that only this job has in its path, and of
            // those only this task touches the blocks of this head.
            let (keys, values) = unsafe { self.pages.write(path[position / KEYS], self.index, head) };
            put_transposed(&row[heads.key_column(head)..], width, dim, count, at, keys);
            put_rows(&row[heads.value_column(head)..], width, dim, count, at, heads.padded(), values);
            position += count;
        }
    }

    /// Attention of `len` rows of a place over the pages up to them: the same blocks in the same order as in training.
    fn attend(&self, place: usize, head: usize, from: usize, len: usize, out: Shared<'_>) {
        let (path, place, group) = (self.path(place), &self.places[place], self.heads.group());
        let (row, start) = (place.row + from, place.start + from);
        self.with_tile(row, len, head, out, |tile| {
            for (page, from) in path.iter().zip((0..start + len).step_by(KEYS)) {
                let (keys, values) = self.read(*page, head);
                let first = from.saturating_sub(start) * group;
                tile.absorb(keys, values, first, |i| (start + i / group + 1 - from).min(KEYS));
            }
        });
    }

    /// Attention of decoding rows, which lie next to each other: pages they share for all at once, then each one's own.
    fn attend_together(&self, places: Range<usize>, head: usize, shared: usize, out: Shared<'_>) {
        let group = self.heads.group();
        places.clone().for_each(|place| self.store(place, head));
        self.with_tile(self.places[places.start].row, places.len(), head, out, |tile| {
            for page in &self.path(places.start)[..shared] {
                let (keys, values) = self.read(*page, head);
                tile.absorb(keys, values, 0, |_| KEYS);
            }
            for (i, place) in places.clone().enumerate() {
                let mut own = tile.part(i * group..(i + 1) * group);
                let seen = self.places[place].start + 1;
                for (page, from) in self.path(place).iter().zip((0..seen).step_by(KEYS)).skip(shared) {
                    let (keys, values) = self.read(*page, head);
                    own.absorb(keys, values, 0, |_| (seen - from).min(KEYS));
                }
            }
        });
    }

    fn read(&self, page: NodeId, head: usize) -> (&[f32], &[f32]) {
        // SAFETY: what is written in this step was written before: by this task, or in an earlier region.
        unsafe { self.pages.read(page, self.index, head) }
    }

    /// A tile of the queries of some rows, and its results written.
    fn with_tile(&self, row: usize, len: usize, head: usize, out: Shared<'_>, body: impl FnOnce(&mut Tile<'_>)) {
        let (heads, group, dim) = (self.heads, self.heads.group(), self.heads.dim);
        let (count, column) = (len * group, |i: usize| (head * group + i % group) * dim);
        with_scratch(Tile::scratch(heads, count), |scratch| {
            let mut tile = Tile::new(self.isa, heads, count, scratch);
            for i in 0..count {
                tile.set(i, &self.qkv[(row + i / group) * heads.width() + column(i)..][..dim]);
            }
            body(&mut tile);
            for i in 0..count {
                // SAFETY: nobody else writes these rows for these heads.
                tile.finish(i, unsafe { out.slice((row + i / group) * heads.out_width() + column(i), dim) });
            }
        });
    }
}

impl Tile<'_> {
    /// Some rows of a tile, as one of its own.
    fn part(&mut self, rows: Range<usize>) -> Tile<'_> {
        let (dim, wide) = (self.heads.dim, self.heads.padded());
        Tile {
            isa: self.isa,
            heads: self.heads,
            rows: rows.len(),
            q: &mut self.q[rows.start * dim..rows.end * dim],
            out: &mut self.out[rows.start * wide..rows.end * wide],
            max: &mut self.max[rows.clone()],
            sum: &mut self.sum[rows.clone()],
            scores: &mut self.scores[rows.start * KEYS..rows.end * KEYS],
        }
    }
}
