//! AdamW on f32 master weights with bf16 copies, and the global norm. Formulas and layout: `kernels/adamw.cu`.

#![expect(unsafe_code, reason = "launches kernels; shapes are checked first")]

use crate::buffer::{Buffer, Float, View, ViewMut};
use crate::error::{Result, ensure};
use crate::gpu::{Gpu, Launch};

/// Settings of one step.
#[derive(Clone, Copy, Debug)]
pub struct AdamW {
    pub lr: f32,
    pub beta1: f32,
    pub beta2: f32,
    pub eps: f32,
    pub decay: f32,
    /// Number of this step, from 1.
    pub step: i32,
}

/// Flat parameters and their state.
#[derive(Debug)]
pub struct State<'a, T> {
    pub master: ViewMut<'a, f32>,
    pub m: ViewMut<'a, f32>,
    pub v: ViewMut<'a, f32>,
    /// The copy that the matmuls read.
    pub copy: ViewMut<'a, T>,
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

    /// Factor that clips, on the device.
    pub(crate) fn factor(&self) -> View<'_, f32> {
        self.0.view().slice(1..2)
    }

    /// The norm, once the device has got there.
    pub fn read(&self) -> Result<f32> {
        Ok(self.0.read()?[0])
    }
}

/// One step of AdamW; with `norm`, the gradient is scaled by its clipping factor.
pub fn step<T: Float>(
    gpu: &Gpu,
    settings: AdamW,
    state: &mut State<'_, T>,
    grad: View<'_, f32>,
    norm: Option<&Norm>,
) -> Result<()> {
    let len = grad.len;
    let fits = state.master.len == len && state.m.len == len && state.v.len == len && state.copy.len == len;
    ensure(fits && settings.step > 0, "adamw", || {
        format!("gradient {len}, master {}, copy {}, step {}", state.master.len, state.copy.len, settings.step)
    })?;
    let kernel = format!("adamw_{}", T::SUFFIX);
    let launch = Launch { module: "adamw", kernel: &kernel, grid: (blocks(gpu, len) as u32, 1), block: 256, shared: 0 };
    let args = [
        (&state.master).into(),
        (&state.m).into(),
        (&state.v).into(),
        grad.into(),
        (&state.copy).into(),
        norm.map(Norm::factor).into(),
        (len as i64).into(),
        settings.lr.into(),
        settings.beta1.into(),
        settings.beta2.into(),
        settings.eps.into(),
        settings.decay.into(),
        (1.0 - settings.beta1.powi(settings.step)).into(),
        (1.0 - settings.beta2.powi(settings.step)).into(),
    ];
    // SAFETY: as adamw.cu declares; lengths checked above.
    unsafe { gpu.launch(launch, &args) }
}

/// Factors of one step on a run of parameters, computed by the caller.
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
    /// Factor on the gradient.
    pub scale: f32,
}

/// AdamW on a run of parameters.
pub fn run<T: Float>(gpu: &Gpu, f: Factors, state: &mut State<'_, T>, grad: View<'_, f32>) -> Result<()> {
    let len = grad.len;
    let fits = state.master.len == len && state.m.len == len && state.v.len == len && state.copy.len == len;
    ensure(fits, "adamw", || format!("gradient {len}, master {}, copy {}", state.master.len, state.copy.len))?;
    let kernel = format!("adamw_run_{}", T::SUFFIX);
    let launch = Launch { module: "adamw", kernel: &kernel, grid: (blocks(gpu, len) as u32, 1), block: 256, shared: 0 };
    let args = [
        (&state.master).into(),
        (&state.m).into(),
        (&state.v).into(),
        grad.into(),
        (&state.copy).into(),
        (len as i64).into(),
        f.beta1.into(),
        f.beta2.into(),
        f.eps.into(),
        f.keep.into(),
        f.rate.into(),
        f.root.into(),
        f.scale.into(),
    ];
    // SAFETY: as adamw_run declares; lengths checked above.
    unsafe { gpu.launch(launch, &args) }
}

/// `copy = round(master)`, for the first step.
pub fn round_copy<T: Float>(gpu: &Gpu, master: View<'_, f32>, copy: &mut ViewMut<'_, T>) -> Result<()> {
    ensure(master.len == copy.len, "round_copy", || format!("{} into {}", master.len, copy.len))?;
    let grid = (blocks(gpu, master.len) as u32, 1);
    let kernel = format!("round_copy_{}", T::SUFFIX);
    let launch = Launch { module: "adamw", kernel: &kernel, grid, block: 256, shared: 0 };
    // SAFETY: as round_copy declares; lengths checked above.
    unsafe { gpu.launch(launch, &[master.into(), (&*copy).into(), (master.len as i64).into()]) }
}

/// Blocks of a grid over `len` elements: enough to fill the GPU, never more than there is work for. It depends only on
/// the GPU and the length, so that sums have one order.
fn blocks(gpu: &Gpu, len: usize) -> usize {
    len.div_ceil(1024).clamp(1, gpu.processors() as usize * 16)
}
