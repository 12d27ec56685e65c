//! The engine on a GPU against the engine on the CPU: what both compute of the reference models agrees in f32 to rounding, and
//! what was sampled scores as it was sampled. scripts/gpu_parity.py does the same from the built binary, in bf16 too.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use futures::executor::block_on;
use half::bf16;
use hone_device::{Cuda, Float, MomentStore};
use hone_engine::learn::{LearnerSettings, NativeLearner};
use hone_engine::lora::LoraConfig;
use hone_engine::parity::{self, How};
use hone_engine::{Adapter, Backend, Cpu, Generator, Model, Net, Policy, Snapshot};
use hone_testdata::committed;
use hone_trace::{
    Batch, BatchNode, LearnFault, Learner, Loss, LossStats, OptimizerStep, PolicyVersion, SampleRequest,
    SamplingParams, Target, TokenBatch,
};

const MODELS: [&str; 3] = ["engine/qwen2-bias", "engine/qwen3-tied", "engine/qwen3-yarn"];

fn sequences() -> Vec<Vec<u32>> {
    let ids = |seed: u32, len: u32| (0..len).map(move |i| (i * i + 31 * seed + 7 * i) % 380);
    let prefix: Vec<u32> = ids(1, 40).collect();
    let with = |seed, len| prefix.iter().copied().chain(ids(seed, len)).collect();
    vec![with(2, 30), with(3, 17), ids(4, 9).collect()]
}

