//! CPU kernels, one file each. They take slices and shapes and know no models.

#![expect(
    clippy::inline_always,
    reason = "a kernel must be inlined into the function that carries its target features"
)]

pub mod adamw;
pub mod attention;
pub mod head;
pub mod matmul;
pub mod matrix;
pub mod norm;
pub mod rope;
pub mod simd;
pub mod swiglu;
#[cfg(test)]
pub(crate) mod testing;
