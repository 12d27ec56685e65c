//! Device backend: one trait for everything that touches a parameter or an activation.
//!
//! The interface is at the level of a pass, not of an op. A device takes a whole packed batch through all layers,
//! forward or backward, or a whole decoding step, and decides by itself how to fuse kernels and divide rows. The code
//! above it deals in token ids, parameter names, page numbers and scores: nothing there depends on where the floats
//! are.
//!
//! Everything is generic over the device and monomorphic inside; the generator erases it at its channel, the learner
//! behind the `Learner` trait.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use hone_trace::{Digest, LeanState};

use crate::config::Config;
use crate::error::Result;
use crate::forest::Forest;
use crate::generate::GeneratorSettings;
use crate::generate::step::{Draw, Step};
use crate::lora::{Adapter, LoraConfig};
use crate::model::{Keep, LossGradients, Net, Pass, Scored, Trained};
use crate::optim::AdamWStep;
use crate::weights::{ModelParams, Table, TensorSource};

/// Device a model is stored and computed on.
///
/// Storage belongs to the device that created it and is only passed to devices of the same kind. Passes take the device
/// from `net.model.device`, which may be a different instance from the one that loaded the weights: a learner computes
/// on separate threads.
pub trait Backend: Debug + Send + Sync + Sized + 'static {
    /// Weights of one policy version: the f32 master and the form the kernels read.
    type Weights: Debug + Clone + Send + Sync;
    /// LoRA matrices of one policy version.
    type Adapter: Debug + Clone + Send + Sync;
    /// Flat f32 array laid out by a parameter table: gradients.
    type Flat: Debug + Send + Sync;
    /// First and second moments of AdamW, laid out by a parameter table. The device chooses their form and location.
    type Moments: Debug + Send + Sync;
    /// Activations a forward pass keeps for the backward pass, and scratch.
    type Activations: Debug + Send;
    /// Paged KV cache.
    type Pages: PageStore;
    /// Scratch of decoding steps.
    type Decoder: Debug + Default + Send;

    /// Loads weights, one tensor of `params` at a time.
    fn load(&self, config: &Config, params: &Arc<ModelParams>, source: &dyn TensorSource) -> Result<Self::Weights>;

    /// Master weights on the host, laid out by the model's parameter table: to save, merge and compare them.
    fn read(weights: &Self::Weights) -> Result<Cow<'_, [f32]>>;

    /// True if every weight is a finite number.
    fn finite(weights: &Self::Weights) -> Result<bool> {
        Ok(Self::read(weights)?.iter().all(|value| value.is_finite()))
    }

    /// Digest of the master weights: the same for the same weights on every device of this kind.
    fn digest(&self, weights: &Self::Weights) -> Digest;

    /// Loads the matrices of an adapter, one tensor of `table` at a time.
    fn load_adapter(
        &self,
        config: &Config,
        lora: &LoraConfig,
        table: &Table,
        source: &dyn TensorSource,
    ) -> Result<Self::Adapter>;

    /// Like [`Backend::read`], for an adapter.
    fn read_adapter(weights: &Self::Adapter) -> Result<Cow<'_, [f32]>>;

    /// Like [`Backend::finite`], for an adapter.
    fn finite_adapter(weights: &Self::Adapter) -> Result<bool> {
        Ok(Self::read_adapter(weights)?.iter().all(|value| value.is_finite()))
    }

    /// Like [`Backend::digest`], for an adapter.
    fn digest_adapter(&self, weights: &Self::Adapter) -> Digest;

    /// Flat array of zeros.
    fn zeros(&self, len: usize) -> Self::Flat;

    /// Zeros an array.
    fn clear(&self, flat: &mut Self::Flat);

    /// Copy of an array on the host.
    fn read_flat(flat: &Self::Flat) -> Result<Cow<'_, [f32]>>;

    /// Overwrites an array from the host.
    fn write_flat(flat: &mut Self::Flat, values: &[f32]) -> Result<()>;

    /// Moments of `len` parameters before their first step.
    fn moments(&self, len: usize) -> Self::Moments;

    /// First and second moments on the host, to save them.
    fn read_moments(moments: &Self::Moments) -> Result<[Cow<'_, [f32]>; 2]>;

    /// Overwrites the moments from the host. Restores bit for bit what [`Backend::read_moments`] returned.
    fn write_moments(moments: &mut Self::Moments, values: [&[f32]; 2]) -> Result<()>;

    /// Activation workspace for passes of any size, of at most `limit` bytes.
    fn activations(&self, limit: Option<u64>) -> Self::Activations;

    /// KV cache without pages.
    fn pages(&self, config: &Config) -> Self::Pages;

    /// Device memory that something takes, in bytes.
    fn bytes(&self, config: &Config, need: Need) -> u64;

    /// Free device memory in bytes; `None` if unknown.
    fn available(&self) -> Option<u64>;

    /// Number of layers whose activations a pass over `rows` tokens keeps completely if activations may take `bytes` bytes;
    /// `None` if that does not depend on memory.
    fn kept_layers(&self, config: &Config, rows: usize, keep: Keep, bytes: u64) -> Option<usize> {
        let _ = (config, rows, keep, bytes);
        None
    }

    /// Setting with which the gradients and moments of `parameters` parameters take fewer bytes.
    fn lean(&self, parameters: usize) -> Option<LeanState> {
        let _ = parameters;
        None
    }

    /// True if sampler and learner agree bit for bit.
    fn exact(&self) -> bool {
        true
    }

    /// Limits of a generator on this device.
    fn serving(&self) -> GeneratorSettings {
        GeneratorSettings::default()
    }

    /// Second instance of the device, for a learner that works while others sample; `None` if there is only one.
    fn beside(&self, threads: usize) -> Result<Option<Arc<Self>>> {
        let _ = threads;
        Ok(None)
    }

    /// Forward pass over a packed batch: logprobs and entropies of the targets.
    fn forward(net: Net<'_, Self>, pass: Pass<'_>, keep: Keep, activations: &mut Self::Activations) -> Result<Scored>;

    /// Backward pass after a forward pass that kept something: adds the gradient of the loss to `trained`.
    fn backward(
        net: Net<'_, Self>,
        pass: Pass<'_>,
        gradients: LossGradients<'_>,
        activations: &mut Self::Activations,
        trained: Trained<'_, Self>,
    ) -> Result<()>;

    /// Logits of the rows from `first` on, `[rows][vocab]`, on the host, for comparison with other implementations.
    fn logits(
        net: Net<'_, Self>,
        forest: &Forest,
        first: usize,
        activations: &mut Self::Activations,
    ) -> Result<Vec<f32>>;

    /// Decoding step: writes the keys and values of all rows into their pages, and draws a token for every run that
    /// samples, passed to `draws` in the order of the runs.
    fn decode<D: Draw>(
        net: Net<'_, Self>,
        step: &Step,
        pages: &mut Self::Pages,
        decoder: &mut Self::Decoder,
        draws: &mut [D],
    ) -> Result<()>;

    /// Global norm of a gradient.
    fn gradient_norm(&self, table: &Table, gradients: &Self::Flat) -> Result<GradientNorm>;

    /// AdamW step, after which the weights are ready for use.
    fn step(
        &self,
        trainable: Trainable<'_, Self>,
        gradients: &Self::Flat,
        moments: &mut Self::Moments,
        step: &AdamWStep,
    ) -> Result<()>;
}

/// Storage of the paged KV cache. Pages are numbered in the order in which they are added and are never removed.
pub trait PageStore: Debug + Send {
    /// Adds a page of zeros.
    fn grow(&mut self);

    /// Zeros a page.
    fn clear(&mut self, page: usize);

    /// Copies the first `count` positions of a page into another, cleared one.
    fn copy(&mut self, from: usize, to: usize, count: usize);
}

/// Consumer of device memory, for estimates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Weights of one policy version.
    Weights,
    /// Gradients and moments of this many parameters.
    Optimizer { parameters: usize },
    /// One page of the KV cache.
    Page,
    /// Activations of a pass over `rows` tokens, all of them scored.
    Pass { rows: usize, keep: Keep },
}

/// Global gradient norm.
#[derive(Debug, Clone, PartialEq)]
pub enum GradientNorm {
    Finite(f64),
    /// Name of the first parameter whose gradient is not finite.
    NotFinite(String),
}

/// Parameters an optimizer step changes, and their table.
#[derive(Debug)]
pub enum Trainable<'a, B: Backend> {
    Weights(&'a Table, &'a mut B::Weights),
    Adapter(&'a mut Adapter<B>),
}
