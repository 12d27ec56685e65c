//! Flash attention over packed sequences and forests. Formulas and layout: `kernels/attention.cu`.

#![expect(unsafe_code, reason = "launches kernels; shapes are checked first")]

use std::cmp::Reverse;
use std::ops::Range;

use crate::buffer::{Buffer, Float, View, ViewMut};
use crate::error::{Result, ensure};
use crate::gpu::{Arg, Gpu, Launch};
use crate::rope::Heads;

mod hopper;

/// Tile sizes of one build of the kernels: rows per block, keys or queries per step. They must match those in `compile.rs`.
#[derive(Clone, Copy, Debug)]
struct Tuning {
    module: &'static str,
    forward: (usize, usize),
    keys: (usize, usize),
    queries: (usize, usize),
}

const HOPPER: Tuning = Tuning { module: "attention_hopper", forward: (128, 128), keys: (128, 64), queries: (128, 64) };
const PORTABLE: Tuning = Tuning { module: "attention", forward: (128, 64), ..HOPPER };
/// Tiles for 99 KiB of shared memory: desktop GPUs (8.6, 8.9, 12.0).
const SMALL: Tuning = Tuning { module: "attention_small", keys: (128, 32), queries: (64, 32), ..PORTABLE };

impl Tuning {
    /// Bytes of shared memory of the portable kernels: forward, dK and dV, dQ.
    const fn shared(&self, dim: usize) -> [usize; 3] {
        let Self { forward, keys, queries, .. } = self;
        let (rows, statistics) = (dim * 2, 4 * keys.1 * 4);
        [
            (forward.0 + 4 * forward.1) * rows,
            (2 * keys.0 + 4 * keys.1) * rows + statistics,
            (2 * queries.0 + 5 * queries.1) * rows,
        ]
    }
}

/// Run of consecutive tokens, and the earlier runs that it also sees. A packed sequence is a node without ancestors; a branch
/// of a forest names the nodes on its way to the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub tokens: Range<usize>,
    /// Tokens of the ancestors, each before `tokens`.
    pub ancestors: Vec<Range<usize>>,
}

/// Nodes of packed sequences of these lengths.
pub fn packed(lengths: &[usize]) -> Vec<Node> {
    let mut at = 0;
    let mut node = |len: &usize| {
        at += len;
        Node { tokens: at - len..at, ancestors: Vec::new() }
    };
    lengths.iter().map(&mut node).collect()
}

/// Blocks of rows of one kernel, and the rows each of them attends to.
#[derive(Debug)]
struct Tiles {
    /// (first row, end row, first range, end range) per block, the longest work first.
    blocks: Buffer<i32>,
    ranges: Buffer<i32>,
    count: usize,
}

/// Attention mask of a packed batch, prepared for the kernels. Depends on the packing only: built once per batch, used
/// by every layer.
#[derive(Debug)]
pub struct Plan {
    forward: Tiles,
    keys: Tiles,
    queries: Tiles,
    /// Number of keys, and of those before the first query.
    tokens: usize,
    before: usize,
    tuning: Tuning,
}

impl Plan {
    /// Packed sequences of these lengths.
    pub fn packed(gpu: &Gpu, lengths: &[usize]) -> Result<Self> {
        Self::forest(gpu, &packed(lengths))
    }

    /// Forest of nodes that cover the tokens in order, without gaps. Tokens before the first node are keys only: then there is no
    /// backward pass.
    pub fn forest(gpu: &Gpu, nodes: &[Node]) -> Result<Self> {
        if gpu.hopper() { Self::tuned(gpu, nodes, HOPPER) } else { Self::portable(gpu, nodes) }
    }

    /// Like [`Plan::forest`], for the kernels without Hopper's instructions, as run on other GPUs.
    pub fn portable(gpu: &Gpu, nodes: &[Node]) -> Result<Self> {
        let fits = PORTABLE.shared(128).iter().all(|&bytes| bytes <= gpu.shared_memory());
        Self::tuned(gpu, nodes, if fits { PORTABLE } else { SMALL })
    }

