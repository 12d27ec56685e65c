//! SwiGLU. Formulas and layout: `kernels/swiglu.cu`.

#![expect(unsafe_code, reason = "launches kernels; shapes are checked first")]

use crate::buffer::{Float, View, ViewMut};
use crate::error::{Result, ensure};
use crate::gpu::{Gpu, Launch};

/// SwiGLU: `out = silu(gate) * up` for rows of gates followed by ups.
pub fn forward<T: Float>(gpu: &Gpu, gate_up: View<'_, T>, out: &mut ViewMut<'_, T>, dim: usize) -> Result<()> {
    check(gate_up.len, out.len, dim)?;
    let kernel = format!("swiglu_forward_{}", T::SUFFIX);
    // SAFETY: as swiglu_forward declares; lengths checked above.
    unsafe { gpu.launch(launch(&kernel, out.len), &[gate_up.into(), (&*out).into(), (out.len / 8).into(), dim.into()]) }
}

/// Gradient of gates and ups; `again`, if given, receives the output of the forward pass once more.
pub fn backward<T: Float>(
    gpu: &Gpu,
    dout: View<'_, T>,
    gate_up: View<'_, T>,
    dgate_up: &mut ViewMut<'_, T>,
    again: Option<&mut ViewMut<'_, T>>,
    dim: usize,
) -> Result<()> {
    check(gate_up.len, dout.len, dim)?;
    ensure(dgate_up.len == gate_up.len && again.as_ref().is_none_or(|a| a.len == dout.len), "swiglu backward", || {
        format!("dgate_up {} for gate_up {}", dgate_up.len, gate_up.len)
    })?;
    let kernel = format!("swiglu_backward_{}", T::SUFFIX);
    let args =
        [dout.into(), gate_up.into(), (&*dgate_up).into(), again.as_deref().into(), (dout.len / 8).into(), dim.into()];
    // SAFETY: as swiglu_backward declares; lengths checked above.
    unsafe { gpu.launch(launch(&kernel, dout.len), &args) }
}

fn launch(kernel: &str, elements: usize) -> Launch<'_> {
    Launch { module: "swiglu", kernel, grid: ((elements / 8).div_ceil(256) as u32, 1), block: 256, shared: 0 }
}

fn check(gate_up: usize, out: usize, dim: usize) -> Result<()> {
    let counted = i32::try_from(out / 8).is_ok();
    ensure(
        counted && dim > 0 && dim.is_multiple_of(8) && out.is_multiple_of(dim) && gate_up == 2 * out,
        "swiglu",
        || format!("gate_up {gate_up}, out {out}, rows of {dim}; the row length must be a multiple of 8"),
    )
}
