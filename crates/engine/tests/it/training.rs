//! Training against PyTorch's record, and the laws a training run must keep.

use std::path::Path;
use std::sync::Arc;

use crate::common::{Nll, fixture, ids, small, wait};
use hone_engine::backend::GradientNorm;
use hone_engine::cpu::optim::{global_norm, update};
use hone_engine::learn::{LearnerSettings, NativeLearner};
use hone_engine::lora::LoraConfig;
use hone_engine::optim::{AdamWSettings, AdamWStep, clip_factor};
use hone_engine::weights::Table;
use hone_engine::{Adapter, Cpu, Model, Policy, Snapshot};
use hone_trace::{
    Batch, BatchNode, LearnFault, LearnStats, Learner, Loss, LossStats, OptimizerStep, StepReport, Target, TokenBatch,
};
use serde_json::Value;

const NLL: Nll = Nll { factor: 1.0, entropy: 0.0 };

/// Next-token training on whole sequences, each token an equal share of the mean.
fn batch(sequences: &[Vec<u32>]) -> Batch {
    let count: usize = sequences.iter().map(|s| s.len() - 1).sum();
    let mut batch = Batch { temperature: 1.0, ..Batch::default() };
    for (node, tokens) in sequences.iter().enumerate() {
        let start = batch.targets.len();
        batch.targets.extend((1..tokens.len()).map(|offset| Target {
            node,
            offset,
            sampler: 0.0,
            behaviour: 0.0,
            old: None,
            advantage: 1.0,
            weight: 1.0 / count as f32,
        }));
        batch.sequences.push(start..batch.targets.len());
        batch.nodes.push(BatchNode { parent: None, tokens: tokens.clone() });
    }
    batch
}

fn train_on(learner: &mut NativeLearner, batch: &Batch, rate: f64) -> (LearnStats, StepReport) {
    let stats = wait(learner.accumulate(batch, &NLL)).unwrap();
    let step = OptimizerStep { learning_rate: rate, max_grad_norm: Some(1.0), publish: true };
    (stats, wait(learner.step(step)).unwrap())
}

fn learner(model: Model, settings: LearnerSettings) -> NativeLearner {
    NativeLearner::new(Policy::new(Snapshot::new(model, None, "test")), None, settings)
}

fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect()
}

fn read(path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture(path)).unwrap()).unwrap()
}

#[test]
fn adamw_follows_pytorch_for_twenty_steps() {
    let record = read("adamw.json");
    let cpu = Cpu::new(2).unwrap();
    let mut table = Table::default();
    let matrix = table.group(&[("matrix".into(), vec![3, 5])]);
    let vector = table.group(&[("vector".into(), vec![4])]);
    let fill = |from: &Value| {
        let mut flat = vec![0.0; table.len()];
        flat[matrix.clone()].copy_from_slice(&floats(&from["matrix"]));
        flat[vector.clone()].copy_from_slice(&floats(&from["vector"]));
        flat
    };
    let settings: AdamWSettings = serde_json::from_value(record["settings"].clone()).unwrap();
    let (mut values, mut m, mut v) = (fill(&record["initial"]), vec![0.0; table.len()], vec![0.0; table.len()]);
    let steps = record["steps"].as_array().unwrap();
    for (number, step) in (1..).zip(steps) {
        let grads = fill(&step["grads"]);
        let GradientNorm::Finite(norm) = global_norm(&cpu, &table, &grads) else { panic!("step {number}") };
        assert!((norm - step["norm"].as_f64().unwrap()).abs() < 1e-5);
        let rate = step["rate"].as_f64().unwrap();
        let factors = AdamWStep::new(settings, number, rate, clip_factor(norm, Some(1.0)));
        update(&cpu, &table, &mut values, &grads, [&mut m, &mut v], &factors);
        for (found, expected) in values.iter().zip(fill(&step["after"])) {
            assert!((found - expected).abs() < 1e-5, "step {number}: {found}, PyTorch {expected}");
        }
    }
    assert_eq!(steps.len(), 20);
}

