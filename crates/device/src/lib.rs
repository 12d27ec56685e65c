//! The native engine on a GPU: the CUDA kernels behind the engine's device seam, and the choice between devices.
//!
//! [`Cuda`] implements [`hone_engine::Backend`]: bf16 weights and activations with f32 master weights, gradients and moments,
//! or f32 throughout for tests. Flat arrays are laid out by the engine's parameter table, so that nothing is permuted when a
//! model is loaded, saved or compared. [`Native`] is the engine a recipe names; `engine.device` chooses where it runs.

mod backend;
mod backward;
mod batch;
mod body;
mod choice;
mod cuda;
mod decode;
mod flat;
mod forward;
mod graphs;
mod loan;
mod lora;
mod memory;
mod moments;
mod pages;
mod prompts;
mod search;
mod weights;

pub use choice::{Device, Native, Precision};
pub use cuda::Cuda;
pub use hone_cuda::Float;
pub use moments::MomentStore;
