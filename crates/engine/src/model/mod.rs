//! Transformer: a model in memory, its forward and backward passes.
//!
//! `layer` is one transformer block on a few rows, the same code for training and sampling; `forward` and `backward`
//! run it over a packed batch; `head` is the output distribution. The callers decide what the results are for.

mod backward;
mod forward;
mod head;
pub mod layer;
mod workspace;

use std::path::Path;
use std::sync::Arc;

pub use backward::{LossGradients, Trained};
pub use forward::{Keep, Pass, Scored};
pub use layer::{Net, Spread};
pub use workspace::Workspace;

pub(crate) use forward::by_rows as workspace_rows;

use crate::config::Config;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::rope::Tables;
use crate::weights::{Storage, Weights};

/// Model: weights, their shape and the device they are computed on. Cheap to clone: everything is shared.
#[derive(Debug, Clone)]
pub struct Model {
    pub config: Arc<Config>,
    pub weights: Arc<Weights>,
    pub cpu: Arc<Cpu>,
    pub(crate) angles: Arc<Tables>,
}

impl Model {
    /// Loads a Hugging Face directory.
    pub fn load(dir: &Path, cpu: Arc<Cpu>) -> Result<Self> {
        let config = Config::load(dir)?;
        let weights = Weights::load(&cpu, &config, dir)?;
        Ok(Self::new(config, weights, cpu))
    }

    /// Randomly initialised model.
    pub fn random(config: Config, cpu: Arc<Cpu>, seed: u64) -> Self {
        let weights = Weights::random(&config, &cpu, seed);
        Self::new(config, weights, cpu)
    }

    pub fn new(config: Config, weights: Weights, cpu: Arc<Cpu>) -> Self {
        let angles = Arc::new(Tables::new(config.rope));
        Self { config: Arc::new(config), weights: Arc::new(weights), cpu, angles }
    }

    /// Writes a directory that transformers loads unchanged.
    pub fn save(&self, dir: &Path, storage: Storage) -> Result<()> {
        self.weights.save(&self.config, dir, storage)
    }

    /// Number of parameters.
    pub fn parameters(&self) -> usize {
        self.weights.params.table.values()
    }
}
