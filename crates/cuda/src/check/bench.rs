//! Benchmarks of the kernels and of a whole training step, at the shapes of Qwen3-0.6B.
//!
//! Times are medians between events on the stream after a warm-up. Rates count the necessary work: each byte once, each
//! multiplication of visible pairs once, regardless of what a kernel recomputes.

use half::bf16;
use serde_json::{Value, json};

use crate::adamw::{self, AdamW, Gradient, Norm, Parameters};
use crate::attention::{self, DQkv, Plan, Qkv, Rows, RowsMut, Saved};
use crate::buffer::Buffer;
use crate::decode::{self, Cache, PAGE, Pages};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::graph::Graph;
use crate::matmul::{Matmul, Matrix, MatrixMut, Product, Store};
use crate::moments::Moments;
use crate::offload::HostMoments;
use crate::random;
use crate::rope::{Fused, Heads, QkNorm, Rotation};
use crate::{norm, rope, swiglu};

use super::{generating, training};

/// Median milliseconds of `body`.
fn time(gpu: &Gpu, repeats: usize, mut body: impl FnMut() -> Result<()>) -> Result<f64> {
    for _ in 0..3 {
        body()?;
    }
    let mut all = Vec::new();
    for _ in 0..repeats {
        let from = gpu.mark()?;
        body()?;
        let to = gpu.mark()?;
        all.push(f64::from(Gpu::milliseconds(&from, &to)?));
    }
    all.sort_by(f64::total_cmp);
    Ok(all[all.len() / 2])
}

/// Random bf16 values.
fn values(gpu: &Gpu, len: usize, scale: f32) -> Result<Buffer<bf16>> {
    let mut wide = Buffer::<f32>::uninit(gpu, len)?;
    random::fill(gpu, &mut wide.view_mut(), len as i32, 0.0, scale)?;
    let mut out = Buffer::uninit(gpu, len)?;
    adamw::round_copy(gpu, wide.view(), &mut out.view_mut())?;
    Ok(out)
}

fn bytes_rate(bytes: usize, ms: f64) -> Value {
    json!({"ms": ms, "gb_per_s": bytes as f64 / ms / 1e6})
}

fn flops_rate(flops: f64, ms: f64) -> Value {
    json!({"ms": ms, "tflop_per_s": flops / ms / 1e9})
}

/// Matrix products of the training step: 16,384 tokens.
pub fn matmul(gpu: &Gpu) -> Result<Value> {
    let blas = Matmul::new(gpu)?;
    let mut all = serde_json::Map::new();
    for (name, product, m, n, k) in [
        ("8192 cubed", Product::ABt, 8192, 8192, 8192),
        ("qkv forward", Product::ABt, 16384, 4096, 1024),
        ("gate_up forward", Product::ABt, 16384, 6144, 1024),
        ("down forward", Product::ABt, 16384, 1024, 3072),
        ("gate_up dinput", Product::AB, 16384, 1024, 6144),
        ("gate_up dweight", Product::AtB, 6144, 1024, 16384),
        ("head chunk logits", Product::ABt, 2048, 151_936, 1024),
        ("head chunk dhidden", Product::AB, 2048, 1024, 151_936),
        ("head chunk dweight", Product::AtB, 151_936, 1024, 2048),
    ] {
        let (a, b) = (values(gpu, m * k, 1.0)?, values(gpu, n * k, 1.0)?);
        let shape = |trans: bool, rows, cols| if trans { (cols, rows) } else { (rows, cols) };
        let (ar, ac) = shape(product == Product::AtB, m, k);
        let (br, bc) = shape(product == Product::ABt, k, n);
        let (a, b) = (Matrix::new(a.view(), ar, ac), Matrix::new(b.view(), br, bc));
        let ms = if product == Product::AtB || name == "head chunk logits" {
            let mut c = Buffer::<f32>::zeros(gpu, m * n)?;
            let into = if product == Product::AtB { Store::Add } else { Store::Set };
            time(gpu, 10, || blas.run(product, a, b, MatrixMut::new(c.view_mut(), m, n), into))?
        } else {
            let mut c = Buffer::<bf16>::zeros(gpu, m * n)?;
            time(gpu, 10, || blas.run(product, a, b, MatrixMut::new(c.view_mut(), m, n), Store::Set))?
        };
        all.insert(name.into(), flops_rate(2.0 * m as f64 * n as f64 * k as f64, ms));
    }
    Ok(Value::Object(all))
}

