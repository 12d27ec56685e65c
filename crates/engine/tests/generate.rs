//! Generation against the learner's forward pass: same bits, whatever runs beside a request.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::pin::pin;
use std::sync::{Arc, mpsc};

use futures::executor::block_on;
use futures::future::{join_all, poll_immediate};
use futures::stream::StreamExt;
use hone_engine::kernels::simd::Isa;
use hone_engine::lora::{LoraConfig, Module};
use hone_engine::optim::AdamWSettings;
use hone_engine::{
    Adapter, Config, Cpu, Forest, Generator, GeneratorSettings, Keep, LearnerSettings, Model, NativeLearner, Net, Pass,
    Policy, Snapshot, StreamedToken, Workspace,
};
use hone_trace::{
    Flow, Learner, OptimizerStep, Rng, Sample, SampleFault, SampleRequest, SamplingParams, StopReason, TokenGate,
    TokenMask,
};

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

/// Threads decide which rows are computed together, how products are cut and which requests read shared pages at once.
#[test]
fn samples_do_not_depend_on_the_threads() {
    for isa in [Isa::detect(), Isa::Portable] {
        let samples = |threads| sample_all(&generator(&model(threads, isa), GeneratorSettings::default()), mixture());
        let alone = samples(1);
        for threads in [2, 3, 8] {
            assert_eq!(samples(threads), alone, "{} on {threads} threads", isa.name());
        }
    }
}

#[test]
fn an_adapter_samples_as_it_learns() {
    let model = model(2, Isa::detect());
    let lora = LoraConfig {
        rank: 3,
        alpha: 6.0,
        modules: vec![Module::Q, Module::V, Module::Down],
        rslora: false,
        base: None,
    };
    let mut adapter = Adapter::new(&model, lora, 1);
    let mut rng = Rng::new(2);
    adapter.weights.values.iter_mut().for_each(|v| *v = rng.unit() as f32 - 0.5);
    adapter.weights.repack(&model.device);
    let policy = Policy::new(Snapshot::new(model.clone(), Some(adapter.clone()), "test"));
    let generator = Generator::new(policy, GeneratorSettings::default()).unwrap();
    let samples = sample_all(&generator, mixture());
    let (adapted, base) = (Net::new(&model, Some(&adapter)), Net::new(&model, None));
    for (request, sample) in mixture().iter().zip(&samples) {
        let with = learned(&adapted, &request.prompt, &sample.tokens, request.params.temperature);
        assert_eq!(sample.sampled.logprobs, with);
        assert_ne!(with, learned(&base, &request.prompt, &sample.tokens, request.params.temperature));
    }
}

#[test]
fn what_runs_beside_a_request_does_not_change_it() {
    let model = model(2, Isa::detect());
    let together = sample_all(&generator(&model, GeneratorSettings::default()), mixture());
    // One by one, from an empty cache each.
    for (request, expected) in mixture().into_iter().zip(&together) {
        let alone = sample_all(&generator(&model, GeneratorSettings::default()), vec![request]);
        assert_eq!(alone, std::slice::from_ref(expected));
    }
    // With different batches: other order, other prompt chunks, few at a time; the second time everything is in the
    // cache.
    for settings in [
        GeneratorSettings { prefill_tokens: 7, ..GeneratorSettings::default() },
        GeneratorSettings { max_running: 3, prefill_tokens: 64, ..GeneratorSettings::default() },
    ] {
        let generator = generator(&model, settings);
        for _ in 0..2 {
            let mut reversed = sample_all(&generator, mixture().into_iter().rev().collect());
            reversed.reverse();
            assert_eq!(reversed, together, "{settings:?}");
        }
    }
}

/// Bytes of `pages` pages of the test model: 2 layers, 2 heads, 16 + 32 (padded) floats for 32 positions.
fn pages(pages: u64) -> u64 {
    pages * 2 * 2 * (16 + 32) * 32 * 4
}

