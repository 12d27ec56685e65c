//! Model on a device, and the passes that are computed with it.

use std::path::Path;
use std::sync::Arc;

use hone_trace::Digest;

use crate::backend::{Backend, Need};
use crate::config::Config;
use crate::cpu::Cpu;
use crate::error::{EngineError, Result};
use crate::forest::{Forest, Target};
use crate::lora::Adapter;
use crate::weights::{Fresh, ModelParams, Noted, Storage, TensorFiles, TensorSource, save_model};

/// Model: weights, their shape and the device they are computed on. Cheap to clone: everything is shared.
#[derive(Debug)]
pub struct Model<B: Backend = Cpu> {
    pub config: Arc<Config>,
    pub params: Arc<ModelParams>,
    pub weights: Arc<B::Weights>,
    pub device: Arc<B>,
    /// Fingerprint of the weights as they were loaded, the same in every precision; an adapter names its base by it.
    pub fingerprint: Option<Digest>,
}

impl<B: Backend> Clone for Model<B> {
    fn clone(&self) -> Self {
        Self {
            config: Arc::clone(&self.config),
            params: Arc::clone(&self.params),
            weights: Arc::clone(&self.weights),
            device: Arc::clone(&self.device),
            fingerprint: self.fingerprint,
        }
    }
}

impl<B: Backend> Model<B> {
    /// Loads a Hugging Face directory.
    pub fn load(dir: &Path, device: Arc<B>) -> Result<Self> {
        let config = Config::load(dir)?;
        let params = Arc::new(ModelParams::new(&config));
        let files = TensorFiles::open(dir, "model")?;
        check_room(device.bytes(&config, Need::Weights), device.available())
            .map_err(|what| EngineError::Weights { path: dir.to_owned(), what })?;
        let source = files.check(&params.table, |name| {
            // A tied head is often stored too, and old checkpoints carry their rotary frequencies.
            (config.tied && name == "lm_head.weight") || name.ends_with("rotary_emb.inv_freq")
        })?;
        Self::read_from(&source, config, params, device)
    }

    /// Randomly initialised model: normal with the config's deviation, norms 1, biases 0. The same seed gives the same
    /// weights.
    pub fn fresh(config: Config, device: Arc<B>, seed: u64) -> Result<Self> {
        let params = Arc::new(ModelParams::new(&config));
        Self::read_from(&Fresh { std: config.init_std, seed }, config, params, device)
    }

    pub(crate) fn read_from(
        source: &dyn TensorSource,
        config: Config,
        params: Arc<ModelParams>,
        device: Arc<B>,
    ) -> Result<Self> {
        let noted = Noted::new(source);
        let weights = Arc::new(device.load(&config, &params, &noted)?);
        let fingerprint = noted.fingerprint(&params.table);
        Ok(Self { config: Arc::new(config), params, weights, device, fingerprint })
    }

    /// Writes a directory that transformers loads unchanged.
    pub fn save(&self, dir: &Path, storage: Storage) -> Result<()> {
        save_model(&self.config, &self.params.table, &B::read(&self.weights)?, dir, storage)
    }

    /// Number of parameters.
    pub fn parameters(&self) -> usize {
        self.params.table.values()
    }
}

/// Network of a pass: a model with or without an adapter. Without one it is the reference policy.
#[derive(Debug)]
pub struct Net<'a, B: Backend = Cpu> {
    pub model: &'a Model<B>,
    pub adapter: Option<&'a Adapter<B>>,
}

impl<B: Backend> Clone for Net<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for Net<'_, B> {}

impl<'a, B: Backend> Net<'a, B> {
    pub fn new(model: &'a Model<B>, adapter: Option<&'a Adapter<B>>) -> Self {
        Self { model, adapter }
    }

    /// Logprobs and entropies of the targets. With `keep`, [`Net::backward`] can follow.
    pub fn forward(&self, pass: Pass<'_>, keep: Keep, activations: &mut B::Activations) -> Result<Scored> {
        let (rows, vocab) = (pass.forest.rows(), self.model.config.vocab);
        if let Some(bad) = pass.targets.iter().find(|t| t.row >= rows || t.token as usize >= vocab) {
            return Err(EngineError::Batch(format!("target {bad:?} is outside the batch or the vocabulary")));
        }
        if !(pass.temperature > 0.0 && pass.temperature.is_finite()) {
            return Err(EngineError::Batch(format!("temperature {} is not over 0", pass.temperature)));
        }
        B::forward(*self, pass, keep, activations)
    }

    /// Backward pass: adds the gradient of the loss to `trained`. Must follow a [`Net::forward`] of the same pass that kept
    /// activations.
    pub fn backward(
        &self,
        pass: Pass<'_>,
        gradients: LossGradients<'_>,
        activations: &mut B::Activations,
        trained: Trained<'_, B>,
    ) -> Result<()> {
        let count = pass.targets.len();
        let fits = |len: usize| len == count;
        if !fits(gradients.dlogp.len()) || !(gradients.dentropy.is_empty() || fits(gradients.dentropy.len())) {
            return Err(EngineError::Batch(format!("{} gradients for {count} targets", gradients.dlogp.len())));
        }
        B::backward(*self, pass, gradients, activations, trained)
    }
}

/// Activation checkpointing: the activations a forward pass keeps for the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// Nothing: logprobs only.
    #[default]
    Nothing,
    /// Every activation: fastest.
    Everything,
    /// Gradient checkpoints: the input of each layer. The rest is recomputed, bit for bit: a fraction of the memory for
    /// a third more work.
    Inputs,
}

/// Input of a pass: a packed batch and its targets.
#[derive(Debug, Clone, Copy)]
pub struct Pass<'a> {
    pub forest: &'a Forest,
    pub targets: &'a [Target],
    /// Softmax temperature: logits are divided by it.
    pub temperature: f32,
}

/// Scores, one per target.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scored {
    pub logprobs: Vec<f32>,
    /// Entropy of the distribution at the target.
    pub entropies: Vec<f32>,
}

/// Loss gradients: the derivatives of the loss with respect to each target's logprob and entropy.
#[derive(Debug, Clone, Copy)]
pub struct LossGradients<'a> {
    /// d loss / d logprob.
    pub dlogp: &'a [f32],
    /// d loss / d entropy; empty for none.
    pub dentropy: &'a [f32],
}

/// Trainable parameters, as the array their gradients are accumulated in.
#[derive(Debug)]
pub enum Trained<'g, B: Backend = Cpu> {
    /// All weights; laid out as [`ModelParams`].
    Full(&'g mut B::Flat),
    /// The adapter the pass ran with; laid out as its table.
    Adapter(&'g mut B::Flat),
}

/// Memory check before loading: weights that do not fit would take the machine down without a message.
fn check_room(needed: u64, available: Option<u64>) -> std::result::Result<(), String> {
    let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
    match available.filter(|&bytes| bytes < needed) {
        Some(bytes) => Err(format!(
            "the weights take {:.1} GiB of device memory (the float32 master and the copy that is computed with) and \
             {:.1} GiB are free; use a smaller model or a machine with more memory",
            gib(needed),
            gib(bytes)
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_do_not_fit_are_refused_with_both_sizes() {
        assert_eq!(check_room(2 << 30, None), Ok(()));
        assert_eq!(check_room(2 << 30, Some(2 << 30)), Ok(()));
        let refused = check_room(3 << 30, Some(2 << 30)).unwrap_err();
        assert!(refused.contains("take 3.0 GiB") && refused.contains("2.0 GiB are free"), "{refused}");
    }
}
