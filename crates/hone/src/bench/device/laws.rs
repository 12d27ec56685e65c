//! `hone bench device --laws`: a small random model on the GPU, against itself on the CPU where both compute in f32.
//! For machines without Rust, and for tools that check the kernels' memory accesses.

use std::sync::Arc;

use anyhow::Result;
use futures::executor::block_on;
use half::bf16;
use hone_device::{Cuda, Float, MomentStore};
use hone_engine::backend::{Backend, GradientNorm, Need, Trainable};
use hone_engine::config::Shape;
use hone_engine::lora::LoraConfig;
use hone_engine::optim::{AdamW, AdamWSettings};
use hone_engine::parity::{self, How};
use hone_engine::weights::Host;
use hone_engine::{
    Adapter, Config, Cpu, EngineError, Forest, Generator, GeneratorSettings, Keep, LossGradients, Model, Net, Pass,
    Policy, Snapshot, Trained,
};
use hone_trace::{BatchNode, Flow, SampleRequest, SamplingParams, Seed, TokenGate, TokenMask};
use serde_json::{Map, Value, json};

const VOCAB: usize = 328;

/// Results by law: an error and its bound.
#[derive(Default)]
struct Laws {
    found: Map<String, Value>,
    broken: bool,
}

impl Laws {
    fn at_most(&mut self, law: impl Into<String>, error: f64, bound: f64) {
        // A NaN is over every bound.
        let kept = error <= bound;
        self.broken |= !kept;
        self.found.insert(law.into(), json!({"pass": kept, "error": error.to_string(), "bound": bound}));
    }

    fn holds(&mut self, law: impl Into<String>, kept: bool) {
        self.at_most(law, f64::from(u8::from(!kept)), 0.0);
    }

    /// An error counts as a broken law, and does not hide the others.
    fn guarded(&mut self, law: &str, body: impl FnOnce(&mut Self) -> Result<()>) {
        if let Err(error) = body(self) {
            self.broken = true;
            self.found.insert(law.into(), json!({"pass": false, "error": format!("{error:#}")}));
        }
    }
}

pub(super) fn run() -> Result<Value> {
    let mut laws = Laws::default();
    let cpu = Arc::new(Cpu::new(2)?);
    let (wide, exact) = (Arc::new(Cuda::<bf16>::open(0)?), Arc::new(Cuda::<f32>::open(0)?));
    for (head_dim, tied) in [(16, true), (64, false), (128, true)] {
        let config = config(head_dim, tied)?;
        let what = format!("heads of {head_dim}");
        let here = Model::fresh(config.clone(), Arc::clone(&cpu), 7)?;
        laws.guarded(&what, |laws| {
            let there = Model::fresh(config.clone(), Arc::clone(&exact), 7)?;
            passes(laws, &what, &here, &there)?;
            sampling(laws, &what, &here, &there)?;
            conversations(laws, &what, &there, 1e-4)?;
            repeated(laws, &what, &there)?;
            chunks(laws, &what, &there)
        });
        laws.guarded(&format!("{what}, bf16"), |laws| {
            let there = Model::fresh(config.clone(), Arc::clone(&wide), 7)?;
            conversations(laws, &format!("{what}, bf16"), &there, 0.02)?;
            repeated(laws, &format!("{what}, bf16"), &there)?;
            chunks(laws, &format!("{what}, bf16"), &there)?;
            generate(&there, &SamplingParams { top_p: 0.9, max_new_tokens: 40, ..SamplingParams::default() }, true)
                .map(drop)
        });
    }
    optimizer::<f32>(&mut laws, &cpu);
    optimizer::<bf16>(&mut laws, &cpu);
    Ok(json!({"device": wide.name(), "pass": !laws.broken, "laws": laws.found}))
}

fn config(head_dim: usize, tied: bool) -> Result<Config> {
    let (heads, key_heads) = if head_dim == 128 { (2, 1) } else { (4, 2) };
    let shape =
        Shape { vocab: VOCAB, hidden: 64, mlp: 104, layers: 3, heads, key_heads, head_dim, tied, ..Shape::default() };
    Ok(shape.config()?)
}

fn ids(seed: u64, len: usize) -> Vec<u32> {
    let mut rng = Seed::root(seed).rng();
    (0..len).map(|_| (rng.next_u64() % VOCAB as u64) as u32).collect()
}

