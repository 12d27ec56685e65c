//! Reference implementations in f64, written for readability: the definition of each kernel's result.

use std::ops::Range;

use crate::attention::Node;
use crate::rope::Heads;

/// RMSNorm of rows: (y, rstd).
pub fn rms_norm(x: &[f64], w: &[f64], eps: f64) -> (Vec<f64>, Vec<f64>) {
    let dim = w.len();
    let mut y = Vec::with_capacity(x.len());
    let mut rstd = Vec::new();
    for row in x.chunks(dim) {
        let scale = 1.0 / (row.iter().map(|v| v * v).sum::<f64>() / dim as f64 + eps).sqrt();
        y.extend(row.iter().zip(w).map(|(v, w)| v * scale * w));
        rstd.push(scale);
    }
    (y, rstd)
}

/// Gradient of RMSNorm: (dx, dw).
pub fn rms_norm_backward(dy: &[f64], x: &[f64], w: &[f64], eps: f64) -> (Vec<f64>, Vec<f64>) {
    let dim = w.len();
    let (_, rstd) = rms_norm(x, w, eps);
    let mut dx = vec![0.0; x.len()];
    let mut dw = vec![0.0; dim];
    for (row, &scale) in rstd.iter().enumerate() {
        let at = row * dim..(row + 1) * dim;
        let (dy, x) = (&dy[at.clone()], &x[at.clone()]);
        let dot: f64 = (0..dim).map(|i| dy[i] * w[i] * x[i]).sum::<f64>() / dim as f64;
        for i in 0..dim {
            dx[at.start + i] = dy[i] * w[i] * scale - x[i] * dot * scale.powi(3);
            dw[i] += dy[i] * x[i] * scale;
        }
    }
    (dx, dw)
}

/// Rotation of one head by a row of cosines and sines.
fn rotate(n: &[f64], cos_sin: &[f64]) -> Vec<f64> {
    let half = n.len() / 2;
    let pair = |i: usize| (n[i], n[i + half], cos_sin[i], cos_sin[i + half]);
    let low = (0..half).map(|i| {
        let (a, b, c, s) = pair(i);
        a * c - b * s
    });
    let high = (0..half).map(|i| {
        let (a, b, c, s) = pair(i);
        b * c + a * s
    });
    low.chain(high).collect()
}

/// Inverse rotation: the transpose of [`rotate`].
fn rotate_back(n: &[f64], cos_sin: &[f64]) -> Vec<f64> {
    let half = n.len() / 2;
    let back: Vec<f64> = cos_sin.iter().enumerate().map(|(i, &x)| if i < half { x } else { -x }).collect();
    rotate(n, &back)
}

/// Weights of qk-norm, table and positions for [`rope`].
#[derive(Clone, Copy, Debug)]
pub struct Rope<'a> {
    pub heads: Heads,
    /// (queries, keys), each `[head_dim]`; absent without qk-norm.
    pub norm: Option<(&'a [f64], &'a [f64])>,
    pub table: &'a [f64],
    pub position: &'a [i32],
    pub eps: f64,
}

impl Rope<'_> {
    /// Head `head` of token `token` in qkv, its norm weights and its row of the table.
    fn item(&self, token: usize, head: usize) -> (Range<usize>, Option<&[f64]>, &[f64]) {
        let Heads { q, kv, dim } = self.heads;
        let at = (token * (q + 2 * kv) + head) * dim;
        let weight = self.norm.map(|(qw, kw)| if head < q { qw } else { kw });
        let row = self.position[token] as usize * dim;
        (at..at + dim, weight, &self.table[row..row + dim])
    }
}

/// Rotated and normed queries and keys: (q, k).
pub fn rope(qkv: &[f64], r: Rope<'_>) -> (Vec<f64>, Vec<f64>) {
    let (mut q, mut k) = (Vec::new(), Vec::new());
    for token in 0..r.position.len() {
        for head in 0..r.heads.q + r.heads.kv {
            let (at, weight, row) = r.item(token, head);
            let u = qkv[at].to_vec();
            let n = weight.map_or(u.clone(), |w| rms_norm(&u, w, r.eps).0);
            if head < r.heads.q { &mut q } else { &mut k }.extend(rotate(&n, row));
        }
    }
    (q, k)
}

