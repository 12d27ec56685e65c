//! Norm, rotation, SwiGLU and embedding.

use half::bf16;

use super::{Measured, compare, grain, measure, poisoned, rounded, upload};
use crate::buffer::{Buffer, Float};
use crate::embed::Ids;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::random::Random;
use crate::rope::{Fused, Heads, QkNorm, Rotation};
use crate::{embed as embed_kernels, norm, reference, rope as rope_kernels, swiglu as swiglu_kernels};

pub(super) fn rms_norm<T: Float + PartialEq>(gpu: &Gpu) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for (rows, dim) in [(1, 8), (37, 264), (1201, 1024), (1101, 2048), (1133, 2560), (1101, 4096), (5, 8192)] {
        for fused in [false, true] {
            all.extend(norm_case::<T>(gpu, rows, dim, fused)?);
        }
    }
    for (rows, dim) in [(1201, 264), (1300, 1032), (1500, 2560), (1100, 3080), (1100, 8192)] {
        all.push(norm_alone::<T>(gpu, rows, dim)?);
    }
    Ok(all)
}

/// Rows normed with many others and with few: the same bits, whichever kernel each number of rows takes.
fn norm_alone<T: Float + PartialEq>(gpu: &Gpu, rows: usize, dim: usize) -> Result<Measured> {
    let mut random = Random(dim as u64);
    let mut draw = |len, scale| upload::<T>(gpu, &rounded::<T>(&random.normal(len, scale)));
    let (x, delta, w) = (draw(rows * dim, 1.0)?, draw(rows * dim, 0.5)?, draw(dim, 1.0)?);
    let normed = |rows: usize| -> Result<(Vec<T>, Vec<T>, Vec<f32>)> {
        let (mut sum, mut y) = (poisoned::<T>(gpu, rows * dim)?, poisoned::<T>(gpu, rows * dim)?);
        let mut rstd = poisoned::<f32>(gpu, rows)?;
        let mut sum_view = sum.view_mut();
        let add = Some((delta.view().slice(0..rows * dim), &mut sum_view));
        let x = x.view().slice(0..rows * dim);
        norm::forward(gpu, x, add, w.view(), &mut y.view_mut(), &mut rstd.view_mut(), 1e-6)?;
        Ok((sum.read()?, y.read()?, rstd.read()?))
    };
    let (many, few) = (normed(rows)?, normed(65)?);
    let len = 65 * dim;
    let same = many.0[..len] == few.0[..] && many.1[..len] == few.1[..] && many.2[..65] == few.2[..];
    Ok(compare(format!("65 of {rows}x{dim} alone, same bits"), &[f64::from(u8::from(same))], &[1.0], 0.0))
}

fn norm_case<T: Float>(gpu: &Gpu, rows: usize, dim: usize, fused: bool) -> Result<Vec<Measured>> {
    let mut random = Random((rows * dim) as u64);
    let mut draw = |len, scale| rounded::<T>(&random.normal(len, scale));
    let (x, delta, w) = (draw(rows * dim, 1.0), draw(rows * dim, 0.5), draw(dim, 1.0));
    let (dy, above) = (draw(rows * dim, 1.0), draw(rows * dim, 0.3));
    let eps = 1e-6;
    let (gx, gdelta, gw) = (upload::<T>(gpu, &x)?, upload::<T>(gpu, &delta)?, upload::<T>(gpu, &w)?);
    let (mut sum, mut y) = (poisoned::<T>(gpu, x.len())?, poisoned::<T>(gpu, x.len())?);
    let mut rstd = poisoned::<f32>(gpu, rows)?;
    let r: Vec<f64> =
        if fused { rounded::<T>(&x.iter().zip(&delta).map(|(a, b)| a + b).collect::<Vec<_>>()) } else { x.clone() };
    {
        let mut sum_view = sum.view_mut();
        let add = fused.then_some((gdelta.view(), &mut sum_view));
        norm::forward(gpu, gx.view(), add, gw.view(), &mut y.view_mut(), &mut rstd.view_mut(), eps)?;
    }
    let (want_y, want_rstd) = reference::rms_norm(&r, &w, f64::from(eps));
    let what = |s: &str| format!("{s} {rows}x{dim}{}", if fused { " with residual" } else { "" });
    let mut all = vec![measure(what("y"), &y, &want_y, grain::<T>())?, measure(what("rstd"), &rstd, &want_rstd, 2e-6)?];
    if fused {
        all.push(measure(what("sum"), &sum, &r, 1e-12)?);
    }
    let (gdy, gabove, gr) = (upload::<T>(gpu, &dy)?, upload::<T>(gpu, &above)?, upload::<T>(gpu, &r)?);
    let mut dr = poisoned::<T>(gpu, x.len())?;
    let mut dw = Buffer::<f32>::zeros(gpu, dim)?;
    let up = fused.then(|| gabove.view());
    let (dr_view, dw_view) = (&mut dr.view_mut(), &mut dw.view_mut());
    let saved = norm::Saved { r: gr.view(), rstd: rstd.view(), w: gw.view() };
    norm::backward(gpu, gdy.view(), saved, up, dr_view, dw_view)?;
    let (mut want_dr, want_dw) = reference::rms_norm_backward(&dy, &r, &w, f64::from(eps));
    if fused {
        want_dr.iter_mut().zip(&above).for_each(|(d, a)| *d += a);
    }
    all.push(measure(what("dr"), &dr, &want_dr, grain::<T>())?);
    all.push(measure(what("dw"), &dw, &want_dw, 2e-5)?);
    Ok(all)
}

