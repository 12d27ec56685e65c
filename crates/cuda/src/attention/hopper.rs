//! Launches of `kernels/attention_hopper.cu`: tensor maps for its fetches, one block per multiprocessor.

use super::{DQkv, Plan, Qkv, Rows, RowsMut, Saved, Tiles};
use crate::buffer::{Float, View, ViewMut};
use crate::error::Result;
use crate::gpu::{Arg, Gpu, Launch};
use crate::rope::Heads;

/// Three warpgroups: one fetches, two multiply.
const THREADS: u32 = 384;
/// Shared memory in addition to the tiles, for barriers and per-query values.
const BESIDE: usize = 2048;

/// Tensor map of `count` rows of heads, fetched `step` rows at a time.
fn map<T>(gpu: &Gpu, count: usize, rows: Rows<'_, T>, heads: usize, dim: usize, step: usize) -> Result<Arg> {
    Ok(Arg::Map(gpu.tensor_map(rows.view.pointer, [count, heads, dim], rows.stride, step)?))
}

fn written<T>(rows: &RowsMut<'_, T>) -> [Arg; 2] {
    [(&rows.view).into(), (rows.stride as i64).into()]
}

fn tail(heads: Heads, plan: &Plan, tiles: &Tiles) -> [Arg; 7] {
    let scale = 1.0 / (heads.dim as f32).sqrt();
    let (rows, q, kv) = (plan.rows().into(), heads.q.into(), heads.kv.into());
    [tiles.blocks.view().into(), tiles.ranges.view().into(), tiles.count.into(), rows, q, kv, scale.into()]
}

/// `rows` rows of bf16 tiles in shared memory, with as many blocks as work and memory allow.
fn launch<'a>(gpu: &Gpu, module: &'static str, kernel: &'a str, items: usize, rows: usize, heads: Heads) -> Launch<'a> {
    let grid = (items.min(gpu.processors() as usize) as u32, 1);
    let shared = (rows * heads.dim * 2 + BESIDE) as u32;
    Launch { module, kernel, grid, block: THREADS, shared }
}

pub(super) fn forward<T: Float>(
    gpu: &Gpu,
    heads: Heads,
    plan: &Plan,
    qkv: Qkv<'_, T>,
    o: &mut ViewMut<'_, T>,
    lse: &mut ViewMut<'_, f32>,
) -> Result<()> {
    let (rows, step) = plan.tuning.forward;
    let maps = [
        map(gpu, plan.rows(), qkv.q, heads.q, heads.dim, rows)?,
        map(gpu, plan.tokens, qkv.k, heads.kv, heads.dim, step)?,
        map(gpu, plan.tokens, qkv.v, heads.kv, heads.dim, step)?,
    ];
    let out: [Arg; 3] = [(&*o).into(), ((heads.q * heads.dim) as i64).into(), (&*lse).into()];
    let args = [&maps[..], &out, &tail(heads, plan, &plan.forward), &[plan.before.into()]].concat();
    let kernel = format!("attention_forward_{}", heads.dim);
    let launch = launch(gpu, plan.tuning.module, &kernel, plan.forward.count * heads.q, rows + 4 * step, heads);
    // SAFETY: as attention_forward declares; the caller checked lengths, and the plan covers the tokens.
    unsafe { gpu.launch(launch, &args) }
}

pub(super) fn backward<T: Float>(
    gpu: &Gpu,
    heads: Heads,
    plan: &Plan,
    qkv: Qkv<'_, T>,
    saved: Saved<'_, T>,
    delta: View<'_, f32>,
    out: &mut DQkv<'_, T>,
) -> Result<()> {
    let d_o = Rows { view: saved.d_o, stride: heads.q * heads.dim };
    let stats: [Arg; 2] = [saved.lse.into(), delta.into()];
    // Queries and their gradients in `q` rows at a time, keys and values in `k`.
    let maps = |q: usize, k: usize| -> Result<[Arg; 4]> {
        Ok([
            map(gpu, plan.tokens, qkv.q, heads.q, heads.dim, q)?,
            map(gpu, plan.tokens, qkv.k, heads.kv, heads.dim, k)?,
            map(gpu, plan.tokens, qkv.v, heads.kv, heads.dim, k)?,
            map(gpu, plan.tokens, d_o, heads.q, heads.dim, q)?,
        ])
    };
    let (rows, step) = plan.tuning.keys;
    let (dk, dv) = (written(&out.dk), written(&out.dv));
    let args = [&maps(step, rows)?[..], &stats, &dk, &dv, &tail(heads, plan, &plan.keys)].concat();
    let kernel = format!("attention_backward_kv_{}", heads.dim);
    let launch_kv = launch(gpu, plan.tuning.module, &kernel, plan.keys.count * heads.kv, 2 * rows + 6 * step, heads);
    // SAFETY: as attention_backward_kv declares; the caller checked lengths, and the plan covers the tokens.
    unsafe { gpu.launch(launch_kv, &args) }?;

    let (rows, step) = plan.tuning.queries;
    let args = [&maps(rows, step)?[..], &stats, &written(&out.dq), &tail(heads, plan, &plan.queries)].concat();
    let kernel = format!("attention_backward_q_{}", heads.dim);
    let launch_q = launch(gpu, plan.tuning.module, &kernel, plan.queries.count * heads.q, 2 * rows + 5 * step, heads);
    // SAFETY: as attention_backward_q declares; the caller checked lengths, and the plan covers the tokens.
    unsafe { gpu.launch(launch_q, &args) }
}
