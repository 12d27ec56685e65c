//! Flash attention: packed sequences of awkward lengths, grouped heads, a forest of shared prefixes.

use half::bf16;

use super::{Measured, compare, measure, poisoned, rounded, upload};
use crate::attention::{self, DQkv, Node, Plan, Qkv, Rows, RowsMut, Saved, packed};
use crate::buffer::{Buffer, Float};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::random::Random;
use crate::reference;
use crate::rope::Heads;

struct Case {
    name: &'static str,
    heads: Heads,
    nodes: Vec<Node>,
}

/// A shared prefix, two branches, one of which branches again.
fn forest() -> Vec<Node> {
    let node = |tokens, ancestors: &[(usize, usize)]| Node {
        tokens,
        ancestors: ancestors.iter().map(|&(from, to)| from..to).collect(),
    };
    vec![
        node(0..150, &[]),
        node(150..233, &[(0, 150)]),
        node(233..240, &[(0, 150), (150, 233)]),
        node(240..371, &[(0, 150), (150, 233)]),
        node(371..441, &[(0, 150)]),
        node(441..442, &[]),
    ]
}

fn cases() -> Vec<Case> {
    let heads = |q, kv, dim| Heads { q, kv, dim };
    vec![
        Case { name: "one block, 64", heads: heads(1, 1, 64), nodes: packed(&[16]) },
        Case { name: "one block, 128", heads: heads(1, 1, 128), nodes: packed(&[64]) },
        Case { name: "one token", heads: heads(2, 1, 128), nodes: packed(&[1]) },
        Case { name: "packed, 128", heads: heads(4, 2, 128), nodes: packed(&[1, 63, 64, 65, 127, 200, 3]) },
        Case { name: "packed, 64", heads: heads(6, 2, 64), nodes: packed(&[129, 2, 77, 256]) },
        Case { name: "long, 128", heads: heads(2, 1, 128), nodes: packed(&[517]) },
        Case { name: "forest, 128", heads: heads(4, 2, 128), nodes: forest() },
        Case { name: "forest, 64", heads: heads(2, 2, 64), nodes: forest() },
    ]
}

struct Data {
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    d_o: Vec<f64>,
}

impl Case {
    fn tokens(&self) -> usize {
        self.nodes.last().map_or(0, |n| n.tokens.end)
    }

    fn data<T: Float>(&self) -> Data {
        let mut random = Random(self.tokens() as u64);
        let Heads { q, kv, dim } = self.heads;
        let mut draw = |heads: usize, scale| rounded::<T>(&random.normal(self.tokens() * heads * dim, scale));
        // Scores of a few units: rows that are neither uniform nor one-hot.
        Data { q: draw(q, 1.5), k: draw(kv, 1.5), v: draw(kv, 1.0), d_o: draw(q, 1.0) }
    }
}

/// Values inside fused rows, as the model has them: [tokens, kv * dim] with foreign columns before them.
fn fused(v: &[f64], width: usize, stride: usize) -> Vec<f64> {
    v.chunks(width).flat_map(|row| std::iter::repeat_n(9.0, stride - width).chain(row.iter().copied())).collect()
}

struct OnDevice<T> {
    q: Buffer<T>,
    k: Buffer<T>,
    v: Buffer<T>,
    heads: Heads,
}

impl<T: Float> OnDevice<T> {
    fn new(gpu: &Gpu, case: &Case, data: &Data) -> Result<Self> {
        let width = case.heads.kv * case.heads.dim;
        let v = upload(gpu, &fused(&data.v, width, width + 64))?;
        Ok(Self { q: upload(gpu, &data.q)?, k: upload(gpu, &data.k)?, v, heads: case.heads })
    }

    fn operands(&self) -> Qkv<'_, T> {
        let Heads { q, kv, dim } = self.heads;
        Qkv {
            q: Rows { view: self.q.view(), stride: q * dim },
            k: Rows { view: self.k.view(), stride: kv * dim },
            v: Rows { view: self.v.view().slice(64..self.v.len()), stride: kv * dim + 64 },
        }
    }
}

/// Bound of probabilities and outputs rounded to the storage type.
fn bound<T: Float>() -> f64 {
    if T::SUFFIX == "bf16" { 6e-3 } else { 1e-5 }
}

pub(super) fn forward(gpu: &Gpu) -> Result<Vec<Measured>> {
    forward_by::<bf16>(gpu, Plan::forest)
}

pub(super) fn backward(gpu: &Gpu) -> Result<Vec<Measured>> {
    backward_by::<bf16>(gpu, Plan::forest)
}

pub(super) fn portable(gpu: &Gpu) -> Result<Vec<Measured>> {
    let mut all = forward_by::<bf16>(gpu, Plan::portable)?;
    all.extend(backward_by::<bf16>(gpu, Plan::portable)?);
    Ok(all)
}

pub(super) fn small(gpu: &Gpu) -> Result<Vec<Measured>> {
    let mut all = forward_by::<bf16>(gpu, Plan::small)?;
    all.extend(backward_by::<bf16>(gpu, Plan::small)?);
    Ok(all)
}

