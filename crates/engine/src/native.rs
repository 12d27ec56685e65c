//! Native engine: samples and learns on this machine, behind the `Engine` trait.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use hone_trace::{
    Engine, EngineFault, EngineKind, EngineSpec, FreshSpec, Learner, LearnerSpec, LoraSpec, Memory, PolicyVersion,
    Reference, Sampler, Workload, did_you_mean,
};

use crate::backend::{Backend, Need};
use crate::config::Config;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::generate::Generator;
use crate::generate::step::PAGE;
use crate::learn::{LearnerSettings, NativeLearner};
use crate::lora::{Adapter, LoraConfig, Module};
use crate::model::{Keep, Model};
use crate::policy::{Policy, Snapshot};
use crate::weights::Storage;

/// `[engine] kind = "native"`: the model on the cores of this machine.
#[derive(Debug, Clone, Copy)]
pub struct Native;

#[async_trait]
impl EngineKind for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    async fn open(&self, spec: &EngineSpec) -> std::result::Result<Arc<dyn Engine>, EngineFault> {
        spec.refuse_options(self.name())?;
        open_on(Arc::new(Cpu::new(spec.threads)?), spec)
    }

    async fn fresh(&self, spec: &FreshSpec<'_>) -> std::result::Result<(), EngineFault> {
        let config = Config::parse(&spec.config.to_string()).map_err(EngineFault::new)?;
        let model = Model::random(config, Arc::new(Cpu::new(spec.threads)?), spec.seed);
        Ok(model.save(spec.dir, Storage::F32)?)
    }
}

/// Loads the policy of a spec onto a device, to be served and trained there.
pub fn open_on<B: Backend>(device: Arc<B>, spec: &EngineSpec) -> std::result::Result<Arc<dyn Engine>, EngineFault> {
    let model = Model::load(&spec.model, device)?;
    let mut adapter = match (&spec.adapter, &spec.lora) {
        (Some(dir), lora) => Some(trained_before(&model, dir, lora.as_ref())?),
        (None, Some(lora)) => Some(Adapter::fresh(&model, fitting(adapter_config(lora)?, &model.config)?, spec.seed)?),
        (None, None) => None,
    };
    if let Some(adapter) = &mut adapter {
        // Names the base for whoever loads the adapter elsewhere.
        adapter.config.base = Some(spec.model.display().to_string());
        adapter.base = model.fingerprint;
    }
    Ok(Arc::new(NativeEngine::new(Snapshot::new(model, adapter, &spec.run))?))
}

/// Adapter to continue from. If the recipe asks for one too, both must have the same shape.
fn trained_before<B: Backend>(
    model: &Model<B>,
    dir: &Path,
    asked: Option<&LoraSpec>,
) -> std::result::Result<Adapter<B>, EngineFault> {
    let adapter = Adapter::load(model, dir)?;
    if let Some(asked) = asked.map(adapter_config).transpose()? {
        let found = &adapter.config;
        if (found.rank, found.alpha, &found.modules) != (asked.rank, asked.alpha, &asked.modules) {
            return Err(EngineFault::new(format!(
                "policy.lora asks for rank {} and alpha {}, and the adapter in {} has rank {} and alpha {}, or adapts other \
                 matrices; leave policy.lora out to go on with the adapter, or merge it first (hone model merge) to begin \
                 another",
                asked.rank,
                asked.alpha,
                dir.display(),
                found.rank,
                found.alpha
            )));
        }
    }
    Ok(adapter)
}

/// Refuses an adapter of a higher rank than any matrix it adapts: it could say no more, in more parameters.
fn fitting(lora: LoraConfig, model: &Config) -> std::result::Result<LoraConfig, EngineFault> {
    let most = lora.modules.iter().map(|module| module.inputs(model).min(module.outputs(model))).max().unwrap_or(0);
    if lora.rank <= most {
        return Ok(lora);
    }
    Err(EngineFault::new(format!(
        "policy.lora.rank is {}, and no matrix that it adapts has a rank over {most}; lower it, to 8 or 16 for example",
        lora.rank
    )))
}

/// The shape of the adapter that a recipe asks for.
fn adapter_config(lora: &LoraSpec) -> std::result::Result<LoraConfig, EngineFault> {
    let mut config = LoraConfig::all(lora.rank, lora.alpha.unwrap_or(2.0 * lora.rank as f64));
    if !lora.target_modules.is_empty() {
        let known = |name: &String| {
            Module::ALL.into_iter().find(|module| module.name() == name).ok_or_else(|| {
                let (near, all) = (did_you_mean(name, Module::ALL.map(Module::name)), Module::ALL.map(Module::name));
                EngineFault::new(format!(
                    "policy.lora.target_modules: there is no {name:?}; {near}There are: {}",
                    all.join(", ")
                ))
            })
        };
        config.modules = lora.target_modules.iter().map(known).collect::<std::result::Result<_, _>>()?;
        config.modules.sort_unstable();
        config.modules.dedup();
    }
    Ok(config)
}

/// A policy with the generator that serves it.
#[derive(Debug)]
struct NativeEngine<B: Backend> {
    policy: Arc<Policy<B>>,
    sampler: Arc<Generator>,
}

