//! Undo: a learner's state in host memory, to take back a step that led too far.

use std::sync::Arc;

use crate::backend::Backend;
use crate::error::Result;
use crate::optim::{AdamW, AdamWState};
use crate::policy::Snapshot;
use crate::weights::Host;

/// Trained weights and optimizer state of one version, 12 bytes per parameter. In host memory: a GPU needs a second set of weights
/// only while a step is taken back.
#[derive(Debug)]
pub(crate) struct Remembered {
    weights: Vec<f32>,
    optimizer: AdamWState,
}

impl Remembered {
    pub(crate) fn of<B: Backend>(snapshot: &Snapshot<B>, optimizer: &AdamW<B>) -> Result<Self> {
        let weights = match &snapshot.adapter {
            Some(adapter) => B::read_adapter(&adapter.weights)?,
            None => B::read(&snapshot.model.weights)?,
        };
        Ok(Self { weights: weights.into_owned(), optimizer: optimizer.state()? })
    }

    /// Puts the weights into a snapshot, and the state into its optimizer.
    pub(crate) fn put<B: Backend>(&self, snapshot: &mut Snapshot<B>, optimizer: &mut AdamW<B>) -> Result<()> {
        let (model, source) = (&snapshot.model, Host(&self.weights));
        if let Some(adapter) = &mut snapshot.adapter {
            let device = &model.device;
            let weights = device.load_adapter(&model.config, &adapter.config, &adapter.table, &source)?;
            optimizer.set(&self.optimizer)?;
            Arc::make_mut(adapter).weights = weights;
        } else {
            let weights = model.device.load(&model.config, &model.params, &source)?;
            optimizer.set(&self.optimizer)?;
            snapshot.model.weights = Arc::new(weights);
        }
        Ok(())
    }
}
