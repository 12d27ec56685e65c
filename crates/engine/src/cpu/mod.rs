//! CPU backend: a device, kernels, and the passes written on them.
//!
//! `block` is one transformer block on a few rows, the same code for training and sampling; `forward`, `head` and
//! `backward` run it over a packed batch, `decode` over a decoding step. One task takes a block of rows through everything
//! between two attentions while they are in L2. Results are the same bits on any number of threads and however rows are
//! packed.

mod backend;
mod backward;
pub mod block;
pub mod buffer;
mod decode;
mod device;
mod forward;
mod head;
mod init;
pub mod kernels;
pub(crate) mod lora;
pub mod optim;
mod pool;
mod weights;
mod workspace;

pub use crate::cpu::buffer::Buffer;
pub use crate::cpu::decode::{Decoder, PageShape, Pages};
pub use crate::cpu::device::{Cpu, Shared, with_scratch};
pub use crate::cpu::lora::AdapterWeights;
pub use crate::cpu::weights::{LayerMatrices, Matrix, Weights};
pub use crate::cpu::workspace::Workspace;
