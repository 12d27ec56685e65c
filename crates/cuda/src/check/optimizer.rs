//! AdamW over several steps, clipping, and a norm that is not a number.

use half::bf16;

use super::{Measured, compare, measure, poisoned, rounded, upload};
use crate::adamw::{AdamW, Norm, State, step};
use crate::buffer::Buffer;
use crate::compact::Compact;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::random::Random;

pub(super) fn adamw(gpu: &Gpu) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for len in [1, 1027, 3_000_001] {
        all.extend(case(gpu, len)?);
    }
    let mut grad = vec![1f32; 5000];
    grad[4321] = f32::NAN;
    let norm = Norm::of(gpu, Buffer::from_slice(gpu, &grad)?.view(), Some(1.0))?.read()?;
    all.push(compare("one NaN in the gradient is a NaN norm", &[f64::from(u8::from(norm.is_nan()))], &[1.0], 0.0));
    Ok(all)
}

fn case(gpu: &Gpu, len: usize) -> Result<Vec<Measured>> {
    let mut random = Random(len as u64);
    let (lr, b1, b2, eps, decay, max) = (1e-2, 0.9, 0.95, 1e-8, 0.1, 1.0);
    let mut p = rounded::<f32>(&random.normal(len, 1.0));
    let (mut m, mut v) = (vec![0.0; len], vec![0.0; len]);
    let mut master = upload::<f32>(gpu, &p)?;
    let (mut gm, mut gv) = (Buffer::<f32>::zeros(gpu, len)?, Buffer::<f32>::zeros(gpu, len)?);
    let mut copy = poisoned::<bf16>(gpu, len)?;
    let mut all = Vec::new();
    for number in 1..=3 {
        let grad = rounded::<f32>(&random.normal(len, 0.5));
        let ggrad = upload::<f32>(gpu, &grad)?;
        let norm = Norm::of(gpu, ggrad.view(), Some(max as f32))?;
        let settings = AdamW { lr: 1e-2, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.1, step: number };
        let mut state = State { master: master.view_mut(), m: gm.view_mut(), v: gv.view_mut(), copy: copy.view_mut() };
        step(gpu, settings, &mut state, ggrad.view(), Some(&norm))?;
        let size = grad.iter().map(|g| g * g).sum::<f64>().sqrt();
        let clip = if size > max { max / size } else { 1.0 };
        all.push(compare(format!("norm of {len}"), &[f64::from(norm.read()?)], &[size], 1e-6));
        for i in 0..len {
            let g = grad[i] * clip;
            m[i] = b1 * m[i] + (1.0 - b1) * g;
            v[i] = b2 * v[i] + (1.0 - b2) * g * g;
            let (mhat, vhat) = (m[i] / (1.0 - f64::powi(b1, number)), v[i] / (1.0 - f64::powi(b2, number)));
            p[i] -= lr * (mhat / (vhat.sqrt() + eps) + decay * p[i]);
        }
    }
    all.push(measure(format!("master {len}"), &master, &p, 2e-6)?);
    all.push(measure(format!("copy {len}"), &copy, &p, 4e-3)?);
    all.push(measure(format!("second moment {len}"), &gv, &v, 1e-5)?);
    Ok(all)
}

/// Compact (8-bit) state compared with the same steps in f64: the first step exactly, later ones within the precision
/// of eight bits, without drift.
pub(super) fn compact(gpu: &Gpu) -> Result<Vec<Measured>> {
    let len = 100_008;
    let mut random = Random(12);
    let start = rounded::<f32>(&random.normal(len, 1.0));
    let mut weights = poisoned::<bf16>(gpu, len)?;
    let parameters = upload::<f32>(gpu, &start)?;
    let mut state = Compact::new(gpu, parameters.view(), &mut weights.view_mut())?;
    let mut all = vec![measure("split and joined", &state.parameters(gpu, weights.view())?, &start, 0.0)?];
    all.push(measure("upper half", &weights, &start, 4e-3)?);
    let (lr, b1, b2, eps) = (1e-2, 0.9, 0.95, 1e-8);
    let (mut p, mut m, mut v) = (start.clone(), vec![0.0; len], vec![0.0; len]);
    // Each parameter's gradient has its own size, over three powers of ten, and a mean beside its noise.
    let sizes: Vec<f64> = (0..len).map(|_| 10f64.powf(-3.0 * random.uniform())).collect();
    for number in 1..=30 {
        let noise = random.normal(len, 1.0);
        let grad: Vec<f64> = sizes.iter().zip(noise).map(|(s, n)| s * (n + 0.5)).collect();
        let grad = rounded::<f32>(&grad);
        let ggrad = upload::<f32>(gpu, &grad)?;
        let settings = AdamW { lr: 1e-2, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.0, step: number };
        state.step(gpu, settings, &mut weights.view_mut(), ggrad.view(), None)?;
        for i in 0..len {
            m[i] = b1 * m[i] + (1.0 - b1) * grad[i];
            v[i] = b2 * v[i] + (1.0 - b2) * grad[i] * grad[i];
            let (mhat, vhat) = (m[i] / (1.0 - f64::powi(b1, number)), v[i] / (1.0 - f64::powi(b2, number)));
            p[i] -= lr * (mhat / (vhat.sqrt() + eps));
        }
        if number == 1 {
            all.push(measure("first step", &state.parameters(gpu, weights.view())?, &p, 1e-6)?);
        }
    }
    let got: Vec<f64> = state.parameters(gpu, weights.view())?.read()?.into_iter().map(f64::from).collect();
    let moved = |x: &[f64]| -> Vec<f64> { x.iter().zip(&start).map(|(x, s)| x - s).collect() };
    let (mine, theirs) = (moved(&got), moved(&p));
    all.push(compare("way of thirty steps", &mine, &theirs, 0.1));
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    all.push(compare("mean way of thirty steps", &[mean(&mine)], &[mean(&theirs)], 0.02));
    Ok(all)
}