/// Milliseconds of each of cuBLASLt's proposals, for the products of a training step and of decoding.
pub fn proposals(gpu: &Gpu) -> Result<Value> {
    let mut all = serde_json::Map::new();
    let mut case = |product: Product, into: Store, wide: bool, m: usize, n: usize, k: usize| -> Result<()> {
        let (a, b) = (values(gpu, m * k, 1.0)?, values(gpu, n * k, 1.0)?);
        let (ar, ac) = if product == Product::AtB { (k, m) } else { (m, k) };
        let (br, bc) = if product == Product::ABt { (n, k) } else { (k, n) };
        let (a, b) = (Matrix::new(a.view(), ar, ac), Matrix::new(b.view(), br, bc));
        let mut c = Buffer::<f32>::zeros(gpu, m * n)?;
        let mut narrow = Buffer::<bf16>::zeros(gpu, if wide { 1 } else { m * n })?;
        let mut blas = Matmul::new(gpu)?;
        let mut times = Vec::new();
        for choice in 0..8 {
            blas.choice = Some(choice);
            let ms = time(gpu, 7, || {
                if wide {
                    blas.run(product, a, b, MatrixMut::new(c.view_mut(), m, n), into)
                } else {
                    blas.run(product, a, b, MatrixMut::new(narrow.view_mut(), m, n), into)
                }
            });
            times.push(ms.ok());
        }
        all.insert(format!("{product:?} {m}x{n}x{k}"), json!(times));
        Ok(())
    };
    for (n, k) in [(4096, 1024), (1024, 2048), (6144, 1024), (1024, 3072)] {
        case(Product::ABt, Store::Set, false, 16384, n, k)?;
        case(Product::AB, Store::Set, false, 16384, k, n)?;
        case(Product::AtB, Store::Add, true, n, k, 16384)?;
    }
    let vocab = 151_936;
    for chunk in [2048, 4096] {
        case(Product::ABt, Store::Set, true, chunk, vocab, 1024)?;
        case(Product::AB, Store::Set, false, chunk, 1024, vocab)?;
        case(Product::AtB, Store::Add, true, vocab, 1024, chunk)?;
    }
    Ok(Value::Object(all))
}

/// Microseconds of each proposal for the products of a decode step: 28 layers' weights, one after another in a graph.
pub fn small_products(gpu: &Gpu) -> Result<Value> {
    let mut all = serde_json::Map::new();
    for (n, k, layers) in [(4096, 1024, 28), (1024, 2048, 28), (6144, 1024, 28), (1024, 3072, 28), (151_936, 1024, 2)] {
        let weights = values(gpu, layers * n * k, 1.0)?;
        for m in [1, 8, 64, 256] {
            let a = values(gpu, m * k, 1.0)?;
            let mut c = Buffer::<f32>::zeros(gpu, m * n)?;
            let mut blas = Matmul::new(gpu)?;
            let mut times = Vec::new();
            for choice in 0..8 {
                blas.choice = Some(choice);
                let mut body = || {
                    (0..layers).try_for_each(|layer| {
                        let b = Matrix::new(weights.view().slice(layer * n * k..(layer + 1) * n * k), n, k);
                        blas.run(
                            Product::ABt,
                            Matrix::new(a.view(), m, k),
                            b,
                            MatrixMut::new(c.view_mut(), m, n),
                            Store::Set,
                        )
                    })
                };
                if body().is_err() {
                    continue;
                }
                let graph = Graph::record(gpu, body)?;
                times.push(time(gpu, 5, || graph.launch())? * 1e3 / layers as f64);
            }
            all.insert(format!("{m}x{n}x{k}"), json!(times));
        }
    }
    Ok(Value::Object(all))
}

