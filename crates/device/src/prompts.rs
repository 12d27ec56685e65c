//! Flash attention in a decoding step: prompts, and what an environment appends to a conversation.
//!
//! Over pages each row reads all its keys. For a run of many rows its earlier keys are gathered from the pages first, and flash
//! attention then reads them once for many rows.

use std::ops::Range;

use hone_cuda::attention::{self, Node, Plan, Qkv, Rows};
use hone_cuda::decode::{self, Layer};
use hone_cuda::{Buffer, Float, Gpu};
use hone_engine::Result;
use hone_engine::generate::step::{Run, Step};

use crate::body::Body;
use crate::cuda::{Spec, fault};
use crate::pages::Pages;

/// Minimum number of rows of a run whose earlier keys are gathered: fewer rows read less over pages.
const MANY: usize = 16;
/// Memory of the gathered keys and values of a part, in bytes. A run that needs more has its attention over pages.
const GATHERED: usize = 256 << 20;

/// Division of a step's rows by the kernel of their attention.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Division {
    /// Consecutive runs for flash attention: together all runs of the step, or none.
    parts: Vec<Range<usize>>,
    /// Rows whose attention is over pages.
    pub(crate) paged: Vec<Range<usize>>,
    /// Number of rows, with padding.
    padded: usize,
    /// Maximum number of keys of a part with gathered ones.
    most: usize,
}

impl Division {
    pub(crate) fn of<T: Float>(step: &Step, spec: &Spec, padded: usize) -> Self {
        let heads = spec.heads.padded();
        Self::within(step.runs(), padded, GATHERED / (2 * heads.kv * heads.dim * size_of::<T>()))
    }

    fn within(runs: &[Run], padded: usize, most: usize) -> Self {
        let mut division = Self { parts: Vec::new(), paged: Vec::new(), padded, most };
        let starts = |run: &Run| run.start == 0 && run.len > 1;
        if runs.iter().any(|run| starts(run) || division.gathers(run)) {
            division.cut(runs);
        } else {
            division.paged.push(0..padded);
        }
        division
    }

    /// True if the run's earlier keys are gathered.
    fn gathers(&self, run: &Run) -> bool {
        run.start > 0 && run.len >= MANY && run.start + run.len <= self.most
    }

    /// Run and position of each row whose attention is over pages, without padding.
    pub(crate) fn over_pages<'a>(&'a self, runs: &'a [Run]) -> impl Iterator<Item = (&'a Run, usize)> {
        let paged = runs.iter().filter(|run| self.parts.is_empty() || self.is_paged(run));
        paged.flat_map(|run| (run.start..run.start + run.len).map(move |position| (run, position)))
    }

    /// True if the run is neither a new prompt nor gathers its earlier keys.
    fn is_paged(&self, run: &Run) -> bool {
        run.start > 0 && !self.gathers(run)
    }

    fn cut(&mut self, runs: &[Run]) {
        let (mut from, mut rows, mut earlier) = (0, 0, 0);
        for (at, run) in runs.iter().enumerate() {
            let more = if self.gathers(run) { run.start } else { 0 };
            if at > from && earlier + more > 0 && earlier + more + rows + run.len > self.most {
                self.parts.push(from..at);
                (from, rows, earlier) = (at, 0, 0);
            }
            (rows, earlier) = (rows + run.len, earlier + more);
            if self.is_paged(run) {
                match self.paged.last_mut() {
                    Some(last) if last.end == run.row => last.end = run.row + run.len,
                    _ => self.paged.push(run.row..run.row + run.len),
                }
            }
        }
        self.parts.push(from..runs.len());
    }

    /// The parts on the device.
    pub(crate) fn parts<T: Float>(&self, gpu: &Gpu, step: &Step, pages: &Pages<T>) -> Result<Vec<Part>> {
        self.parts.iter().map(|runs| self.part(gpu, step, runs.clone(), pages)).collect()
    }

    fn part<T: Float>(&self, gpu: &Gpu, step: &Step, runs: Range<usize>, pages: &Pages<T>) -> Result<Part> {
        let last = runs.end == step.runs().len();
        let runs = &step.runs()[runs];
        let first = runs.first().map_or(0, |run| run.row);
        let own_end = runs.last().map_or(0, |run| run.row + run.len);
        let end = if last { self.padded } else { own_end };
        let slots = |run: &Run, positions: Range<usize>| -> Vec<i32> {
            positions.map(|at| pages.slot(&step.paths()[run.path.clone()], at) as i32).collect()
        };
        let mut keys: Vec<i32> =
            runs.iter().filter(|run| self.gathers(run)).flat_map(|run| slots(run, 0..run.start)).collect();
        let before = keys.len();
        let place = |rows: Range<usize>| before + rows.start - first..before + rows.end - first;
        let mut earlier = 0;
        let node = |run: &Run| {
            let first = earlier;
            earlier += if self.gathers(run) { run.start } else { 0 };
            let ancestors = (earlier > first).then_some(first..earlier).into_iter().collect();
            Node { tokens: place(run.row..run.row + run.len), ancestors }
        };
        let mut nodes: Vec<Node> = runs.iter().map(node).collect();
        // Rows of padding see themselves.
        if end > own_end {
            nodes.push(Node { tokens: place(own_end..end), ancestors: Vec::new() });
        }
        let plan = Plan::forest(gpu, &nodes).map_err(fault)?;
        if before == 0 {
            return Ok(Part { rows: first..end, plan, keys: None });
        }
        keys.extend(runs.iter().flat_map(|run| slots(run, run.start..run.start + run.len)));
        keys.resize(before + end - first, -1);
        Ok(Part { rows: first..end, plan, keys: Some(Buffer::from_slice(gpu, &keys).map_err(fault)?) })
    }
}