#[test]
fn preemption_and_eviction_change_nothing() {
    let model = model(2, Isa::detect());
    // Requests that begin small and grow to five pages each: more of them start than can finish together.
    let all = || (0..10).map(|i| request(prompt(50 + i, 10), i, 140)).chain(mixture()).collect::<Vec<_>>();
    let expected = sample_all(&generator(&model, GeneratorSettings::default()), all());
    // The longest request takes 9 pages; all of them together over 100.
    for limit in [9, 14, 30] {
        let generator = generator(&model, GeneratorSettings { memory_limit: pages(limit), ..Default::default() });
        assert_eq!(sample_all(&generator, all()), expected, "{limit} pages");
        let stats = block_on(generator.stats()).unwrap();
        assert_eq!((stats.pages_limit, stats.pages_held), (limit as usize, 0));
        assert!(stats.evictions > 0 && stats.preemptions > 0, "{stats:?}");
    }
}

#[test]
fn a_prompt_is_computed_once_for_all_its_samples_and_for_the_next_turn() {
    let model = model(2, Isa::detect());
    let generator = generator(&model, GeneratorSettings::default());
    let system = prompt(1, 100);
    let with = |own: u64| [system.clone(), prompt(own, 30)].concat();
    // Eight samples of one prompt at once: the first computes it, the others its last token.
    let samples = sample_all(&generator, (0..8).map(|seed| request(with(2), seed, 40)).collect());
    let first = block_on(generator.stats()).unwrap();
    assert_eq!(first.prefilled_tokens, 130 + 7);
    assert_eq!(first.reused_tokens, 7 * 129);
    // Another task under the same system prompt computes its own part.
    sample_all(&generator, vec![request(with(3), 0, 5)]);
    let second = block_on(generator.stats()).unwrap();
    assert_eq!(second.prefilled_tokens - first.prefilled_tokens, 30);
    // The next turn of an episode: its history, sampled tokens included, except the last sampled token, is cached.
    let turn = [with(2), samples[5].tokens.clone(), prompt(4, 10)].concat();
    let reply = sample_all(&generator, vec![request(turn.clone(), 1, 20)]);
    let third = block_on(generator.stats()).unwrap();
    assert_eq!(third.prefilled_tokens - second.prefilled_tokens, 11);
    assert_eq!(reply[0].sampled.logprobs, learned(&Net::new(&model, None), &turn, &reply[0].tokens, 1.0));
}

/// Holds the generator at its second and at its hundredth token until it is told to continue.
#[derive(Debug)]
struct Held {
    tokens: u32,
    go: mpsc::Receiver<()>,
}

impl TokenGate for Held {
    fn push(&mut self, _: u32) -> Flow {
        self.tokens += 1;
        if [2, 100].contains(&self.tokens) {
            let _ = self.go.recv();
        }
        Flow::Continue
    }

    fn mask(&mut self, _: &mut TokenMask<'_>) {}
}

#[test]
fn cancelling_frees_the_pages() {
    let model = model(1, Isa::detect());
    let generator = generator(&model, GeneratorSettings::default());
    let (go, held) = mpsc::channel();
    let mut long = request(prompt(1, 40), 1, 400);
    long.gate = Some(Box::new(Held { tokens: 0, go: held }));
    let (mut tokens, reply) = generator.stream(long);
    assert!(block_on(tokens.next()).is_some(), "it runs");
    // Asked while the generator is held, answered before its next step.
    let mut stats = pin!(generator.stats());
    assert!(block_on(poll_immediate(&mut stats)).is_none());
    go.send(()).unwrap();
    assert!(block_on(stats).unwrap().pages_held > 0);
    drop(reply);
    go.send(()).unwrap();
    let finished = block_on(generator.submit(request(prompt(2, 40), 2, 60))).unwrap();
    assert_eq!(finished.tokens.len(), 60);
    let stats = block_on(generator.stats()).unwrap();
    assert_eq!((stats.running, stats.waiting, stats.pages_held), (0, 0, 0));
    assert!(stats.sampled_tokens < 460, "the cancelled request ran to its end");
}

#[test]
fn streamed_tokens_are_the_reply() {
    let model = model(2, Isa::detect());
    let (tokens, reply) = generator(&model, GeneratorSettings::default()).stream(request(prompt(1, 9), 1, 50));
    let sample = block_on(reply).unwrap();
    let streamed: Vec<StreamedToken> = block_on(tokens.collect());
    assert_eq!(streamed.iter().map(|t| t.token).collect::<Vec<_>>(), sample.tokens);
    assert_eq!(streamed.iter().map(|t| t.logprob).collect::<Vec<_>>(), sample.sampled.logprobs);
}

/// Allows three tokens, then one that ends the reply.
#[derive(Debug)]
struct Cycle(u32);

impl TokenGate for Cycle {
    fn push(&mut self, token: u32) -> Flow {
        self.0 += 1;
        if token == 99 { Flow::Stop } else { Flow::Continue }
    }