pub(super) fn rope<T: Float>(gpu: &Gpu) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for (tokens, heads) in [
        (1, Heads { q: 1, kv: 1, dim: 64 }),
        (77, Heads { q: 6, kv: 2, dim: 64 }),
        (1301, Heads { q: 5, kv: 1, dim: 128 }),
        (1301, Heads { q: 32, kv: 8, dim: 128 }),
    ] {
        for normed in [true, false] {
            all.extend(rope_case::<T>(gpu, tokens, heads, normed)?);
        }
    }
    Ok(all)
}

fn rope_case<T: Float>(gpu: &Gpu, tokens: usize, heads: Heads, normed: bool) -> Result<Vec<Measured>> {
    let mut random = Random(tokens as u64);
    let Heads { q: qh, kv, dim } = heads;
    let mut draw = |len, scale| rounded::<T>(&random.normal(len, scale));
    let (qkv, qw, kw) = (draw(tokens * heads.qkv(), 1.0), draw(dim, 1.0), draw(dim, 1.0));
    let (dq, dk) = (draw(tokens * qh * dim, 1.0), draw(tokens * kv * dim, 1.0));
    let position: Vec<i32> = (0..tokens).map(|_| random.below(97) as i32).collect();
    let table = rope_kernels::table(97, dim, 10_000.0);
    let wide: Vec<f64> = table.iter().map(|&x| f64::from(x)).collect();
    let eps = 1e-6f32;
    let norm = normed.then_some((&qw[..], &kw[..]));
    let case = reference::Rope { heads, norm, table: &wide, position: &position, eps: f64::from(eps) };

    let (gqkv, gqw, gkw) = (upload::<T>(gpu, &qkv)?, upload::<T>(gpu, &qw)?, upload::<T>(gpu, &kw)?);
    let (gtable, gposition) = (Buffer::from_slice(gpu, &table)?, Buffer::from_slice(gpu, &position)?);
    let weights = normed.then(|| QkNorm { q: gqw.view(), k: gkw.view() });
    let rotation = Rotation { table: gtable.view(), position: gposition.view(), eps };
    let (mut q, mut k) = (poisoned::<T>(gpu, dq.len())?, poisoned::<T>(gpu, dk.len())?);
    let fused = Fused { qkv: gqkv.view(), norm: weights, rotation };
    rope_kernels::forward(gpu, heads, fused, &mut q.view_mut(), &mut k.view_mut())?;
    let (want_q, want_k) = reference::rope(&qkv, case);
    let what = |s: &str| format!("{s} {tokens} tokens {qh}/{kv}x{dim}{}", if normed { "" } else { " without norm" });
    let mut all = vec![measure(what("q"), &q, &want_q, grain::<T>())?, measure(what("k"), &k, &want_k, grain::<T>())?];

    let (gdq, gdk) = (upload::<T>(gpu, &dq)?, upload::<T>(gpu, &dk)?);
    // Values are not this kernel's to write: zeros must stay zeros.
    let mut dqkv = Buffer::<T>::zeros(gpu, qkv.len())?;
    let mut dw = Buffer::<f32>::zeros(gpu, 2 * dim)?;
    {
        let mut dw_view = dw.view_mut();
        let pair = (gdq.view(), gdk.view());
        let dw = normed.then_some(&mut dw_view);
        rope_kernels::backward(gpu, heads, pair, fused, &mut dqkv.view_mut(), dw)?;
    }
    let (want, want_qw, want_kw) = reference::rope_backward(&dq, &dk, &qkv, case);
    all.push(measure(what("dqkv"), &dqkv, &want, grain::<T>())?);
    if normed {
        all.push(measure(what("dw"), &dw, &[want_qw, want_kw].concat(), 2e-5)?);
    }
    Ok(all)
}

