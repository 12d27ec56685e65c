//! CUDA kernels for training and sampling, their launcher and their references. Knows tensors, not models' files or text.
//!
//! Building needs nothing of CUDA. [`Gpu::open`] looks for the driver and NVRTC, [`Matmul::new`] for cuBLASLt; each
//! error says what to install. Kernels are CUDA C++ (`kernels/*.cu`), compiled for the device on first use and cached.
//!
//! A kernel is three files: its source, its wrapper (one function per direction, shapes checked, `unsafe` inside) and its
//! check in [`check`] against the f64 arithmetic of [`reference`].

pub mod adamw;
pub mod attention;
pub mod buffer;
pub mod check;
pub mod compile;
pub mod decode;
pub mod draw;
pub mod embed;
pub mod error;
pub mod generate;
pub mod gpu;
pub mod graph;
pub mod head;
pub mod heads;
pub mod launch;
pub mod matmul;
pub mod model;
pub mod moments;
pub mod norm;
pub mod offload;
pub mod random;
pub mod reference;
pub mod rope;
pub mod rows;
pub mod sample;
pub mod scratch;
pub mod shape;
pub mod step;
pub mod swiglu;
pub mod watch;

pub use buffer::{Buffer, Float, View, ViewMut};
pub use error::{CudaError, Result};
pub use gpu::Gpu;
pub use matmul::Matmul;