    /// Like [`Plan::portable`], for GPUs with little shared memory.
    pub fn small(gpu: &Gpu, nodes: &[Node]) -> Result<Self> {
        Self::tuned(gpu, nodes, SMALL)
    }

    fn tuned(gpu: &Gpu, nodes: &[Node], tuning: Tuning) -> Result<Self> {
        let before = nodes.first().map_or(0, |node| node.tokens.start);
        let mut tokens = before;
        for node in nodes {
            let whole = node.tokens.start == tokens && node.ancestors.iter().all(|a| a.end <= node.tokens.start);
            ensure(whole, "attention", || format!("{node:?} after {tokens} tokens"))?;
            tokens = node.tokens.end;
        }
        let (sees, trained) = (query_ranges(nodes), if before == 0 { nodes } else { &[] });
        Ok(Self {
            forward: Tiles::new(gpu, nodes, &sees, tuning.forward.0, query_work)?,
            keys: Tiles::new(gpu, trained, &key_ranges(trained), tuning.keys.0, key_work)?,
            queries: Tiles::new(gpu, trained, &sees, tuning.queries.0, query_work)?,
            tokens,
            before,
            tuning,
        })
    }

    pub fn tokens(&self) -> usize {
        self.tokens
    }

    fn rows(&self) -> usize {
        self.tokens - self.before
    }

    fn hopper<T: Float>(&self) -> bool {
        T::SUFFIX == "bf16" && self.tuning.module == HOPPER.module
    }

    /// Kernel module for a storage type; the f32 kernels take tiles of any size.
    fn module<T: Float>(&self) -> &'static str {
        if T::SUFFIX == "f32" { "attention_f32" } else { self.tuning.module }
    }

    /// Bytes of shared memory: forward, dK and dV, dQ. The f32 kernels need none.
    fn shared<T: Float>(&self, heads: Heads) -> [u32; 3] {
        if T::SUFFIX == "f32" { [0; 3] } else { self.tuning.shared(heads.dim).map(|bytes| bytes as u32) }
    }
}

/// Runs of keys that the queries of each node see: its ancestors and itself.
fn query_ranges(nodes: &[Node]) -> Vec<Vec<Range<usize>>> {
    nodes.iter().map(|n| n.ancestors.iter().cloned().chain([n.tokens.clone()]).collect()).collect()
}

/// Runs of queries that see the keys of each node: itself and its descendants, adjacent ones joined.
fn key_ranges(nodes: &[Node]) -> Vec<Vec<Range<usize>>> {
    nodes
        .iter()
        .map(|n| {
            let mut runs = vec![n.tokens.clone()];
            for other in
                nodes.iter().filter(|o| o.ancestors.iter().any(|a| a.start < n.tokens.end && n.tokens.start < a.end))
            {
                match runs.last_mut() {
                    Some(last) if last.end == other.tokens.start => last.end = other.tokens.end,
                    _ => runs.push(other.tokens.clone()),
                }
            }
            runs
        })
        .collect()
}

/// Keys that a block of queries reads: the part of each run before the block's end.
fn query_work(block: &Range<usize>, runs: &[Range<usize>]) -> usize {
    runs.iter().map(|r| r.end.min(block.end) - r.start).sum()
}

/// Queries that a block of keys reads: the part of each run after the block's start.
fn key_work(block: &Range<usize>, runs: &[Range<usize>]) -> usize {
    runs.iter().map(|r| r.end - r.start.max(block.start)).sum()
}

impl Tiles {
    /// Blocks of `rows` rows of each node, the longest work first so that the last to run are short.
    fn new(
        gpu: &Gpu,
        nodes: &[Node],
        runs: &[Vec<Range<usize>>],
        rows: usize,
        work: fn(&Range<usize>, &[Range<usize>]) -> usize,
    ) -> Result<Self> {
        let mut blocks: Vec<(Range<usize>, usize)> = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let starts = node.tokens.clone().step_by(rows);
            blocks.extend(starts.map(|from| (from..(from + rows).min(node.tokens.end), index)));
        }
        blocks.sort_by_key(|(block, node)| (Reverse(work(block, &runs[*node])), block.start));
        let mut first = vec![0];
        first.extend(runs.iter().scan(0, |at, r| {
            *at += r.len();
            Some(*at)
        }));
        let flat: Vec<i32> = runs.iter().flatten().flat_map(|r| [r.start as i32, r.end as i32]).collect();
        let tiles: Vec<i32> =
            blocks.into_iter().flat_map(|(b, n)| [b.start, b.end, first[n], first[n + 1]].map(|x| x as i32)).collect();
        let (blocks, ranges) = (Buffer::from_slice(gpu, &tiles)?, Buffer::from_slice(gpu, &flat)?);
        Ok(Self { count: blocks.len() / 4, blocks, ranges })
    }
}