#[track_caller]
fn assert_close(found: &[f32], expected: &[f32], tolerance: f32, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(1e-6f32, |top, v| top.max(v.abs()));
    let worst = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst <= tolerance * scale, "{what}: {worst} apart, of {scale}");
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn logprobs_and_gradients_are_the_cpus() {
    let (cpu, gpu) = (Arc::new(Cpu::new(2).unwrap()), Arc::new(Cuda::<f32>::open(0).unwrap()));
    let sequences = sequences();
    let weights: Vec<Vec<f32>> =
        sequences.iter().map(|s| (1..s.len()).map(|i| (i % 5) as f32 - 1.5).collect()).collect();
    for name in MODELS {
        let here = Model::load(&committed(name), Arc::clone(&cpu)).unwrap();
        let there = Model::load(&committed(name), Arc::clone(&gpu)).unwrap();
        let (here, there) = (Net::new(&here, None), Net::new(&there, None));
        let expected = parity::logprobs(&here, &sequences, How::default()).unwrap().concat();
        let gradients = parity::gradients(&here, &sequences, &weights, How { packed: true, ..How::default() }).unwrap();
        for how in [
            How { packed: true, ..How::default() },
            How { share_prefix: true, ..How::default() },
            How { share_prefix: true, recompute: true, ..How::default() },
        ] {
            let what = format!("{name}, {how:?}");
            let found = parity::logprobs(&there, &sequences, how).unwrap().concat();
            assert_close(&found, &expected, 1e-5, &what);
            let found = parity::gradients(&there, &sequences, &weights, how).unwrap();
            for (parameter, (_, values)) in &found[0] {
                assert_close(values, &gradients[0][parameter].1, 1e-4, &format!("{what}, {parameter}"));
            }
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn an_adapter_is_the_cpus() {
    let (cpu, gpu) = (Arc::new(Cpu::new(2).unwrap()), Arc::new(Cuda::<f32>::open(0).unwrap()));
    let here = Model::load(&committed(MODELS[1]), cpu).unwrap();
    let there = Model::load(&committed(MODELS[1]), gpu).unwrap();
    let mut adapter = Adapter::fresh(&here, LoraConfig::all(4, 8.0), 3).unwrap();
    let values: Vec<f32> = Cpu::read_adapter(&adapter.weights).unwrap().iter().map(|v| v + 0.01).collect();
    let source = hone_engine::weights::Host(&values);
    adapter.weights = here.device.load_adapter(&here.config, &adapter.config, &adapter.table, &source).unwrap();
    let other = Adapter {
        config: adapter.config.clone(),
        weights: there.device.load_adapter(&there.config, &adapter.config, &adapter.table, &source).unwrap(),
        table: adapter.table.clone(),
        base: adapter.base,
    };
    let expected = parity::logprobs(&Net::new(&here, Some(&adapter)), &sequences(), How::default()).unwrap().concat();
    let found = parity::logprobs(&Net::new(&there, Some(&other)), &sequences(), How::default()).unwrap().concat();
    assert_close(&found, &expected, 1e-5, "logprobs under an adapter");
}

/// A conversation to which no, few and many tokens are appended before each reply.
#[expect(clippy::unwrap_used, reason = "a test that cannot go on should panic")]
fn conversation<T: Float>(name: &str, tolerance: f32) {
    let model = Model::load(&committed(name), Arc::new(Cuda::<T>::open(0).unwrap())).unwrap();
    let serving = model.device.serving();
    let policy = Policy::new(Snapshot::new(model.clone(), None, "laws"));
    let generator = Generator::new(policy, serving).unwrap();
    let mut text = sequences()[0].clone();
    for (seed, appended, min_p) in [(5, 0, 0.0), (6, 5, 0.01), (7, 40, 0.0)] {
        text.extend((0..appended).map(|i| (i * i + 3) % 380));
        let params = SamplingParams { max_new_tokens: 20, min_p, ..SamplingParams::default() };
        let request = SampleRequest { prompt: text.clone(), params, seed, gate: None };
        let reply = block_on(generator.submit(request)).unwrap();
        let from = text.len() - 1;
        text.extend(&reply.tokens);
        let (net, whole) = (Net::new(&model, None), std::slice::from_ref(&text));
        let learned = parity::logprobs(&net, whole, How::default()).unwrap().concat();
        assert_close(&reply.sampled.logprobs, &learned[from..], tolerance, &format!("{name}, {appended} appended"));
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn what_is_sampled_scores_as_it_was_sampled() {
    MODELS.iter().for_each(|name| conversation::<f32>(name, 1e-4));
    conversation::<bf16>(MODELS[1], 0.02);
}

/// Negative log-likelihood.
#[derive(Debug)]
struct Nll;

impl Loss for Nll {
    fn grad(&self, tokens: &TokenBatch<'_>, out: &mut [f64]) -> LossStats {
        out.iter_mut().zip(tokens.weight).for_each(|(slope, weight)| *slope = -weight);
        LossStats::default()
    }
}

/// The policy after some steps on sequences of this seed.
fn stepped(learner: &mut NativeLearner<Cuda<bf16>>, seeds: Range<u32>) -> Result<PolicyVersion, LearnFault> {
    let target =
        |offset| Target { node: 0, offset, sampler: 0.0, behaviour: 0.0, old: None, advantage: 1.0, weight: 0.05 };
    for seed in seeds {
        let nodes = vec![BatchNode { parent: None, tokens: (0..20).map(|i| (i * i + 31 * seed) % 380).collect() }];
        let targets: Vec<Target> = (1..20).map(target).collect();
        let sequences = std::iter::once(0..targets.len()).collect();
        block_on(learner.accumulate(&Batch { nodes, targets, sequences, temperature: 1.0 }, &Nll))?;
        block_on(learner.step(OptimizerStep { learning_rate: 1e-3, max_grad_norm: Some(1.0), publish: true }))?;
    }
    Ok(learner.version())
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_step_taken_back_leaves_no_trace() {
    for store in [MomentStore::F32, MomentStore::EightBit, MomentStore::Host] {
        let device = Arc::new(Cuda::<bf16>::open(0).unwrap().with_moments(store));
        let model = Model::load(&committed(MODELS[1]), device).unwrap();
        let policy = Policy::new(Snapshot::new(model, None, "laws"));
        let mut learner = NativeLearner::new(policy, None, LearnerSettings::default());
        let remembered = stepped(&mut learner, 0..2).unwrap();
        block_on(learner.remember(Path::new("unused"))).unwrap();
        let expected = stepped(&mut learner, 2..4).unwrap();
        block_on(learner.undo(Path::new("unused"), 2)).unwrap();
        assert_eq!(learner.version(), remembered, "{store}");
        assert_eq!(stepped(&mut learner, 2..4).unwrap(), expected, "{store}");
    }
}
