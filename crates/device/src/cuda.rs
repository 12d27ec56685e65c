//! One GPU as a device of the engine, and a model's dimensions as its kernels see them.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hone_cuda::heads::{Padded, wide};
use hone_cuda::rope::Heads;
use hone_cuda::{Buffer, CudaError, Float, Gpu, Matmul};
use hone_engine::rope::{Rope, Table};
use hone_engine::weights::ModelParams;
use hone_engine::{Config, EngineError, Result};

use crate::loan::Idle;
use crate::moments::MomentStore;

/// CUDA device: one GPU. `T` is the storage type of weights and activations: bf16, or f32 for tests.
#[derive(Debug)]
pub struct Cuda<T> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) moments: MomentStore,
    pub(crate) storage: PhantomData<T>,
}

/// Resources shared by everything on the device: the stream, the matrix products with their workspace, and the memory of
/// gradients between two steps.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) gpu: Gpu,
    pub(crate) matmul: Matmul,
    pub(crate) idle: Idle,
    /// Bytes of gradients that are yet to be allocated: a pass leaves them free.
    pub(crate) promised: AtomicU64,
    pub(crate) faults: Mutex<Faults>,
}

/// Non-finite outputs of kernels.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// First non-finite output of a pass, until the gradient norm reports it.
    pub(crate) found: Option<String>,
    /// Output that every pass makes non-finite, for tests.
    pub(crate) poisoned: Option<String>,
}

impl Shared {
    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Float> Cuda<T> {
    /// Opens a device of the machine. Missing libraries are reported now, with what to install.
    pub fn open(ordinal: usize) -> Result<Self> {
        let gpu = Gpu::open(ordinal).map_err(fault)?;
        let matmul = Matmul::new(&gpu).map_err(fault)?;
        let (idle, promised) = (Idle::default(), AtomicU64::new(0));
        let shared = Arc::new(Shared { gpu, matmul, idle, promised, faults: Mutex::default() });
        Ok(Self { shared, moments: MomentStore::default(), storage: PhantomData })
    }

    /// Storage of the moments of optimizers made from now on.
    #[must_use]
    pub fn with_moments(mut self, moments: MomentStore) -> Self {
        self.moments = moments;
        self
    }

    /// Makes an output of a kernel, such as `layer 1, SwiGLU`, non-finite in every pass from now on: to test that it is named.
    pub fn poison(&self, output: Option<&str>) {
        self.shared.faults().poisoned = output.map(str::to_owned);
    }

    pub fn name(&self) -> &str {
        self.shared.gpu.name()
    }

    /// Bytes per second of the device's memory at its full clock, if known.
    pub fn bandwidth(&self) -> Option<f64> {
        self.shared.gpu.bandwidth()
    }

    /// Peak memory in use since the last [`Cuda::reset_peak`], in bytes.
    pub fn peak(&self) -> Result<u64> {
        self.shared.gpu.peak().map_err(fault)
    }

    /// Memory in use, in bytes.
    pub fn used(&self) -> Result<u64> {
        self.shared.gpu.used().map_err(fault)
    }

    pub fn reset_peak(&self) -> Result<()> {
        self.shared.gpu.reset_peak().map_err(fault)
    }
}

/// Maps a GPU error, out of memory included, to an engine error with the same text.
pub(crate) fn fault(error: CudaError) -> EngineError {
    EngineError::Device(error.to_string())
}

/// Dimensions and layout of a model on the device.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) params: Arc<ModelParams>,
    pub(crate) config: Config,
    pub(crate) heads: Padded,
    /// Parameters whose gradient is only ever accumulated: norms, biases, and an untied embedding.
    pub(crate) added: Vec<Range<usize>>,
    /// Cosines and sines by position, grown for longer sequences.
    angles: Mutex<Option<Arc<Buffer<f32>>>>,
}

impl Spec {
    /// Rejects models that the kernels cannot compute.
    pub(crate) fn new(config: &Config, params: &Arc<ModelParams>) -> Result<Self> {
        let c = config;
        let heads = Heads { q: c.heads.queries, kv: c.heads.keys, dim: c.heads.dim };
        let refuse = |what: String| EngineError::Device(format!("{what}; set engine.device = \"cpu\""));
        let Some(wide) = wide(heads.dim) else {
            return Err(refuse(format!(
                "the GPU kernels take heads of up to 128, the model has heads of {}",
                heads.dim
            )));
        };
        if heads.q / heads.kv > 8 {
            return Err(refuse(format!(
                "the GPU kernels take up to 8 query heads per key head, the model has {}",
                heads.q / heads.kv
            )));
        }
        if !c.hidden.is_multiple_of(8) || !c.mlp.is_multiple_of(8) || c.hidden > 8192 {
            return Err(refuse(format!(
                "the GPU kernels take widths that are multiples of 8, the residual stream up to 8192; the model has {} \
                 and {}",
                c.hidden, c.mlp
            )));
        }
        Ok(Self {
            params: Arc::clone(params),
            config: c.clone(),
            heads: Padded { heads, wide },
            added: added(params),
            angles: Mutex::default(),
        })
    }

    /// True if heads have the width that the kernels are written for.
    pub(crate) fn whole(&self) -> bool {
        self.heads.wide == self.heads.heads.dim
    }

    /// Table of angles for sequences of up to `positions` tokens.
    pub(crate) fn angles(&self, gpu: &Gpu, positions: usize) -> Result<Arc<Buffer<f32>>> {
        let dim = self.config.heads.dim;
        // A poisoned lock only means that another thread failed to grow the table: the existing one is intact.
        let mut table = self.angles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = table.as_ref().filter(|t| t.len() >= positions * dim) {
            return Ok(Arc::clone(table));
        }
        let rope: Rope = self.config.rope;
        let values = Table::new(&rope, 0, positions.next_power_of_two().max(256));
        let made = Arc::new(Buffer::from_slice(gpu, values.values()).map_err(fault)?);
        *table = Some(Arc::clone(&made));
        Ok(made)
    }
}

/// Ranges of vectors, and of an untied embedding.
fn added(params: &ModelParams) -> Vec<Range<usize>> {
    let untied = (params.embed != params.head).then(|| params.embed.clone());
    let mut runs: Vec<Range<usize>> = untied.into_iter().collect();
    let mut vector_before = false;
    for param in &params.table.params {
        let vector = param.shape.len() == 1;
        match runs.last_mut().filter(|_| vector && vector_before) {
            // Between vectors there is nothing but zeros.
            Some(run) => run.end = param.range.end,
            None => runs.extend(vector.then(|| param.range.clone())),
        }
        vector_before = vector;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_engine::config::Shape;

    #[test]
    fn every_parameter_is_either_written_by_a_product_or_cleared() {
        for tied in [true, false] {
            let shape = Shape {
                vocab: 40,
                hidden: 24,
                mlp: 40,
                layers: 3,
                heads: 2,
                key_heads: 1,
                head_dim: 8,
                tied,
                ..Shape::default()
            };
            let params = ModelParams::new(&shape.config().unwrap());
            let runs = added(&params);
            for param in &params.table.params {
                let cleared = param.range.clone().filter(|at| runs.iter().any(|run| run.contains(at))).count();
                let wanted = param.shape.len() == 1 || (!tied && param.name.contains("embed"));
                assert_eq!(cleared, if wanted { param.range.len() } else { 0 }, "{}", param.name);
            }
            assert!(runs.len() <= 3 + 2, "few runs: {runs:?}");
        }
    }
}
