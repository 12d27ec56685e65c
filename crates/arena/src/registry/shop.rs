//! `name = "shop"`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::{Environment, HELD_OUT, RegistryError, TRAIN, set};
use crate::rewards::spec::RubricSpec;
use crate::shop::{self, Shop};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ShopSpec {
    pub name: String,
    /// 1 to 3: tasks of at most three, four or five calls.
    pub difficulty: u8,
    /// Training tasks.
    pub tasks: usize,
    /// Tasks that are evaluated on and never trained on.
    pub held_out: usize,
    /// Seed of the tasks. Apart from the run's, so that runs of different seeds are measured on the same tasks.
    pub seed: u64,
}

impl Default for ShopSpec {
    fn default() -> Self {
        Self { name: shop::NAME.into(), difficulty: 1, tasks: 2048, held_out: 256, seed: 1 }
    }
}

impl ShopSpec {
    pub(super) fn open(&self) -> Result<Environment, RegistryError> {
        let Self { name, difficulty, seed, .. } = self;
        let split = |split: &str, count: usize| {
            set(name, split, &format!("seed{seed}"), shop::tasks(split, *seed, count, *difficulty))
        };
        Ok(Environment {
            name: name.clone(),
            arena: Arc::new(Shop),
            splits: [split(TRAIN, self.tasks)?, split(HELD_OUT, self.held_out)?].into(),
            rubric: RubricSpec::single("tau_state", Map::new()).build()?,
            baselines: Vec::new(),
        })
    }
}