fn sequences() -> Vec<Vec<u32>> {
    let prefix = ids(1, 70);
    vec![[&prefix[..], &ids(2, 30)].concat(), [&prefix[..], &ids(3, 17)].concat(), ids(4, 9)]
}

/// Largest difference, relative to the largest value.
fn apart(a: &[f32], b: &[f32]) -> f64 {
    let scale = b.iter().fold(1e-30f32, |top, v| top.max(v.abs()));
    let worst = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, |top: f32, x| if x <= top { top } else { x });
    if a.len() == b.len() { f64::from(worst / scale) } else { f64::INFINITY }
}

fn bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

/// Logprobs and gradients, plain, packed, with shared prefixes and recomputation, and under an adapter.
fn passes(laws: &mut Laws, what: &str, here: &Model, there: &Model<Cuda<f32>>) -> Result<()> {
    let sequences = sequences();
    let slopes: Vec<Vec<f32>> =
        sequences.iter().map(|s| (1..s.len()).map(|i| (i % 5) as f32 - 1.5).collect()).collect();
    let packed = How { packed: true, ..How::default() };
    let shared = How { share_prefix: true, ..How::default() };
    let (mine, theirs) = (Net::new(there, None), Net::new(here, None));
    let expected = parity::logprobs(&theirs, &sequences, How::default())?.concat();
    let gradients = parity::gradients(&theirs, &sequences, &slopes, packed)?;
    for (name, how) in [("packed", packed), ("shared", shared), ("recomputed", How { recompute: true, ..shared })] {
        let found = parity::logprobs(&mine, &sequences, how)?.concat();
        laws.at_most(format!("{what}, logprobs, {name}"), apart(&found, &expected), 1e-5);
        let found = parity::gradients(&mine, &sequences, &slopes, how)?;
        let errors = found[0].iter().map(|(parameter, (_, values))| apart(values, &gradients[0][parameter].1));
        laws.at_most(format!("{what}, gradients, {name}"), errors.fold(0.0, f64::max), 1e-4);
    }
    let mut adapter = Adapter::fresh(here, LoraConfig::all(4, 8.0), 3)?;
    let values: Vec<f32> = Cpu::read_adapter(&adapter.weights)?.iter().map(|v| v + 0.01).collect();
    let (source, lora) = (Host(&values), adapter.config.clone());
    adapter.weights = here.device.load_adapter(&here.config, &lora, &adapter.table, &source)?;
    let other = Adapter {
        weights: there.device.load_adapter(&there.config, &lora, &adapter.table, &source)?,
        config: lora,
        table: adapter.table.clone(),
        base: adapter.base,
    };
    let expected = parity::logprobs(&Net::new(here, Some(&adapter)), &sequences, shared)?.concat();
    let found = parity::logprobs(&Net::new(there, Some(&other)), &sequences, shared)?.concat();
    laws.at_most(format!("{what}, logprobs under an adapter"), apart(&found, &expected), 1e-5);
    Ok(())
}

/// Gate that forbids two thirds of the tokens, different ones after each.
#[derive(Debug, Default)]
struct Thirds(u32);

impl TokenGate for Thirds {
    fn push(&mut self, _token: u32) -> Flow {
        self.0 += 1;
        Flow::Continue
    }

    fn mask(&mut self, mask: &mut TokenMask<'_>) {
        (0..VOCAB as u32).filter(|token| !(token + self.0).is_multiple_of(3)).for_each(|token| mask.forbid(token));
    }
}

/// Replies with several seeds, with and without a gate: tokens and their logprobs.
fn generate<B: Backend>(model: &Model<B>, params: &SamplingParams, gated: bool) -> Result<Vec<(Vec<u32>, Vec<f32>)>> {
    let policy = Policy::new(Snapshot::new(model.clone(), None, "laws"));
    let settings = GeneratorSettings { prefill_tokens: 50, ..model.device.serving() };
    let generator = Generator::new(policy, settings)?;
    let request = |seed: u64| {
        let gate = gated.then(|| Box::new(Thirds::default()) as Box<dyn TokenGate>);
        SampleRequest { prompt: ids(6 + seed % 2, 45), params: params.clone(), seed, gate }
    };
    let replies: Vec<_> = (0..6).map(|seed| generator.submit(request(seed))).collect();
    replies.into_iter().map(|reply| Ok(block_on(reply).map(|r| (r.tokens, r.sampled.logprobs))?)).collect()
}