/// Rows of heads, `stride` elements from token to token.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, T> {
    pub view: View<'a, T>,
    pub stride: usize,
}

impl<T> Rows<'_, T> {
    /// Some of the rows.
    #[must_use]
    pub fn part(self, rows: &Range<usize>) -> Self {
        let end = (rows.end * self.stride).min(self.view.len());
        Self { view: self.view.slice(rows.start * self.stride..end), ..self }
    }
}

/// Mutable rows of heads, `stride` elements from token to token.
#[derive(Debug)]
pub struct RowsMut<'a, T> {
    pub view: ViewMut<'a, T>,
    pub stride: usize,
}

/// Queries, keys and values.
#[derive(Clone, Copy, Debug)]
pub struct Qkv<'a, T> {
    pub q: Rows<'a, T>,
    pub k: Rows<'a, T>,
    pub v: Rows<'a, T>,
}

/// Forward pass: attention output `o` ([queries, q_heads * head_dim]) and `lse` ([q_heads, queries]).
pub fn forward<T: Float>(
    gpu: &Gpu,
    heads: Heads,
    plan: &Plan,
    qkv: Qkv<'_, T>,
    o: &mut ViewMut<'_, T>,
    lse: &mut ViewMut<'_, f32>,
) -> Result<()> {
    check(heads, plan, qkv)?;
    ensure(o.len == plan.rows() * heads.q * heads.dim && lse.len == plan.rows() * heads.q, "attention", || {
        format!("o {}, lse {} for {} queries of {heads:?}", o.len, lse.len, plan.rows())
    })?;
    if plan.hopper::<T>() {
        return hopper::forward(gpu, heads, plan, qkv, o, lse);
    }
    let kernel = format!("attention_forward_{}", heads.dim);
    let [shared, ..] = plan.shared::<T>(heads);
    let out: [Arg; 3] = [(&*o).into(), ((heads.q * heads.dim) as i64).into(), (&*lse).into()];
    let args = [&operands(qkv)[..], &out, &tail(heads, plan, &plan.forward), &[plan.before.into()]].concat();
    let launch = Launch {
        module: plan.module::<T>(),
        kernel: &kernel,
        grid: (heads.q as u32, plan.forward.count as u32),
        block: (plan.tuning.forward.0 * 2) as u32,
        shared,
    };
    // SAFETY: as attention_forward declares; lengths checked above; the plan covers the tokens.
    unsafe { gpu.launch(launch, &args) }
}

/// Inputs of the backward pass from the forward pass, and the gradient of its output; all [tokens, q_heads * head_dim] but
/// `lse`.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a, T> {
    pub o: View<'a, T>,
    pub lse: View<'a, f32>,
    pub d_o: View<'a, T>,
}

/// Gradients of queries, keys and values.
#[derive(Debug)]
pub struct DQkv<'a, T> {
    pub dq: RowsMut<'a, T>,
    pub dk: RowsMut<'a, T>,
    pub dv: RowsMut<'a, T>,
}

