//! Weights on the device: the f32 master and the copy the kernels read, both laid out by the engine's table.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use hone_cuda::adamw::{self, Factors, State};
use hone_cuda::{Buffer, Float, Gpu, View, rows};
use hone_engine::backend::Moments;
use hone_engine::optim::AdamWStep;
use hone_engine::weights::{Table, TensorSource};
use hone_engine::{EngineError, Result};
use hone_trace::Digest;

use crate::cuda::{Cuda, Shared, fault};

/// Parameters on the device. A clone shares the memory until one of the two is trained.
#[derive(Debug, Clone)]
pub(crate) struct Parameters<T> {
    pub(crate) shared: Arc<Shared>,
    master: Arc<Buffer<f32>>,
    copy: Arc<Buffer<T>>,
    identity: OnceLock<Digest>,
}

impl<T: Float> Parameters<T> {
    /// Loads one tensor at a time: the host never holds a second model.
    pub(crate) fn load(shared: &Arc<Shared>, table: &Table, source: &dyn TensorSource) -> Result<Self> {
        let gpu = &shared.gpu;
        let mut master = Buffer::zeros(gpu, table.len()).map_err(fault)?;
        let mut host = Vec::new();
        for param in &table.params {
            host.resize(param.range.len(), 0.0);
            source.read(param, &mut host)?;
            master.put(param.range.start, &host).map_err(fault)?;
        }
        let mut copy = Buffer::uninit(gpu, table.len()).map_err(fault)?;
        adamw::round_copy(gpu, master.view(), &mut copy.view_mut()).map_err(fault)?;
        gpu.wait().map_err(fault)?;
        let (master, copy) = (Arc::new(master), Arc::new(copy));
        Ok(Self { shared: Arc::clone(shared), master, copy, identity: OnceLock::new() })
    }

    pub(crate) fn read(&self) -> Result<Cow<'_, [f32]>> {
        Ok(Cow::Owned(self.master.read().map_err(fault)?))
    }

    /// Identity of the master: computed on the device, four words of which are read.
    pub(crate) fn digest(&self) -> Digest {
        *self.identity.get_or_init(|| {
            let words = rows::content(&self.shared.gpu, self.master.view());
            // A device that fails is reported by the next pass; a version needs a name all the same.
            let words = words.map_or_else(|error| error.to_string(), |words| format!("cuda {words:x?}"));
            Digest::of(words.as_bytes())
        })
    }

    pub(crate) fn weight(&self, range: &Range<usize>) -> View<'_, T> {
        self.copy.view().slice(range.clone())
    }

    /// Device address of the copy that the kernels read.
    pub(crate) fn address(&self) -> u64 {
        self.copy.address()
    }

    /// AdamW step in place, or in a copy where a sampler still holds these weights.
    pub(crate) fn step(
        &mut self,
        table: &Table,
        grads: &Buffer<f32>,
        moments: Moments<'_, Cuda<T>>,
        step: &AdamWStep,
    ) -> Result<()> {
        let gpu = self.shared.gpu.clone();
        let (master, copy) = (own(&mut self.master)?, own(&mut self.copy)?);
        let (m, v) = (moments.m.made()?, moments.v.made()?);
        for (range, decays) in runs(table, step.keep != 1.0) {
            let factors = Factors {
                beta1: step.beta1,
                beta2: step.beta2,
                eps: step.eps,
                keep: if decays { step.keep } else { 1.0 },
                rate: step.step,
                root: step.root,
                scale: step.scale,
            };
            let (mut master, mut m, mut v, mut copy) = (master.view_mut(), m.view_mut(), v.view_mut(), copy.view_mut());
            let mut state = State {
                master: master.slice(range.clone()),
                m: m.slice(range.clone()),
                v: v.slice(range.clone()),
                copy: copy.slice(range.clone()),
            };
            adamw::run(&gpu, factors, &mut state, grads.view().slice(range)).map_err(fault)?;
        }
        self.identity = OnceLock::new();
        Ok(())
    }

    pub(crate) fn gpu(&self) -> &Gpu {
        &self.shared.gpu
    }
}

/// Buffer to write to: this one if it is not shared, otherwise a copy (copy on write).
fn own<E: hone_cuda::buffer::Element>(shared: &mut Arc<Buffer<E>>) -> Result<&mut Buffer<E>> {
    if Arc::get_mut(shared).is_none() {
        *shared = Arc::new(shared.grown(shared.len()).map_err(fault)?);
    }
    Arc::get_mut(shared).ok_or_else(|| EngineError::State("weights are held by two learners".into()))
}

/// Runs of parameters that decay alike: matrices do, norms and biases do not. One run where nothing decays.
fn runs(table: &Table, decays: bool) -> Vec<(Range<usize>, bool)> {
    if !decays {
        return vec![(0..table.len(), false)];
    }
    let mut runs: Vec<(Range<usize>, bool)> = Vec::new();
    for param in &table.params {
        let matrix = param.shape.len() > 1;
        match runs.last_mut() {
            // Gaps between tensors hold zeros and stay zero.
            Some((run, decays)) if *decays == matrix => run.end = param.range.end,
            _ => runs.push((param.range.clone(), matrix)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_what_decays_alike_and_leave_nothing_out() {
        let mut table = Table::default();
        for (name, shape) in [("a", vec![3, 5]), ("b", vec![2, 2]), ("n", vec![7]), ("m", vec![7]), ("c", vec![4, 4])] {
            table.group(&[(name.to_owned(), shape)]);
        }
        let found = runs(&table, true);
        let decays = |at: usize| found.iter().filter(|(run, _)| run.contains(&at)).map(|r| r.1).collect::<Vec<_>>();
        for param in &table.params {
            for at in param.range.clone() {
                assert_eq!(decays(at), [param.shape.len() > 1], "{}", param.name);
            }
        }
        assert_eq!(found.len(), 3);
        assert_eq!(runs(&table, false), [(0..table.len(), false)]);
    }
}
