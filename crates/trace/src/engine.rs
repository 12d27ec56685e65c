//! Engine interface: whatever serves a policy and trains it, on this machine or on another.
//!
//! A recipe names an [`EngineKind`]; opening it gives an [`Engine`], which provides the [`Sampler`] and the [`Learner`]
//! of one policy. The training loop knows these three traits and nothing behind them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::documented;
use crate::node::PolicyVersion;
use crate::policy::{Learner, Sampler};

/// An engine as a recipe names it: `[engine] kind = "native"`.
#[async_trait]
pub trait EngineKind: Send + Sync {
    fn name(&self) -> &'static str;

    /// Directory with the policy's tokenizer and chat template. An engine whose model is elsewhere fetches them.
    async fn texts(&self, spec: &EngineSpec) -> Result<PathBuf, EngineFault> {
        Ok(spec.model.clone())
    }

    /// Loads the policy, or connects to it. A remote engine probes here how the server interprets requests.
    async fn open(&self, spec: &EngineSpec) -> Result<Arc<dyn Engine>, EngineFault>;

    /// Writes random weights into a directory that has a tokenizer.
    async fn fresh(&self, _spec: &FreshSpec<'_>) -> Result<(), EngineFault> {
        let what = format!("the {} engine makes no new models; name one in policy.model", self.name());
        Err(EngineFault::new(what))
    }
}

/// An open engine: one policy, served and trained.
#[async_trait]
pub trait Engine: Send + Sync {
    /// Sampler of the version published last.
    fn sampler(&self) -> Arc<dyn Sampler>;

    /// The version published last.
    fn version(&self) -> PolicyVersion;

    /// Learner of the policy with a fresh optimizer. [`Engine::sampler`] serves whatever it publishes.
    async fn learner(&self, spec: &LearnerSpec) -> Result<Box<dyn Learner>, EngineFault>;

    /// Sampler of a policy saved by [`Learner::save`], served beside the one in training: controls evaluate the
    /// starting policy again.
    async fn sampler_of(&self, dir: &Path) -> Result<Arc<dyn Sampler>, EngineFault>;

    /// Number of token ids the policy knows.
    fn vocabulary(&self) -> usize;

    /// Memory that the work may take on this machine. `None` if it runs on another.
    fn memory(&self, work: &Workload) -> Option<Memory>;

    /// Writes the policy in a form that others can load (Hugging Face layout, or a PEFT adapter), without optimizer
    /// state.
    async fn export(&self, dir: &Path) -> Result<(), EngineFault>;
}

/// The policy an engine is opened for.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineSpec {
    /// Model directory in Hugging Face layout, or whatever the engine uses to locate one.
    pub model: PathBuf,
    /// PEFT adapter on the model to continue from; it is the trained part.
    pub adapter: Option<PathBuf>,
    /// Trains a fresh adapter on the model instead of the model.
    pub lora: Option<LoraSpec>,
    /// Name of the run; part of every policy version.
    pub run: String,
    /// Root of the engine's own randomness: a fresh adapter's weights.
    pub seed: u64,
    /// Threads of an engine on this machine; 0: all cores.
    pub threads: usize,
    /// Keys of the recipe's `[engine]` table other than `kind`, such as an address. An engine refuses those it does not
    /// know.
    pub options: serde_json::Map<String, serde_json::Value>,
}

impl EngineSpec {
    /// Refuses all options: for an engine that has none.
    pub fn refuse_options(&self, engine: &str) -> Result<(), EngineFault> {
        match self.options.keys().next() {
            None => Ok(()),
            Some(key) => {
                Err(EngineFault::new(format!("the {engine} engine has no option {key:?}; leave engine.{key} out")))
            }
        }
    }
}

documented! {
    /// Options of the native engine: the keys of `[engine]` beside `kind`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct NativeOptions {
        /// Device that computes the model, as `--device` sets it. "auto": a GPU if one can be used, else the CPU.
        pub device: NativeDevice,
        /// Storage of weights and activations on a GPU; master weights, gradients and sums are f32. "f32": for comparisons.
        pub precision: NativePrecision,
        /// Moments of AdamW. "8bit": 2 bytes per parameter instead of 8, on a GPU; "host": f32 in host memory, and a slower
        /// step.
        pub moments: NativeMoments,
    }
}

/// `engine.device`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NativeDevice {
    Auto,
    #[default]
    Cpu,
    Cuda,
}

/// `engine.precision`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NativePrecision {
    #[default]
    Bf16,
    F32,
}

