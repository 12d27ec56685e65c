//! AdamW on f32 parameters or on bf16 weights and the 16 bits they lack of f32, and the global norm. Formulas and layout:
//! `kernels/adamw.cu`.

#![expect(unsafe_code, reason = "launches kernels; shapes are checked first")]

use crate::buffer::{Buffer, Float, View, ViewMut};
use crate::error::{Result, ensure};
use crate::gpu::{Arg, Gpu, Launch};
use crate::moments::{BLOCK, MomentsMut};

/// Number of parameters that share one decay flag: the kernel's own constant.
pub const DECAY: usize = 16;

/// Settings of one step.
#[derive(Clone, Copy, Debug)]
pub struct AdamW {
    pub lr: f32,
    pub beta1: f32,
    pub beta2: f32,
    pub eps: f32,
    pub decay: f32,
    /// Step number, from 1.
    pub step: i32,
}

impl AdamW {
    pub fn factors(&self) -> Factors {
        Factors {
            beta1: self.beta1,
            beta2: self.beta2,
            eps: self.eps,
            keep: 1.0 - self.lr * self.decay,
            rate: self.lr / (1.0 - self.beta1.powi(self.step)),
            root: 1.0 / (1.0 - self.beta2.powi(self.step)).sqrt(),
            scale: 1.0,
            step: self.step,
        }
    }
}

/// Factors of one step.
#[derive(Clone, Copy, Debug)]
pub struct Factors {
    pub beta1: f32,
    pub beta2: f32,
    pub eps: f32,
    /// 1 - learning rate * decay.
    pub keep: f32,
    /// Learning rate over the first moment's bias correction.
    pub rate: f32,
    /// 1 over the root of the second moment's bias correction.
    pub root: f32,
    /// Gradient scale.
    pub scale: f32,
    /// Step number: it seeds the stochastic rounding of 8-bit moments.
    pub step: i32,
}

/// Flat parameters.
#[derive(Debug)]
pub struct Parameters<'a, T> {
    /// Weights in the form that the kernels read.
    pub weight: ViewMut<'a, T>,
    /// Low bits of f32 that a bf16 weight lacks; absent if the weights are f32.
    pub low: Option<ViewMut<'a, i16>>,
}

/// Gradient of a step.
#[derive(Clone, Copy, Debug)]
pub struct Gradient<'a> {
    pub values: View<'a, f32>,
    /// Decay flags, one per [`DECAY`] parameters, zero for no decay. Absent: all decay.
    pub decays: Option<View<'a, u8>>,
    /// Norm whose clipping factor scales the gradient.
    pub norm: Option<&'a Norm>,
}

/// Global norm of a gradient on the device: `[norm, factor that clips it]`.
#[derive(Debug)]
pub struct Norm(Buffer<f32>);

impl Norm {
    /// Norm of `grad`; `max` is the norm to clip to, `None` leaves the gradient unchanged.
    pub fn of(gpu: &Gpu, grad: View<'_, f32>, max: Option<f32>) -> Result<Self> {
        let blocks = blocks(gpu, grad.len);
        let mut partial = Buffer::<f64>::uninit(gpu, blocks)?;
        let mut norm = Buffer::<f32>::uninit(gpu, 2)?;
        let sum = Launch { module: "adamw", kernel: "square_sum", grid: (blocks as u32, 1), block: 256, shared: 0 };
        let finish = Launch { module: "adamw", kernel: "norm_finish", grid: (1, 1), block: 256, shared: 0 };
        // SAFETY: as square_sum and norm_finish declare; `partial` has a place per block.
        unsafe {
            gpu.launch(sum, &[grad.into(), (&partial.view_mut()).into(), (grad.len as i64).into()])?;
            let args = [partial.view().into(), (&norm.view_mut()).into(), blocks.into(), max.unwrap_or(0.0).into()];
            gpu.launch(finish, &args)?;
        }
        Ok(Self(norm))
    }

    /// Clipping factor on the device.
    pub(crate) fn factor(&self) -> View<'_, f32> {
        self.0.view().slice(1..2)
    }

    /// The norm. Waits for the device.
    pub fn read(&self) -> Result<f32> {
        Ok(self.0.read()?[0])
    }
}

