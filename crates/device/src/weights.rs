//! Weights on the device, laid out by the engine's table: the form that the kernels read, and for bf16 the low 16 bits of f32.
//! Together they are exactly the master weights.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use hone_cuda::adamw::{self, Factors};
use hone_cuda::{Buffer, Float, Gpu, View, rows, watch};
use hone_engine::optim::AdamWStep;
use hone_engine::weights::{Table, TensorSource};
use hone_engine::{EngineError, Result};
use hone_trace::{Digest, gigabytes};

use crate::cuda::{Shared, fault};
use crate::moments::Moments;

/// Arrays are padded to a multiple of this many elements: their digest is taken over words of four bytes.
const ROUND: usize = 16;

/// Parameters on the device. A clone shares the memory until one of the two is trained.
#[derive(Debug, Clone)]
pub(crate) struct Parameters<T> {
    pub(crate) shared: Arc<Shared>,
    weight: Arc<Buffer<T>>,
    /// Absent if weights are f32.
    low: Option<Arc<Buffer<i16>>>,
    /// Number of parameters of the table; both arrays are padded with zeros.
    len: usize,
    identity: OnceLock<Digest>,
}

impl<T: Float> Parameters<T> {
    /// Loads one tensor at a time: the host never holds a second model.
    pub(crate) fn load(shared: &Arc<Shared>, table: &Table, source: &dyn TensorSource) -> Result<Self> {
        let (gpu, padded) = (&shared.gpu, table.len().next_multiple_of(ROUND));
        let longest = table.params.iter().map(|param| param.range.len()).max().unwrap_or(0);
        let (needed, free) = (Self::bytes(table.len() + longest), gpu.available().map_err(fault)?);
        if needed > free {
            return Err(EngineError::Device(format!(
                "loading {:.1}M parameters takes {} on the GPU, of which {} are free; choose a smaller model, end other programs \
                 on this GPU, or set engine.device = \"cpu\"",
                table.values() as f64 / 1e6,
                gigabytes(needed),
                gigabytes(free)
            )));
        }
        let mut weight = Buffer::<T>::zeros(gpu, padded).map_err(fault)?;
        let whole = T::SUFFIX == <f32 as Float>::SUFFIX;
        let mut low = if whole { None } else { Some(Buffer::<i16>::zeros(gpu, padded).map_err(fault)?) };
        let mut staged = Buffer::<f32>::uninit(gpu, longest).map_err(fault)?;
        let mut host = Vec::new();
        for param in &table.params {
            host.resize(param.range.len(), 0.0);
            source.read(param, &mut host)?;
            staged.put(0, &host).map_err(fault)?;
            let mut to = parameters(&mut weight, low.as_mut(), param.range.clone());
            adamw::split(gpu, staged.first(host.len()), &mut to).map_err(fault)?;
        }
        gpu.wait().map_err(fault)?;
        let (weight, low) = (Arc::new(weight), low.map(Arc::new));
        Ok(Self { shared: Arc::clone(shared), weight, low, len: table.len(), identity: OnceLock::new() })
    }

    /// Size in bytes of the weights of this many parameters.
    pub(crate) fn bytes(parameters: usize) -> u64 {
        // A bf16 weight and its low half are f32 together.
        4 * parameters.next_multiple_of(ROUND) as u64
    }

    pub(crate) fn read(&self) -> Result<Cow<'_, [f32]>> {
        let low = self.low.as_ref().map(|low| low.read()).transpose().map_err(fault)?;
        let mut values = adamw::joined(&self.weight.read().map_err(fault)?, low.as_deref());
        values.truncate(self.len);
        Ok(Cow::Owned(values))
    }

    /// True if every weight is finite, as the kernels read it. Checked on the device: one word is read back.
    pub(crate) fn finite(&self) -> Result<bool> {
        watch::finite(&self.shared.gpu, &self.weight).map_err(fault)
    }

    /// Digest of the master weights, computed on the device: only four words are read back.
    pub(crate) fn digest(&self) -> Digest {
        *self.identity.get_or_init(|| {
            let gpu = &self.shared.gpu;
            let weight = rows::content(gpu, self.weight.view());
            let low = self.low.as_ref().map(|low| rows::content(gpu, low.view())).transpose();
            // A device that fails is reported by the next pass; a version needs a name all the same.
            let words = match (weight, low) {
                (Ok(weight), Ok(low)) => format!("cuda {weight:x?} {low:x?}"),
                (Err(error), _) | (_, Err(error)) => error.to_string(),
            };
            Digest::of(words.as_bytes())
        })
    }

    pub(crate) fn weight(&self, range: &Range<usize>) -> View<'_, T> {
        self.weight.view().slice(range.clone())
    }

    /// Device address of the weights that the kernels read.
    pub(crate) fn address(&self) -> u64 {
        self.weight.address()
    }

    /// AdamW step, in place or, if a sampler still holds these weights, in a copy.
    pub(crate) fn step(
        &mut self,
        table: &Table,
        grads: &Buffer<f32>,
        moments: &mut Moments,
        step: &AdamWStep,
    ) -> Result<()> {
        let factors = Factors {
            beta1: step.beta1,
            beta2: step.beta2,
            eps: step.eps,
            keep: step.keep,
            rate: step.step,
            root: step.root,
            scale: step.scale,
            // Draws of 8-bit moments differ from step to step; after two billion steps they may come again.
            step: (step.number % i32::MAX as u64) as i32 + 1,
        };
        let weight = own(&mut self.weight)?;
        let low = self.low.as_mut().map(own).transpose()?;
        moments.step(table, factors, &mut parameters(weight, low, 0..self.len), grads.view())?;
        self.identity = OnceLock::new();
        Ok(())
    }

    pub(crate) fn gpu(&self) -> &Gpu {
        &self.shared.gpu
    }
}

/// Mutable view of a range of parameters.
fn parameters<'a, T: Float>(
    weight: &'a mut Buffer<T>,
    low: Option<&'a mut Buffer<i16>>,
    range: Range<usize>,
) -> adamw::Parameters<'a, T> {
    adamw::Parameters { weight: weight.part_mut(range.clone()), low: low.map(|low| low.part_mut(range)) }
}

/// Copy on write: this buffer if nobody else holds it, else a copy.
fn own<E: hone_cuda::buffer::Element>(shared: &mut Arc<Buffer<E>>) -> Result<&mut Buffer<E>> {
    if Arc::get_mut(shared).is_none() {
        *shared = Arc::new(shared.grown(shared.len()).map_err(fault)?);
    }
    Arc::get_mut(shared).ok_or_else(|| {
        EngineError::Device("weights are held by two learners; this is a defect of Hone, please report it".into())
    })
}