#[test]
fn a_model_trains_as_it_does_in_pytorch() {
    let dir = hone_testdata::committed("tiny-qwen3");
    let record = read("training.json");
    let sequences: Vec<Vec<u32>> = serde_json::from_value(record["sequences"].clone()).unwrap();
    let adamw = AdamWSettings { beta2: 0.95, weight_decay: 0.1, ..AdamWSettings::default() };
    let model = Model::load(&dir, Arc::new(Cpu::new(2).unwrap())).unwrap();
    let mut learner = learner(model, LearnerSettings { adamw, ..LearnerSettings::default() });
    for (loss, norm) in floats(&record["losses"]).iter().zip(floats(&record["norms"])) {
        let (stats, report) = train_on(&mut learner, &batch(&sequences), 1e-3);
        assert!((stats.loss.loss - f64::from(*loss)).abs() < 1e-5 * f64::from(*loss), "{} and {loss}", stats.loss.loss);
        assert!((report.grad_norm.unwrap() - f64::from(norm)).abs() < 1e-4 * f64::from(norm));
    }
}

#[test]
fn one_batch_is_learned_by_heart() {
    let model = small(Arc::new(Cpu::new(2).unwrap()));
    let batch = batch(&[ids(1, 24, 160), ids(2, 31, 160)]);
    let mut learner = learner(model, LearnerSettings::default());
    let first = train_on(&mut learner, &batch, 1e-2).0.loss.loss;
    let last = (0..80).map(|_| train_on(&mut learner, &batch, 1e-2).0.loss.loss).last().unwrap();
    assert!(first > 4.5 && last < 0.05, "from {first} to {last}");
}

fn weights_after(learner: &NativeLearner) -> (hone_trace::PolicyVersion, Vec<u32>) {
    let snapshot = learner.policy().current();
    (snapshot.version.clone(), snapshot.model.weights.values.iter().map(|v| v.to_bits()).collect())
}

/// Steps `from..to` of a run whose batches depend on the step alone.
fn steps(learner: &mut NativeLearner, from: u64, to: u64) {
    for step in from..to {
        let batches = [batch(&[ids(step, 20, 160), ids(step + 100, 7, 160)]), batch(&[ids(step + 200, 33, 160)])];
        for batch in &batches {
            wait(learner.accumulate(batch, &NLL)).unwrap();
        }
        wait(learner.step(OptimizerStep { learning_rate: 1e-3, max_grad_norm: Some(0.5), publish: true })).unwrap();
    }
}

#[test]
fn fifty_steps_are_the_same_bits_repeated_resumed_recomputed_and_on_other_threads() {
    let run = |threads, recompute| {
        let settings = LearnerSettings { recompute, ..LearnerSettings::default() };
        let mut learner = learner(small(Arc::new(Cpu::new(threads).unwrap())), settings);
        steps(&mut learner, 0, 50);
        weights_after(&learner)
    };
    let expected = run(2, false);
    assert_eq!(expected.0.step, 50);
    assert!(expected == run(2, false), "repeated");
    assert!(expected == run(2, true), "with recomputation");
    assert!(expected == run(1, false) && expected == run(3, false), "on other threads");

    for at in [0, 25] {
        let dir = tempfile::tempdir().unwrap();
        let mut stopped = learner(small(Arc::new(Cpu::new(2).unwrap())), LearnerSettings::default());
        steps(&mut stopped, 0, at);
        stopped.save(dir.path()).unwrap();
        drop(stopped);
        let written = std::fs::metadata(dir.path().join("optimizer.safetensors")).unwrap().len();
        assert_eq!(written < 1000, at == 0, "moments that are still zero take {written} bytes");
        let policy = Policy::new(Snapshot::new(small(Arc::new(Cpu::new(2).unwrap())), None, "test"));
        let mut resumed = NativeLearner::resume(policy, None, LearnerSettings::default(), dir.path()).unwrap();
        steps(&mut resumed, at, 50);
        assert!(expected == weights_after(&resumed), "resumed at {at}");
    }
}

