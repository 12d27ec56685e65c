//! Conformance of a backend: laws that every device keeps, to the bit on the CPU and within a tolerance elsewhere.
//!
//! A new device is one line in [`every_device_keeps_the_laws`].

use std::fmt::Debug;
use std::sync::Arc;

use crate::common::{Nll, config_json, ids, wait};
use crate::foreign::Foreign;
use hone_engine::backend::{Backend, GradientNorm, Need, PageStore, Trainable};
use hone_engine::kernels::simd::Isa;
use hone_engine::lora::LoraConfig;
use hone_engine::optim::{AdamW, AdamWSettings};
use hone_engine::parity::{self, How};
use hone_engine::weights::{Host, Storage};
use hone_engine::{
    Adapter, Config, Cpu, Generator, GeneratorSettings, Keep, LearnerSettings, Model, NativeLearner, Net, Policy,
    Snapshot,
};
use hone_trace::{Batch, BatchNode, Learner, OptimizerStep, SampleRequest, SamplingParams, Target};
use serde_json::json;

/// Agreement that a device promises between two ways to compute the same thing.
#[derive(Debug, Clone, Copy)]
enum Same {
    Bits,
    /// Largest difference, relative to the largest value.
    Within(f32),
}

impl Same {
    #[track_caller]
    fn check(self, a: &[f32], b: &[f32], what: impl Debug) {
        assert_eq!(a.len(), b.len(), "{what:?}");
        match self {
            Self::Bits => assert!(a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits()), "{what:?}: other bits"),
            Self::Within(tolerance) => {
                let scale = b.iter().fold(1e-30f32, |top, v| top.max(v.abs()));
                let worst = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(worst <= tolerance * scale, "{what:?}: {worst} apart, of {scale}");
            }
        }
    }
}

#[test]
fn every_device_keeps_the_laws() {
    for isa in [Isa::detect(), Isa::Portable] {
        for threads in [1, 3] {
            keeps_the_laws(Arc::new(Cpu::with_isa(threads, isa).unwrap()), Same::Bits);
        }
    }
    keeps_the_laws(Arc::new(Foreign(Arc::new(Cpu::new(2).unwrap()))), Same::Bits);
}

fn keeps_the_laws<B: Backend>(device: Arc<B>, same: Same) {
    let config = Config::parse(&config_json(json!({})).to_string()).unwrap();
    let model = Model::fresh(config, device, 7).unwrap();
    what_is_loaded_is_read_back(&model);
    scores_do_not_depend_on_packing_or_checkpointing(&model, same);
    an_adapter_merges_into_what_it_computes(&model);
    pages_hold_what_the_learner_computes(&model, same);
    memory_grows_with_what_is_kept(&model);
    a_batch_is_learned(&model);
    moments_come_back_as_they_were(&model);
}

fn what_is_loaded_is_read_back<B: Backend>(model: &Model<B>) {
    let values = B::read(&model.weights).unwrap().into_owned();
    let again = model.device.load(&model.config, &model.params, &Host(&values)).unwrap();
    Same::Bits.check(&B::read(&again).unwrap(), &values, "weights");
    assert_eq!(model.device.digest(&again), model.device.digest(&model.weights));
    let dir = tempfile::tempdir().unwrap();
    model.save(dir.path(), Storage::F32).unwrap();
    let saved = Model::load(dir.path(), Arc::clone(&model.device)).unwrap();
    assert_eq!(model.device.digest(&saved.weights), model.device.digest(&model.weights));

    let mut flat = model.device.zeros(values.len());
    B::write_flat(&mut flat, &values).unwrap();
    Same::Bits.check(&B::read_flat(&flat).unwrap(), &values, "a flat array");
    model.device.clear(&mut flat);
    assert!(B::read_flat(&flat).unwrap().iter().all(|v| *v == 0.0));
}