/// Backward pass: gradients of queries, keys and values, overwritten.
pub fn backward<T: Float>(
    gpu: &Gpu,
    heads: Heads,
    plan: &Plan,
    qkv: Qkv<'_, T>,
    saved: Saved<'_, T>,
    out: &mut DQkv<'_, T>,
) -> Result<()> {
    check(heads, plan, qkv)?;
    check_gradients(heads, plan, saved, out)?;
    let delta = delta(gpu, heads, plan, saved)?;
    if plan.hopper::<T>() {
        return hopper::backward(gpu, heads, plan, qkv, saved, delta.view(), out);
    }

    let [_, for_keys, for_queries] = plan.shared::<T>(heads);
    let stride = Arg::from((heads.q * heads.dim) as i64);
    let common = [&operands(qkv)[..], &[saved.d_o.into(), stride, saved.lse.into(), delta.view().into()]].concat();
    let written = |r: &RowsMut<'_, T>| -> [Arg; 2] { [(&r.view).into(), (r.stride as i64).into()] };
    let args = [&common[..], &written(&out.dk), &written(&out.dv), &tail(heads, plan, &plan.keys)].concat();
    let kernel = format!("attention_backward_kv_{}", heads.dim);
    let launch = Launch {
        module: plan.module::<T>(),
        kernel: &kernel,
        grid: (heads.kv as u32, plan.keys.count as u32),
        block: (plan.tuning.keys.0 * 2) as u32,
        shared: for_keys,
    };
    // SAFETY: as attention_backward_kv declares; lengths checked above; the plan covers the tokens.
    unsafe { gpu.launch(launch, &args) }?;

    let args = [&common[..], &written(&out.dq), &tail(heads, plan, &plan.queries)].concat();
    let kernel = format!("attention_backward_q_{}", heads.dim);
    let launch = Launch {
        module: plan.module::<T>(),
        kernel: &kernel,
        grid: (heads.q as u32, plan.queries.count as u32),
        block: (plan.tuning.queries.0 * 2) as u32,
        shared: for_queries,
    };
    // SAFETY: as attention_backward_q declares; lengths checked above; the plan covers the tokens.
    unsafe { gpu.launch(launch, &args) }
}

/// Row sums of `o * d_o` per token and query head: the term that the softmax gradient subtracts.
fn delta<T: Float>(gpu: &Gpu, heads: Heads, plan: &Plan, saved: Saved<'_, T>) -> Result<Buffer<f32>> {
    let mut delta = Buffer::<f32>::uninit(gpu, plan.tokens * heads.q)?;
    let kernel = format!("attention_backward_delta_{}", heads.dim);
    // A warp per token and head in f32; in bf16 a lane per eight columns of a head, for four tokens.
    let warps = match T::SUFFIX {
        "f32" => plan.tokens * heads.q,
        _ => (plan.tokens.div_ceil(4) * heads.q * heads.dim / 8).div_ceil(32),
    };
    let grid = (warps.div_ceil(8) as u32, 1);
    let launch = Launch { module: plan.module::<T>(), kernel: &kernel, grid, block: 256, shared: 0 };
    let args = [
        saved.o.into(),
        saved.d_o.into(),
        ((heads.q * heads.dim) as i64).into(),
        (&delta.view_mut()).into(),
        plan.tokens.into(),
        heads.q.into(),
        heads.kv.into(),
    ];
    // SAFETY: as attention_backward_delta declares; lengths were checked by the caller.
    unsafe { gpu.launch(launch, &args) }?;
    Ok(delta)
}

fn operands<T: Copy>(qkv: Qkv<'_, T>) -> [Arg; 6] {
    let [q, k, v] = [qkv.q, qkv.k, qkv.v].map(|r| [r.view.into(), (r.stride as i64).into()]);
    [q[0], q[1], k[0], k[1], v[0], v[1]]
}

fn tail(heads: Heads, plan: &Plan, tiles: &Tiles) -> [Arg; 6] {
    let scale = 1.0 / (heads.dim as f32).sqrt();
    let (rows, q, kv) = (plan.rows().into(), heads.q.into(), heads.kv.into());
    [tiles.blocks.view().into(), tiles.ranges.view().into(), rows, q, kv, scale.into()]
}

fn covers(tokens: usize, len: usize, stride: usize, width: usize) -> bool {
    stride >= width && stride.is_multiple_of(8) && (tokens == 0 || (tokens - 1) * stride + width <= len)
}