/// One step of AdamW.
pub fn step<T: Float>(
    gpu: &Gpu,
    f: Factors,
    parameters: &mut Parameters<'_, T>,
    moments: &mut MomentsMut<'_>,
    gradient: Gradient<'_>,
) -> Result<()> {
    let len = gradient.values.len;
    let low = parameters.low.as_ref().map_or(len, |low| low.len);
    let whole = T::SUFFIX == <f32 as Float>::SUFFIX;
    let flags = gradient.decays.is_none_or(|flags| flags.len == len.div_ceil(DECAY));
    let fits = parameters.weight.len == len && low == len && whole == parameters.low.is_none() && flags;
    ensure(fits && moments.fit(len) && f.step > 0, "adamw", || {
        format!("gradient {len}, weights {}, low halves {low}, step {}", parameters.weight.len, f.step)
    })?;
    let mut args: Vec<Arg> = vec![(&parameters.weight).into(), parameters.low.as_ref().into()];
    let name = match moments {
        MomentsMut::Full { m, v } => {
            args.extend([Arg::from(&*m), (&*v).into()]);
            "adamw"
        }
        MomentsMut::Packed { m, v, tops } => {
            args.extend([Arg::from(&*m), (&*v).into(), (&*tops).into()]);
            "packed"
        }
    };
    let clip = gradient.norm.map(Norm::factor);
    args.extend([Arg::from(gradient.values), gradient.decays.into(), clip.into(), (len as i64).into()]);
    if matches!(moments, MomentsMut::Packed { .. }) {
        args.push(f.step.into());
    }
    args.extend([f.beta1, f.beta2, f.eps, f.keep, f.rate, f.root, f.scale].map(Arg::from));
    let kernel = format!("{name}_{}", T::SUFFIX);
    let grid = (len.div_ceil(8 * BLOCK).clamp(1, gpu.processors() as usize * 16) as u32, 1);
    // SAFETY: as adamw.cu declares; lengths checked above.
    unsafe { gpu.launch(Launch { module: "adamw", kernel: &kernel, grid, block: 256, shared: 0 }, &args) }
}

/// Splits f32 parameters into the form that [`step`] takes.
pub fn split<T: Float>(gpu: &Gpu, from: View<'_, f32>, to: &mut Parameters<'_, T>) -> Result<()> {
    let low = to.low.as_ref().map_or(from.len, |low| low.len);
    let whole = T::SUFFIX == <f32 as Float>::SUFFIX;
    ensure(to.weight.len == from.len && low == from.len && whole == to.low.is_none(), "split", || {
        format!("{} into {} and {low}", from.len, to.weight.len)
    })?;
    let kernel = format!("split_{}", T::SUFFIX);
    let grid = (blocks(gpu, from.len) as u32, 1);
    let launch = Launch { module: "adamw", kernel: &kernel, grid, block: 256, shared: 0 };
    let args = [from.into(), (&to.weight).into(), to.low.as_ref().into(), (from.len as i64).into()];
    // SAFETY: as split declares; lengths checked above.
    unsafe { gpu.launch(launch, &args) }
}

/// Joins what [`split`] made into f32 parameters, on the host.
pub fn joined<T: Float>(weight: &[T], low: Option<&[i16]>) -> Vec<f32> {
    let Some(low) = low else { return bytemuck::cast_slice(weight).to_vec() };
    let upper: &[u16] = bytemuck::cast_slice(weight);
    let join = |(&upper, &low): (&u16, &i16)| (u32::from(upper) << 16).wrapping_add(i32::from(low).cast_unsigned());
    upper.iter().zip(low).map(join).map(f32::from_bits).collect()
}

/// Rounds weights that are not trained: `copy = round(master)`.
pub fn round_copy<T: Float>(gpu: &Gpu, master: View<'_, f32>, copy: &mut ViewMut<'_, T>) -> Result<()> {
    ensure(master.len == copy.len, "round_copy", || format!("{} into {}", master.len, copy.len))?;
    let grid = (blocks(gpu, master.len) as u32, 1);
    let kernel = format!("round_copy_{}", T::SUFFIX);
    let launch = Launch { module: "adamw", kernel: &kernel, grid, block: 256, shared: 0 };
    // SAFETY: as round_copy declares; lengths checked above.
    unsafe { gpu.launch(launch, &[master.into(), (&*copy).into(), (master.len as i64).into()]) }
}

/// Number of blocks of a grid over `len` elements: enough to fill the GPU, never more than there is work for. It depends only
/// on the GPU and the length, so that sums have one order.
fn blocks(gpu: &Gpu, len: usize) -> usize {
    len.div_ceil(1024).clamp(1, gpu.processors() as usize * 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    #[test]
    fn a_weight_and_its_low_half_are_the_parameter_exactly() {
        for x in [0.0f32, -0.0, 1.0, -1.0, 0.1, 3.402_823_4e38, 1e-45, -7.25e-20, f32::INFINITY] {
            // As split_bf16: halves up.
            let upper = (x.to_bits().wrapping_add(0x8000)) >> 16;
            let low = x.to_bits().wrapping_sub(upper << 16) as i16;
            let found = joined(&[bf16::from_bits(upper as u16)], Some(&[low]));
            assert_eq!(found[0].to_bits(), x.to_bits());
        }
        assert_eq!(joined(&[0.1f32, -2.0], None), [0.1, -2.0]);
    }
}
