//! A new model's shape, written as the `config.json` that transformers reads.

use serde_json::json;

use crate::config::Config;
use crate::error::{EngineError, Result};

/// A Qwen3 model to make.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    pub vocab: usize,
    pub hidden: usize,
    pub mlp: usize,
    pub layers: usize,
    pub heads: usize,
    pub key_heads: usize,
    pub head_dim: usize,
    pub context: usize,
    /// Tied embeddings: the LM head is the embedding matrix.
    pub tied: bool,
    /// Ids of the tokenizer's special tokens, where it has them.
    pub eos: Option<u32>,
    pub pad: Option<u32>,
}

impl Default for Shape {
    /// A model of 0.8M parameters for a vocabulary of 512.
    fn default() -> Self {
        Self {
            vocab: 512,
            hidden: 128,
            mlp: 384,
            layers: 4,
            heads: 4,
            key_heads: 2,
            head_dim: 32,
            context: 4096,
            tied: false,
            eos: None,
            pad: None,
        }
    }
}

impl Shape {
    /// Config of this model; invalid shapes are refused as they would be in a file.
    pub fn config(&self) -> Result<Config> {
        let source = json!({
            "architectures": ["Qwen3ForCausalLM"],
            "attention_bias": false,
            "attention_dropout": 0.0,
            "bos_token_id": null,
            "dtype": "float32",
            "eos_token_id": self.eos,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "hidden_size": self.hidden,
            "initializer_range": 0.02,
            "intermediate_size": self.mlp,
            "max_position_embeddings": self.context,
            "model_type": "qwen3",
            "num_attention_heads": self.heads,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.key_heads,
            "pad_token_id": self.pad,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
            "sliding_window": null,
            "tie_word_embeddings": self.tied,
            "use_cache": true,
            "use_sliding_window": false,
            "vocab_size": self.vocab,
        });
        Config::parse(&source.to_string()).map_err(|what| EngineError::Config { path: "new model".into(), what })
    }
}