#[test]
fn a_step_taken_back_leaves_no_trace() {
    let dir = Path::new("unused");
    for adapted in [false, true] {
        let model = small(Arc::new(Cpu::new(2).unwrap()));
        let adapter = adapted.then(|| Adapter::new(&model, LoraConfig::all(4, 8.0), 3));
        let policy = Policy::new(Snapshot::new(model, adapter, "test"));
        let mut learner = NativeLearner::new(policy, None, LearnerSettings::default());
        let digest = |learner: &NativeLearner| learner.policy().current().version;
        assert!(wait(learner.undo(dir, 0)).is_err(), "nothing is remembered");
        steps(&mut learner, 0, 3);
        let remembered = digest(&learner);
        wait(learner.remember(dir)).unwrap();
        steps(&mut learner, 3, 6);
        let expected = digest(&learner);
        wait(learner.undo(dir, 3)).unwrap();
        assert_eq!(digest(&learner), remembered);
        steps(&mut learner, 100, 102);
        assert_ne!(digest(&learner).weights, expected.weights);
        // A gradient that was not applied is forgotten too; the state can be returned to again.
        wait(learner.accumulate(&batch(&[ids(7, 20, 160)]), &NLL)).unwrap();
        wait(learner.undo(dir, 3)).unwrap();
        steps(&mut learner, 3, 6);
        assert_eq!(digest(&learner), expected, "adapter: {adapted}");
        assert!(!dir.exists());
    }
}

#[test]
fn a_gradient_that_is_not_finite_is_reported_and_never_applied() {
    let mut learner = learner(small(Arc::new(Cpu::new(2).unwrap())), LearnerSettings::default());
    let before = weights_after(&learner);
    let batch = batch(&[ids(1, 12, 160)]);
    wait(learner.accumulate(&batch, &Nll { factor: f64::INFINITY, entropy: 0.0 })).unwrap();
    let report =
        wait(learner.step(OptimizerStep { learning_rate: 1.0, max_grad_norm: Some(1.0), publish: true })).unwrap();
    assert!(report.skipped.is_some_and(|s| s.contains("not finite")) && report.grad_norm.is_none());
    assert!(before == weights_after(&learner), "the weights changed");
    // The bad gradient is gone: the next step is an ordinary one.
    assert!(train_on(&mut learner, &batch, 1e-3).1.skipped.is_none());
    assert_eq!(weights_after(&learner).0.step, 1);
}

#[test]
fn accumulated_batches_add_up() {
    let gradient = |batches: &[Batch]| {
        let mut learner = learner(small(Arc::new(Cpu::new(2).unwrap())), LearnerSettings::default());
        for batch in batches {
            wait(learner.accumulate(batch, &NLL)).unwrap();
        }
        learner.gradients().to_vec()
    };
    let whole = batch(&[ids(1, 20, 160), ids(2, 9, 160)]);
    let mut parts = [batch(&[ids(1, 20, 160)]), batch(&[ids(2, 9, 160)])];
    parts.iter_mut().flat_map(|b| &mut b.targets).for_each(|t| t.weight = 1.0 / 27.0);
    for (a, b) in gradient(&[whole]).iter().zip(gradient(&parts)) {
        assert!((a - b).abs() < 1e-6, "{a} and {b}");
    }
}