pub(super) fn swiglu<T: Float>(gpu: &Gpu) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for (rows, dim) in [(1, 8), (33, 96), (257, 3072), (65, 9728)] {
        let mut random = Random((rows * dim) as u64);
        let gate_up = rounded::<T>(&random.normal(2 * rows * dim, 3.0));
        let dout = rounded::<T>(&random.normal(rows * dim, 1.0));
        let (ggate_up, gdout) = (upload::<T>(gpu, &gate_up)?, upload::<T>(gpu, &dout)?);
        let mut out = poisoned::<T>(gpu, dout.len())?;
        swiglu_kernels::forward(gpu, ggate_up.view(), &mut out.view_mut(), dim)?;
        let want = reference::swiglu(&gate_up, dim);
        all.push(measure(format!("out {rows}x{dim}"), &out, &want, grain::<T>())?);
        let (mut again, mut dgate_up) = (poisoned::<T>(gpu, dout.len())?, poisoned::<T>(gpu, gate_up.len())?);
        let again_view = Some(&mut again.view_mut());
        swiglu_kernels::backward(gpu, gdout.view(), ggate_up.view(), &mut dgate_up.view_mut(), again_view, dim)?;
        all.push(measure(format!("again {rows}x{dim}"), &again, &want, grain::<T>())?);
        let want = reference::swiglu_backward(&dout, &gate_up, dim);
        all.push(measure(format!("dgate_up {rows}x{dim}"), &dgate_up, &want, grain::<T>())?);
    }
    Ok(all)
}

pub(super) fn embed(gpu: &Gpu) -> Result<Vec<Measured>> {
    let (vocab, dim, tokens) = (53, 72, 301);
    let mut random = Random(5);
    let table = rounded::<bf16>(&random.normal(vocab * dim, 1.0));
    let dout = rounded::<bf16>(&random.normal(tokens * dim, 1.0));
    let id: Vec<u32> = (0..tokens).map(|_| random.below(vocab) as u32).collect();
    let ids = Ids::new(gpu, &id, vocab)?;
    let mut out = poisoned::<bf16>(gpu, tokens * dim)?;
    embed_kernels::forward(gpu, upload::<bf16>(gpu, &table)?.view(), &ids, &mut out.view_mut())?;
    let mut dtable: Buffer<f32> = upload(gpu, &vec![1.0; vocab * dim])?;
    embed_kernels::backward(gpu, upload::<bf16>(gpu, &dout)?.view(), &ids, &mut dtable.view_mut())?;
    let row = |id: u32| &table[id as usize * dim..(id as usize + 1) * dim];
    let want: Vec<f64> = id.iter().flat_map(|&id| row(id).to_vec()).collect();
    let mut dwant = vec![1.0; vocab * dim];
    for (id, d) in id.iter().zip(dout.chunks(dim)) {
        dwant[*id as usize * dim..][..dim].iter_mut().zip(d).for_each(|(sum, d)| *sum += d);
    }
    let refused = Ids::new(gpu, &[vocab as u32], vocab).is_err();
    Ok(vec![
        measure("rows", &out, &want, 1e-12)?,
        measure("gradient", &dtable, &dwant, 2e-6)?,
        compare("an id past the vocabulary is refused", &[f64::from(u8::from(refused))], &[1.0], 0.0),
    ])
}
