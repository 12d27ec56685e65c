//! The native model: token ids in, ids and logprobs out, gradients of any per-token objective. Knows no text.

pub mod bench;
pub mod buffer;
pub mod config;
pub mod cpu;
pub mod error;
pub mod forest;
#[cfg(feature = "gemm")]
mod gemm_peak;
pub mod generate;
pub mod kernels;
pub mod learn;
pub mod lora;
pub mod memory;
pub mod model;
pub mod optim;
pub mod parity;
pub mod policy;
pub mod rope;
mod team;
pub mod weights;

pub use config::Config;
pub use cpu::Cpu;
pub use error::{EngineError, Result};
pub use forest::{Forest, Target};
pub use generate::{Generator, GeneratorSettings, GeneratorStats, StreamedToken};
pub use learn::{LearnerSettings, NativeLearner, Whose};
pub use lora::Adapter;
pub use model::{Keep, Model, Net, Pass, Scored, Slopes, Trained, Workspace};
pub use policy::{Policy, Snapshot};
