//! LoRA (low-rank adapters): `y = W x + scale * B (A x)`, in PEFT's format.
//!
//! The base model is shared and never changed: without the adapter it is the reference policy, at no extra memory, and
//! any number of adapters share it.

mod base;
mod config;

use std::path::Path;
use std::sync::Arc;

use hone_trace::Digest;

pub use base::FILE as BASE_FILE;
pub use config::{LoraConfig, Module};

use crate::backend::Backend;
use crate::config::Config;
use crate::cpu::Cpu;
use crate::error::{EngineError, Result};
use crate::model::Model;
use crate::weights::{Host, Param, Storage, Table, TensorFiles, TensorSource, normal, tensors, write_tensors};

/// LoRA adapter: its shape and its matrices on a device.
#[derive(Debug)]
pub struct Adapter<B: Backend = Cpu> {
    pub config: LoraConfig,
    /// Layout of the matrices.
    pub table: Table,
    pub weights: B::Adapter,
    /// Fingerprint of the base it was trained on; `None` if that is not known.
    pub base: Option<Digest>,
}

impl<B: Backend> Clone for Adapter<B> {
    fn clone(&self) -> Self {
        Self { config: self.config.clone(), table: self.table.clone(), weights: self.weights.clone(), base: self.base }
    }
}

/// Initial values of a fresh adapter: B is 0, A is drawn with the variance that PEFT uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FreshAdapter {
    pub(crate) seed: u64,
}

impl FreshAdapter {
    pub(crate) fn fill(self, param: &Param, out: &mut [f32]) {
        if param.name.ends_with("lora_A.weight") {
            let deviation = (1.0 / (3.0 * param.shape[1] as f32)).sqrt();
            normal(out, deviation, self.seed, &param.name);
        } else {
            out.fill(0.0);
        }
    }
}

impl TensorSource for FreshAdapter {
    fn read(&self, param: &Param, out: &mut [f32]) -> Result<()> {
        self.fill(param, out);
        Ok(())
    }
}

impl<B: Backend> Adapter<B> {
    /// A fresh adapter, which changes nothing yet.
    pub fn fresh(model: &Model<B>, config: LoraConfig, seed: u64) -> Result<Self> {
        let table = table(&model.config, &config);
        let weights = model.device.load_adapter(&model.config, &config, &table, &FreshAdapter { seed })?;
        Ok(Self { config, table, weights, base: model.fingerprint })
    }

    /// Reads `adapter_config.json` and `adapter_model.safetensors`. Refuses an adapter that was trained on another model.
    pub fn load(model: &Model<B>, dir: &Path) -> Result<Self> {
        let config = LoraConfig::load(dir)?;
        let base = base::load(dir)?;
        base::check(base, model.fingerprint, &config, dir)?;
        let table = table(&model.config, &config);
        let files = TensorFiles::open(dir, "adapter_model")?;
        let source = files.check(&table, |_| false)?;
        let weights = model.device.load_adapter(&model.config, &config, &table, &source)?;
        Ok(Self { config, table, weights, base })
    }

    /// Writes a directory that PEFT loads unchanged.
    pub fn save(&self, dir: &Path) -> Result<()> {
        std::fs::create_dir_all(dir).map_err(|source| EngineError::Io {
            action: "make",
            path: dir.to_owned(),
            source,
        })?;
        let values = B::read_adapter(&self.weights)?;
        let all = tensors("", &self.table, &values, Storage::F32);
        write_tensors(&dir.join("adapter_model.safetensors"), all, &[])?;
        self.config.save(dir)?;
        base::save(self.base, dir)
    }

    /// Merged model: the base with the adapter added, `W + scale * B A`.
    pub fn merge(&self, model: &Model<B>) -> Result<Model<B>> {
        let values = self.merged_values(model)?;
        let params = Arc::clone(&model.params);
        Model::read_from(&Host(&values), Config::clone(&model.config), params, Arc::clone(&model.device))
    }

    fn merged_values(&self, model: &Model<B>) -> Result<Vec<f32>> {
        let mut values = B::read(&model.weights)?.into_owned();
        let own = B::read_adapter(&self.weights)?;
        let (rank, scale) = (self.config.rank, self.config.scale());
        let find = |name: String| self.table.params.iter().find(|p| p.name == name).map(|p| &own[p.range.clone()]);
        for (layer, params) in model.params.layers.iter().enumerate() {
            for module in Module::ALL {
                let matrix = |part| find(tensor_name(layer, module, part));
                let (Some(a), Some(b)) = (matrix("lora_A"), matrix("lora_B")) else { continue };
                let inputs = module.inputs(&model.config);
                let fused = module.range(params).start + module.column(&model.config) * inputs;
                for (row, b) in b.chunks_exact(rank).enumerate() {
                    let w = &mut values[fused + row * inputs..][..inputs];
                    for (b, a) in b.iter().zip(a.chunks_exact(inputs)) {
                        w.iter_mut().zip(a).for_each(|(w, a)| *w += scale * b * a);
                    }
                }
            }
        }
        Ok(values)
    }
}

/// PEFT's name of a module's matrix; `part` is `lora_A` or `lora_B`.
pub fn tensor_name(layer: usize, module: Module, part: &str) -> String {
    format!("base_model.model.model.layers.{layer}.{}.{part}.weight", module.path())
}

pub(crate) fn table(c: &Config, config: &LoraConfig) -> Table {
    let mut table = Table::default();
    for layer in 0..c.layers {
        for &module in &config.modules {
            table.group(&[(tensor_name(layer, module, "lora_A"), vec![config.rank, module.inputs(c)])]);
            table.group(&[(tensor_name(layer, module, "lora_B"), vec![module.outputs(c), config.rank])]);
        }
    }
    table
}
