//! The engine these tests run on: the native one, with a model of some tens of thousands of parameters.

use std::path::Path;

use hone_engine::Native;
use serde_json::{Value, json};

pub(crate) const KIND: Native = Native;

/// Settings of the engine in every recipe.
pub(crate) const SETTINGS: &[&str] = &[];

/// Difference between two passes over the same tokens in other batches.
pub(crate) const ROUNDING: f64 = 0.0;

/// A rate at which a few steps of imitation teach something.
pub(crate) const SFT_RATE: &str = "sft.learning_rate=0.01";

/// A small model for the tokenizer in `dir`.
pub(crate) fn config(dir: &Path) -> Value {
    let text = std::fs::read_to_string(dir.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    for (key, value) in [
        ("hidden_size", 32),
        ("intermediate_size", 64),
        ("num_hidden_layers", 2),
        ("num_attention_heads", 2),
        ("num_key_value_heads", 1),
        ("head_dim", 16),
    ] {
        config[key] = json!(value);
    }
    config
}

/// A learner's state in a checkpoint, byte for byte, headers apart: their keys have no order.
pub(crate) fn state(checkpoint: &Path) -> Vec<Vec<u8>> {
    let tensors = |name: &str| {
        let bytes = std::fs::read(checkpoint.join(name)).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[8 + header..].to_vec()
    };
    ["model.safetensors", "optimizer.safetensors"].map(tensors).into()
}