/// Norm, rotation and SwiGLU over 16,384 tokens of Qwen3-0.6B's shape and 8,192 of Qwen3-4B's.
pub fn elementwise(gpu: &Gpu) -> Result<Value> {
    let mut all = serde_json::Map::new();
    let heads = |q| Heads { q, kv: 8, dim: 128 };
    for (tokens, dim, ffn, heads, note) in
        [(16384, 1024, 3072, heads(16), ""), (8192, 2560, 9728, heads(32), ", Qwen3-4B")]
    {
        let parts = [norms(gpu, tokens, dim)?, rotations(gpu, tokens, heads)?, gates(gpu, tokens, ffn)?];
        all.extend(parts.concat().into_iter().map(|(name, rate)| (format!("{name}{note}"), rate)));
    }
    Ok(Value::Object(all))
}

type Rates = Vec<(&'static str, Value)>;

fn norms(gpu: &Gpu, tokens: usize, dim: usize) -> Result<Rates> {
    let (x, delta, w) = (values(gpu, tokens * dim, 1.0)?, values(gpu, tokens * dim, 1.0)?, values(gpu, dim, 1.0)?);
    let (mut sum, mut y) = (values(gpu, tokens * dim, 1.0)?, values(gpu, tokens * dim, 1.0)?);
    let (mut rstd, mut dw) = (Buffer::<f32>::zeros(gpu, tokens)?, Buffer::<f32>::zeros(gpu, dim)?);
    let forward = time(gpu, 20, || {
        let add = Some((delta.view(), &mut sum.view_mut()));
        norm::forward(gpu, x.view(), add, w.view(), &mut y.view_mut(), &mut rstd.view_mut(), 1e-6)
    })?;
    let backward = time(gpu, 20, || {
        let (up, dr) = (Some(delta.view()), &mut y.view_mut());
        let saved = norm::Saved { r: sum.view(), rstd: rstd.view(), w: w.view() };
        norm::backward(gpu, x.view(), saved, up, dr, &mut dw.view_mut())
    })?;
    let moved = 4 * tokens * dim * 2;
    Ok(vec![("rms_norm forward", bytes_rate(moved, forward)), ("rms_norm backward", bytes_rate(moved, backward))])
}

fn rotations(gpu: &Gpu, tokens: usize, heads: Heads) -> Result<Rates> {
    let (qkv, mut dqkv) = (values(gpu, tokens * heads.qkv(), 1.0)?, values(gpu, tokens * heads.qkv(), 1.0)?);
    let width = |heads: usize| tokens * heads * 128;
    let (mut q, mut k) = (values(gpu, width(heads.q), 1.0)?, values(gpu, width(heads.kv), 1.0)?);
    let qw = values(gpu, 128, 1.0)?;
    let table = Buffer::from_slice(gpu, &rope::table(2048, 128, 1e6))?;
    let position: Vec<i32> = (0..tokens as i32).map(|t| t % 2048).collect();
    let position = Buffer::from_slice(gpu, &position)?;
    let rotation = Rotation { table: table.view(), position: position.view(), eps: 1e-6 };
    let norm = Some(QkNorm { q: qw.view(), k: qw.view() });
    let fused = Fused { qkv: qkv.view(), norm, rotation };
    let forward = time(gpu, 20, || rope::forward(gpu, heads, fused, &mut q.view_mut(), &mut k.view_mut()))?;
    let mut dqk = Buffer::<f32>::zeros(gpu, 256)?;
    let backward = time(gpu, 20, || {
        let (pair, dw) = ((q.view(), k.view()), Some(&mut dqk.view_mut()));
        rope::backward(gpu, heads, pair, fused, &mut dqkv.view_mut(), dw)
    })?;
    let part = width(heads.q + heads.kv) * 2;
    Ok(vec![("rope forward", bytes_rate(2 * part, forward)), ("rope backward", bytes_rate(3 * part, backward))])
}

fn gates(gpu: &Gpu, tokens: usize, ffn: usize) -> Result<Rates> {
    let (gate_up, mut dgate_up) = (values(gpu, 2 * tokens * ffn, 1.0)?, values(gpu, 2 * tokens * ffn, 1.0)?);
    let (dout, mut act) = (values(gpu, tokens * ffn, 1.0)?, values(gpu, tokens * ffn, 1.0)?);
    let forward = time(gpu, 20, || swiglu::forward(gpu, gate_up.view(), &mut act.view_mut(), ffn))?;
    let backward = time(gpu, 20, || {
        let again = Some(&mut act.view_mut());
        swiglu::backward(gpu, dout.view(), gate_up.view(), &mut dgate_up.view_mut(), again, ffn)
    })?;
    let part = tokens * ffn * 2;
    Ok(vec![("swiglu forward", bytes_rate(3 * part, forward)), ("swiglu backward", bytes_rate(6 * part, backward))])
}

/// Causal attention over 8 sequences of 2,048 tokens, and 2 of 8,192.
pub fn attention(gpu: &Gpu) -> Result<Value> {
    let mut all = serde_json::Map::new();
    let case = |q, kv, dim| Heads { q, kv, dim };
    let forest: fn(&Gpu, &[attention::Node]) -> Result<Plan> = Plan::forest;
    for (count, len, heads, plan, note) in [
        (8, 2048, case(16, 8, 128), forest, ""),
        (2, 8192, case(16, 8, 128), forest, ""),
        (8, 2048, case(32, 8, 64), forest, ""),
        (8, 2048, case(16, 8, 128), Plan::portable, ", portable"),
    ] {
        let plan = plan(gpu, &attention::packed(&vec![len; count]))?;
        let (forward, backward) = attention_case(gpu, &plan, heads)?;
        let pairs = count as f64 * len as f64 * (len as f64 + 1.0) / 2.0;
        let flops = 4.0 * pairs * (heads.q * heads.dim) as f64;
        let name = format!("{count}x{len}, {}/{} heads of {}{note}", heads.q, heads.kv, heads.dim);
        all.insert(name, json!({"forward": flops_rate(flops, forward), "backward": flops_rate(2.5 * flops, backward)}));
    }
    Ok(Value::Object(all))
}

fn attention_case(gpu: &Gpu, plan: &Plan, heads: Heads) -> Result<(f64, f64)> {
    let tokens = plan.tokens();
    let (q_width, kv_width) = (heads.q * heads.dim, heads.kv * heads.dim);
    let q = values(gpu, tokens * q_width, 1.0)?;
    let (k, v) = (values(gpu, tokens * kv_width, 1.0)?, values(gpu, tokens * kv_width, 1.0)?);
    let d_o = values(gpu, tokens * q_width, 1.0)?;
    let (mut o, mut lse) = (Buffer::zeros(gpu, tokens * q_width)?, Buffer::zeros(gpu, tokens * heads.q)?);
    let qkv = Qkv {
        q: Rows { view: q.view(), stride: q_width },
        k: Rows { view: k.view(), stride: kv_width },
        v: Rows { view: v.view(), stride: kv_width },
    };
    let forward = time(gpu, 10, || attention::forward(gpu, heads, plan, qkv, &mut o.view_mut(), &mut lse.view_mut()))?;
    let mut dq = Buffer::zeros(gpu, tokens * q_width)?;
    let (mut dk, mut dv) = (Buffer::zeros(gpu, tokens * kv_width)?, Buffer::zeros(gpu, tokens * kv_width)?);
    let mut out = DQkv {
        dq: RowsMut { view: dq.view_mut(), stride: q_width },
        dk: RowsMut { view: dk.view_mut(), stride: kv_width },
        dv: RowsMut { view: dv.view_mut(), stride: kv_width },
    };
    let saved = Saved { o: o.view(), lse: lse.view(), d_o: d_o.view() };
    let backward = time(gpu, 10, || attention::backward(gpu, heads, plan, qkv, saved, &mut out))?;
    Ok((forward, backward))
}

/// Decode attention of one layer at Qwen3-0.6B's heads: bytes of keys and values over time.
pub fn decode_attention(gpu: &Gpu) -> Result<Value> {
    let heads = Heads { q: 16, kv: 8, dim: 128 };
    let mut all = serde_json::Map::new();
    for (sequences, length) in [(1usize, 4096usize), (64, 384), (256, 1024), (64, 8192)] {
        let pages = sequences * length.div_ceil(PAGE);
        let mut cache = Cache::zeros(gpu, heads, pages)?;
        let size = cache.len();
        (cache.k, cache.v) = (values(gpu, size, 1.0)?, values(gpu, size, 1.0)?);
        let table: Vec<Vec<usize>> =
            (0..sequences).map(|s| (0..length.div_ceil(PAGE)).map(|p| p * sequences + s).collect()).collect();
        let table = Pages::new(gpu, &table, &vec![length; sequences], pages)?;
        let q = values(gpu, sequences * heads.q * heads.dim, 1.0)?;
        let mut o = Buffer::zeros(gpu, q.len())?;
        let ms = time(gpu, 20, || decode::attention(gpu, heads, q.view(), &cache, &table, &mut o.view_mut()))?;
        all.insert(format!("{sequences}x{length}"), bytes_rate(4 * sequences * length * heads.kv * heads.dim, ms));
    }
    Ok(Value::Object(all))
}

/// Norm and AdamW over 600 million parameters.
pub fn optimizer(gpu: &Gpu) -> Result<Value> {
    let len = 600_000_000;
    let (mut weights, mut low) = (Buffer::<bf16>::zeros(gpu, len)?, Buffer::<i16>::zeros(gpu, len)?);
    let mut grad = Buffer::<f32>::uninit(gpu, len)?;
    random::fill(gpu, &mut grad.view_mut(), 1, 0.0, 1.0)?;
    let norm = time(gpu, 10, || Norm::of(gpu, grad.view(), Some(1.0)).map(drop))?;
    let factors = AdamW { lr: 1e-6, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.0, step: 10 }.factors();
    let gradient = Gradient { values: grad.view(), decays: None, norm: None };
    let mut update = |mut moments: Moments| {
        time(gpu, 10, || {
            let mut parameters = Parameters { weight: weights.view_mut(), low: Some(low.view_mut()) };
            adamw::step(gpu, factors, &mut parameters, &mut moments.views(), gradient)
        })
    };
    let (full, packed) = (update(Moments::full(gpu, len)?)?, update(Moments::packed(gpu, len)?)?);
    let mut moments = HostMoments::zeros(gpu, len)?;
    let host = time(gpu, 3, || {
        let mut parameters = Parameters { weight: weights.view_mut(), low: Some(low.view_mut()) };
        moments.step(factors, &mut parameters, gradient)
    })?;
    Ok(json!({
        "norm": bytes_rate(4 * len, norm),
        "adamw": bytes_rate(28 * len, full),
        "adamw, 8-bit moments": bytes_rate(16 * len, packed),
        "adamw, moments in host memory": bytes_rate(16 * len, host),
    }))
}

/// A benchmark by name.
pub type Bench = (&'static str, fn(&Gpu) -> Result<Value>);

/// Every benchmark.
pub const BENCHES: [Bench; 12] = [
    ("matmul", matmul),
    ("proposals", proposals),
    ("small products", small_products),
    ("elementwise", elementwise),
    ("attention", attention),
    ("decode attention", decode_attention),
    ("optimizer", optimizer),
    ("step", training::small),
    ("step variants", training::variants),
    ("step, Qwen3-4B", training::large),
    ("generate", generating::small),
    ("generate, Qwen3-4B", generating::large),
];
