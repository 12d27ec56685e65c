//! Measurements of the engine: `hone bench engine` prints them beside PyTorch's.

use std::time::Instant;

use hone_trace::BatchNode;

use crate::backend::{Backend, GradientNorm, Need, Trainable};
use crate::config::{Config, Shape};
use crate::cpu::Cpu;
use crate::error::{EngineError, Result};
use crate::forest::{Forest, Target};
use crate::lora::{Adapter, LoraConfig};
use crate::model::{Keep, LossGradients, Model, Net, Pass, Trained};
use crate::optim::{AdamW, AdamWSettings, clip_factor};

/// Benchmark model of all figures: Qwen3 with 5.8M parameters.
pub fn config() -> Result<Config> {
    let shape = Shape {
        vocab: 2048,
        hidden: 256,
        mlp: 768,
        layers: 6,
        heads: 4,
        key_heads: 2,
        head_dim: 64,
        ..Shape::default()
    };
    shape.config()
}

/// Floating-point operations of a training step: products with weights (forward 2, backward 4 per weight and token)
/// and attention, forward and backward.
pub fn training_flops(config: &Config, sequences: usize, tokens: usize) -> f64 {
    let per_layer = config.hidden * (config.heads.width() + config.heads.out_width()) + 3 * config.hidden * config.mlp;
    let weights = (config.layers * per_layer + config.hidden * config.vocab) as f64;
    let pairs = tokens as f64 * (tokens + 1) as f64 / 2.0;
    let attention = 3.5 * 4.0 * pairs * (config.heads.out_width() * config.layers) as f64;
    sequences as f64 * (6.0 * weights * tokens as f64 + attention)
}

/// Groups of replies that share a prompt.
#[derive(Debug, Clone, Copy)]
pub struct Groups {
    pub groups: usize,
    /// Number of replies of a group.
    pub group: usize,
    /// Number of tokens of a prompt, and of each reply.
    pub prompt: usize,
    pub reply: usize,
}

/// Benchmark trainer: a model trained on one batch, step after step.
#[derive(Debug)]
pub struct Trainer<B: Backend = Cpu> {
    pub model: Model<B>,
    /// If present, trained instead of the model.
    adapter: Option<Adapter<B>>,
    forest: Forest,
    targets: Vec<Target>,
    dlogp: Vec<f32>,
    keep: Keep,
    activations: B::Activations,
    grads: B::Flat,
    optimizer: AdamW<B>,
}

impl<B: Backend> Trainer<B> {
    /// Next-token training on `sequences` random sequences of `tokens` tokens.
    pub fn sequences(model: Model<B>, sequences: usize, tokens: usize, keep: Keep) -> Result<Self> {
        let nodes: Vec<_> = (0..sequences).map(|i| node(&model.config, None, i, tokens)).collect();
        let trained = (0..sequences).flat_map(|i| (1..tokens).map(move |at| (i, at)));
        Self::new(model, &nodes, &trained.collect::<Vec<_>>(), keep)
    }

    /// Training on `group` replies of `reply` tokens to one prompt, which is computed once or once per reply.
    pub fn group(model: Model<B>, group: usize, prompt: usize, reply: usize, share: bool) -> Result<Self> {
        let c = &model.config;
        let mut nodes = Vec::new();
        let mut trained = Vec::new();
        if share {
            nodes.push(node(c, None, 0, prompt));
        }
        for i in 0..group {
            let own = node(c, share.then_some(0), i + 1, reply);
            if share {
                trained.extend((0..reply).map(|at| (nodes.len(), at)));
                nodes.push(own);
            } else {
                let tokens = [node(c, None, 0, prompt).tokens, own.tokens].concat();
                trained.extend((prompt..prompt + reply).map(|at| (nodes.len(), at)));
                nodes.push(BatchNode { parent: None, tokens });
            }
        }
        Self::new(model, &nodes, &trained, Keep::Everything)
    }

    /// Like [`Trainer::group`], for several groups in one pass, each with its own prompt, which is computed once.
    pub fn groups(model: Model<B>, shape: Groups, keep: Keep) -> Result<Self> {
        let Groups { groups, group, prompt, reply } = shape;
        let c = &model.config;
        let (mut nodes, mut trained) = (Vec::new(), Vec::new());
        for number in 0..groups {
            let root = nodes.len();
            nodes.push(node(c, None, number * (group + 1), prompt));
            for i in 0..group {
                trained.extend((0..reply).map(|at| (nodes.len(), at)));
                nodes.push(node(c, Some(root), number * (group + 1) + i + 1, reply));
            }
        }
        Self::new(model, &nodes, &trained, keep)
    }

    /// Trains a fresh adapter of this rank on all matrices instead of the model.
    pub fn adapting(mut self, rank: usize) -> Result<Self> {
        let adapter = Adapter::fresh(&self.model, LoraConfig::all(rank, 2.0 * rank as f64), 0)?;
        let device = &*self.model.device;
        self.grads = device.zeros(adapter.table.len());
        self.optimizer = AdamW::new(AdamWSettings::default(), &adapter.table, device);
        self.adapter = Some(adapter);
        Ok(self)
    }

