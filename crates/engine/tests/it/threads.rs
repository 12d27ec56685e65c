//! Determinism across thread counts: what the learner computes is the same bits on any number of threads.

use std::sync::Arc;

use crate::common::{Nll, config_json, ids, wait};
use hone_engine::kernels::simd::Isa;
use hone_engine::lora::LoraConfig;
use hone_engine::{Adapter, Config, Cpu, LearnerSettings, Model, NativeLearner, Policy, Snapshot};
use hone_trace::{Batch, BatchNode, Learner, OptimizerStep, Seed, Target};
use serde_json::{Value, json};

const VOCAB: usize = 530;

/// Prefix forests as packing makes them: a system prompt, task prompts below it, several samples of each, some of which
/// diverge only after their first tool call. No length is a multiple of a tile, and first children reach deep.
fn forest(trees: usize) -> Batch {
    let mut grown = Grown { batch: Batch { temperature: 0.9, ..Batch::default() }, weights: Seed::root(9).rng() };
    for tree in 0..trees {
        let system = grown.node(None, 211 + 37 * tree, false);
        for task in 0..2 {
            let prompt = grown.node(Some(system), 97 + 41 * task, false);
            for sample in 0..3 {
                let call = grown.node(Some(prompt), 13 + 9 * sample, true);
                let result = grown.node(Some(call), 45, false);
                for branch in 0..=sample % 2 {
                    grown.node(Some(result), 21 + 6 * branch, true);
                }
            }
        }
    }
    grown.batch
}

struct Grown {
    batch: Batch,
    weights: hone_trace::Rng,
}

impl Grown {
    fn node(&mut self, parent: Option<usize>, len: usize, trained: bool) -> usize {
        let (node, start) = (self.batch.nodes.len(), self.batch.targets.len());
        self.batch.nodes.push(BatchNode { parent, tokens: ids(node as u64, len, VOCAB) });
        let mut weight = || (self.weights.unit() - 0.3) as f32 / 100.0;
        let target =
            |offset| Target { node, offset, sampler: 0.0, behaviour: 0.0, old: None, advantage: 1.0, weight: weight() };
        if trained {
            self.batch.targets.extend((0..len).map(target));
            self.batch.sequences.push(start..self.batch.targets.len());
        }
        node
    }
}

/// Everything a step computes, as bits.
#[derive(Debug, PartialEq)]
struct Step {
    logprobs: Vec<u32>,
    entropies: Vec<u32>,
    gradients: Vec<u32>,
    norm: u64,
    weights: String,
}

/// A model with its batch and settings.
#[derive(Debug, Clone, Copy)]
struct Case<'a> {
    config: &'a Config,
    batch: &'a Batch,
    isa: Isa,
    recompute: bool,
    adapter: bool,
}

impl Case<'_> {
    fn step(self, threads: usize) -> Step {
        let model = Model::random(self.config.clone(), Arc::new(Cpu::with_isa(threads, self.isa).unwrap()), 7);
        let adapter = self.adapter.then(|| {
            let mut adapter = Adapter::new(&model, LoraConfig::all(5, 10.0), 3);
            adapter.weights.values.iter_mut().for_each(|v| *v += 0.01);
            adapter.weights.repack(&model.device);
            adapter
        });
        let policy = Policy::new(Snapshot::new(model, adapter, "test"));
        let settings = LearnerSettings { recompute: self.recompute, ..LearnerSettings::default() };
        let mut learner = NativeLearner::new(policy, None, settings);
        let stats = wait(learner.accumulate(self.batch, &Nll { factor: 1.0, entropy: 0.01 })).unwrap();
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect();
        let gradients = bits(learner.gradients());
        let step = OptimizerStep { learning_rate: 1e-3, max_grad_norm: Some(0.1), publish: true };
        let report = wait(learner.step(step)).unwrap();
        Step {
            logprobs: bits(&stats.logprobs),
            entropies: bits(stats.entropies.as_deref().unwrap()),
            gradients,
            norm: report.grad_norm.unwrap().to_bits(),
            weights: report.version.weights.to_string(),
        }
    }

    /// Asserts that a step comes out the same on other numbers of threads; returns it.
    fn same_on_any_threads(self) -> Step {
        let alone = self.step(1);
        for threads in [2, 3, 8] {
            let found = self.step(threads);
            let Self { isa, recompute, adapter, .. } = self;
            let how = format!("{threads} threads, {}, recompute {recompute}, adapter {adapter}", isa.name());
            let off = found.gradients.iter().zip(&alone.gradients).filter(|(a, b)| a != b).count();
            assert_eq!(off, 0, "gradients differ of {} on {how}", alone.gradients.len());
            assert!(found == alone, "{how}");
        }
        alone
    }
}

fn config(changes: Value) -> Config {
    let mut all = json!({"vocab_size": VOCAB, "max_position_embeddings": 1024});
    if let (Some(all), Value::Object(changes)) = (all.as_object_mut(), changes) {
        all.extend(changes);
    }
    Config::parse(&config_json(all).to_string()).unwrap()
}

/// Norms of queries and keys; or biases, tied embeddings and heads that fill no vector.
fn configs() -> [Config; 2] {
    let qwen2 = json!({
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 60, "num_attention_heads": 3,
        "num_key_value_heads": 1, "head_dim": 20, "tie_word_embeddings": true, "num_hidden_layers": 1,
    });
    [config(json!({})), config(qwen2)]
}

#[test]
fn long_shared_trees_give_the_same_bits_on_any_number_of_threads() {
    // One tree leaves threads idle that three keep busy: attention's backward pass cuts its work differently.
    for batch in [forest(1), forest(3)] {
        for config in &configs() {
            for isa in [Isa::detect(), Isa::Portable] {
                let case = |recompute| Case { config, batch: &batch, isa, recompute, adapter: false };
                let kept = case(false).same_on_any_threads();
                assert!(case(true).same_on_any_threads() == kept, "with recomputation");
            }
        }
    }
}

#[test]
fn adapters_give_the_same_bits_on_any_number_of_threads() {
    let (batch, [config, _]) = (forest(2), configs());
    for isa in [Isa::detect(), Isa::Portable] {
        let case = |recompute| Case { config: &config, batch: &batch, isa, recompute, adapter: true };
        let kept = case(false).same_on_any_threads();
        assert!(case(true).same_on_any_threads() == kept, "with recomputation");
    }
}
