//! Adapters against PEFT.

use std::sync::Arc;

use crate::common::{fixture, ids, small};
use hone_engine::cpu::Buffer;
use hone_engine::kernels::simd::Isa;
use hone_engine::lora::{LoraConfig, Module};
use hone_engine::parity::{self, How};
use hone_engine::weights::Storage;
use hone_engine::{Adapter, Config, Cpu, Forest, Keep, LossGradients, Model, Net, Pass, Trained, Workspace};
use safetensors::SafeTensors;

fn recorded(name: &str) -> Vec<f32> {
    let bytes = std::fs::read(fixture("peft/reference.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    tensors.tensor(name).unwrap().data().chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn recorded_ids() -> Vec<u32> {
    let bytes = std::fs::read(fixture("peft/reference.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let data = tensors.tensor("ids").unwrap().data().to_vec();
    data.chunks(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as u32).collect()
}

fn close(found: &[f32], expected: &[f32], tolerance: f64) -> bool {
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
    let difference = norm(&mut found.iter().zip(expected).map(|(a, b)| f64::from(*a) - f64::from(*b)));
    found.len() == expected.len() && difference <= tolerance * norm(&mut expected.iter().map(|x| f64::from(*x)))
}

#[test]
fn logprobs_and_gradients_match_peft() {
    let dir = hone_testdata::committed("tiny-qwen3");
    for isa in [Isa::detect(), Isa::Portable] {
        let model = Model::load(&dir, Arc::new(Cpu::with_isa(2, isa).unwrap())).unwrap();
        let adapter = Adapter::load(&model, &fixture("peft")).unwrap();
        let net = Net::new(&model, Some(&adapter));
        let ids = recorded_ids();
        let forest = Forest::of_sequences(&model.config, std::slice::from_ref(&ids)).unwrap();
        let targets: Vec<_> = (1..ids.len()).map(|at| forest.target(0, at).unwrap()).collect();
        let pass = Pass { forest: &forest, targets: &targets, temperature: 1.0 };
        for keep in [Keep::Everything, Keep::Inputs] {
            let mut ws = Workspace::default();
            let scored = net.forward(pass, keep, &mut ws).unwrap();
            for (found, expected) in scored.logprobs.iter().zip(recorded("logprobs")) {
                assert!((found - expected).abs() < 1e-5, "{found} and {expected}");
            }
            let mut grad = Buffer::zeros(adapter.table.len());
            let gradients = LossGradients { dlogp: &recorded("weights"), dentropy: &[] };
            net.backward(pass, gradients, &mut ws, Trained::Adapter(&mut grad)).unwrap();
            for param in &adapter.table.params {
                let expected = recorded(&format!("grad.{}", param.name));
                assert!(close(&grad[param.range.clone()], &expected, 1e-4), "{} on {}", param.name, isa.name());
            }
        }
    }
}

#[test]
fn merging_changes_nothing_but_the_last_bits() {
    let dir = hone_testdata::committed("tiny-qwen3");
    let model = Model::load(&dir, Arc::new(Cpu::new(2).unwrap())).unwrap();
    let adapter = Adapter::load(&model, &fixture("peft")).unwrap();
    let sequence = [recorded_ids()];
    let base = parity::logprobs(&Net::new(&model, None), &sequence, How::default()).unwrap();
    let adapted = parity::logprobs(&Net::new(&model, Some(&adapter)), &sequence, How::default()).unwrap();
    let merged = adapter.merge(&model).unwrap();
    let merged = parity::logprobs(&Net::new(&merged, None), &sequence, How::default()).unwrap();
    assert!(!close(&base[0], &adapted[0], 1e-2), "the adapter does nothing");
    assert!(close(&merged[0], &adapted[0], 1e-5));
}

#[test]
fn a_fresh_adapter_is_the_base_and_is_read_back_as_saved() {
    let model = small(Arc::new(Cpu::new(2).unwrap()));
    let sequence = [ids(5, 50, 160)];
    let logprobs =
        |adapter: Option<&Adapter>| parity::logprobs(&Net::new(&model, adapter), &sequence, How::default()).unwrap();
    let config = LoraConfig { rslora: true, base: Some("small".into()), ..LoraConfig::all(4, 8.0) };
    let mut adapter = Adapter::new(&model, config, 3);
    assert_eq!(logprobs(None), logprobs(Some(&adapter)));
    adapter.weights.values.iter_mut().for_each(|v| *v += 0.01);
    adapter.weights.repack(&model.device);
    let dir = tempfile::tempdir().unwrap();
    adapter.save(dir.path()).unwrap();
    let read = Adapter::load(&model, dir.path()).unwrap();
    assert_eq!(read.config, adapter.config);
    assert_ne!(logprobs(None), logprobs(Some(&read)));
    assert_eq!(logprobs(Some(&adapter)), logprobs(Some(&read)));
}

#[test]
fn what_peft_can_and_we_cannot_is_refused_by_name() {
    let parse = |extra: &str| {
        let text = format!(r#"{{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]{extra}}}"#);
        LoraConfig::parse(&text)
    };
    assert_eq!(parse("").unwrap().modules, [Module::Q]);
    assert_eq!(parse(r#", "target_modules": "all-linear""#).unwrap().modules.len(), 7);
    assert_eq!(parse(r#", "use_rslora": true"#).unwrap().scale(), 4.0);
    for (extra, name) in [
        (r#", "use_dora": true"#, "use_dora"),
        (r#", "modules_to_save": ["lm_head"]"#, "modules_to_save"),
        (r#", "bias": "all""#, "bias"),
        (r#", "rank_pattern": {"q_proj": 8}"#, "rank_pattern"),
        (r#", "layers_to_transform": [0]"#, "layers_to_transform"),
        (r#", "something_new": 3"#, "something_new"),
        (r#", "init_lora_weights": "pissa""#, "pissa"),
        (r#", "target_modules": ["embed_tokens"]"#, "embed_tokens"),
        (r#", "target_modules": ".*_proj""#, ".*_proj"),
        (r#", "peft_type": "IA3""#, "IA3"),
    ] {
        let refusal = parse(extra).unwrap_err();
        assert!(refusal.contains(name) && refusal.contains("; "), "{refusal} says what to do");
    }
}

#[test]
fn an_adapter_knows_its_base_again_in_any_precision_and_no_other() {
    let cpu = Arc::new(Cpu::new(2).unwrap());
    let base = small(Arc::clone(&cpu));
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let config = LoraConfig { base: Some("garden/policy".into()), ..LoraConfig::all(4, 8.0) };
    Adapter::new(&base, config, 3).save(&at("adapter")).unwrap();
    for (name, storage) in [("f32", Storage::F32), ("bf16", Storage::Bf16)] {
        base.save(&at(name), storage).unwrap();
        let model = Model::load(&at(name), Arc::clone(&cpu)).unwrap();
        assert!(Adapter::load(&model, &at("adapter")).is_ok(), "{name}");
    }
    let other = Model::random(Config::clone(&base.config), cpu, 77);
    let refused = Adapter::load(&other, &at("adapter")).unwrap_err().to_string();
    let words = "it was trained on another base (garden/policy); name that one, or merge it there";
    assert!(refused.contains(words), "{refused}");
    // From elsewhere: nothing is known of its base.
    std::fs::remove_file(at("adapter/hone.json")).unwrap();
    assert_eq!(Adapter::load(&other, &at("adapter")).unwrap().base, None);
}
