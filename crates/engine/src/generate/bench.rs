//! Measurements of generation: `hone bench engine` prints them beside transformers'.

use std::time::Instant;

use futures::executor::block_on;
use futures::future::join_all;
use hone_trace::{Rng, SampleFault, SampleRequest, SamplingParams, Seed};

use crate::backend::Backend;
use crate::config::Config;
use crate::generate::Generator;
use crate::model::Model;
use crate::policy::{Policy, Snapshot};

/// Benchmark workload: `samples` replies of `new_tokens` tokens to each of `prompts` random prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    pub prompts: usize,
    pub samples: usize,
    pub prompt_tokens: usize,
    pub new_tokens: usize,
}

impl Workload {
    /// Minimum floating-point operations: products with weights and attention, every prompt once, and for a prompt's
    /// last layer only the keys and values.
    pub fn flops(&self, c: &Config) -> f64 {
        let layer = c.hidden * (c.heads.width() + c.heads.out_width() + 3 * c.mlp);
        let (prompt, reply) = (self.prompt_tokens, self.new_tokens);
        let prompts = self.prompts * prompt * ((c.layers - 1) * layer + c.hidden * c.heads.width());
        let replies = self.prompts * self.samples * reply * (c.layers * layer + c.hidden * c.vocab);
        let seen_in_prompts = self.prompts * prompt * (prompt + 1) / 2 * (c.layers - 1);
        let seen_in_replies = self.prompts * self.samples * (reply * prompt + reply * (reply - 1) / 2) * c.layers;
        2.0 * (prompts + replies) as f64 + 4.0 * ((seen_in_prompts + seen_in_replies) * c.heads.out_width()) as f64
    }

    /// Number of sampled tokens.
    pub fn tokens(&self) -> usize {
        self.prompts * self.samples * self.new_tokens
    }
}

/// Measured throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    pub tokens: u64,
    /// Time from the first request to the last reply.
    pub seconds: f64,
    /// Tokens per second of the steps that only decoded.
    pub decode_tokens_per_second: f64,
    pub prefilled_tokens: u64,
}

impl Measured {
    /// Sampled tokens per second, prompts included in the time.
    pub fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.seconds
    }
}

/// Conversations that run at once: an environment answers each reply with `observed` tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conversations {
    pub count: usize,
    pub prompt_tokens: usize,
    /// Number of replies of each.
    pub turns: usize,
    pub new_tokens: usize,
    pub observed: usize,
}

/// Runs the workload with an empty cache.
pub fn generate<B: Backend>(model: &Model<B>, work: Workload) -> Result<Measured, SampleFault> {
    let generator = fresh(model)?;
    let params = SamplingParams { max_new_tokens: work.new_tokens as u32, ..SamplingParams::default() };
    let mut requests = Vec::new();
    for number in 0..work.prompts as u64 {
        let mut rng = Seed::root(0).with("generation").at(number).rng();
        let prompt = random(&mut rng, model, work.prompt_tokens);
        for replica in 0..work.samples as u64 {
            let seed = Seed::root(0).with("reply").at(number).at(replica).value();
            requests.push(SampleRequest { prompt: prompt.clone(), params: params.clone(), seed, gate: None });
        }
    }
    let start = Instant::now();
    let replies: Vec<_> = requests.into_iter().map(|request| generator.submit(request)).collect();
    for reply in block_on(join_all(replies)) {
        reply?;
    }
    measured(&generator, start)
}

/// Runs conversations with an empty cache.
pub fn converse<B: Backend>(model: &Model<B>, work: Conversations) -> Result<Measured, SampleFault> {
    let generator = fresh(model)?;
    let params = SamplingParams { max_new_tokens: work.new_tokens as u32, ..SamplingParams::default() };
    let conversation = async |number: usize| {
        let mut rng = Seed::root(0).with("conversation").at(number as u64).rng();
        let mut text = random(&mut rng, model, work.prompt_tokens);
        for turn in 0..work.turns as u64 {
            let seed = Seed::root(0).with("turn").at(number as u64).at(turn).value();
            let request = SampleRequest { prompt: text.clone(), params: params.clone(), seed, gate: None };
            text.extend(generator.submit(request).await?.tokens);
            text.extend(random(&mut rng, model, work.observed));
        }
        Ok(())
    };
    let start = Instant::now();
    let ended: Result<Vec<()>, SampleFault> =
        block_on(join_all((0..work.count).map(conversation))).into_iter().collect();
    ended?;
    measured(&generator, start)
}

fn fresh<B: Backend>(model: &Model<B>) -> Result<Generator, SampleFault> {
    let policy = Policy::new(Snapshot::new(model.clone(), None, "bench"));
    Generator::new(policy, model.device.serving())
        .map_err(|e| SampleFault::Failed { what: e.to_string(), transient: false })
}

fn random<B: Backend>(rng: &mut Rng, model: &Model<B>, tokens: usize) -> Vec<u32> {
    (0..tokens).map(|_| rng.below(model.config.vocab) as u32).collect()
}

fn measured(generator: &Generator, start: Instant) -> Result<Measured, SampleFault> {
    let seconds = start.elapsed().as_secs_f64();
    let stats = block_on(generator.stats())?;
    Ok(Measured {
        tokens: stats.sampled_tokens,
        seconds,
        decode_tokens_per_second: stats.decode_only_tokens as f64 / stats.decode_only_seconds,
        prefilled_tokens: stats.prefilled_tokens,
    })
}
