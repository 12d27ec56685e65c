//! The engine these tests run on: a table of bigrams, which samples, learns and is saved as a model is.

use std::path::Path;

use hone_trace::scripted::Bigrams;
use serde_json::{Value, json};

pub(crate) const KIND: Bigrams = Bigrams::ABLE;

/// Settings of the engine in every recipe.
pub(crate) const SETTINGS: &[&str] = &[];

/// Difference between two passes over the same tokens in other batches.
pub(crate) const ROUNDING: f64 = 0.0;

/// A rate at which a few steps of imitation teach something.
pub(crate) const SFT_RATE: &str = "sft.learning_rate=0.5";

/// A small model for the tokenizer in `dir`.
pub(crate) fn config(_dir: &Path) -> Value {
    json!({"vocab_size": 1024})
}

/// A learner's state in a checkpoint, byte for byte.
pub(crate) fn state(checkpoint: &Path) -> Vec<Vec<u8>> {
    ["bigrams.f32", "moment1.f32", "moment2.f32"].map(|name| std::fs::read(checkpoint.join(name)).unwrap()).into()
}