    fn mask(&mut self, mask: &mut TokenMask<'_>) {
        match self.0 {
            // Nothing forbidden.
            0 => {}
            1..5 => mask.only(&[10, 20, 30]),
            5 => mask.only(&[99]),
            _ => mask.only(&[]),
        }
    }
}

#[test]
fn a_gate_sees_every_token_masks_and_stops() {
    let model = model(2, Isa::detect());
    let generator = generator(&model, GeneratorSettings::default());
    let mut gated = request(prompt(1, 20), 3, 50);
    gated.gate = Some(Box::new(Cycle(0)));
    let sample = sample_all(&generator, vec![gated]).remove(0);
    assert_eq!((sample.tokens.len(), sample.stop), (6, StopReason::Gate));
    assert!(sample.tokens[1..5].iter().all(|t| [10, 20, 30].contains(t)));
    let expected = learned(&Net::new(&model, None), &prompt(1, 20), &sample.tokens, 1.0);
    assert_eq!(sample.sampled.logprobs, expected, "the mask is not part of the policy");
    let sampling = sample.sampled.sampling_logprobs.unwrap();
    assert_eq!(sampling[0], expected[0], "nothing was forbidden there");
    assert!(sampling[1] > expected[1] && sampling[5] == 0.0);
    // A gate that forbids everything, which this one does after six tokens.
    let mut stuck = request(prompt(1, 20), 3, 50);
    stuck.gate = Some(Box::new(Cycle(6)));
    let fault = block_on(generator.submit(stuck)).unwrap_err();
    assert!(fault.to_string().contains("forbids every token"), "{fault}");
}

#[test]
fn replies_end_where_they_should() {
    let model = model(2, Isa::detect());
    let generator = generator(&model, GeneratorSettings::default());
    let whole = sample_all(&generator, vec![request(prompt(1, 20), 3, 30)]).remove(0);
    assert_eq!((whole.stop, whole.tokens.len()), (StopReason::Length, 30));
    assert_eq!(whole.sampled.sampling_logprobs, None);
    // Stopped at the first occurrence of its eleventh token, which is kept.
    let mut stopped = request(prompt(1, 20), 3, 30);
    stopped.params.stop_ids = vec![9999, whole.tokens[10]];
    let stopped = sample_all(&generator, vec![stopped]).remove(0);
    let end = whole.tokens.iter().position(|t| *t == whole.tokens[10]).unwrap();
    assert_eq!((stopped.stop, &stopped.tokens[..]), (StopReason::StopId, &whole.tokens[..=end]));
    // The window holds 512 tokens.
    let full = sample_all(&generator, vec![request(prompt(1, 500), 3, 30)]).remove(0);
    assert_eq!((full.stop, full.tokens.len()), (StopReason::Context, 12));
}

#[test]
fn requests_that_cannot_be_served_say_why() {
    let model = model(1, Isa::detect());
    let settings = GeneratorSettings { memory_limit: pages(3), ..GeneratorSettings::default() };
    let generator = generator(&model, settings);
    let fault = |r: SampleRequest| block_on(generator.submit(r)).unwrap_err().to_string();
    assert!(fault(request(Vec::new(), 0, 5)).contains("no tokens"));
    let message = fault(request(vec![1, 203], 0, 5));
    assert!(message.contains("token 1 of the prompt is 203") && message.contains("below 203"), "{message}");
    let message = fault(request(prompt(0, 512), 0, 5));
    assert!(message.contains("512 tokens") && message.contains("window 512"), "{message}");
    assert!(fault(request(prompt(0, 5), 0, 0)).contains("max_new_tokens"));
    let mut hot = request(prompt(0, 5), 0, 5);
    hot.params.temperature = f32::NAN;
    assert!(fault(hot).contains("temperature"));
    let mut cold = request(prompt(0, 5), 0, 5);
    cold.params.temperature = 1e-38;
    assert!(fault(cold).contains("too close to 0"));
    // Too long for three pages at once, and growing beyond them.
    for r in [request(prompt(0, 97), 0, 5), request(prompt(0, 90), 0, 50)] {
        let message = fault(r);
        assert!(message.contains(&format!("memory limit is {}", pages(3))), "{message}");
        assert!(message.contains(&pages(4).to_string()), "{message}");
    }
    // The generator still works.
    assert_eq!(block_on(generator.submit(request(prompt(0, 50), 0, 20))).unwrap().tokens.len(), 20);
    assert_eq!(block_on(generator.stats()).unwrap().pages_held, 0);
}

#[test]
fn frequencies_that_follow_the_length_end_generation_where_they_begin_to() {
    let mut source = config(203, 64).source;
    source.insert("rope_scaling".into(), serde_json::json!({"rope_type": "dynamic", "factor": 4.0}));
    let config = Config::from_map(source).unwrap();
    assert_eq!(config.context, 256);
    let model = Model::random(config, Arc::new(Cpu::new(1).unwrap()), 7);
    let generator = generator(&model, GeneratorSettings::default());
    let sample = block_on(generator.submit(request(prompt(1, 50), 1, 30))).unwrap();
    assert_eq!((sample.stop, sample.tokens.len()), (StopReason::Context, 14));
    assert_eq!(sample.sampled.logprobs, learned(&Net::new(&model, None), &prompt(1, 50), &sample.tokens, 1.0));
    let fault = block_on(generator.submit(request(prompt(1, 64), 1, 30))).unwrap_err().to_string();
    assert!(fault.contains("window 64"), "{fault}");
}

#[test]
fn weights_that_are_not_numbers_are_a_fault() {
    let mut model = model(1, Isa::detect());
    let weights = Arc::make_mut(&mut model.weights);
    weights.values[0] = f32::NAN;
    weights.repack(&model.device);
    let fault =
        block_on(generator(&model, GeneratorSettings::default()).submit(request(vec![0, 1], 0, 5))).unwrap_err();
    assert!(fault.to_string().contains("not finite"), "{fault}");
}

/// Stops the generator's thread at a token until the test has done something.
#[derive(Debug)]
struct Pause {
    left: u32,
    reached: mpsc::Sender<()>,
    go_on: mpsc::Receiver<()>,
}

impl TokenGate for Pause {
    fn push(&mut self, _: u32) -> Flow {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 && self.reached.send(()).is_ok() {
            // The other end is dropped when the test continues.
            let _ = self.go_on.recv();
        }
        Flow::Continue
    }
}

/// A generator whose policy a learner trains, at a step that changes every weight.
fn trained_beside() -> (Arc<Policy>, Generator, NativeLearner) {
    let policy = Policy::new(Snapshot::new(model(1, Isa::detect()), None, "test"));
    let generator = Generator::new(Arc::clone(&policy), GeneratorSettings::default()).unwrap();
    // No gradient: weight decay alone changes the weights.
    let adamw = AdamWSettings { weight_decay: 0.5, ..AdamWSettings::default() };
    let learner =
        NativeLearner::new(Arc::clone(&policy), None, LearnerSettings { adamw, ..LearnerSettings::default() });
    (policy, generator, learner)
}

const STEP: OptimizerStep = OptimizerStep { learning_rate: 0.5, max_grad_norm: None, publish: true };

/// A request of 60 tokens that pauses after the first `left`, the signal that it has paused, and a handle whose drop
/// resumes it.
fn paused_at(
    generator: &Generator,
    left: u32,
    seed: u64,
) -> (impl Future<Output = Result<Sample, SampleFault>>, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let ((reached, was_reached), (resume, go_on)) = (mpsc::channel(), mpsc::channel());
    let mut paused = request(prompt(1, 70), seed, 60);
    paused.gate = Some(Box::new(Pause { left, reached, go_on }));
    (generator.submit(paused), was_reached, resume)
}

#[test]
fn a_request_goes_on_with_new_weights_and_says_so() {
    let (policy, generator, mut learner) = trained_beside();
    let old = policy.current();
    // The first waits for the second, so that both are running when the weights change.
    let (beside, was_reached, resume_beside) = paused_at(&generator, 10, 6);
    was_reached.recv().unwrap();
    let (reply, was_reached, resume) = paused_at(&generator, 25, 5);
    drop(resume_beside);
    was_reached.recv().unwrap();
    let report = block_on(learner.step(STEP)).unwrap();
    drop(resume);

    let sample = block_on(reply).unwrap();
    let new = policy.current();
    assert_eq!(new.version, report.version);
    assert_eq!(sample.sampled.versions, [(old.version.clone(), 25), (new.version.clone(), 35)]);
    assert_eq!(block_on(beside).unwrap().sampled.versions.len(), 2);
    let by = |snapshot: &Snapshot| learned(&snapshot.net(), &prompt(1, 70), &sample.tokens, 1.0);
    assert_eq!(sample.sampled.logprobs[..25], by(&old)[..25]);
    assert_eq!(sample.sampled.logprobs[25..], by(&new)[25..], "nothing of the old weights is left in the cache");
    assert_ne!(by(&old), by(&new));
}

#[test]
fn a_step_that_is_not_published_is_for_later_requests() {
    let (policy, generator, mut learner) = trained_beside();
    let old = policy.current();
    let (reply, was_reached, resume) = paused_at(&generator, 25, 5);
    was_reached.recv().unwrap();
    block_on(learner.step(OptimizerStep { publish: false, ..STEP })).unwrap();
    drop(resume);
    assert_eq!(block_on(reply).unwrap().sampled.versions, [(old.version, 60)]);
    let later = block_on(generator.submit(request(prompt(1, 70), 5, 60))).unwrap();
    assert_eq!(later.sampled.versions, [(policy.current().version, 60)]);
}

#[test]
fn greedy_tokens_match_the_references() {
    let entries = std::fs::read_dir(hone_testdata::committed("engine")).unwrap();
    let mut models = 0;
    for dir in entries.flatten().map(|e| e.path()).filter(|dir| dir.join("reference.safetensors").exists()) {
        let bytes = std::fs::read(dir.join("reference.safetensors")).unwrap();
        let reference = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let ids = |name: String| -> Option<Vec<u32>> {
            let numbers = reference.tensor(&name).ok()?.data().chunks(8);
            Some(numbers.map(|b| i64::from_le_bytes(b.try_into().unwrap()) as u32).collect())
        };
        let prompts: Vec<Vec<u32>> = (0..).map_while(|i| ids(format!("greedy{i}.prompt"))).collect();
        let expected: Vec<Vec<u32>> = (0..).map_while(|i| ids(format!("greedy{i}.tokens"))).collect();
        assert!(!prompts.is_empty() && prompts.len() == expected.len(), "{}", dir.display());
        for isa in isas() {
            let model = Model::load(&dir, Arc::new(Cpu::with_isa(2, isa).unwrap())).unwrap();
            let greedy = |(prompt, tokens): (&Vec<u32>, &Vec<u32>)| {
                let mut r = request(prompt.clone(), 0, tokens.len() as u32);
                r.params.temperature = 0.0;
                r
            };
            let requests = prompts.iter().zip(&expected).map(greedy).collect();
            let found: Vec<Vec<u32>> = sample_all(&generator(&model, GeneratorSettings::default()), requests)
                .into_iter()
                .map(|s| s.tokens)
                .collect();
            assert_eq!(found, expected, "{} on {}", dir.display(), isa.name());
        }
        models += 1;
    }
    assert!(models >= 3, "{models} reference models");
}
