//! `hone engine` and `hone model` from outside: files in, JSON out, exit codes, messages that name the fix.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use hone_engine::lora::LoraConfig;
use hone_engine::{Adapter, Cpu, Model};
use serde_json::{Value, json};
use tempfile::TempDir;

fn hone(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hone")).args(args).env("NO_COLOR", "1").output().unwrap()
}

/// The JSON on stdout of a command that must succeed.
fn answer(args: &[&str]) -> Value {
    let output = hone(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The message of a command that must end with 2.
fn refusal(args: &[&str]) -> String {
    let output = hone(args);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    assert!(output.stdout.is_empty(), "data of a failed command");
    message
}

fn path(dir: &TempDir, name: &str) -> String {
    dir.path().join(name).to_str().unwrap().to_owned()
}

fn write(dir: &TempDir, name: &str, json: &Value) -> String {
    std::fs::write(dir.path().join(name), json.to_string()).unwrap();
    path(dir, name)
}

const SHAPE: [&str; 16] = [
    "--hidden",
    "32",
    "--layers",
    "2",
    "--heads",
    "4",
    "--kv-heads",
    "2",
    "--head-dim",
    "8",
    "--mlp",
    "48",
    "--vocab",
    "400",
    "--context",
    "64",
];

fn new_model(dir: &TempDir, name: &str, more: &[&str]) -> String {
    let made = path(dir, name);
    let output = hone(&[&["model", "new", &made], &SHAPE[..], more].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    made
}

fn files(dir: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    found.sort();
    found.into_iter().map(|p| (p.file_name().unwrap().into(), std::fs::read(&p).unwrap())).collect()
}

#[test]
fn a_new_model_is_the_same_for_the_same_seed_and_can_be_used() {
    let dir = TempDir::new().unwrap();
    let (a, b) = (new_model(&dir, "a", &["--seed", "3"]), new_model(&dir, "b", &["--seed", "3"]));
    assert_eq!(files(&a), files(&b));
    let c = new_model(&dir, "c", &["--seed", "4", "--tied"]);
    assert_ne!(files(&a), files(&c));

    let info = answer(&["model", "info", &a, "--json"]);
    assert_eq!(info["architecture"], "Qwen3ForCausalLM");
    assert_eq!(info["weights_checked"], true);
    assert_eq!(info["template"]["call_format"], "hermes");
    assert_eq!(info["warnings"], json!([]));
    assert_eq!(info["stop_ids"].as_array().unwrap().len(), 2);
    assert!(info["tokenizer"]["tokens"].as_u64().unwrap() <= 400);
    // Embedding and head of 400 x 32; the tied model has one of them.
    let tied = answer(&["model", "info", &c, "--json"]);
    assert_eq!(info["parameters"].as_u64().unwrap() - tied["parameters"].as_u64().unwrap(), 400 * 32);

    let prompts = write(&dir, "prompts.json", &json!([[1, 2, 3], [4], [1, 2, 3, 9]]));
    let greedy = answer(&["engine", "greedy", "--model", &a, &prompts, "--max-new", "12"]);
    for tokens in greedy["tokens"].as_array().unwrap() {
        assert_eq!(tokens.as_array().unwrap().len(), 12);
    }
    assert!(refusal(&["model", "new", &a]).contains("not empty"));
    assert!(refusal(&["model", "new", &path(&dir, "d"), "--kv-heads", "3"]).contains("not a multiple"));
    assert!(refusal(&["model", "new", &path(&dir, "d"), "--vocab", "100"]).contains("at least"));
}

#[test]
fn every_way_to_compute_gives_the_same_numbers() {
    let dir = TempDir::new().unwrap();
    let model = new_model(&dir, "m", &[]);
    let ids = write(&dir, "ids.json", &json!([[5, 6, 7, 8, 9], [5, 6, 7, 1], [3, 2]]));
    let weights = write(&dir, "weights.json", &json!([[1.0, -0.5, 0.25, 2.0], [0.5, 1.0, -1.0], [0.75]]));
    let run = |more: &[&str], out: &str| {
        let out = path(&dir, out);
        let logits = format!("{out}.logits");
        let base =
            ["engine", "logprobs", "--model", &model, &ids, "--grad", &weights, "--out", &out, "--logits", &logits];
        (answer(&[&base, more].concat()), gradients(&out), gradients(&logits))
    };
    let (alone, each, logits) = run(&[], "alone");
    assert_eq!(
        alone["logprobs"].as_array().unwrap().iter().map(|r| r.as_array().unwrap().len()).collect::<Vec<_>>(),
        [4, 3, 1]
    );
    assert_eq!(logits["seq0.logits"].len(), 5 * 400);
    let summed: Vec<f32> = {
        let of = |i: usize| &each[&format!("seq{i}.grad.model.layers.1.mlp.up_proj.weight")];
        (0..of(0).len()).map(|j| of(0)[j] + of(1)[j] + of(2)[j]).collect()
    };
    for (number, more) in
        [&["--packed"][..], &["--share-prefix"], &["--recompute"], &["--packed", "--share-prefix", "--recompute"]]
            .into_iter()
            .enumerate()
    {
        let (found, grads, _) = run(more, &format!("way{number}"));
        assert_eq!(found, alone, "{more:?}");
        match grads.get("sum.grad.model.layers.1.mlp.up_proj.weight") {
            Some(sum) => assert!(sum.iter().zip(&summed).all(|(a, b)| (a - b).abs() < 1e-5), "{more:?}"),
            None => assert_eq!(grads, each, "{more:?}"),
        }
    }
}

/// Tensors of a safetensors file, as floats: the header is JSON after eight bytes of length.
fn gradients(file: &str) -> std::collections::BTreeMap<String, Vec<f32>> {
    let bytes = std::fs::read(file).unwrap();
    let header = usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
    let json: serde_json::Map<String, Value> = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let tensor = |value: &Value| {
        let at = |i: usize| usize::try_from(value["data_offsets"][i].as_u64().unwrap()).unwrap();
        let data = &bytes[8 + header + at(0)..8 + header + at(1)];
        data.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    json.iter().filter(|(name, _)| *name != "__metadata__").map(|(name, v)| (name.clone(), tensor(v))).collect()
}

#[test]
fn wrong_input_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    let model = new_model(&dir, "m", &[]);
    let logprobs = |model: &str, ids: &Value| {
        let file = write(&dir, "bad.json", ids);
        refusal(&["engine", "logprobs", "--model", model, &file])
    };
    let message = logprobs(&model, &json!([[1, 2], [3, 400]]));
    assert!(message.contains("token 1 of sequence 1 is 400") && message.contains("400 ids"), "{message}");
    let message = logprobs(&model, &json!([vec![1; 65]]));
    assert!(message.contains("65 tokens") && message.contains("context is 64"), "{message}");
    assert!(logprobs(&model, &json!([[]])).contains("sequence 0"));
    assert!(logprobs(&model, &json!({"ids": 1})).contains("list"));
    assert!(logprobs(&path(&dir, "nowhere"), &json!([[1, 2]])).contains("nowhere does not exist"));
    let prompts = write(&dir, "prompts.json", &json!([vec![1; 60]]));
    let message = refusal(&["engine", "greedy", "--model", &model, &prompts, "--max-new", "5"]);
    assert!(message.contains("60 tokens") && message.contains("64"), "{message}");
    let (ids, weights) = (write(&dir, "i.json", &json!([[1, 2]])), write(&dir, "w.json", &json!([[1.0, 2.0]])));
    let out = path(&dir, "o");
    let message = refusal(&["engine", "logprobs", "--model", &model, &ids, "--grad", &weights, "--out", &out]);
    assert!(message.contains("one number per token"), "{message}");
}

#[test]
fn damaged_models_are_refused_by_name() {
    let dir = TempDir::new().unwrap();
    let model = new_model(&dir, "m", &[]);
    let ids = write(&dir, "ids.json", &json!([[1, 2]]));
    let weights = Path::new(&model).join("model.safetensors");
    let whole = std::fs::read(&weights).unwrap();

    std::fs::write(&weights, &whole[..whole.len() / 2]).unwrap();
    for args in [&["engine", "logprobs", "--model", &model, &ids][..], &["model", "info", &model]] {
        let message = refusal(args);
        assert!(message.contains("model.safetensors") && message.contains("truncated"), "{message}");
    }
    std::fs::write(&weights, &whole).unwrap();

    let config = Path::new(&model).join("config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("\"intermediate_size\": 48", "\"intermediate_size\": 64")).unwrap();
    let message = refusal(&["model", "info", &model]);
    assert!(message.contains("mlp.") && message.contains("48") && message.contains("64"), "{message}");
    for size in ["4000000000", "100000000000"] {
        let large = format!("\"intermediate_size\": {size}");
        std::fs::write(&config, text.replace("\"intermediate_size\": 48", &large)).unwrap();
        let message = refusal(&["engine", "logprobs", "--model", &model, &ids]);
        assert!(message.contains("memory") || message.contains("intermediate_size"), "{message}");
    }
    std::fs::write(&config, text).unwrap();

    // A tokenizer with more tokens than the embedding has rows.
    let large = path(&dir, "large");
    assert!(hone(&["model", "new", &large, "--layers", "1", "--vocab", "500"]).status.success());
    std::fs::copy(Path::new(&large).join("tokenizer.json"), Path::new(&model).join("tokenizer.json")).unwrap();
    let message = refusal(&["model", "info", &model]);
    assert!(message.contains("tokenizer has") && message.contains("400 rows"), "{message}");
}

#[test]
fn an_export_is_the_same_model() {
    let dir = TempDir::new().unwrap();
    let model = new_model(&dir, "m", &[]);
    let (same, half) = (path(&dir, "same"), path(&dir, "half"));
    assert!(hone(&["model", "export", &model, "--out", &same]).status.success());
    assert_eq!(files(&model), files(&same));
    assert!(hone(&["model", "export", &model, "--out", &half, "--storage", "bf16"]).status.success());
    let ids = write(&dir, "ids.json", &json!([[1, 2, 3, 4]]));
    let of = |model: &str| answer(&["engine", "logprobs", "--model", model, &ids])["logprobs"][0][0].as_f64().unwrap();
    assert!((of(&model) - of(&half)).abs() < 0.05 && of(&model) != of(&half));
    assert!(refusal(&["model", "export", &model, "--out", &same]).contains("not empty"));
}

#[test]
fn a_merged_adapter_computes_what_the_adapter_did() {
    let dir = TempDir::new().unwrap();
    let base = new_model(&dir, "base", &[]);
    let (adapter, merged, peft) = (path(&dir, "adapter"), path(&dir, "merged"), path(&dir, "peft"));
    let model = Model::load(Path::new(&base), Arc::new(Cpu::new(1).unwrap())).unwrap();
    let mut lora = Adapter::new(&model, LoraConfig::all(4, 8.0), 1);
    // Both matrices, so that the adapter changes something.
    lora.weights.values.iter_mut().enumerate().for_each(|(i, v)| *v = ((i * 37 % 101) as f32 - 50.0) / 500.0);
    lora.save(Path::new(&adapter)).unwrap();
    assert!(hone(&["model", "merge", &base, "--adapter", &adapter, "--out", &merged]).status.success());
    assert!(hone(&["model", "export", &base, "--to", "peft", "--adapter", &adapter, "--out", &peft]).status.success());

    let ids = write(&dir, "ids.json", &json!([[1, 2, 3, 4, 5, 6]]));
    let of = |args: &[&str]| -> Vec<f64> {
        let json = answer(&[&["engine", "logprobs", &ids, "--model"], args].concat());
        json["logprobs"][0].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    };
    let (plain, with, into) = (of(&[&base]), of(&[&base, "--adapter", &adapter]), of(&[&merged]));
    assert_eq!(of(&[&base, "--adapter", &peft]), with);
    let distance = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(distance(&with, &into) < 1e-4, "{with:?} and {into:?}");
    assert!(distance(&with, &plain) > 1e-3);
    let info = answer(&["model", "info", &merged, "--json"]);
    assert_eq!(info["warnings"], json!([]), "the tokenizer came along");
}
