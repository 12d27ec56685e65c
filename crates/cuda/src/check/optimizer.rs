//! AdamW over several steps with moments in every form, clipping, and a norm that is NaN.

use half::bf16;

use super::{Measured, compare, measure, poisoned, rounded, upload};
use crate::adamw::{AdamW, DECAY, Factors, Gradient, Norm, Parameters, joined, split, step};
use crate::buffer::{Buffer, Float};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::moments::Moments;
use crate::offload::HostMoments;
use crate::random::Random;

const RATE: f64 = 1e-2;
const BETAS: [f64; 2] = [0.9, 0.95];
const DECAY_RATE: f64 = 0.1;

fn factors(number: i32) -> Factors {
    AdamW { lr: 1e-2, beta1: 0.9, beta2: 0.95, eps: 1e-8, decay: 0.1, step: number }.factors()
}

/// AdamW in f64.
struct Plain {
    p: Vec<f64>,
    m: Vec<f64>,
    v: Vec<f64>,
}

impl Plain {
    fn new(p: &[f64]) -> Self {
        Self { p: p.to_vec(), m: vec![0.0; p.len()], v: vec![0.0; p.len()] }
    }

    fn step(&mut self, number: i32, grad: &[f64], clip: f64, decays: &[u8]) {
        let [b1, b2] = BETAS;
        let (c1, c2) = (1.0 - b1.powi(number), 1.0 - b2.powi(number));
        for i in 0..grad.len() {
            let g = grad[i] * clip;
            self.m[i] = b1 * self.m[i] + (1.0 - b1) * g;
            self.v[i] = b2 * self.v[i] + (1.0 - b2) * g * g;
            let decay = DECAY_RATE * f64::from(decays[i / DECAY]);
            self.p[i] -= RATE * (self.m[i] / c1 / ((self.v[i] / c2).sqrt() + 1e-8) + decay * self.p[i]);
        }
    }
}

/// Parameters on the device.
struct Held<T> {
    weight: Buffer<T>,
    low: Option<Buffer<i16>>,
}

impl<T: Float> Held<T> {
    fn new(gpu: &Gpu, from: &[f64]) -> Result<Self> {
        let mut weight = poisoned::<T>(gpu, from.len())?;
        let mut low = if T::SUFFIX == bf16::SUFFIX { Some(poisoned(gpu, from.len())?) } else { None };
        let mut to = Parameters { weight: weight.view_mut(), low: low.as_mut().map(Buffer::view_mut) };
        split(gpu, upload::<f32>(gpu, from)?.view(), &mut to)?;
        Ok(Self { weight, low })
    }

    fn parameters(&mut self) -> Parameters<'_, T> {
        Parameters { weight: self.weight.view_mut(), low: self.low.as_mut().map(Buffer::view_mut) }
    }

    fn read(&self) -> Result<Vec<f64>> {
        let low = self.low.as_ref().map(Buffer::read).transpose()?;
        Ok(joined(&self.weight.read()?, low.as_deref()).into_iter().map(f64::from).collect())
    }
}

pub(super) fn adamw(gpu: &Gpu) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for len in [1, 1027, 3_000_001] {
        all.extend(full::<bf16>(gpu, len)?);
        all.extend(full::<f32>(gpu, len)?);
    }
    let mut grad = vec![1f32; 5000];
    grad[4321] = f32::NAN;
    let norm = Norm::of(gpu, Buffer::from_slice(gpu, &grad)?.view(), Some(1.0))?.read()?;
    all.push(compare("one NaN in the gradient is a NaN norm", &[f64::from(u8::from(norm.is_nan()))], &[1.0], 0.0));
    Ok(all)
}

fn full<T: Float>(gpu: &Gpu, len: usize) -> Result<Vec<Measured>> {
    let mut random = Random(len as u64);
    let start = rounded::<f32>(&random.normal(len, 1.0));
    let decays: Vec<u8> = (0..len.div_ceil(DECAY)).map(|_| random.below(2) as u8).collect();
    let flags = Buffer::from_slice(gpu, &decays)?;
    let (mut held, mut plain) = (Held::<T>::new(gpu, &start)?, Plain::new(&start));
    let mut all = vec![compare(format!("split and joined, {len} in {}", T::SUFFIX), &held.read()?, &start, 0.0)];
    all.push(measure(format!("upper half of {len}"), &held.weight, &start, 4e-3)?);
    let mut moments = Moments::full(gpu, len)?;
    for number in 1..=3 {
        let grad = rounded::<f32>(&random.normal(len, 0.5));
        let on_device = upload::<f32>(gpu, &grad)?;
        let norm = Norm::of(gpu, on_device.view(), Some(1.0))?;
        let gradient = Gradient { values: on_device.view(), decays: Some(flags.view()), norm: Some(&norm) };
        step(gpu, factors(number), &mut held.parameters(), &mut moments.views(), gradient)?;
        let size = grad.iter().map(|g| g * g).sum::<f64>().sqrt();
        all.push(compare(format!("norm of {len}"), &[f64::from(norm.read()?)], &[size], 1e-6));
        plain.step(number, &grad, if size > 1.0 { 1.0 / size } else { 1.0 }, &decays);
    }
    let wide = |x: &[f32]| -> Vec<f64> { x.iter().map(|&x| f64::from(x)).collect() };
    all.push(compare(format!("parameters {len} in {}", T::SUFFIX), &held.read()?, &plain.p, 2e-6));
    all.push(compare(format!("second moment {len}"), &wide(&moments.read()?[1]), &plain.v, 1e-5));
    Ok(all)
}