fn check_gradients<T: Copy>(heads: Heads, plan: &Plan, saved: Saved<'_, T>, out: &DQkv<'_, T>) -> Result<()> {
    let fits = saved.o.len == plan.tokens * heads.q * heads.dim
        && saved.d_o.len == saved.o.len
        && saved.lse.len == plan.tokens * heads.q;
    let covers = |r: &RowsMut<'_, T>, count: usize| covers(plan.tokens, r.view.len, r.stride, count * heads.dim);
    let covered = covers(&out.dq, heads.q) && covers(&out.dk, heads.kv) && covers(&out.dv, heads.kv);
    ensure(fits && covered && plan.before == 0, "attention backward", || {
        let [dq, dk, dv] = [&out.dq, &out.dk, &out.dv].map(|r| r.view.len);
        format!("o {}, do {}, dq {dq}, dk {dk}, dv {dv}, {} keys only", saved.o.len, saved.d_o.len, plan.before)
    })
}

fn check<T: Copy>(heads: Heads, plan: &Plan, qkv: Qkv<'_, T>) -> Result<()> {
    ensure(heads.dim == 64 || heads.dim == 128, "attention", || format!("heads of {}; 64 and 128 exist", heads.dim))?;
    ensure(heads.kv > 0 && heads.q.is_multiple_of(heads.kv), "attention", || format!("{heads:?}"))?;
    let fits = |r: Rows<'_, T>, rows, count: usize| covers(rows, r.view.len, r.stride, count * heads.dim);
    let keys = fits(qkv.k, plan.tokens, heads.kv) && fits(qkv.v, plan.tokens, heads.kv);
    ensure(fits(qkv.q, plan.rows(), heads.q) && keys, "attention", || {
        let [q, k, v] = [qkv.q, qkv.k, qkv.v].map(|r| r.view.len);
        format!("q {q}, k {k}, v {v} for {} queries of {} keys", plan.rows(), plan.tokens)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::SOURCES;

    #[test]
    fn launcher_and_kernels_have_the_same_tile_sizes() {
        for tuning in [HOPPER, PORTABLE, SMALL] {
            let source = SOURCES.iter().find(|s| s.name == tuning.module).unwrap();
            let steps =
                [("FORWARD_KEYS", tuning.forward.1), ("KV_QUERIES", tuning.keys.1), ("Q_KEYS", tuning.queries.1)];
            // On Hopper the rows are the kernel's own constant.
            let rows =
                [("FORWARD_WARPS", tuning.forward.0), ("KV_WARPS", tuning.keys.0), ("Q_WARPS", tuning.queries.0)];
            let defined = |name: &str, value: usize| source.text.contains(&format!("#define {name} {value}\n"));
            assert!(steps.iter().all(|&(name, value)| defined(name, value)), "{}", tuning.module);
            let hopper = source.text.contains("constexpr int ROWS = 128,");
            assert!(
                rows.iter().all(|&(name, rows)| if hopper { rows == 128 } else { defined(name, rows / 16) }),
                "{}",
                tuning.module
            );
        }
    }

    /// A block may have 163 KiB on an A100, and 99 KiB on a desktop GPU.
    #[test]
    fn tiles_fit_the_shared_memory_they_are_for() {
        for (tuning, limit) in [(PORTABLE, 163 << 10), (SMALL, 99 << 10)] {
            assert!(tuning.shared(128).iter().all(|&bytes| bytes <= limit), "{tuning:?}");
        }
    }

    #[test]
    fn a_node_sees_its_ancestors_and_is_seen_by_its_descendants() {
        let node = |tokens: Range<usize>, ancestors: Vec<Range<usize>>| Node { tokens, ancestors };
        let nodes = [
            node(0..4, vec![]),
            node(4..6, std::iter::once(0..4).collect()),
            node(6..9, vec![0..4, 4..6]),
            node(9..12, vec![]),
        ];
        assert_eq!(query_ranges(&nodes)[2], [0..4, 4..6, 6..9]);
        let seen: Vec<(usize, usize)> = key_ranges(&nodes).concat().iter().map(|r| (r.start, r.end)).collect();
        assert_eq!(seen, [(0, 9), (4, 9), (6, 9), (9, 12)]);
    }
}