/// Consecutive rows of a step for flash attention.
#[derive(Debug)]
pub(crate) struct Part {
    rows: Range<usize>,
    plan: Plan,
    /// Slots of the earlier keys and of the rows' own; `None` if there are no earlier ones.
    keys: Option<Buffer<i32>>,
}

impl<T: Float> Body<'_, T> {
    /// Attention of a part's rows. Those over pages see only their own run here, and are overwritten.
    pub(crate) fn flash(&self, part: &Part, qkv: Qkv<'_, T>, cache: Layer<'_, T>, o: &mut Buffer<T>) -> Result<()> {
        let (heads, rows) = (self.spec.heads.padded(), part.rows.clone());
        let (gathered_k, gathered_v);
        let (k, v) = match &part.keys {
            None => (qkv.k.part(&rows), qkv.v.part(&rows)),
            Some(slots) => {
                let stride = heads.kv * heads.dim;
                let (mut k, mut v) = (self.buffer(slots.len() * stride)?, self.buffer(slots.len() * stride)?);
                let (to_k, to_v) = (&mut k.view_mut(), &mut v.view_mut());
                decode::gather(self.gpu, heads, cache, slots.view(), to_k, to_v).map_err(fault)?;
                (gathered_k, gathered_v) = (k, v);
                (Rows { view: gathered_k.view(), stride }, Rows { view: gathered_v.view(), stride })
            }
        };
        let width = heads.q * heads.dim;
        let mut lse = Buffer::uninit(self.gpu, rows.len() * heads.q).map_err(fault)?;
        let o = &mut o.part_mut(rows.start * width..rows.end * width);
        attention::forward(self.gpu, heads, &part.plan, Qkv { q: qkv.q.part(&rows), k, v }, o, &mut lse.view_mut())
            .map_err(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (start, rows) of each run.
    fn runs(of: &[(usize, usize)]) -> Vec<Run> {
        let mut row = 0;
        let mut run = |&(start, len): &(usize, usize)| {
            row += len;
            Run { row: row - len, start, len, path: 0..0, samples: true }
        };
        of.iter().map(&mut run).collect()
    }

    fn division(runs: &[Run], most: usize) -> Division {
        let rows = runs.last().map_or(0, |run| run.row + run.len);
        Division::within(runs, rows + 3, most)
    }

    #[test]
    fn replies_alone_are_over_pages() {
        let runs = runs(&[(40, 1), (7, 1), (0, 1), (90, MANY - 1)]);
        let division = division(&runs, 1000);
        let all = 0..MANY + 5;
        assert_eq!((division.parts.len(), &division.paged[..]), (0, std::slice::from_ref(&all)));
        assert_eq!(division.over_pages(&runs).count(), MANY + 2);
    }

    #[test]
    fn short_runs_and_those_with_too_many_keys_are_over_pages_beside_prompts() {
        let runs = runs(&[(0, 20), (40, 1), (7, 2), (50, MANY), (990, MANY), (3, 1), (0, 1)]);
        let division = division(&runs, 1000);
        let all = 0..runs.len();
        assert_eq!(division.parts, [all]);
        assert_eq!(division.paged, [20..23, 39..39 + MANY + 1]);
        let over: Vec<usize> = division.over_pages(&runs).map(|(run, at)| run.row + at - run.start).collect();
        assert_eq!(over, division.paged.iter().cloned().flatten().collect::<Vec<_>>());
    }

    #[test]
    fn parts_are_cut_where_their_keys_would_be_too_many() {
        let gathered = |start| (start, 20);
        let alone = runs(&[(0, 5000), (0, 5000)]);
        assert_eq!(division(&alone, 1000).parts, std::slice::from_ref(&(0..2)), "no earlier keys: nothing to gather");
        let many = runs(&[gathered(400), gathered(400), gathered(300), (0, 700), gathered(100), (5, 1)]);
        assert_eq!(division(&many, 1000).parts, [0..2, 2..3, 3..6]);
    }
}