fn scores_do_not_depend_on_packing_or_checkpointing<B: Backend>(model: &Model<B>, same: Same) {
    let prefix = ids(1, 50, 160);
    let sequences =
        [[&prefix[..], &ids(2, 30, 160)].concat(), [&prefix[..], &ids(3, 21, 160)].concat(), ids(4, 9, 160)];
    let weights: Vec<Vec<f32>> =
        sequences.iter().map(|s| (1..s.len()).map(|i| (i % 5) as f32 - 1.5).collect()).collect();
    let net = Net::new(model, None);
    let scores = |how| parity::logprobs(&net, &sequences, how).unwrap().concat();
    let plain = scores(How::default());
    let shared = How { share_prefix: true, ..How::default() };
    same.check(&scores(How { packed: true, ..How::default() }), &plain, "packed");
    same.check(&scores(shared), &plain, "a shared prefix");

    let gradient = |how| -> Vec<f32> {
        let found = parity::gradients(&net, &sequences, &weights, how).unwrap();
        found.iter().flat_map(|named| named.values()).flat_map(|(_, values)| values.clone()).collect()
    };
    let kept = gradient(shared);
    same.check(&gradient(How { recompute: true, ..shared }), &kept, "activation checkpointing");
    let logits = parity::logits(&net, &sequences[2]).unwrap();
    assert_eq!(logits.len(), sequences[2].len() * model.config.vocab);
}

fn an_adapter_merges_into_what_it_computes<B: Backend>(model: &Model<B>) {
    let sequence = [ids(5, 40, 160)];
    let mut adapter = Adapter::fresh(model, LoraConfig::all(4, 8.0), 3).unwrap();
    let values: Vec<f32> = B::read_adapter(&adapter.weights).unwrap().iter().map(|v| v + 0.01).collect();
    let scores = |net: Net<'_, B>| parity::logprobs(&net, &sequence, How::default()).unwrap().concat();
    let base = scores(Net::new(model, None));
    Same::Bits.check(&scores(Net::new(model, Some(&adapter))), &base, "a fresh adapter changes nothing");
    adapter.weights =
        model.device.load_adapter(&model.config, &adapter.config, &adapter.table, &Host(&values)).unwrap();
    let adapted = scores(Net::new(model, Some(&adapter)));
    assert!(adapted.iter().zip(&base).any(|(a, b)| (a - b).abs() > 1e-3), "the adapter does nothing");
    let merged = scores(Net::new(&adapter.merge(model).unwrap(), None));
    Same::Within(1e-4).check(&merged, &adapted, "merged");
}

/// Paged decoding scores the same as a pass over the whole sequence.
fn pages_hold_what_the_learner_computes<B: Backend>(model: &Model<B>, same: Same) {
    let policy = Policy::new(Snapshot::new(model.clone(), None, "laws"));
    let generator = Generator::new(policy, GeneratorSettings { prefill_tokens: 20, ..Default::default() }).unwrap();
    let params = SamplingParams { max_new_tokens: 40, ..SamplingParams::default() };
    let request = |seed| SampleRequest { prompt: ids(6, 45, 160), params: params.clone(), seed, gate: None };
    let replies: Vec<_> = (0..3).map(|seed| generator.submit(request(seed))).collect();
    for reply in replies {
        let reply = wait(reply).unwrap();
        let sequence = [ids(6, 45, 160), reply.tokens.clone()].concat();
        let learned = parity::logprobs(&Net::new(model, None), &[sequence], How::default()).unwrap().concat();
        same.check(&reply.sampled.logprobs, &learned[44..], "sampler and learner");
    }
    // A page that is copied in part and cleared is a page of zeros: no draw may see its former contents.
    let mut pages = model.device.pages(&model.config);
    pages.grow();
    pages.grow();
    pages.copy(0, 1, 5);
    pages.clear(1);
}

