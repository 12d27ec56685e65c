//! Native LLM engine: token ids in, ids and logprobs out, gradients of any per-token objective. It handles no text.
//!
//! [`backend`] is the interface between the engine and a device; [`cpu`] implements it for every machine, the crate
//! `hone-device` for GPUs.

pub mod backend;
pub mod bench;
pub mod config;
pub mod cpu;
mod error;
mod forest;
#[cfg(feature = "gemm")]
mod gemm_peak;
pub mod generate;
pub mod learn;
pub mod lora;
mod memory;
mod model;
mod native;
pub mod optim;
pub mod parity;
mod policy;
pub mod rope;
mod undo;
pub mod weights;

pub use backend::Backend;
pub use config::Config;
pub use cpu::kernels;
pub use cpu::{Cpu, Workspace};
pub use error::{EngineError, Result};
pub use forest::{Forest, Target};
pub use generate::{Generator, GeneratorSettings, GeneratorStats, StreamedToken};
pub use learn::{LearnerSettings, NativeLearner, Whose};
pub use lora::Adapter;
pub use model::{Keep, LossGradients, Model, Net, Pass, Scored, Trained};
pub use native::{Native, open_on};
pub use policy::{Policy, Snapshot};
