//! Files that are not what they say: every refusal names the tensor or key, the shapes and the fix.

use std::path::Path;
use std::sync::Arc;

use crate::common::{config_json, small};
use hone_engine::weights::Storage;
use hone_engine::{Config, Cpu, Model};
use serde_json::{Value, json};

fn cpu() -> Arc<Cpu> {
    Arc::new(Cpu::new(1).unwrap())
}

fn refusal(dir: &Path) -> String {
    Model::load(dir, cpu()).unwrap_err().to_string()
}

/// A saved model whose config was changed afterwards.
fn saved(changes: Value) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    small(cpu()).save(dir.path(), Storage::F32).unwrap();
    std::fs::write(dir.path().join("config.json"), config_json(changes).to_string()).unwrap();
    dir
}

#[test]
fn truncated_weights() {
    let dir = saved(json!({}));
    let path = dir.path().join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    for len in [0, 4, 100, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..len]).unwrap();
        let said = refusal(dir.path());
        assert!(said.contains("model.safetensors") && (len == 0 || said.contains("truncated")), "{len}: {said}");
    }
    std::fs::remove_file(&path).unwrap();
    assert!(refusal(dir.path()).contains("there is no such file"));
}

#[test]
fn weights_of_another_shape() {
    let said = refusal(saved(json!({"vocab_size": 161})).path());
    assert!(
        said.contains("model.embed_tokens.weight has shape [160, 32], config.json asks for [161, 32]")
            || said.contains("lm_head.weight has shape [160, 32], config.json asks for [161, 32]"),
        "{said}"
    );
}

#[test]
fn missing_and_left_over_tensors() {
    let said = refusal(saved(json!({"num_hidden_layers": 3})).path());
    assert!(said.contains("missing tensors: model.layers.2.") && said.contains("and 7 more"), "{said}");
    let said = refusal(saved(json!({"num_hidden_layers": 1})).path());
    assert!(said.contains("no place to: model.layers.1."), "{said}");
    // A stored head of a tied model is the embedding once more.
    assert!(Model::load(saved(json!({"tie_word_embeddings": true})).path(), cpu()).is_ok());
}

#[test]
fn a_shard_outside_the_directory() {
    let dir = saved(json!({}));
    std::fs::remove_file(dir.path().join("model.safetensors")).unwrap();
    let index = json!({"weight_map": {"model.norm.weight": "../../etc/passwd"}});
    std::fs::write(dir.path().join("model.safetensors.index.json"), index.to_string()).unwrap();
    assert!(refusal(dir.path()).contains("not a plain file name"));
}

#[test]
fn configs_that_change_the_maths() {
    for (changes, name) in [
        (json!({"architectures": ["MistralForCausalLM"], "model_type": "mistral"}), "MistralForCausalLM"),
        (json!({"architectures": ["Qwen3ForSequenceClassification"]}), "Qwen3ForSequenceClassification"),
        (json!({"hidden_act": "gelu"}), "hidden_act"),
        (json!({"attention_dropout": 0.1}), "attention_dropout"),
        (json!({"quantization_config": {"bits": 4}}), "quantization_config"),
        (json!({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}), "longrope"),
        (json!({"rope_scaling": {"rope_type": "yarn", "factor": 2.0, "short_factor": [1.0]}}), "short_factor"),
        (json!({"rope_scaling": {"rope_type": "llama3", "factor": 2.0}}), "low_freq_factor"),
        (json!({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}), "partial_rotary_factor"),
        (json!({"use_sliding_window": true, "sliding_window": 64, "max_window_layers": 1}), "sliding_window"),
        (json!({"layer_types": ["full_attention", "linear_attention"]}), "linear_attention"),
        (json!({"num_key_value_heads": 3}), "num_key_value_heads"),
        (json!({"hidden_size": 0}), "hidden_size"),
        (json!({"hidden_size": -3}), "hidden_size"),
        (json!({"vocab_size": 1e30}), "vocab_size"),
        (
            json!({"vocab_size": 99_999_999_999_u64}),
            "vocab_size must be a whole number from 1 to 67108864, and is 9999",
        ),
        (json!({"head_dim": 15}), "head_dim"),
        (json!({"rms_norm_eps": "small"}), "rms_norm_eps"),
        (json!({"num_hidden_layers": null}), "num_hidden_layers"),
    ] {
        let refusal = Config::parse(&config_json(changes).to_string()).unwrap_err();
        assert!(refusal.contains(name), "{name}: {refusal}");
    }
}

#[test]
fn configs_that_do_not() {
    for changes in [
        json!({"use_sliding_window": true, "sliding_window": 64, "max_window_layers": 2}),
        json!({"use_sliding_window": true, "sliding_window": 256, "max_window_layers": 0}),
        json!({"sliding_window": 64}),
        json!({"rope_scaling": null, "attention_dropout": 0.0, "unsloth_version": "1", "use_cache": false}),
        json!({"architectures": null}),
    ] {
        assert!(Config::parse(&config_json(changes.clone()).to_string()).is_ok(), "{changes}");
    }
    assert!(Config::parse("[]").is_err() && Config::parse("{").is_err() && Config::parse("{}").is_err());
}

#[test]
fn saving_and_loading_keeps_the_model() {
    for storage in [Storage::F32, Storage::Bf16] {
        let dir = tempfile::tempdir().unwrap();
        let model = small(cpu());
        model.save(dir.path(), storage).unwrap();
        let read = Model::load(dir.path(), cpu()).unwrap();
        assert_eq!(read.config.source["dtype"], if storage == Storage::F32 { "float32" } else { "bfloat16" });
        let exact = read.weights.values.iter().zip(model.weights.values.iter()).all(|(a, b)| a == b);
        assert_eq!(exact, storage == Storage::F32);
        let close =
            read.weights.values.iter().zip(model.weights.values.iter()).all(|(a, b)| (a - b).abs() <= b.abs() / 256.0);
        assert!(close);
    }
}

#[test]
fn fresh_weights_depend_on_the_seed_alone() {
    let config = || Config::parse(&config_json(json!({})).to_string()).unwrap();
    let bits = |seed, threads| {
        let model = Model::random(config(), Arc::new(Cpu::new(threads).unwrap()), seed);
        (model.weights.digest(&model.device), model.weights.values.to_vec())
    };
    assert_eq!(bits(1, 1), bits(1, 3));
    assert_ne!(bits(1, 1).0, bits(2, 1).0);
    let values = bits(1, 1).1;
    let deviation = (values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / values.len() as f64).sqrt();
    // Norms are 1 and the rest has deviation 0.1.
    assert!((0.09..0.2).contains(&deviation), "{deviation}");
}
