//! Checks of every kernel against the f64 reference on random data: the bodies of the GPU tests, also run by
//! `hone-cuda-check` on machines without Rust.
//!
//! Outputs are filled with NaN before each run, so that an element nothing wrote cannot pass.

mod attention;
pub mod bench;
mod decode;
mod elementwise;
mod generate;
mod generating;
mod head;
mod matmul;
mod optimizer;
mod step;
mod training;

use crate::buffer::{Buffer, Element, Float};
use crate::error::Result;
use crate::gpu::Gpu;

/// Error of one output against its reference, and its bound.
#[derive(Clone, Debug)]
pub struct Measured {
    pub what: String,
    /// ‖out − ref‖ / ‖ref‖, infinite where an element is not a number.
    pub error: f64,
    pub bound: f64,
}

/// One kernel's check.
#[derive(Clone, Copy)]
pub struct Check {
    pub name: &'static str,
    pub body: fn(&Gpu) -> Result<Vec<Measured>>,
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Every check, simple kernels before what is built of them.
pub const CHECKS: [Check; 26] = [
    Check { name: "matmul", body: matmul::matmul },
    Check { name: "rms_norm_bf16", body: elementwise::rms_norm::<half::bf16> },
    Check { name: "rms_norm_f32", body: elementwise::rms_norm::<f32> },
    Check { name: "rope_bf16", body: elementwise::rope::<half::bf16> },
    Check { name: "rope_f32", body: elementwise::rope::<f32> },
    Check { name: "swiglu_bf16", body: elementwise::swiglu::<half::bf16> },
    Check { name: "swiglu_f32", body: elementwise::swiglu::<f32> },
    Check { name: "embed", body: elementwise::embed },
    Check { name: "head_bf16", body: head::head::<half::bf16> },
    Check { name: "head_f32", body: head::head::<f32> },
    Check { name: "adamw", body: optimizer::adamw },
    Check { name: "packed_moments", body: optimizer::packed },
    Check { name: "host_moments", body: optimizer::in_host_memory },
    Check { name: "attention_forward", body: attention::forward },
    Check { name: "attention_backward", body: attention::backward },
    Check { name: "attention_portable", body: attention::portable },
    Check { name: "attention_small", body: attention::small },
    Check { name: "attention_f32", body: attention::in_f32 },
    Check { name: "decode", body: decode::decode },
    Check { name: "repeats_bit_for_bit", body: step::repeats },
    Check { name: "model_bf16", body: step::model::<half::bf16> },
    Check { name: "model_f32", body: step::model::<f32> },
    Check { name: "sampling", body: generate::sampling },
    Check { name: "generation", body: generate::generation },
    Check { name: "growth", body: step::growth },
    Check { name: "not_finite", body: step::not_finite },
];

/// Rounding error of one product or sum in the storage type: the unit of the error bounds.
fn grain<T: Float>() -> f64 {
    if T::SUFFIX == "bf16" { 4e-3 } else { 2e-6 }
}

/// Values as the storage type holds them.
fn rounded<T: Float>(x: &[f64]) -> Vec<f64> {
    x.iter().map(|&x| T::from_f64(x).to_f64()).collect()
}

fn upload<T: Float>(gpu: &Gpu, x: &[f64]) -> Result<Buffer<T>> {
    let x: Vec<T> = x.iter().map(|&x| T::from_f64(x)).collect();
    Buffer::from_slice(gpu, &x)
}

/// Output buffer full of NaN.
fn poisoned<T: Element>(gpu: &Gpu, len: usize) -> Result<Buffer<T>> {
    let mut buffer = Buffer::uninit(gpu, len)?;
    buffer.fill_bytes(0xff)?;
    Ok(buffer)
}

fn measure<T: Float>(what: impl Into<String>, out: &Buffer<T>, reference: &[f64], bound: f64) -> Result<Measured> {
    let out: Vec<f64> = out.read()?.into_iter().map(T::to_f64).collect();
    Ok(compare(what, &out, reference, bound))
}

fn compare(what: impl Into<String>, out: &[f64], reference: &[f64], bound: f64) -> Measured {
    let square = |x: f64| x * x;
    let distance = out.iter().zip(reference).map(|(a, b)| square(a - b)).sum::<f64>().sqrt();
    let size = reference.iter().copied().map(square).sum::<f64>().sqrt();
    let error = if out.len() == reference.len() { distance / size.max(1e-30) } else { f64::INFINITY };
    Measured { what: what.into(), error: if error.is_nan() { f64::INFINITY } else { error }, bound }
}

impl Measured {
    pub fn passes(&self) -> bool {
        self.error <= self.bound
    }
}