/// The same random numbers draw the same tokens, whatever parameters and masks a request has.
fn sampling(laws: &mut Laws, what: &str, here: &Model, there: &Model<Cuda<f32>>) -> Result<()> {
    let plain = SamplingParams { max_new_tokens: 40, ..SamplingParams::default() };
    let (mut same, mut all, mut worst) = (0, 0, 0f64);
    for params in [
        plain.clone(),
        SamplingParams { temperature: 0.0, ..plain.clone() },
        SamplingParams { temperature: 0.7, top_p: 0.8, ..plain.clone() },
        SamplingParams { temperature: 1.3, top_k: 20, ..plain.clone() },
        SamplingParams { min_p: 0.3, ..plain.clone() },
        SamplingParams { top_k: 200, top_p: 0.9, min_p: 0.01, ..plain.clone() },
    ] {
        for gated in [false, true] {
            let (mine, theirs) = (generate(there, &params, gated)?, generate(here, &params, gated)?);
            for ((tokens, logprobs), (expected, wanted)) in mine.into_iter().zip(theirs) {
                all += 1;
                if tokens == expected {
                    same += 1;
                    worst = worst.max(apart(&logprobs, &wanted));
                }
            }
        }
    }
    // A random number within rounding of a boundary may fall on either side: once in thousands of tokens.
    laws.at_most(format!("{what}, replies of other tokens"), f64::from(all - same), 2.0);
    laws.at_most(format!("{what}, logprobs of sampled tokens"), worst, 1e-4);
    Ok(())
}

/// Logprobs of the sampler and of the learner agree, in conversations to which few and many tokens are appended, beside new prompts.
fn conversations<T: Float>(laws: &mut Laws, what: &str, model: &Model<Cuda<T>>, bound: f64) -> Result<()> {
    let policy = Policy::new(Snapshot::new(model.clone(), None, "laws"));
    let generator = Generator::new(policy, GeneratorSettings { prefill_tokens: 400, ..model.device.serving() })?;
    let params = SamplingParams { max_new_tokens: 5, ..SamplingParams::default() };
    let appended = [0, 1, 15, 16, 100];
    let mut texts: Vec<Vec<u32>> = (0..appended.len()).map(|n| ids(30 + n as u64 % 3, 20 + 7 * n)).collect();
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    for turn in 0..2 {
        let request = |(seed, text): (usize, &Vec<u32>)| {
            let request = SampleRequest { prompt: text.clone(), params: params.clone(), seed: seed as u64, gate: None };
            generator.submit(request)
        };
        let replies: Vec<_> = texts.iter().enumerate().map(request).collect();
        for ((text, reply), count) in texts.iter_mut().zip(replies).zip(appended) {
            let reply = block_on(reply)?;
            found.extend(&reply.sampled.logprobs);
            let from = text.len() - 1;
            text.extend(&reply.tokens);
            let (net, whole) = (Net::new(model, None), std::slice::from_ref(text));
            let learned = parity::logprobs(&net, whole, How::default())?.concat();
            expected.extend(&learned[from..]);
            text.extend(ids(60 + turn, count));
        }
        // A conversation of nothing but a new prompt begins beside those that go on.
        texts[0] = ids(90 + turn, 60);
    }
    laws.at_most(format!("{what}, sampler and learner in conversations"), apart(&found, &expected), bound);
    Ok(())
}

