//! CUDA kernels for training and sampling, their launcher and their references. Knows tensors, not models' files or text.
//!
//! Building does not need CUDA. [`Gpu::open`] looks for the driver and NVRTC, [`Matmul::new`] for cuBLASLt; each
//! error says what to install. Kernels are CUDA C++ (`kernels/*.cu`), compiled for the device on first use and cached.
//!
//! A kernel is three files: its source, its wrapper (one function per direction, shapes checked, `unsafe` inside) and its
//! check in [`check`] against the f64 arithmetic of [`mod@reference`].

pub mod adamw;
pub mod attention;
pub mod buffer;
pub mod check;
mod compile;
pub mod decode;
pub mod draw;
pub mod embed;
mod error;
mod generate;
mod gpu;
pub mod graph;
pub mod head;
pub mod heads;
mod launch;
pub mod matmul;
mod model;
pub mod moments;
pub mod norm;
pub mod offload;
pub mod random;
pub mod reference;
pub mod rope;
pub mod rows;
mod sample;
pub mod scratch;
mod shape;
mod step;
pub mod swiglu;
pub mod watch;

pub use buffer::{Buffer, Float, View, ViewMut};
pub use error::{CudaError, Result};
pub use gpu::Gpu;
pub use matmul::Matmul;
