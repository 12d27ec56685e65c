//! AdamW: decoupled weight decay, bias correction and gradient clipping by the global norm, all in f32.
//!
//! The learning rate of a step is the caller's; [`Schedule`] computes the usual ones.

#![expect(unsafe_code, reason = "tasks write disjoint runs of parameters")]

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::buffer::Buffer;
use crate::cpu::{Cpu, Shared};
use crate::error::{EngineError, Result};
use crate::kernels::adamw::{self, Factors};
use crate::weights::{Param, Storage, Table, TensorFiles, read_into, tensors, write_tensors};

/// AdamW hyperparameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdamWSettings {
    pub beta1: f64,
    pub beta2: f64,
    pub eps: f64,
    /// Applied to matrices; norms and biases do not decay.
    pub weight_decay: f64,
}

impl Default for AdamWSettings {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 }
    }
}

/// Optimizer state of one flat buffer of parameters.
#[derive(Debug, Clone)]
pub struct AdamW {
    pub settings: AdamWSettings,
    steps: u64,
    m: Buffer,
    v: Buffer,
}

/// Parameters that one task updates.
const RUN: usize = 1 << 16;

impl AdamW {
    pub fn new(settings: AdamWSettings, table: &Table) -> Self {
        Self { settings, steps: 0, m: Buffer::zeros(table.len()), v: Buffer::zeros(table.len()) }
    }

    /// Steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// One step on gradients multiplied by `scale`.
    pub fn step(
        &mut self,
        cpu: &Cpu,
        table: &Table,
        values: &mut [f32],
        grads: &[f32],
        learning_rate: f64,
        scale: f64,
    ) {
        self.steps += 1;
        let s = self.settings;
        let correction = |beta: f64| 1.0 - beta.powf(self.steps as f64);
        let factors = |param: &Param| Factors {
            beta1: s.beta1 as f32,
            beta2: s.beta2 as f32,
            eps: s.eps as f32,
            keep: if param.shape.len() > 1 { (1.0 - learning_rate * s.weight_decay) as f32 } else { 1.0 },
            step: (learning_rate / correction(s.beta1)) as f32,
            root: (1.0 / correction(s.beta2).sqrt()) as f32,
            scale: scale as f32,
        };
        let runs: Vec<_> = table
            .params
            .iter()
            .flat_map(|p| p.range.clone().step_by(RUN).map(move |at| (at, RUN.min(p.range.end - at), factors(p))))
            .collect();
        let (values, m, v) = (Shared::new(values), Shared::new(&mut self.m), Shared::new(&mut self.v));
        cpu.parallel(runs.len(), |task| {
            let (at, n, factors) = runs[task];
            // SAFETY: runs do not overlap.
            let (values, m, v) = unsafe { (values.slice(at, n), m.slice(at, n), v.slice(at, n)) };
            adamw::update(cpu.isa(), values, &grads[at..at + n], m, v, factors);
        });
    }

    /// Writes the state as `optimizer.safetensors`: moments by parameter name, and the step.
    pub fn save(&self, dir: &Path, table: &Table) -> Result<()> {
        let all = tensors("m.", table, &self.m, Storage::F32).chain(tensors("v.", table, &self.v, Storage::F32));
        write_tensors(&dir.join("optimizer.safetensors"), all, &[("step", self.steps.to_string())])
    }

    /// Optimizer state written by [`AdamW::save`]; training resumes to the same bits.
    pub fn load(settings: AdamWSettings, dir: &Path, table: &Table) -> Result<Self> {
        let files = TensorFiles::open(dir, "optimizer")?;
        let steps = files.metadata("step").and_then(|s| s.parse().ok());
        let steps = steps.ok_or_else(|| {
            EngineError::State(
                "optimizer.safetensors has no step in its metadata; it was not written by this engine".into(),
            )
        })?;
        let mut state = Self { steps, ..Self::new(settings, table) };
        let prefixed = |prefix: &str| {
            let mut table = table.clone();
            table.params.iter_mut().for_each(|p| p.name.insert_str(0, prefix));
            table
        };
        read_into(&files, &prefixed("m."), &mut state.m, |name| name.starts_with("v."))?;
        read_into(&files, &prefixed("v."), &mut state.v, |name| name.starts_with("m."))?;
        Ok(state)
    }
}

/// Global gradient norm; `Err` names the first parameter whose gradient is not finite.
pub fn global_norm(cpu: &Cpu, table: &Table, grads: &[f32]) -> std::result::Result<f64, String> {
    let mut sums = vec![0.0f64; table.params.len()];
    let shared = Shared::new(&mut sums);
    cpu.parallel(table.params.len(), |i| {
        // SAFETY: each task has its own parameter.
        unsafe { shared.slice(i, 1)[0] = adamw::squares(cpu.isa(), &grads[table.params[i].range.clone()]) };
    });
    match sums.iter().position(|s| !s.is_finite()) {
        // The squares of finite values may overflow; such a gradient is of no use either.
        Some(bad) => Err(table.params[bad].name.clone()),
        None => Ok(sums.iter().sum::<f64>().sqrt()),
    }
}

/// Gradient clipping: the factor that brings a gradient of this norm under the limit.
pub fn clip_factor(norm: f64, limit: Option<f64>) -> f64 {
    limit.map_or(1.0, |limit| (limit / (norm + 1e-6)).min(1.0))
}

/// Learning-rate decay after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    Constant,
    Linear,
    Cosine,
}

/// Learning-rate schedule: the rate by step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    pub peak: f64,
    /// Steps of linear growth; the last of them has the peak rate.
    pub warmup: u64,
    /// Steps in all; the rate reaches `floor` at the last.
    pub total: u64,
    pub decay: Decay,
    pub floor: f64,
}

impl Schedule {
    /// The rate of a step, counted from 1.
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warmup {
            return self.peak * step as f64 / self.warmup as f64;
        }
        let span = self.total.saturating_sub(self.warmup).max(1) as f64;
        let done = ((step - self.warmup) as f64 / span).min(1.0);
        let left = match self.decay {
            Decay::Constant => 1.0,
            Decay::Linear => 1.0 - done,
            Decay::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * done).cos()),
        };
        self.floor + (self.peak - self.floor) * left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_rise_then_fall() {
        let schedule = |decay| Schedule { peak: 2.0, warmup: 4, total: 12, decay, floor: 0.5 };
        let cosine = schedule(Decay::Cosine);
        assert_eq!([1, 2, 4].map(|s| cosine.at(s)), [0.5, 1.0, 2.0]);
        assert!((cosine.at(8) - 1.25).abs() < 1e-12 && cosine.at(12) == 0.5 && cosine.at(99) == 0.5);
        assert_eq!([4, 8, 12].map(|s| schedule(Decay::Linear).at(s)), [2.0, 1.25, 0.5]);
        assert_eq!([4, 8, 99].map(|s| schedule(Decay::Constant).at(s)), [2.0; 3]);
        let none = Schedule { warmup: 0, total: 0, ..cosine };
        assert!(none.at(1).is_finite());
    }
}
