//! Helpers of the engine's tests.

use std::path::PathBuf;
use std::sync::Arc;

use hone_engine::{Config, Cpu, Model};
use hone_trace::{Loss, LossStats, TokenBatch};

pub(crate) fn fixture(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures")).join(path)
}

/// `config.json` of a small Qwen3 model, with keys replaced or added.
pub(crate) fn config_json(changes: serde_json::Value) -> serde_json::Value {
    let mut json = serde_json::json!({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 160, "hidden_size": 32,
        "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
        "rope_theta": 10000.0, "hidden_act": "silu", "initializer_range": 0.1,
    });
    if let (Some(json), serde_json::Value::Object(changes)) = (json.as_object_mut(), changes) {
        json.extend(changes);
    }
    json
}

pub(crate) fn small(cpu: Arc<Cpu>) -> Model {
    let config = Config::parse(&config_json(serde_json::json!({})).to_string()).unwrap();
    Model::random(config, cpu, 7)
}

/// Deterministic token ids.
pub(crate) fn ids(seed: u64, len: usize, vocab: usize) -> Vec<u32> {
    let mut rng = hone_trace::Seed::root(seed).rng();
    (0..len).map(|_| (rng.next_u64() % vocab as u64) as u32).collect()
}

/// Negative log-likelihood, times a factor that tests may make infinite, and entropy.
#[derive(Debug)]
pub(crate) struct Nll {
    pub factor: f64,
    pub entropy: f64,
}

impl Loss for Nll {
    fn grad(&self, tokens: &TokenBatch<'_>, out: &mut [f64]) -> LossStats {
        let each = tokens.logp.iter().zip(tokens.weight);
        let loss = each.clone().map(|(l, w)| -l * w).sum();
        out.iter_mut().zip(each).for_each(|(o, (_, w))| *o = -w * self.factor);
        LossStats { loss, targets: tokens.logp.len() as u64, ..LossStats::default() }
    }

    fn entropy_coefficient(&self) -> f64 {
        self.entropy
    }
}

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}
