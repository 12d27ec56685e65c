//! Compact optimizer state: 8-bit moments, and master weights that share their upper half with the bf16 weights. Formulas
//! and layout: `kernels/compact.cu`.

#![expect(unsafe_code, reason = "launches kernels; shapes are checked first")]

use half::bf16;

use crate::adamw::{AdamW, Norm};
use crate::buffer::{Buffer, View, ViewMut};
use crate::error::{Result, ensure};
use crate::gpu::{Gpu, Launch};

/// Parameters that share the largest moment: the kernel's own constant.
const BLOCK: usize = 256;

/// Optimizer state beside the bf16 weights: 4 bytes per parameter.
#[derive(Debug)]
pub struct Compact {
    low: Buffer<i16>,
    m: Buffer<u8>,
    v: Buffer<u8>,
    tops: Buffer<f32>,
}

impl Compact {
    /// State of f32 parameters before their first step; their upper halves go to `weights`.
    pub fn new(gpu: &Gpu, parameters: View<'_, f32>, weights: &mut ViewMut<'_, bf16>) -> Result<Self> {
        let len = parameters.len;
        ensure(weights.len == len && len.is_multiple_of(8), "compact state", || {
            format!("{len} parameters, {} weights; a multiple of 8", weights.len)
        })?;
        let mut low = Buffer::<i16>::uninit(gpu, len)?;
        let args = [parameters.into(), (&*weights).into(), (&low.view_mut()).into(), (len as i64).into()];
        // SAFETY: as compact_split declares; lengths checked above.
        unsafe { gpu.launch(launch(gpu, "compact_split", len), &args) }?;
        let tops = Buffer::zeros(gpu, 2 * len.div_ceil(BLOCK))?;
        Ok(Self { low, m: Buffer::zeros(gpu, len)?, v: Buffer::zeros(gpu, len)?, tops })
    }

    /// One step of AdamW; with `norm`, the gradient is scaled by its clipping factor.
    pub fn step(
        &mut self,
        gpu: &Gpu,
        settings: AdamW,
        weights: &mut ViewMut<'_, bf16>,
        grad: View<'_, f32>,
        norm: Option<&Norm>,
    ) -> Result<()> {
        let len = grad.len;
        ensure(weights.len == len && self.low.len() == len && settings.step > 0, "compact step", || {
            format!("gradient {len}, weights {}, state {}, step {}", weights.len, self.low.len(), settings.step)
        })?;
        let args = [
            (&*weights).into(),
            (&self.low.view_mut()).into(),
            (&self.m.view_mut()).into(),
            (&self.v.view_mut()).into(),
            grad.into(),
            (&self.tops.view_mut()).into(),
            norm.map(Norm::factor).into(),
            (len as i64).into(),
            settings.step.into(),
            settings.lr.into(),
            settings.beta1.into(),
            settings.beta2.into(),
            settings.eps.into(),
            settings.decay.into(),
            (1.0 - settings.beta1.powi(settings.step)).into(),
            (1.0 - settings.beta2.powi(settings.step)).into(),
        ];
        // SAFETY: as compact_step declares; lengths checked above.
        unsafe { gpu.launch(launch(gpu, "compact_step", len), &args) }
    }

    /// Parameters in f32, exactly as the steps have them.
    pub fn parameters(&self, gpu: &Gpu, weights: View<'_, bf16>) -> Result<Buffer<f32>> {
        let len = self.low.len();
        ensure(weights.len == len, "compact state", || format!("{} weights for {len}", weights.len))?;
        let mut out = Buffer::<f32>::uninit(gpu, len)?;
        let args = [weights.into(), self.low.view().into(), (&out.view_mut()).into(), (len as i64).into()];
        // SAFETY: as compact_join declares; lengths checked above.
        unsafe { gpu.launch(launch(gpu, "compact_join", len), &args) }?;
        Ok(out)
    }
}

fn launch<'a>(gpu: &Gpu, kernel: &'a str, len: usize) -> Launch<'a> {
    let grid = (len.div_ceil(8 * BLOCK).clamp(1, gpu.processors() as usize * 16) as u32, 1);
    Launch { module: "compact", kernel, grid, block: 256, shared: 0 }
}
