//! Fresh models and adapters on the CPU, where loading cannot fail.

use std::sync::Arc;

use crate::config::Config;
use crate::cpu::Cpu;
use crate::cpu::buffer::Buffer;
use crate::cpu::lora::AdapterWeights;
use crate::cpu::weights::Weights;
use crate::lora::{self, Adapter, FreshAdapter, LoraConfig};
use crate::model::Model;
use crate::weights::{Fresh, ModelParams, Param, Table, fingerprint};

impl Model {
    /// Randomly initialised model, as [`Model::fresh`] makes it.
    pub fn random(config: Config, device: Arc<Cpu>, seed: u64) -> Self {
        let params = Arc::new(ModelParams::new(&config));
        let fresh = Fresh { std: config.init_std, seed };
        let values = filled(&params.table, |param, out| fresh.fill(param, out));
        let fingerprint = Some(fingerprint(&params.table, &values));
        let weights = Weights::new(&device, &config, Arc::clone(&params), values);
        Self { config: Arc::new(config), params, weights: Arc::new(weights), device, fingerprint }
    }
}

impl Adapter {
    /// Fresh adapter, as [`Adapter::fresh`] makes it.
    pub fn new(model: &Model, config: LoraConfig, seed: u64) -> Self {
        let table = lora::table(&model.config, &config);
        let values = filled(&table, |param, out| FreshAdapter { seed }.fill(param, out));
        let weights = AdapterWeights::new(&model.device, &model.config, &config, &table, values);
        Self { config, table, weights, base: model.fingerprint }
    }
}

fn filled(table: &Table, fill: impl Fn(&Param, &mut [f32])) -> Buffer {
    let mut values = Buffer::zeros(table.len());
    for param in &table.params {
        fill(param, &mut values[param.range.clone()]);
    }
    values
}