/// A learner restored from a checkpoint takes the same steps as an uninterrupted one, whatever form the device keeps
/// moments in.
fn moments_come_back_as_they_were<B: Backend>(model: &Model<B>) {
    let (table, device) = (&model.params.table, &*model.device);
    let settings = AdamWSettings { weight_decay: 0.1, ..AdamWSettings::default() };
    let gradient = |seed: u32| -> Vec<f32> {
        let value = |i: usize| ((i as f32 + 1.0) * (seed as f32 + 0.7)).sin() * 10f32.powi(-((i % 4) as i32));
        let mut values = vec![0.0; table.len()];
        table.params.iter().flat_map(|p| p.range.clone()).for_each(|i| values[i] = value(i));
        values
    };
    let take = |optimizer: &mut AdamW<B>, weights: &mut B::Weights, seeds: std::ops::Range<u32>| {
        for seed in seeds {
            let mut flat = device.zeros(table.len());
            B::write_flat(&mut flat, &gradient(seed)).unwrap();
            optimizer.step(device, Trainable::Weights(table, weights), &flat, 1e-3, 0.5).unwrap();
        }
    };
    let (mut weights, mut optimizer) = (B::Weights::clone(&model.weights), AdamW::new(settings, table, device));
    take(&mut optimizer, &mut weights, 0..3);
    let dir = tempfile::tempdir().unwrap();
    optimizer.save(dir.path(), table).unwrap();
    let mut again = AdamW::load(settings, dir.path(), table, device).unwrap();
    let mut other = weights.clone();
    take(&mut optimizer, &mut weights, 3..6);
    take(&mut again, &mut other, 3..6);
    Same::Bits.check(&B::read(&other).unwrap(), &B::read(&weights).unwrap(), "weights after a checkpoint");
    assert!(device.bytes(&model.config, Need::Optimizer { parameters: 1 << 20 }) >= 4 << 20, "gradients are counted");
}

fn memory_grows_with_what_is_kept<B: Backend>(model: &Model<B>) {
    let bytes = |need| model.device.bytes(&model.config, need);
    let pass = |rows, keep| bytes(Need::Pass { rows, keep });
    assert!(bytes(Need::Weights) >= 4 * model.parameters() as u64 && bytes(Need::Page) > 0);
    assert!(
        pass(100, Keep::Nothing) < pass(100, Keep::Inputs) && pass(100, Keep::Inputs) < pass(100, Keep::Everything)
    );
    assert!(pass(100, Keep::Inputs) < pass(200, Keep::Inputs));
}

fn a_batch_is_learned<B: Backend>(model: &Model<B>) {
    let target = |offset| Target {
        node: 0,
        offset,
        sampler: 0.0,
        behaviour: 0.0,
        old: None,
        advantage: 1.0,
        weight: 1.0 / 23.0,
    };
    let mut batch = Batch { temperature: 1.0, ..Batch::default() };
    batch.nodes.push(BatchNode { parent: None, tokens: ids(8, 24, 160) });
    batch.targets.extend((1..24).map(target));
    batch.sequences.push(0..23);
    let policy = Policy::new(Snapshot::new(model.clone(), None, "laws"));
    let mut learner = NativeLearner::new(policy, None, LearnerSettings::default());
    let step = OptimizerStep { learning_rate: 1e-2, max_grad_norm: Some(1.0), publish: true };
    let mut losses = Vec::new();
    for _ in 0..20 {
        losses.push(wait(learner.accumulate(&batch, &Nll { factor: 1.0, entropy: 0.0 })).unwrap().loss.loss);
        wait(learner.step(step)).unwrap();
    }
    assert!(losses[19] < 0.5 * losses[0], "{losses:?}");
    let before = learner.policy().current().version;
    let broken = Nll { factor: f64::INFINITY, entropy: 0.0 };
    wait(learner.accumulate(&batch, &broken)).unwrap();
    let table = &model.params.table;
    let norm = model.device.gradient_norm(table, learner.gradients()).unwrap();
    assert!(matches!(norm, GradientNorm::NotFinite(name) if table.params.iter().any(|p| p.name == name)));
    let report = wait(learner.step(step)).unwrap();
    assert!(report.skipped.is_some() && report.version == before, "a gradient that is not finite is not applied");
}