impl<B: Backend> NativeEngine<B> {
    fn new(snapshot: Snapshot<B>) -> Result<Self> {
        let serving = snapshot.model.device.serving();
        let policy = Policy::new(snapshot);
        let sampler = Arc::new(Generator::new(Arc::clone(&policy), serving)?);
        Ok(Self { policy, sampler })
    }

    /// Memory left for activations: free memory less gradients and moments, which are allocated in the first step.
    fn left_for_activations(&self) -> Option<u64> {
        let Snapshot { model, adapter, .. } = self.policy.current();
        let parameters = adapter.map_or(model.params.table.len(), |adapter| adapter.table.len());
        let optimizer = model.device.bytes(&model.config, Need::Optimizer { parameters });
        Some(model.device.available()?.saturating_sub(optimizer))
    }

    /// Reference policy (KL penalty): the model a learner compares with. The base of an adapter serves as its reference, without a
    /// second model.
    fn reference(&self, wanted: Option<&Reference>) -> Result<Option<Model<B>>> {
        let current = self.policy.current();
        Ok(match wanted {
            Some(Reference::Model(dir)) => Some(Model::load(dir, current.model.device)?),
            Some(Reference::Start) if current.adapter.is_none() => Some(current.model),
            Some(Reference::Start) | None => None,
        })
    }
}

#[async_trait]
impl<B: Backend> Engine for NativeEngine<B> {
    fn sampler(&self) -> Arc<dyn Sampler> {
        Arc::clone(&self.sampler) as Arc<dyn Sampler>
    }

    fn version(&self) -> PolicyVersion {
        self.policy.current().version
    }

    async fn learner(&self, spec: &LearnerSpec) -> std::result::Result<Box<dyn Learner>, EngineFault> {
        let device = match spec.threads {
            Some(threads) => self.policy.current().model.device.beside(threads)?,
            None => None,
        };
        let mut reference = self.reference(spec.reference.as_ref())?;
        if let (Some(reference), Some(device)) = (&mut reference, &device) {
            reference.device = Arc::clone(device);
        }
        let memory_limit = spec.activation_limit.or_else(|| self.left_for_activations());
        let settings = LearnerSettings { adamw: spec.adamw, recompute: spec.recompute, memory_limit, device };
        Ok(Box::new(NativeLearner::new(Arc::clone(&self.policy), reference, settings)))
    }

    async fn sampler_of(&self, dir: &Path) -> std::result::Result<Arc<dyn Sampler>, EngineFault> {
        let Snapshot { model, adapter, version } = self.policy.current();
        let snapshot = if adapter.is_some() {
            let adapter = Adapter::load(&model, dir)?;
            Snapshot::new(model, Some(adapter), &version.run)
        } else {
            Snapshot::new(Model::load(dir, model.device)?, None, &version.run)
        };
        let serving = snapshot.model.device.serving();
        Ok(Arc::new(Generator::new(Policy::new(snapshot), serving)?))
    }

    fn vocabulary(&self) -> usize {
        self.policy.current().model.config.vocab
    }

    fn memory(&self, work: &Workload) -> Option<Memory> {
        let snapshot = self.policy.current();
        let config = &snapshot.model.config;
        let parameters = snapshot.model.parameters() as u64;
        let trained = snapshot.adapter.as_ref().map_or(parameters as usize, |adapter| adapter.table.len());
        let keep = if work.recompute { Keep::Inputs } else { Keep::Everything };
        let device = &snapshot.model.device;
        // Pages hold heads as wide as the kernels'.
        let per_token = device.bytes(config, Need::Page) / PAGE as u64;
        let weights = device.bytes(config, Need::Weights);
        let cache = work.episodes * work.window as u64 * per_token;
        let cache_bytes = cache.min(device.serving().memory_limit);
        let (optimizer_bytes, reference_bytes) =
            (device.bytes(config, Need::Optimizer { parameters: trained }), weights * work.copies);
        let available_bytes = device.available();
        let left = available_bytes.unwrap_or(u64::MAX).saturating_sub(optimizer_bytes + reference_bytes + cache_bytes);
        let kept = device.kept_layers(config, work.batch_tokens, keep, left);
        Some(Memory {
            parameters,
            weights_bytes: weights,
            optimizer_bytes,
            reference_bytes,
            activation_bytes: device.bytes(config, Need::Pass { rows: work.batch_tokens, keep }),
            cache_bytes,
            available_bytes,
            kept_layers: kept.map(|layers| [layers as u64, config.layers as u64]),
            pages: [cache_bytes / device.bytes(config, Need::Page).max(1), PAGE as u64],
            lean: device.lean(trained),
        })
    }

    async fn export(&self, dir: &Path) -> std::result::Result<(), EngineFault> {
        let snapshot = self.policy.current();
        match &snapshot.adapter {
            Some(adapter) => adapter.save(dir)?,
            None => snapshot.model.save(dir, Storage::Bf16)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_over_every_matrix_is_refused() {
        let config = Config::load(&hone_testdata::committed("tiny-qwen3")).unwrap();
        let most = config.hidden.min(config.mlp).max(config.hidden.min(config.heads.out_width()));
        assert!(fitting(LoraConfig::all(most, 8.0), &config).is_ok());
        let refused = fitting(LoraConfig::all(4000, 8.0), &config).unwrap_err().to_string();
        assert!(
            refused.starts_with(&format!(
                "policy.lora.rank is 4000, and no matrix that it adapts has a rank over {most};"
            ))
        );
    }
}