/// `engine.moments`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum NativeMoments {
    #[default]
    #[serde(rename = "f32")]
    F32,
    #[serde(rename = "8bit")]
    EightBit,
    #[serde(rename = "host")]
    Host,
}

documented! {
    /// Low-rank adaptation (LoRA), `[policy.lora]`: adapters on the policy's matrices. Checkpoints then hold a PEFT
    /// adapter, and a KL penalty compares with the model without it.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct LoraSpec {
        /// Rank of the adapters: the width of the bottleneck.
        pub rank: usize where whole(1, 65_536),
        /// The adapter's output is scaled by alpha / rank. Absent: 2 x rank.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub alpha: Option<f64> where over(0.0, 1e6),
        /// The adapted matrices, as PEFT names them. Absent: all the engine can adapt.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub target_modules: Vec<String>,
    }
}

documented! {
    /// AdamW's constants, `[train.adamw]`.
    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct AdamWSettings {
        /// Decay of the gradient's running mean (first moment).
        pub beta1: f64 where real(0.0, 0.999_999),
        /// Decay of the gradient's running square (second moment).
        pub beta2: f64 where real(0.0, 0.999_999),
        /// Added to the root of the second moment, to avoid division by zero.
        pub eps: f64 where over(0.0, 1.0),
        /// Decoupled weight decay of matrices; norms and biases do not decay.
        pub weight_decay: f64 where real(0.0, 10.0),
    }
}

impl Default for AdamWSettings {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 }
    }
}

/// Learner requested by a run. Everything except `adamw` and `reference` is a hint for a local engine and changes no
/// number.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LearnerSpec {
    pub adamw: AdamWSettings,
    /// Policy that [`crate::Whose::Reference`] scores with. `None` where nothing compares with one.
    pub reference: Option<Reference>,
    /// Activation recomputation (gradient checkpointing): recompute activations in the backward pass.
    pub recompute: bool,
    /// Bytes of activations a batch may take. `None`: the machine's free memory.
    pub activation_limit: Option<u64>,
    /// Threads reserved for the learner, for a run that samples while it learns.
    pub threads: Option<usize>,
}

/// Reference policy of a KL penalty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// The policy served when the learner is opened, without its adapter if it has one.
    Start,
    /// Another model, by its directory.
    Model(PathBuf),
}

/// Model to create from scratch.
#[derive(Debug, Clone, Copy)]
pub struct FreshSpec<'a> {
    /// `config.json` of the model.
    pub config: &'a serde_json::Value,
    pub seed: u64,
    /// Threads to create it with; 0: all cores.
    pub threads: usize,
    pub dir: &'a Path,
}

/// Largest concurrent load that a run puts on an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// Tokens of one learner batch.
    pub batch_tokens: usize,
    pub recompute: bool,
    /// Additional sets of weights: the reference policy, and the version samplers still hold while the next is made.
    pub copies: u64,
    /// Concurrent episodes, and tokens of each.
    pub episodes: u64,
    pub window: usize,
}

/// Memory of a run on this machine, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Memory {
    pub parameters: u64,
    /// Master copy and the copy the kernels read.
    pub weights_bytes: u64,
    /// Gradients and both moments.
    pub optimizer_bytes: u64,
    /// Additional sets of weights, see [`Workload::copies`].
    pub reference_bytes: u64,
    pub activation_bytes: u64,
    /// KV cache.
    pub cache_bytes: u64,
    /// Free memory on this machine; `None` if unknown.
    pub available_bytes: Option<u64>,
    /// Layers whose activations are kept whole in what is left, of all layers; the others' widest part is recomputed in
    /// the backward pass. `None` if the engine keeps all or, as asked, none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_layers: Option<[u64; 2]>,
    /// KV cache pages, and tokens per page.
    pub pages: [u64; 2],
    /// Smaller gradients and moments, where the engine has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lean: Option<LeanState>,
}

/// Setting with which gradients and moments take fewer bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LeanState {
    /// Line of a recipe.
    pub setting: &'static str,
    pub optimizer_bytes: u64,
}

impl Memory {
    pub fn total(&self) -> u64 {
        self.weights_bytes + self.optimizer_bytes + self.reference_bytes + self.activation_bytes + self.cache_bytes
    }
}

/// Reason why an engine could not be opened or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct EngineFault {
    pub what: String,
    /// Worth retrying: the other side was busy or unreachable.
    pub transient: bool,
}

impl EngineFault {
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), transient: false }
    }
}

/// Bytes as people read them.
pub fn gigabytes(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.0} KB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