/// Gradient of [`rope`]: (dqkv with zeros for values, dw of queries, dw of keys).
pub fn rope_backward(dq: &[f64], dk: &[f64], qkv: &[f64], r: Rope<'_>) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let Heads { q, kv, dim } = r.heads;
    let mut dqkv = vec![0.0; qkv.len()];
    let mut dw = [vec![0.0; dim], vec![0.0; dim]];
    for token in 0..r.position.len() {
        for head in 0..q + kv {
            let (at, weight, row) = r.item(token, head);
            let g = if head < q {
                &dq[(token * q + head) * dim..][..dim]
            } else {
                &dk[(token * kv + head - q) * dim..][..dim]
            };
            let mut d = rotate_back(g, row);
            if let Some(w) = weight {
                let (du, one) = rms_norm_backward(&d, &qkv[at.clone()], w, r.eps);
                d = du;
                for (sum, x) in dw[usize::from(head >= q)].iter_mut().zip(one) {
                    *sum += x;
                }
            }
            dqkv[at].copy_from_slice(&d);
        }
    }
    let [qw, kw] = dw;
    (dqkv, qw, kw)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// SwiGLU of rows of gates followed by ups.
pub fn swiglu(gate_up: &[f64], dim: usize) -> Vec<f64> {
    gate_up.chunks(2 * dim).flat_map(|row| (0..dim).map(move |i| row[i] * sigmoid(row[i]) * row[dim + i])).collect()
}

/// Gradient of [`swiglu`].
pub fn swiglu_backward(dout: &[f64], gate_up: &[f64], dim: usize) -> Vec<f64> {
    let mut out = vec![0.0; gate_up.len()];
    for ((row, d), to) in gate_up.chunks(2 * dim).zip(dout.chunks(dim)).zip(out.chunks_mut(2 * dim)) {
        for i in 0..dim {
            let (g, s) = (row[i], sigmoid(row[i]));
            to[i] = d[i] * row[dim + i] * s * (1.0 + g * (1.0 - s));
            to[dim + i] = d[i] * g * s;
        }
    }
    out
}

/// `A·Bᵀ` of [m, k] and [n, k].
pub fn matmul_abt(a: &[f64], b: &[f64], k: usize) -> Vec<f64> {
    a.chunks(k).flat_map(|x| b.chunks(k).map(move |y| x.iter().zip(y).map(|(x, y)| x * y).sum())).collect()
}

/// Transpose of [rows, cols].
pub fn transpose(a: &[f64], cols: usize) -> Vec<f64> {
    let rows = a.len() / cols;
    (0..cols).flat_map(|c| (0..rows).map(move |r| a[r * cols + c])).collect()
}

/// `A·B` of [m, k] and [k, n].
pub fn matmul_ab(a: &[f64], b: &[f64], k: usize) -> Vec<f64> {
    matmul_abt(a, &transpose(b, b.len() / k), k)
}

/// `Aᵀ·B` of [k, m] and [k, n].
pub fn matmul_atb(a: &[f64], b: &[f64], k: usize) -> Vec<f64> {
    matmul_abt(&transpose(a, a.len() / k), &transpose(b, b.len() / k), k)
}

/// Log-probability of the target and entropy per row of logits; zeros if the target is negative.
pub fn head(logits: &[f64], target: &[i32]) -> (Vec<f64>, Vec<f64>) {
    let vocab = logits.len() / target.len();
    logits
        .chunks(vocab)
        .zip(target)
        .map(|(row, &t)| {
            if t < 0 {
                return (0.0, 0.0);
            }
            let lp = log_softmax(row);
            (lp[t as usize], -lp.iter().map(|l| l * l.exp()).sum::<f64>())
        })
        .unzip()
}

fn log_softmax(row: &[f64]) -> Vec<f64> {
    let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let lse = top + row.iter().map(|x| (x - top).exp()).sum::<f64>().ln();
    row.iter().map(|x| x - lse).collect()
}

/// Gradient of the logits from the gradients of log-probability and entropy.
pub fn head_backward(logits: &[f64], target: &[i32], dlogprob: &[f64], dentropy: &[f64]) -> Vec<f64> {
    let vocab = logits.len() / target.len();
    let mut out = Vec::with_capacity(logits.len());
    for (t, row) in logits.chunks(vocab).enumerate() {
        let lp = log_softmax(row);
        let entropy = -lp.iter().map(|l| l * l.exp()).sum::<f64>();
        out.extend(lp.iter().enumerate().map(|(v, l)| {
            let hit = if v as i32 == target[t] { 1.0 } else { 0.0 };
            let slope = dlogprob[t] * (hit - l.exp()) - dentropy[t] * l.exp() * (l + entropy);
            if target[t] < 0 { 0.0 } else { slope }
        }));
    }
    out
}

/// Attention probabilities of one query and head over `keys`.
fn probabilities(q: &[f64], k: &[f64], keys: &[usize], kv: usize, head: usize) -> (Vec<f64>, f64) {
    let dim = q.len();
    let scale = 1.0 / (dim as f64).sqrt();
    let score = |key: &usize| {
        let k = &k[(key * kv + head) * dim..][..dim];
        scale * q.iter().zip(k).map(|(a, b)| a * b).sum::<f64>()
    };
    let s: Vec<f64> = keys.iter().map(score).collect();
    let top = s.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let lse = top + s.iter().map(|x| (x - top).exp()).sum::<f64>().ln();
    (s.iter().map(|x| (x - lse).exp()).collect(), lse)
}

/// Attention of one query token ([q_heads, dim]) over all `keys` tokens of k and v.
pub fn decode(heads: Heads, query: &[f64], k: &[f64], v: &[f64], keys: usize) -> Vec<f64> {
    let Heads { q: qh, kv, dim } = heads;
    let keys: Vec<usize> = (0..keys).collect();
    let mut o = vec![0.0; qh * dim];
    for (head, o) in o.chunks_mut(dim).enumerate() {
        let from = head / (qh / kv);
        let (p, _) = probabilities(&query[head * dim..][..dim], k, &keys, kv, from);
        for (key, p) in keys.iter().zip(p) {
            o.iter_mut().zip(&v[(key * kv + from) * dim..]).for_each(|(o, v)| *o += p * v);
        }
    }
    o
}

/// Keys that a token attends to: those of its ancestors, and of its node up to the token.
fn visible(nodes: &[Node], token: usize) -> Vec<usize> {
    nodes
        .iter()
        .filter(|n| n.tokens.contains(&token))
        .flat_map(|n| n.ancestors.iter().cloned().flatten().chain(n.tokens.start..=token))
        .collect()
}

/// Attention: (o [tokens, q_heads, dim], lse [q_heads, tokens]).
pub fn attention(heads: Heads, nodes: &[Node], q: &[f64], k: &[f64], v: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let Heads { q: qh, kv, dim } = heads;
    let tokens = q.len() / (qh * dim);
    let (mut o, mut lses) = (vec![0.0; q.len()], vec![0.0; qh * tokens]);
    for token in 0..tokens {
        let keys = visible(nodes, token);
        for head in 0..qh {
            let from = head / (qh / kv);
            let at = (token * qh + head) * dim;
            let (p, lse) = probabilities(&q[at..at + dim], k, &keys, kv, from);
            lses[head * tokens + token] = lse;
            for (key, p) in keys.iter().zip(p) {
                for i in 0..dim {
                    o[at + i] += p * v[(key * kv + from) * dim + i];
                }
            }
        }
    }
    (o, lses)
}

/// Gradient of [`attention`]: (dq, dk, dv).
pub fn attention_backward(
    heads: Heads,
    nodes: &[Node],
    (q, k, v): (&[f64], &[f64], &[f64]),
    d_o: &[f64],
) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let Heads { q: qh, kv, dim } = heads;
    let scale = 1.0 / (dim as f64).sqrt();
    let tokens = q.len() / (qh * dim);
    let (mut dq, mut dk, mut dv) = (vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; v.len()]);
    for token in 0..tokens {
        let keys = visible(nodes, token);
        for head in 0..qh {
            let from = head / (qh / kv);
            let at = (token * qh + head) * dim;
            let (p, _) = probabilities(&q[at..at + dim], k, &keys, kv, from);
            let dp: Vec<f64> =
                keys.iter().map(|key| (0..dim).map(|i| d_o[at + i] * v[(key * kv + from) * dim + i]).sum()).collect();
            let delta: f64 = p.iter().zip(&dp).map(|(p, d)| p * d).sum();
            for ((key, p), dp) in keys.iter().zip(p).zip(dp) {
                let ds = p * (dp - delta) * scale;
                let row = (key * kv + from) * dim;
                for i in 0..dim {
                    dv[row + i] += p * d_o[at + i];
                    dq[at + i] += ds * k[row + i];
                    dk[row + i] += ds * q[at + i];
                }
            }
        }
    }
    (dq, dk, dv)
}