#[test]
fn entropy_is_taken_off_the_loss() {
    let mut learner = learner(small(Arc::new(Cpu::new(2).unwrap())), LearnerSettings::default());
    let batch = batch(&[ids(1, 24, 160)]);
    let entropy = |stats: &LearnStats| stats.entropies.iter().flatten().sum::<f32>();
    let only_entropy = Nll { factor: 0.0, entropy: 1.0 };
    let mut seen = Vec::new();
    for _ in 0..8 {
        seen.push(entropy(&wait(learner.accumulate(&batch, &only_entropy)).unwrap()));
        wait(learner.step(OptimizerStep { learning_rate: 3e-3, max_grad_norm: None, publish: true })).unwrap();
    }
    assert!(seen.windows(2).all(|w| w[1] > w[0]), "{seen:?}");
}

#[test]
fn a_shared_prefix_gives_the_gradients_of_separate_sequences() {
    let (prompt, a, b, inner) = (ids(1, 40, 160), ids(2, 9, 160), ids(3, 5, 160), ids(4, 3, 160));
    let gradient = |batch: &Batch| {
        let mut learner = learner(small(Arc::new(Cpu::new(2).unwrap())), LearnerSettings::default());
        let stats = wait(learner.accumulate(batch, &NLL)).unwrap();
        (stats.logprobs, learner.gradients().to_vec())
    };
    // Three replies to one prompt; the last two continue the same first reply.
    let whole = [[&prompt[..], &a].concat(), [&prompt[..], &b, &inner].concat(), [&prompt[..], &b, &a].concat()];
    let mut apart = batch(&whole);
    apart.targets.retain(|t| t.offset >= prompt.len());
    apart.sequences = vec![0..9, 9..17, 17..31];
    let node = |parent, tokens: &Vec<u32>| BatchNode { parent, tokens: tokens.clone() };
    let mut together = apart.clone();
    together.nodes =
        vec![node(None, &prompt), node(Some(0), &a), node(Some(0), &b), node(Some(2), &inner), node(Some(2), &a)];
    for target in &mut together.targets {
        let at = target.offset - prompt.len();
        (target.node, target.offset) = match target.node {
            0 => (1, at),
            _ if at < b.len() => (2, at),
            n => (n + 2, at - b.len()),
        };
    }
    let (logprobs, expected) = gradient(&apart);
    let (shared, found) = gradient(&together);
    assert_eq!(logprobs, shared);
    let norm = |v: &[f32]| v.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    let difference: Vec<f32> = found.iter().zip(&expected).map(|(a, b)| a - b).collect();
    assert!(norm(&difference) < 1e-6 * norm(&expected), "off by {:.1e}", norm(&difference) / norm(&expected));
}

#[test]
fn a_batch_that_cannot_be_trained_on_says_why() {
    let say = |change: &dyn Fn(&mut Batch), settings: LearnerSettings| {
        let mut batch = batch(&[ids(1, 12, 160)]);
        change(&mut batch);
        wait(learner(small(Arc::new(Cpu::new(1).unwrap())), settings).accumulate(&batch, &NLL)).unwrap_err()
    };
    let plain = LearnerSettings::default;
    let text = |fault: LearnFault| fault.to_string();
    assert!(text(say(&|b| b.nodes[0].tokens[3] = 160, plain())).contains("token 160 is outside the vocabulary of 160"));
    assert!(text(say(&|b| b.temperature = 0.0, plain())).contains("temperature"));
    assert!(
        text(say(&|b| b.nodes[0].tokens = vec![1; 300], plain())).contains("300 tokens and the model's context 256")
    );
    let tight = LearnerSettings { memory_limit: Some(1000), ..plain() };
    assert!(text(say(&|_| (), tight)).contains("may use 1 KB; train a smaller model or an adapter"));
    let reference = {
        struct Kl;
        impl Loss for Kl {
            fn grad(&self, _: &TokenBatch<'_>, _: &mut [f64]) -> LossStats {
                LossStats::default()
            }
            fn needs_reference(&self) -> bool {
                true
            }
        }
        wait(learner(small(Arc::new(Cpu::new(1).unwrap())), plain()).accumulate(&batch(&[ids(1, 5, 160)]), &Kl))
    };
    assert!(text(reference.unwrap_err()).contains("reference policy"));
}
