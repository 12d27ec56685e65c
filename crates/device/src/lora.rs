//! LoRA on the device: two thin products per adapted matrix, besides the fused ones.

use std::ops::Range;
use std::sync::Arc;

use hone_cuda::Float;
use hone_engine::lora::{LoraConfig, Module, tensor_name};
use hone_engine::weights::{Table, TensorSource};
use hone_engine::{Config, Result};

use crate::cuda::Shared;
use crate::weights::Parameters;

/// Adapter matrices of one policy version.
#[derive(Debug, Clone)]
pub struct AdapterWeights<T> {
    pub(crate) values: Parameters<T>,
    /// Indexed by layer and module.
    sites: Arc<Vec<[Option<Site>; Module::COUNT]>>,
    pub(crate) rank: usize,
    pub(crate) scale: f32,
}

/// Matrices of one module, and its columns in the fused matrix it is part of.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// [rank, inputs].
    pub(crate) a: Range<usize>,
    /// [outputs, rank].
    pub(crate) b: Range<usize>,
    pub(crate) column: usize,
    pub(crate) outputs: usize,
}

impl<T: Float> AdapterWeights<T> {
    pub(crate) fn load(
        shared: &Arc<Shared>,
        config: &Config,
        lora: &LoraConfig,
        table: &Table,
        source: &dyn TensorSource,
    ) -> Result<Self> {
        let find = |name: String| table.params.iter().find(|p| p.name == name).map(|p| p.range.clone());
        let site = |layer: usize, module: Module| {
            Some(Site {
                a: find(tensor_name(layer, module, "lora_A"))?,
                b: find(tensor_name(layer, module, "lora_B"))?,
                column: module.column(config),
                outputs: module.outputs(config),
            })
        };
        let sites = (0..config.layers).map(|layer| Module::ALL.map(|module| site(layer, module))).collect();
        let values = Parameters::load(shared, table, source)?;
        Ok(Self { values, sites: Arc::new(sites), rank: lora.rank, scale: lora.scale() })
    }

    /// Adapted modules of one fused matrix.
    pub(crate) fn sites(&self, layer: usize, modules: &'static [Module]) -> impl Iterator<Item = &Site> {
        modules.iter().filter_map(move |&module| self.sites[layer][module as usize].as_ref())
    }
}
