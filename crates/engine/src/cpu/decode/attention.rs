//! Paged attention of a decoding step: rows of many requests over the pages of their sequences.
//!
//! Requests that share a prefix read its pages together, which saves most of the reading when several replies to one
//! prompt are sampled. The rows of a tile do not influence each other and every row visits its pages in the same order
//! as in training, so grouping rows affects only speed.

#![expect(unsafe_code, reason = "tasks write disjoint rows and pages")]

use std::ops::Range;

use crate::cpu::decode::pages::Pages;
use crate::cpu::kernels::attention::{Block, Heads, KEYS, Seen, Tile, put_rows, put_transposed};
use crate::cpu::kernels::simd::Isa;
use crate::cpu::{Cpu, Shared, with_scratch};
use crate::generate::pages_of;
use crate::generate::step::{PageId, Run, Step};

/// Attention plan of a step: the work of its rows, cut into tasks.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pieces: Vec<Piece>,
    /// Ranges of pieces that cost about the same.
    tasks: Vec<Range<usize>>,
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

impl Plan {
    /// Cuts the work into tasks of about the same cost: a decoding request is too little for one, a long prompt too
    /// much.
    pub(super) fn cut(&mut self, step: &Step, heads: Heads, threads: usize) {
        let Self { pieces, tasks } = self;
        let (places, paths) = (step.runs(), step.paths());
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
            let cost = own * (heads.group() + 2) + shared * ((end - at) * heads.group() + 2);
            let work = Work::Decode { places: at..end, shared };
            pieces.extend((0..heads.keys).map(|head| Piece { head, work: work.clone(), cost }));
            at = end;
        }
        let share = pieces.iter().map(|p| p.cost).sum::<usize>() / (threads * 8) + 1;
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

    /// Attention of one layer for all rows: `out[row]` from `qkv[row]` and the pages, where it stores the new keys and
    /// values.
    pub(super) fn run(&self, cpu: &Cpu, step: &Step, pages: &Pages, layer: usize, qkv: &[f32], out: &mut [f32]) {
        let (pieces, tasks) = (&self.pieces, &self.tasks);
        let heads = pages.shape().heads;
        let layer = Layer { isa: cpu.isa(), heads, pages, index: layer, places: step.runs(), paths: step.paths(), qkv };
        let waits = |piece: &Piece| matches!(piece.work, Work::Prompt { alone: false, .. });
        if pieces.iter().any(waits) {
            cpu.parallel(pieces.len(), |task| {
                if let Piece { head, work: Work::Prompt { place, from: 0, alone: false, .. }, .. } = pieces[task] {
                    layer.store(place, head);
                }
            });
        }
        let out = Shared::new(out);
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
}

/// Pieces of a prompt that takes more than one row.
fn plan_prompt(heads: Heads, place: usize, p: &Run, pieces: &mut Vec<Piece>) {
    let tokens = heads.tokens_per_tile();
    for from in (0..p.len).step_by(tokens) {
        let len = tokens.min(p.len - from);
        let cost = pages_of(p.start + from + len) * (len * heads.group() + 2);
        let work = Work::Prompt { place, from, len, alone: p.len <= tokens };
        pieces.extend((0..heads.keys).map(|head| Piece { head, work: work.clone(), cost }));
    }
}

/// End of a run of decoding places that are faster to compute together, and the number of pages they share.
///
/// A page is read once for all who share it; a member that shares less makes the others read the difference separately.
fn sharing(places: &[Run], paths: &[PageId], first: usize, most: usize) -> (usize, usize) {
    let whole = |place: &Run| &paths[place.path.clone()][..place.start / KEYS];
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
    places: &'a [Run],
    paths: &'a [PageId],
    qkv: &'a [f32],
}

impl Layer<'_> {
    fn path(&self, place: usize) -> &[PageId] {
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
            // SAFETY: positions that are not computed yet are in pages that no other run of the step has in its path, and
            // of those only this task touches the blocks of this head.
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
            for (i, from) in (0..start + len).step_by(KEYS).enumerate() {
                let block = self.read(path[i], path.get(i + 1), head);
                let (first, seen) = (from.saturating_sub(start), start.saturating_sub(from) + 1);
                tile.absorb(block, first * group, Seen { from: seen, group });
            }
        });
    }

    /// Attention of adjacent decoding rows: shared pages for all at once, then each row's other pages.
    fn attend_together(&self, places: Range<usize>, head: usize, shared: usize, out: Shared<'_>) {
        let group = self.heads.group();
        places.clone().for_each(|place| self.store(place, head));
        self.with_tile(self.places[places.start].row, places.len(), head, out, |tile| {
            let first = self.path(places.start);
            for (i, page) in first[..shared].iter().enumerate() {
                tile.absorb(self.read(*page, first.get(i + 1), head), 0, Seen::ALL);
            }
            // Page by page, not request by request: the prefetched page is then as full as the one being read.
            let own = |page: usize| places.clone().filter(move |&place| page < pages_of(self.places[place].start + 1));
            let most = places.clone().map(|place| self.path(place).len()).max().unwrap_or(0);
            for page in shared..most {
                let mut members = own(page).peekable();
                while let Some(place) = members.next() {
                    let (next, after) = match members.peek() {
                        Some(&next) => (next, page),
                        None => (own(page + 1).next().unwrap_or(place), page + 1),
                    };
                    let block = self.read(self.path(place)[page], self.path(next).get(after), head);
                    let row = (place - places.start) * group;
                    let seen = self.places[place].start + 1 - page * KEYS;
                    tile.part(row..row + group).absorb(block, 0, Seen::first(seen.min(KEYS)));
                }
            }
        });
    }

    /// A page's keys and values, and the address of the next page's.
    fn read(&self, page: PageId, next: Option<&PageId>, head: usize) -> Block<'_> {
        // SAFETY: what is written in this step was written before: by this task, or in an earlier region.
        let (keys, values) = unsafe { self.pages.read(page, self.index, head) };
        let mut block = Block::new(keys, values);
        if let Some(next) = next {
            block.next = self.pages.address(*next, self.index, head);
        }
        block
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
    /// Sub-tile of some rows.
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