/// A repeated pass is bit-identical, and so is one that stores gate and up projections in the gradient's memory, keeps
/// everything or recomputes them; too little memory is an error.
fn repeated<T: Float>(laws: &mut Laws, what: &str, model: &Model<Cuda<T>>) -> Result<()> {
    let nodes: Vec<BatchNode> = sequences().into_iter().map(|tokens| BatchNode { parent: None, tokens }).collect();
    let forest = Forest::new(&model.config, &nodes)?;
    let places = nodes.iter().enumerate().flat_map(|(n, node)| (1..node.tokens.len()).map(move |at| (n, at)));
    let targets: Vec<_> = places.filter_map(|(node, at)| forest.target(node, at)).collect();
    let pass = Pass { forest: &forest, targets: &targets, temperature: 1.0 };
    let dlogp: Vec<f32> = (0..targets.len()).map(|i| (i % 7) as f32 - 2.0).collect();
    let (net, device) = (Net::new(model, None), &model.device);
    let fresh = || device.zeros(model.params.table.len());
    let gradient = |limit: Option<u64>, grads: &mut _| -> hone_engine::Result<Vec<f32>> {
        let mut activations = device.activations(limit);
        device.clear(grads);
        net.forward(pass, Keep::Everything, &mut activations)?;
        let slopes = LossGradients { dlogp: &dlogp, dentropy: &[] };
        net.backward(pass, slopes, &mut activations, Trained::Full(&mut *grads))?;
        Ok(Cuda::<T>::read_flat(grads)?.into_owned())
    };
    let mut grads = fresh();
    let first = gradient(None, &mut grads)?;
    laws.holds(format!("{what}, a pass repeats to the bit"), bits(&gradient(None, &mut fresh())?, &first));
    laws.holds(format!("{what}, all kept, the same bits"), bits(&gradient(Some(1 << 32), &mut fresh())?, &first));
    // The gradient has memory now, and nothing in it.
    for limit in [None, Some(1 << 32)] {
        let lent = gradient(limit, &mut grads)?;
        laws.holds(
            format!("{what}, gates in the gradient's memory, limit {limit:?}: the same bits"),
            bits(&lent, &first),
        );
    }
    let least = device.bytes(&model.config, Need::Pass { rows: forest.rows(), keep: Keep::Everything });
    laws.holds(
        format!("{what}, gates computed again give the same bits"),
        bits(&gradient(Some(least), &mut fresh())?, &first),
    );
    for output in ["layer 1, SwiGLU", "layer 1, gradient of attention"] {
        device.poison(Some(output));
        let mut grads = fresh();
        let done = gradient(None, &mut grads);
        device.poison(None);
        done?;
        let norm = device.gradient_norm(&model.params.table, &grads)?;
        let named = matches!(&norm, GradientNorm::NotFinite(name) if name.contains(output));
        laws.holds(format!("{what}, a NaN in {output} is named"), named);
    }
    let short = gradient(Some(least / 2), &mut fresh());
    laws.holds(format!("{what}, too little memory is refused"), matches!(short, Err(EngineError::Memory { .. })));
    Ok(())
}

/// Logits of several chunks of targets: kept or computed again, the same gradient to the bit.
fn chunks<T: Float>(laws: &mut Laws, what: &str, model: &Model<Cuda<T>>) -> Result<()> {
    let nodes: Vec<BatchNode> = (0..24).map(|n| BatchNode { parent: None, tokens: ids(10 + n, 200) }).collect();
    let forest = Forest::new(&model.config, &nodes)?;
    let places = (0..nodes.len()).flat_map(|node| (1..200).map(move |at| (node, at)));
    let targets: Vec<_> = places.filter_map(|(node, at)| forest.target(node, at)).collect();
    let pass = Pass { forest: &forest, targets: &targets, temperature: 0.7 };
    let slopes = |step: usize| (0..targets.len()).map(|i| (i % step) as f32 - 2.0).collect::<Vec<f32>>();
    let (dlogp, dentropy) = (slopes(7), slopes(5));
    let (net, device) = (Net::new(model, None), &model.device);
    let gradient = |keep: Keep, limit: Option<u64>| -> Result<Vec<f32>> {
        let (mut activations, mut grads) = (device.activations(limit), device.zeros(model.params.table.len()));
        net.forward(pass, keep, &mut activations)?;
        let slopes = LossGradients { dlogp: &dlogp, dentropy: &dentropy };
        net.backward(pass, slopes, &mut activations, Trained::Full(&mut grads))?;
        Ok(Cuda::<T>::read_flat(&grads)?.into_owned())
    };
    for keep in [Keep::Everything, Keep::Inputs] {
        let least = device.bytes(&model.config, Need::Pass { rows: forest.rows(), keep });
        let (little, plenty) = (gradient(keep, Some(least))?, gradient(keep, Some(1 << 32))?);
        laws.holds(format!("{what}, logits of several chunks kept, {keep:?}: the same bits"), bits(&little, &plenty));
    }
    Ok(())
}