/// 8-bit moments against the same steps in f64: the first step exactly, later ones within the rounding of eight bits, without
/// drift; and moments written to a checkpoint are read back unchanged.
pub(super) fn packed(gpu: &Gpu) -> Result<Vec<Measured>> {
    let len = 100_005;
    let mut random = Random(12);
    let start = rounded::<f32>(&random.normal(len, 1.0));
    let decays = vec![0u8; len.div_ceil(DECAY)];
    let flags = Buffer::from_slice(gpu, &decays)?;
    let (mut held, mut plain) = (Held::<bf16>::new(gpu, &start)?, Plain::new(&start));
    let mut moments = Moments::packed(gpu, len)?;
    // Each parameter's gradient has its own size, over three powers of ten, and a mean beside its noise.
    let sizes: Vec<f64> = (0..len).map(|_| 10f64.powf(-3.0 * random.uniform())).collect();
    let mut all = Vec::new();
    for number in 1..=30 {
        let noise = random.normal(len, 1.0);
        let grad: Vec<f64> = sizes.iter().zip(noise).map(|(s, n)| s * (n + 0.5)).collect();
        let grad = rounded::<f32>(&grad);
        let on_device = upload::<f32>(gpu, &grad)?;
        let gradient = Gradient { values: on_device.view(), decays: Some(flags.view()), norm: None };
        step(gpu, factors(number), &mut held.parameters(), &mut moments.views(), gradient)?;
        plain.step(number, &grad, 1.0, &decays);
        if number == 1 {
            all.push(compare("first step", &held.read()?, &plain.p, 1e-6));
        }
        if number % 10 == 0 {
            all.push(comes_back(gpu, &moments, len)?);
        }
    }
    let moved = |x: &[f64]| -> Vec<f64> { x.iter().zip(&start).map(|(x, s)| x - s).collect() };
    let (mine, theirs) = (moved(&held.read()?), moved(&plain.p));
    all.push(compare("way of thirty steps", &mine, &theirs, 0.1));
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    all.push(compare("mean way of thirty steps", &[mean(&mine)], &[mean(&theirs)], 0.02));
    Ok(all)
}

/// Round trip of moments: read, written into others and compared bit by bit.
fn comes_back(gpu: &Gpu, moments: &Moments, len: usize) -> Result<Measured> {
    let mut again = Moments::packed(gpu, len)?;
    let [m, v] = moments.read()?;
    again.write([&m, &v])?;
    let mut same = false;
    if let (Moments::Packed { m, v, tops }, Moments::Packed { m: m2, v: v2, tops: tops2 }) = (moments, &again) {
        same = m.read()? == m2.read()? && v.read()? == v2.read()? && tops.read()? == tops2.read()?;
    }
    Ok(compare("a checkpoint gives back the same bytes", &[f64::from(u8::from(same))], &[1.0], 0.0))
}

/// Moments in host memory give the same bits as moments on the device, over several slices.
pub(super) fn in_host_memory(gpu: &Gpu) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for len in [1003, 70_000_003] {
        let start = vec![0.5; len];
        let (mut here, mut there) = (Held::<bf16>::new(gpu, &start)?, Held::<bf16>::new(gpu, &start)?);
        let (mut moments, mut host) = (Moments::full(gpu, len)?, HostMoments::zeros(gpu, len)?);
        let mut grad = Buffer::<f32>::uninit(gpu, len)?;
        for number in 1..=3 {
            crate::random::fill(gpu, &mut grad.view_mut(), number, 0.0, 1.0)?;
            let gradient = Gradient { values: grad.view(), decays: None, norm: None };
            step(gpu, factors(number), &mut here.parameters(), &mut moments.views(), gradient)?;
            host.step(factors(number), &mut there.parameters(), gradient)?;
        }
        let [m, v] = moments.read()?;
        let same = host.read() == [&m[..], &v[..]]
            && here.weight.read()? == there.weight.read()?
            && here.low.as_ref().map(Buffer::read).transpose()? == there.low.as_ref().map(Buffer::read).transpose()?;
        all.push(compare(format!("{len} parameters, same bits"), &[f64::from(u8::from(same))], &[1.0], 0.0));
    }
    Ok(all)
}
