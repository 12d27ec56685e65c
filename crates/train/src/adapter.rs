//! Training an adapter instead of all weights, as a recipe asks for it.

use hone_engine::lora::{LoraConfig, Module};
use hone_engine::{Adapter, Model};
use serde::{Deserialize, Serialize};

use crate::catalogue::nearest;
use crate::recipe::RecipeError;

/// `[policy.lora]`: low-rank adapters on the policy's matrices. Checkpoints then hold a PEFT adapter, and a KL compares
/// with the model without it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoraRecipe {
    pub rank: usize,
    /// The adapter's output is scaled by alpha / rank. Absent: 2 x rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// The adapted matrices, as PEFT names them. Absent: all seven.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_modules: Vec<String>,
}

impl LoraRecipe {
    /// A fresh adapter, which changes nothing yet.
    pub fn adapter(&self, model: &Model, seed: u64) -> Result<Adapter, RecipeError> {
        if self.rank == 0 {
            return Err(RecipeError::new("policy.lora.rank is 0: nothing would be trained"));
        }
        let mut config = LoraConfig::all(self.rank, self.alpha.unwrap_or(2.0 * self.rank as f64));
        if !self.target_modules.is_empty() {
            let known = |name: &String| {
                Module::ALL.into_iter().find(|module| module.name() == name).ok_or_else(|| {
                    let nearest = nearest(name, Module::ALL.map(Module::name)).unwrap_or_default();
                    RecipeError::new(format!(
                        "policy.lora.target_modules: there is no {name:?}; did you mean {nearest:?}?"
                    ))
                })
            };
            config.modules = self.target_modules.iter().map(known).collect::<Result<_, _>>()?;
            config.modules.sort_unstable();
            config.modules.dedup();
        }
        Ok(Adapter::new(model, config, seed))
    }
}