pub(super) fn in_f32(gpu: &Gpu) -> Result<Vec<Measured>> {
    let mut all = forward_by::<f32>(gpu, Plan::forest)?;
    all.extend(backward_by::<f32>(gpu, Plan::forest)?);
    Ok(all)
}

fn forward_by<T: Float>(gpu: &Gpu, plan_of: fn(&Gpu, &[Node]) -> Result<Plan>) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for case in cases() {
        let (data, heads, width) = (case.data::<T>(), case.heads, case.heads.q * case.heads.dim);
        let device = OnDevice::<T>::new(gpu, &case, &data)?;
        let plan = plan_of(gpu, &case.nodes)?;
        let (mut o, mut lse) = (poisoned::<T>(gpu, data.q.len())?, poisoned::<f32>(gpu, case.tokens() * heads.q)?);
        attention::forward(gpu, heads, &plan, device.operands(), &mut o.view_mut(), &mut lse.view_mut())?;
        let (want, want_lse) = reference::attention(heads, &case.nodes, &data.q, &data.k, &data.v);
        all.push(measure(format!("o, {}", case.name), &o, &want, bound::<T>())?);
        all.push(measure(format!("lse, {}", case.name), &lse, &want_lse, 1e-5)?);
        // A continued conversation: queries of the later nodes only, over all keys.
        let [first, rest @ ..] = &case.nodes[..] else { continue };
        let plan = plan_of(gpu, rest)?;
        let (before, count) = (first.tokens.end, case.tokens() - first.tokens.end);
        let (mut o, mut lse) = (poisoned::<T>(gpu, count * width)?, poisoned::<f32>(gpu, count * heads.q)?);
        let all_rows = device.operands();
        let qkv = Qkv { q: all_rows.q.part(&(before..case.tokens())), ..all_rows };
        attention::forward(gpu, heads, &plan, qkv, &mut o.view_mut(), &mut lse.view_mut())?;
        let want_lse: Vec<f64> = want_lse.chunks(case.tokens()).flat_map(|head| &head[before..]).copied().collect();
        all.push(measure(format!("o after keys, {}", case.name), &o, &want[before * width..], bound::<T>())?);
        all.push(measure(format!("lse after keys, {}", case.name), &lse, &want_lse, 1e-5)?);
    }
    Ok(all)
}

fn backward_by<T: Float>(gpu: &Gpu, plan: fn(&Gpu, &[Node]) -> Result<Plan>) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for case in cases() {
        let (data, heads) = (case.data::<T>(), case.heads);
        let Heads { q: qh, kv, dim } = heads;
        let device = OnDevice::<T>::new(gpu, &case, &data)?;
        let plan = plan(gpu, &case.nodes)?;
        // The reference's own output and lse: the backward pass is judged separately from the forward pass.
        let (want_o, want_lse) = reference::attention(heads, &case.nodes, &data.q, &data.k, &data.v);
        let (o, lse) = (upload::<T>(gpu, &want_o)?, upload::<f32>(gpu, &want_lse)?);
        let d_o = upload::<T>(gpu, &data.d_o)?;
        let width = kv * dim;
        let (mut dq, mut dk) = (poisoned::<T>(gpu, data.q.len())?, poisoned::<T>(gpu, data.k.len())?);
        let mut dv: Buffer<T> = upload(gpu, &fused(&vec![f64::NAN; data.v.len()], width, width + 64))?;
        let len = dv.len();
        let mut dv_view = dv.view_mut();
        let mut out = DQkv {
            dq: RowsMut { view: dq.view_mut(), stride: qh * dim },
            dk: RowsMut { view: dk.view_mut(), stride: width },
            dv: RowsMut { view: dv_view.slice(64..len), stride: width + 64 },
        };
        let saved = Saved { o: o.view(), lse: lse.view(), d_o: d_o.view() };
        attention::backward(gpu, heads, &plan, device.operands(), saved, &mut out)?;
        let triple = (&data.q[..], &data.k[..], &data.v[..]);
        let (want_q, want_k, want_v) = reference::attention_backward(heads, &case.nodes, triple, &data.d_o);
        // A single token has no gradient in q and k but rounding: judged by its size against that of the output's.
        if case.tokens() > 1 {
            all.push(measure(format!("dq, {}", case.name), &dq, &want_q, 2.0 * bound::<T>())?);
            all.push(measure(format!("dk, {}", case.name), &dk, &want_k, 2.0 * bound::<T>())?);
        } else {
            let dq: Vec<f64> = dq.read()?.iter().map(|x| T::to_f64(*x)).collect();
            all.push(compare(
                format!("dq, {}", case.name),
                &[dq.iter().map(|x| x.abs()).sum::<f64>() + 1.0],
                &[1.0],
                0.5,
            ));
        }
        all.push(measure(format!("dv, {}", case.name), &dv, &fused(&want_v, width, width + 64), bound::<T>())?);
    }
    Ok(all)
}