    fn new(model: Model<B>, nodes: &[BatchNode], trained: &[(usize, usize)], keep: Keep) -> Result<Self> {
        let forest = Forest::new(&model.config, nodes)?;
        let targets: Vec<_> = trained.iter().filter_map(|&(node, at)| forest.target(node, at)).collect();
        let (table, device) = (&model.params.table, &*model.device);
        let dlogp = vec![-1.0 / targets.len() as f32; targets.len()];
        let (grads, activations) = (device.zeros(table.len()), device.activations(None));
        let optimizer = AdamW::new(AdamWSettings::default(), table, device);
        Ok(Self { model, adapter: None, forest, targets, dlogp, keep, activations, grads, optimizer })
    }

    /// Trains on other random sequences from now on.
    pub fn on_sequences(&mut self, sequences: usize, tokens: usize) -> Result<()> {
        let nodes: Vec<_> = (0..sequences).map(|i| node(&self.model.config, None, i, tokens)).collect();
        self.forest = Forest::new(&self.model.config, &nodes)?;
        let trained = (0..sequences).flat_map(|i| (1..tokens).map(move |at| (i, at)));
        self.targets = trained.filter_map(|(node, at)| self.forest.target(node, at)).collect();
        self.dlogp = vec![-1.0 / self.targets.len() as f32; self.targets.len()];
        Ok(())
    }

    /// Limits activations to what `bytes` leaves after weights, gradients and moments.
    pub fn limit(&mut self, bytes: u64) {
        let Model { config, params, device, .. } = &self.model;
        let parameters = self.adapter.as_ref().map_or(params.table.len(), |adapter| adapter.table.len());
        let state = device.bytes(config, Need::Weights) + device.bytes(config, Need::Optimizer { parameters });
        self.activations = device.activations(Some(bytes.saturating_sub(state)));
    }

    /// Rows the batch is computed on, shared ones once.
    pub fn rows(&self) -> usize {
        self.forest.rows()
    }

    /// One step: forward, backward, clip, AdamW, packing. Returns its seconds and the mean negative logprob.
    pub fn step(&mut self) -> Result<(f64, f64)> {
        let start = Instant::now();
        let pass = Pass { forest: &self.forest, targets: &self.targets, temperature: 1.0 };
        let net = Net::new(&self.model, self.adapter.as_ref());
        let scored = net.forward(pass, self.keep, &mut self.activations)?;
        let gradients = LossGradients { dlogp: &self.dlogp, dentropy: &[] };
        let trained = match self.adapter {
            Some(_) => Trained::Adapter(&mut self.grads),
            None => Trained::Full(&mut self.grads),
        };
        net.backward(pass, gradients, &mut self.activations, trained)?;
        let Model { params, weights, device, .. } = &mut self.model;
        let table = self.adapter.as_ref().map_or(&params.table, |adapter| &adapter.table);
        let scale = match device.gradient_norm(table, &self.grads)? {
            GradientNorm::Finite(norm) => clip_factor(norm, Some(1.0)),
            GradientNorm::NotFinite(name) => {
                return Err(EngineError::Device(format!(
                    "the gradient is not finite, first in {name}; lower the learning rate"
                )));
            }
        };
        let trainable = match &mut self.adapter {
            Some(adapter) => Trainable::Adapter(adapter),
            None => Trainable::Weights(&params.table, std::sync::Arc::make_mut(weights)),
        };
        self.optimizer.step(device, trainable, &self.grads, 1e-3, scale)?;
        device.clear(&mut self.grads);
        let seconds = start.elapsed().as_secs_f64();
        let total: f64 = scored.logprobs.iter().map(|&l| -f64::from(l)).sum();
        Ok((seconds, total / scored.logprobs.len() as f64))
    }
}

fn node(config: &Config, parent: Option<usize>, stream: usize, tokens: usize) -> BatchNode {
    let mut rng = hone_trace::Seed::root(0).with("bench").at(stream as u64).rng();
    let tokens = (0..tokens).map(|_| (rng.unit() * config.vocab as f64) as u32).collect();
    BatchNode { parent, tokens }
}

/// Peak of the gemm crate on a large product, in GFLOP/s: the reference for a training step. Needs the feature `gemm`: the
/// crate takes longer to build than the engine, and nothing else uses it.
#[cfg(feature = "gemm")]
pub fn gemm_peak(cpu: &Cpu) -> Option<f64> {
    Some(crate::gemm_peak::measure(cpu))
}

/// `None` without the feature `gemm`.
#[cfg(not(feature = "gemm"))]
pub fn gemm_peak(_: &Cpu) -> Option<f64> {
    None
}

/// Peak resident set of this process in bytes, if the system reports it.
pub fn peak_resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kb| kb * 1024)
}
