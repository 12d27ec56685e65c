//! Generation against the learner's forward pass: same bits, whatever runs beside a request.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::sync::Arc;

use futures::executor::block_on;
use futures::future::join_all;
use hone_engine::kernels::simd::Isa;
use hone_engine::{
    Adapter, Config, Cpu, Forest, Generator, GeneratorSettings, Keep, Model, Net, Pass, Policy, Snapshot, Workspace,
};
use hone_trace::{Rng, Sample, SampleRequest, SamplingParams};

/// A model small enough for tests, with rows that do not fill vectors or pages.
fn config(vocab: usize, context: usize) -> Config {
    let source = serde_json::json!({
        "architectures": ["Qwen3ForCausalLM"], "vocab_size": vocab, "hidden_size": 48, "intermediate_size": 80,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "max_position_embeddings": context, "rms_norm_eps": 1e-6, "tie_word_embeddings": true,
        // Large weights: distributions that are far from uniform.
        "initializer_range": 0.3,
    });
    Config::parse(&source.to_string()).unwrap()
}

fn model(threads: usize, isa: Isa) -> Model {
    Model::random(config(203, 512), Arc::new(Cpu::with_isa(threads, isa).unwrap()), 7)
}

fn generator(model: &Model, settings: GeneratorSettings) -> Generator {
    Generator::new(Policy::new(Snapshot::new(model.clone(), None, "test")), settings).unwrap()
}

fn prompt(seed: u64, len: usize) -> Vec<u32> {
    let mut rng = Rng::new(seed);
    (0..len).map(|_| rng.below(203) as u32).collect()
}

fn request(prompt: Vec<u32>, seed: u64, new: u32) -> SampleRequest {
    let params = SamplingParams { max_new_tokens: new, ..SamplingParams::default() };
    SampleRequest { prompt, params, seed, gate: None }
}

fn sample_all(generator: &Generator, requests: Vec<SampleRequest>) -> Vec<Sample> {
    let pending: Vec<_> = requests.into_iter().map(|r| generator.submit(r)).collect();
    block_on(join_all(pending)).into_iter().map(|r| r.unwrap()).collect()
}

/// The learner's logprobs of a reply.
fn learned(net: &Net<'_>, prompt: &[u32], reply: &[u32], temperature: f32) -> Vec<f32> {
    let forest = Forest::of_sequences(&net.model.config, &[[prompt, reply].concat()]).unwrap();
    let targets: Vec<_> = (0..reply.len()).map(|i| forest.target(0, prompt.len() + i).unwrap()).collect();
    let pass = Pass { forest: &forest, targets: &targets, temperature };
    net.forward(pass, Keep::Nothing, &mut Workspace::default()).unwrap().logprobs
}

/// Requests of all kinds: lengths around the page size, shared prefixes, temperatures, truncation.
fn mixture() -> Vec<SampleRequest> {
    let mut requests = Vec::new();
    for (i, len) in [1, 5, 31, 32, 33, 64, 65, 100, 150, 200].into_iter().enumerate() {
        for replica in 0..3u64 {
            let mut r = request(prompt(i as u64, len), 100 * i as u64 + replica, 20 + 13 * (i as u32 % 4));
            r.params.temperature = [1.0, 0.7, 1.3][replica as usize];
            r.params.top_k = if i % 3 == 1 { 20 } else { 0 };
            r.params.top_p = if i % 4 == 2 { 0.9 } else { 1.0 };
            requests.push(r);
        }
    }
    requests
}

fn isas() -> [Isa; 3] {
    [Isa::detect(), Isa::Avx2, Isa::Portable]
}

#[test]
fn sampled_logprobs_are_the_learners_to_the_bit() {
    for isa in isas() {
        for threads in [1, 2, 3] {
            let model = model(threads, isa);
            let samples = sample_all(&generator(&model, GeneratorSettings::default()), mixture());
            for (request, sample) in mixture().iter().zip(&samples) {
                let net = Net::new(&model, None);
                let expected = learned(&net, &request.prompt, &sample.tokens, request.params.temperature);
                assert_eq!(sample.sampled.logprobs, expected, "{} on {threads} threads", isa.name());
            }
        }
    }
}
