//! AdamW: decoupled weight decay, bias correction and gradient clipping by the global norm, all in f32.
//!
//! The caller provides the learning rate of each step.

use std::borrow::Cow;
use std::path::Path;

use crate::backend::{Backend, Trainable};
use crate::cpu::Cpu;
use crate::error::{EngineError, Result};
use crate::weights::{Storage, Table, TensorFiles, read_into, tensors, write_tensors};

pub use hone_trace::AdamWSettings;

/// Optimizer state of one table of parameters.
#[derive(Debug)]
pub struct AdamW<B: Backend = Cpu> {
    pub settings: AdamWSettings,
    steps: u64,
    moments: B::Moments,
}

/// Optimizer state in host memory.
#[derive(Debug)]
pub(crate) struct AdamWState {
    steps: u64,
    moments: [Vec<f32>; 2],
}

/// AdamW factors of one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamWStep {
    pub beta1: f32,
    pub beta2: f32,
    pub eps: f32,
    /// Weight decay of matrices: 1 - learning rate * decay. Norms and biases do not decay.
    pub keep: f32,
    /// Learning rate over the first moment's bias correction.
    pub step: f32,
    /// 1 over the root of the second moment's bias correction.
    pub root: f32,
    /// Gradient scale: clipping.
    pub scale: f32,
    /// Step number, from 1.
    pub number: u64,
}

impl<B: Backend> AdamW<B> {
    pub fn new(settings: AdamWSettings, table: &Table, device: &B) -> Self {
        Self { settings, steps: 0, moments: device.moments(table.len()) }
    }

    /// Number of steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// One step on gradients multiplied by `scale`.
    pub fn step(
        &mut self,
        device: &B,
        trainable: Trainable<'_, B>,
        grads: &B::Flat,
        learning_rate: f64,
        scale: f64,
    ) -> Result<()> {
        let step = self.next(learning_rate, scale);
        device.step(trainable, grads, &mut self.moments, &step)
    }

    /// Counts a step and computes its factors.
    fn next(&mut self, learning_rate: f64, scale: f64) -> AdamWStep {
        self.steps += 1;
        AdamWStep::new(self.settings, self.steps, learning_rate, scale)
    }

    /// Copy of the state.
    pub(crate) fn state(&self) -> Result<AdamWState> {
        let moments = B::read_moments(&self.moments)?.map(Cow::into_owned);
        Ok(AdamWState { steps: self.steps, moments })
    }

    /// Returns to a copy, bit for bit.
    pub(crate) fn set(&mut self, state: &AdamWState) -> Result<()> {
        let [m, v] = &state.moments;
        B::write_moments(&mut self.moments, [m, v])?;
        self.steps = state.steps;
        Ok(())
    }

    /// Writes the state as `optimizer.safetensors`: moments by parameter name, and the step. Before the first step moments are
    /// zero and not written: they take twice the space of the weights.
    pub fn save(&self, dir: &Path, table: &Table) -> Result<()> {
        let (file, step) = (dir.join("optimizer.safetensors"), [("step", self.steps.to_string())]);
        if self.steps == 0 {
            return write_tensors(&file, std::iter::empty(), &step);
        }
        let [m, v] = B::read_moments(&self.moments)?;
        let all = tensors("m.", table, &m, Storage::F32).chain(tensors("v.", table, &v, Storage::F32));
        write_tensors(&file, all, &step)
    }

    /// Optimizer state written by [`AdamW::save`]; training resumes to the same bits.
    pub fn load(settings: AdamWSettings, dir: &Path, table: &Table, device: &B) -> Result<Self> {
        let files = TensorFiles::open(dir, "optimizer")?;
        let steps = files.metadata("step").and_then(|s| s.parse().ok());
        let steps = steps.ok_or_else(|| {
            EngineError::State("optimizer.safetensors, not written by this engine, names no step".into())
        })?;
        let mut state = Self { steps, ..Self::new(settings, table, device) };
        if steps == 0 {
            return Ok(state);
        }
        let (mut m, mut v) = (vec![0.0; table.len()], vec![0.0; table.len()]);
        for (prefix, other, values) in [("m.", "v.", &mut m), ("v.", "m.", &mut v)] {
            let mut prefixed = table.clone();
            prefixed.params.iter_mut().for_each(|p| p.name.insert_str(0, prefix));
            read_into(&files, &prefixed, values, |name| name.starts_with(other))?;
        }
        B::write_moments(&mut state.moments, [&m, &v])?;
        Ok(state)
    }
}

impl AdamWStep {
    /// Factors of the `number`th step, counted from 1, on gradients multiplied by `scale`.
    pub fn new(s: AdamWSettings, number: u64, learning_rate: f64, scale: f64) -> Self {
        let correction = |beta: f64| 1.0 - beta.powf(number as f64);
        Self {
            beta1: s.beta1 as f32,
            beta2: s.beta2 as f32,
            eps: s.eps as f32,
            keep: (1.0 - learning_rate * s.weight_decay) as f32,
            step: (learning_rate / correction(s.beta1)) as f32,
            root: (1.0 / correction(s.beta2).sqrt()) as f32,
            scale: scale as f32,
            number,
        }
    }
}

/// Gradient clipping: the factor that brings a gradient of this norm under the limit.
pub fn clip_factor(norm: f64, limit: Option<f64>) -> f64 {
    limit.map_or(1.0, |limit| (limit / (norm + 1e-6)).min(1.0))
}
