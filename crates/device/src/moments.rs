//! Moments of AdamW: f32 or eight bits on the device, or f32 in host memory.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use hone_cuda::adamw::{self, DECAY, Factors, Gradient, Parameters};
use hone_cuda::moments::Moments as OnDevice;
use hone_cuda::offload::HostMoments;
use hone_cuda::{Buffer, Float, Gpu, View};
use hone_engine::Result;
use hone_engine::weights::Table;

use crate::choice::named;
use crate::cuda::fault;

/// Storage of the moments: `engine.moments`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MomentStore {
    /// 8 bytes per parameter.
    #[default]
    F32,
    /// 2 bytes per parameter; stochastic rounding, so no drift.
    EightBit,
    /// f32 in host memory: the same numbers, and no device memory except for a few slices.
    Host,
}

impl MomentStore {
    pub(crate) const ALL: [(&'static str, Self); 3] =
        [("f32", Self::F32), ("8bit", Self::EightBit), ("host", Self::Host)];

    /// Recipe line that selects it.
    pub(crate) fn setting(self) -> &'static str {
        match self {
            Self::F32 => "engine.moments = \"f32\"",
            Self::EightBit => "engine.moments = \"8bit\"",
            Self::Host => "engine.moments = \"host\"",
        }
    }

    /// Bytes of device memory for gradients and moments, for this number of parameters.
    pub(crate) fn bytes(self, parameters: usize) -> u64 {
        let len = parameters as u64;
        let moments = match self {
            Self::F32 => 8 * len,
            // Two codes, and the largest of each block of 256.
            Self::EightBit => 2 * len + len / 32,
            Self::Host => HostMoments::device_bytes(parameters),
        };
        4 * len + moments
    }
}

impl FromStr for MomentStore {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        named(text, &Self::ALL)
    }
}

impl fmt::Display for MomentStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(_, value)| value == self).map_or("", |(name, _)| name))
    }
}

/// Moments of one parameter table. Allocated at the first step, where failure can be reported.
#[derive(Debug)]
pub struct Moments {
    gpu: Gpu,
    len: usize,
    store: MomentStore,
    /// Absent while all moments are zero.
    state: Option<State>,
    /// Decay flags, made at the first step with weight decay.
    decays: Option<Buffer<u8>>,
}

#[derive(Debug)]
enum State {
    OnDevice(OnDevice),
    InHost(HostMoments),
}

impl Moments {
    pub(crate) fn new(gpu: &Gpu, len: usize, store: MomentStore) -> Self {
        Self { gpu: gpu.clone(), len, store, state: None, decays: None }
    }

    fn made(&mut self) -> Result<&mut State> {
        let state = match self.state.take() {
            Some(state) => state,
            None => match self.store {
                MomentStore::F32 => OnDevice::full(&self.gpu, self.len).map(State::OnDevice),
                MomentStore::EightBit => OnDevice::packed(&self.gpu, self.len).map(State::OnDevice),
                MomentStore::Host => HostMoments::zeros(&self.gpu, self.len).map(State::InHost),
            }
            .map_err(fault)?,
        };
        Ok(self.state.insert(state))
    }

    pub(crate) fn read(&self) -> Result<[Cow<'_, [f32]>; 2]> {
        Ok(match &self.state {
            None => [vec![0.0; self.len], vec![0.0; self.len]].map(Cow::Owned),
            Some(State::OnDevice(moments)) => moments.read().map_err(fault)?.map(Cow::Owned),
            Some(State::InHost(moments)) => moments.read().map(Cow::Borrowed),
        })
    }

    pub(crate) fn write(&mut self, values: [&[f32]; 2]) -> Result<()> {
        match self.made()? {
            State::OnDevice(moments) => moments.write(values),
            State::InHost(moments) => moments.write(values),
        }
        .map_err(fault)
    }

    /// AdamW step of the parameters of a table.
    pub(crate) fn step<T: Float>(
        &mut self,
        table: &Table,
        factors: Factors,
        parameters: &mut Parameters<'_, T>,
        grads: View<'_, f32>,
    ) -> Result<()> {
        if factors.keep != 1.0 && self.decays.is_none() {
            self.decays = Some(Buffer::from_slice(&self.gpu, &decays(table)).map_err(fault)?);
        }
        self.made()?;
        let gradient = Gradient { values: grads, decays: self.decays.as_ref().map(Buffer::view), norm: None };
        match &mut self.state {
            Some(State::OnDevice(moments)) => {
                adamw::step(&self.gpu, factors, parameters, &mut moments.views(), gradient)
            }
            Some(State::InHost(moments)) => moments.step(factors, parameters, gradient),
            None => Ok(()),
        }
        .map_err(fault)
    }
}

/// Decay flags, one per [`DECAY`] parameters: matrices decay, norms and biases do not. Tensors that share a flag decay alike: a
/// group of a table begins at a multiple of [`DECAY`], and holds either matrices only or none.
fn decays(table: &Table) -> Vec<u8> {
    let mut flags = vec![0; table.len().div_ceil(DECAY)];
    for param in table.params.iter().filter(|param| param.shape.len() > 1) {
        flags[param.range.start / DECAY..param.range.end.div_ceil(DECAY)].fill(1);
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_engine::config::Shape;
    use hone_engine::weights::ModelParams;

    #[test]
    fn flags_say_of_every_parameter_whether_it_decays() {
        let shape = Shape {
            vocab: 40,
            hidden: 24,
            mlp: 40,
            layers: 2,
            heads: 2,
            key_heads: 1,
            head_dim: 8,
            ..Shape::default()
        };
        let table = ModelParams::new(&shape.config().unwrap()).table;
        let flags = decays(&table);
        assert!(table.params.iter().any(|p| p.shape.len() == 1) && table.params.iter().any(|p| p.shape.len() == 2));
        for param in &table.params {
            for at in param.range.clone() {
                assert_eq!(flags[at / DECAY] == 1, param.shape.len() > 1, "{} at {at}", param.name);
            }
        }
    }

    #[test]
    fn fewer_bytes_are_counted_for_fewer_bytes_of_state() {
        let bytes = |store: MomentStore| store.bytes(1 << 30) >> 30;
        assert_eq!([MomentStore::F32, MomentStore::EightBit, MomentStore::Host].map(bytes), [12, 6, 4]);
    }
}