/// AdamW with its moments in every form: the CPU's weights, checkpoints that resume bit for bit, gradients that are not
/// finite.
fn optimizer<T: Float>(laws: &mut Laws, cpu: &Arc<Cpu>) {
    let reference = trained(&Model::fresh, Arc::clone(cpu)).map(|(weights, _)| weights);
    let mut in_f32: Option<Vec<f32>> = None;
    for store in [MomentStore::F32, MomentStore::Host, MomentStore::EightBit] {
        let what = format!("moments {store}, weights {}", T::SUFFIX);
        laws.guarded(&what, |laws| {
            let device = Arc::new(Cuda::<T>::open(0)?.with_moments(store));
            let (weights, exact) = trained(&Model::fresh, Arc::clone(&device))?;
            let expected = reference.as_ref().map_err(|error| anyhow::anyhow!("{error:#}"))?;
            let bound = if store == MomentStore::EightBit { 1e-2 } else { 1e-5 };
            laws.at_most(format!("{what}: the CPU's weights"), apart(&weights, expected), bound);
            laws.holds(format!("{what}: a checkpoint goes on to the bit"), exact);
            match (store, &in_f32) {
                (MomentStore::F32, _) => in_f32 = Some(weights),
                (MomentStore::Host, Some(before)) => {
                    laws.holds(format!("{what}: the bits of moments on the device"), bits(&weights, before));
                }
                _ => {}
            }
            named(laws, &what, &device)
        });
    }
}

/// Weights after some steps with weight decay, and whether a run saved and loaded midway ends bit-identical.
fn trained<B: Backend>(
    fresh: &dyn Fn(Config, Arc<B>, u64) -> hone_engine::Result<Model<B>>,
    device: Arc<B>,
) -> Result<(Vec<f32>, bool)> {
    let model = fresh(config(16, false)?, device, 7)?;
    let (table, device) = (&model.params.table, &*model.device);
    let settings = AdamWSettings { weight_decay: 0.1, ..AdamWSettings::default() };
    let gradient = |seed: u32| -> Vec<f32> {
        let value = |i: usize| ((i as f32 + 1.0) * (seed as f32 + 0.7)).sin() * 10f32.powi(-((i % 4) as i32));
        let mut values = vec![0.0; table.len()];
        table.params.iter().flat_map(|p| p.range.clone()).for_each(|i| values[i] = value(i));
        values
    };
    let take = |optimizer: &mut AdamW<B>, weights: &mut B::Weights, seeds: std::ops::Range<u32>| -> Result<()> {
        for seed in seeds {
            let mut flat = device.zeros(table.len());
            B::write_flat(&mut flat, &gradient(seed))?;
            optimizer.step(device, Trainable::Weights(table, weights), &flat, 1e-3, 0.5)?;
        }
        Ok(())
    };
    let (mut weights, mut optimizer) = (B::Weights::clone(&model.weights), AdamW::new(settings, table, device));
    take(&mut optimizer, &mut weights, 0..4)?;
    let dir = tempfile::tempdir()?;
    optimizer.save(dir.path(), table)?;
    let mut again = AdamW::load(settings, dir.path(), table, device)?;
    let mut other = weights.clone();
    take(&mut optimizer, &mut weights, 4..8)?;
    take(&mut again, &mut other, 4..8)?;
    let values = B::read(&weights)?.into_owned();
    let exact = bits(&B::read(&other)?, &values);
    Ok((values, exact))
}

/// A NaN in a gradient is named by its parameter.
fn named<T: Float>(laws: &mut Laws, what: &str, device: &Cuda<T>) -> Result<()> {
    let table = hone_engine::weights::ModelParams::new(&config(16, false)?).table;
    let broken = &table.params[table.params.len() / 2];
    let mut values = vec![0.25f32; table.len()];
    values[broken.range.start + 3] = f32::NAN;
    let mut flat = device.zeros(table.len());
    Cuda::<T>::write_flat(&mut flat, &values)?;
    let norm = device.gradient_norm(&table, &flat)?;
    laws.holds(format!("{what}: a NaN is named"), norm == GradientNorm::NotFinite(broken.name.clone()));
    Ok(())
}
