//! `hone bench device`: the native engine on a GPU at the size of real models, with random weights.

mod laws;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use half::bf16;
use hone_device::{Cuda, MomentStore};
use hone_engine::backend::{Backend, Need};
use hone_engine::bench::{Groups, Trainer, training_flops};
use hone_engine::config::Shape;
use hone_engine::generate::bench::{Conversations, Measured, Workload, converse, generate};
use hone_engine::generate::step::PAGE;
use hone_engine::rope::Scaling;
use hone_engine::weights::{ModelParams, Param, TensorSource};
use hone_engine::{Config, Keep, Model};
use serde_json::{Value, json};

/// Time the native engine on a GPU: a training step, generation, and the two halves of a GRPO step
///
/// Weights are random, of the shape of Qwen3. Needs an NVIDIA GPU; docs/performance.md has figures. Nothing is compared:
/// scripts/gpu_check.py measures PyTorch beside the kernels.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line: none follows from another")]
pub(crate) struct Args {
    /// Shape: 0.6b, 1.7b, 4b or 8b
    #[arg(long, value_name = "SIZE", default_value = "0.6b")]
    shape: String,
    /// Sequences of the training step
    #[arg(long, value_name = "N", default_value_t = 8)]
    sequences: usize,
    /// Tokens of each
    #[arg(long, value_name = "N", default_value_t = 2048)]
    tokens: usize,
    /// Training steps; the median is printed
    #[arg(long, value_name = "N", default_value_t = 6)]
    steps: usize,
    /// Groups of 8 replies of the GRPO step; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 32)]
    groups: usize,
    /// Tokens of a prompt of the GRPO step
    #[arg(long, value_name = "N", default_value_t = 1024)]
    prompt: usize,
    /// Tokens of each of its replies
    #[arg(long, value_name = "N", default_value_t = 512)]
    reply: usize,
    /// Groups of one pass of the learner
    #[arg(long, value_name = "N", default_value_t = 4)]
    together: usize,
    /// Replies of each of 64 conversations, to which 256 tokens are appended after every reply; 0 leaves them out
    #[arg(long, value_name = "N", default_value_t = 0)]
    turns: usize,
    /// Train LoRA adapters of this rank instead of the model
    #[arg(long, value_name = "RANK")]
    lora: Option<usize>,
    /// Activation recomputation: keep each layer's input only
    #[arg(long)]
    recompute: bool,
    /// YaRN from 32,768 positions to the longest sequence
    #[arg(long)]
    yarn: bool,
    /// Moments of AdamW: f32, 8bit, or host (f32 in host memory)
    #[arg(long, value_name = "FORM", default_value = "f32")]
    moments: MomentStore,
    /// Memory that training may take, in GB: activations that do not fit are recomputed in the backward pass
    #[arg(long, value_name = "GB")]
    memory: Option<f64>,
    /// Short training steps on top, whose memory must not grow
    #[arg(long, value_name = "N", default_value_t = 0)]
    soak: usize,
    /// Leave generation out
    #[arg(long)]
    train_only: bool,
    /// Leave the training step out
    #[arg(long)]
    generate_only: bool,
    /// Compare a small model on the GPU with the CPU instead, and time nothing; exits with code 1 if they differ
    #[arg(long)]
    laws: bool,
}

impl Args {
    fn keep(&self) -> Keep {
        if self.recompute { Keep::Inputs } else { Keep::Everything }
    }

    /// Tokens of the longest sequence.
    fn longest(&self) -> usize {
        let grpo = if self.groups > 0 { self.prompt + self.reply } else { 0 };
        self.tokens.max(grpo)
    }
}

/// Replies of a group.
const GROUP: usize = 8;
/// Positions that Qwen3 was trained on before YaRN.
const TRAINED: usize = 32_768;

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    if args.laws {
        let report = laws::run()?;
        writeln!(std::io::stdout().lock(), "{report:#}")?;
        return Ok(if report["pass"] == true { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let mut config = shape(&args.shape)?;
    if args.yarn {
        let (factor, trained) = ((args.longest() as f64 / TRAINED as f64).max(1.0), TRAINED as f64);
        let attention_factor = 0.1 * factor.ln() + 1.0;
        let (beta_fast, beta_slow) = (32.0, 1.0);
        config.rope.scaling = Scaling::Yarn { factor, trained, beta_fast, beta_slow, truncate: true, attention_factor };
        config.context = args.longest();
    }
    let device = Arc::new(Cuda::<bf16>::open(0)?.with_moments(args.moments));
    let clock = Instant::now();
    let mut bench = Bench { model: Some(random(&config, &device)?), config, device, args };
    let (args, device) = (&bench.args, &bench.device);
    let mut report = json!({
        "device": device.name(),
        "shape": args.shape,
        "parameters": ModelParams::new(&bench.config).table.values(),
        "made_s": clock.elapsed().as_secs_f64(),
    });
    let (groups, soak, generates, turns) = (args.groups > 0, args.soak > 0, !args.train_only, args.turns);
    if !args.generate_only {
        report["train"] = guarded(|| bench.train());
    }
    if soak {
        report["soak"] = guarded(|| bench.soak());
    }
    let counts = [("generate 1", 1), ("generate 64", 64), ("generate 256", 256)];
    for (name, prompts) in counts.into_iter().filter(|_| generates) {
        let work = Workload { prompts, samples: 1, prompt_tokens: 256, new_tokens: 128 };
        report[name] = guarded(|| bench.sampled(work));
    }
    if turns > 0 {
        let work = Conversations { count: 64, prompt_tokens: 2048, turns, new_tokens: 128, observed: 256 };
        report["conversations"] = guarded(|| bench.conversations(work));
    }
    if groups {
        report["grpo"] = guarded(|| bench.grpo());
    }
    writeln!(std::io::stdout().lock(), "{report:#}")?;
    Ok(ExitCode::SUCCESS)
}

/// One part's failure does not hide the others.
fn guarded(part: impl FnOnce() -> Result<Value>) -> Value {
    part().unwrap_or_else(|error| json!({"error": format!("{error:#}")}))
}

fn shape(name: &str) -> Result<Config> {
    let (hidden, mlp, layers, heads, tied) = match name {
        "0.6b" => (1024, 3072, 28, 16, true),
        "1.7b" => (2048, 6144, 28, 16, true),
        "4b" => (2560, 9728, 36, 32, true),
        "8b" => (4096, 12288, 36, 32, false),
        _ => bail!("there is no shape {name:?}; known are 0.6b, 1.7b, 4b, 8b"),
    };
    let shape = Shape { vocab: 151_936, hidden, mlp, layers, heads, key_heads: 8, head_dim: 128, ..Shape::default() };
    Ok(Shape { context: 40_960, tied, ..shape }.config()?)
}

/// Cheap random weights: uniform with the deviation 0.02, norms 1.
struct Noise;

impl TensorSource for Noise {
    fn read(&self, param: &Param, out: &mut [f32]) -> hone_engine::Result<()> {
        if param.shape.len() < 2 {
            out.fill(if param.name.ends_with("norm.weight") { 1.0 } else { 0.0 });
            return Ok(());
        }
        let mut state = param.range.start as u64 ^ 0x9e37_79b9_7f4a_7c15;
        for value in out {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *value = ((state >> 40) as f32 / 8_388_608.0 - 1.0) * 0.034_64;
        }
        Ok(())
    }
}

fn random(config: &Config, device: &Arc<Cuda<bf16>>) -> Result<Model<Cuda<bf16>>> {
    let params = Arc::new(ModelParams::new(config));
    let weights = device.load(config, &params, &Noise).context("the model does not fit")?;
    let (config, device) = (Arc::new(config.clone()), Arc::clone(device));
    Ok(Model { config, params, weights: Arc::new(weights), device, fingerprint: None })
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN)
}

fn sampling(measured: Measured) -> Value {
    json!({
        "tokens_per_s": measured.tokens_per_second(),
        "decode_tokens_per_s": measured.decode_tokens_per_second,
        "prefilled_tokens": measured.prefilled_tokens,
        "seconds": measured.seconds,
    })
}

/// The model that all parts use, one after the other. A part that trains holds the only reference: the weights are then
/// updated in place, like those of a policy that is not being sampled.
struct Bench {
    args: Args,
    config: Config,
    device: Arc<Cuda<bf16>>,
    /// Absent after a part that failed.
    model: Option<Model<Cuda<bf16>>>,
}

impl Bench {
    fn model(&mut self) -> Result<Model<Cuda<bf16>>> {
        match self.model.take() {
            Some(model) => Ok(model),
            None => random(&self.config, &self.device),
        }
    }

    /// Trainer of the model or the requested adapters, within the requested memory.
    fn trainer(&self, made: hone_engine::Result<Trainer<Cuda<bf16>>>) -> Result<Trainer<Cuda<bf16>>> {
        let mut trainer = match self.args.lora {
            Some(rank) => made?.adapting(rank)?,
            None => made?,
        };
        if let Some(gigabytes) = self.args.memory {
            trainer.limit((gigabytes * 1e9) as u64);
        }
        Ok(trainer)
    }

    fn train(&mut self) -> Result<Value> {
        let Args { sequences, tokens, .. } = self.args;
        let model = self.model()?;
        let mut trainer = self.trainer(Trainer::sequences(model, sequences, tokens, self.args.keep()))?;
        let (first, loss) = trainer.step()?;
        self.device.reset_peak()?;
        let mut times = Vec::new();
        for _ in 0..self.args.steps.max(1) {
            times.push(trainer.step()?.0);
        }
        let seconds = median(times.clone());
        self.model = Some(trainer.model);
        Ok(json!({
            "sequences": sequences,
            "tokens": tokens,
            "tokens_per_s": (sequences * tokens) as f64 / seconds,
            "tflop_per_s": training_flops(&self.config, sequences, tokens) / seconds / 1e12,
            "step_s": times,
            "first_step_s": first,
            "first_loss": loss,
            "moments": self.args.moments.to_string(),
            "peak_gb": self.device.peak()? as f64 / 1e9,
        }))
    }

    /// Soak test: short steps of changing length, whose memory use at the end must equal that after the first rounds.
    fn soak(&mut self) -> Result<Value> {
        let lengths = [64, 200, 33, 128];
        let (clock, model) = (Instant::now(), self.model()?);
        let mut trainer = self.trainer(Trainer::sequences(model, 2, lengths[0], self.args.keep()))?;
        let (mut used, mut losses) = (Vec::new(), Vec::new());
        for number in 0..self.args.soak {
            trainer.on_sequences(2, lengths[number % lengths.len()])?;
            losses.push(trainer.step()?.1);
            if number % 50 == 49 || number + 1 == self.args.soak {
                used.push(self.device.used()?);
            }
        }
        self.model = Some(trainer.model);
        Ok(json!({
            "steps": self.args.soak,
            "seconds": clock.elapsed().as_secs_f64(),
            "used_bytes": used,
            "grew": used.first() != used.last(),
            "finite": losses.iter().all(|loss| loss.is_finite()),
        }))
    }

    fn sampled(&mut self, work: Workload) -> Result<Value> {
        let model = self.model()?;
        // Warm-up: kernels, plans and memory.
        generate(&model, Workload { new_tokens: 8, ..work })?;
        let measured = generate(&model, work)?;
        self.model = Some(model);
        let mut report = sampling(measured);
        let sequences = (work.prompts * work.samples) as f64;
        let read = measured.decode_tokens_per_second / sequences * self.read_by_step(work);
        report["bandwidth_share"] = self.device.bandwidth().map(|most| read / most).into();
        Ok(report)
    }

    /// Bytes that a decoding step has to read, halfway through the replies: the weights once, and the keys and values of each sequence.
    fn read_by_step(&self, work: Workload) -> f64 {
        let c = &self.config;
        // The embedding is read by the head if it is tied, else for a few rows only.
        let unread = if c.tied { 0 } else { c.vocab * c.hidden };
        let weights = size_of::<bf16>() * (ModelParams::new(c).table.values() - unread);
        let per_token = self.device.bytes(c, Need::Page) as f64 / PAGE as f64;
        let tokens = work.prompts * work.samples * (work.prompt_tokens + work.new_tokens / 2);
        weights as f64 + per_token * tokens as f64
    }

    fn conversations(&mut self, work: Conversations) -> Result<Value> {
        let model = self.model()?;
        // Warm-up.
        converse(&model, Conversations { turns: work.turns.min(2), new_tokens: 8, ..work })?;
        let measured = converse(&model, work)?;
        self.model = Some(model);
        Ok(sampling(measured))
    }

    /// Sampling and learning of one step: groups that share a prompt.
    fn grpo(&mut self) -> Result<Value> {
        let Args { groups, prompt, reply, together, .. } = self.args;
        let work = Workload { prompts: groups, samples: GROUP, prompt_tokens: prompt, new_tokens: reply };
        let sampling = if self.args.train_only { Value::Null } else { self.sampled(work)? };
        self.device.reset_peak()?;
        let shape = Groups { groups: together.clamp(1, groups), group: GROUP, prompt, reply };
        let model = self.model()?;
        let mut trainer = self.trainer(Trainer::groups(model, shape, self.args.keep()))?;
        trainer.step()?;
        let times: Vec<f64> = (0..4).map(|_| Ok(trainer.step()?.0)).collect::<Result<_>>()?;
        let passes = groups.div_ceil(shape.groups) as f64;
        let learn = median(times) * passes;
        let step = sampling["seconds"].as_f64().map(|sample| sample + learn);
        let rows = trainer.rows();
        self.model = Some(trainer.model);
        Ok(json!({
            "groups": groups,
            "sampling": sampling,
            "rows_of_a_pass": rows,
            "learn_s": learn,
            "step_s": step,
            "peak_gb": self.device.peak()? as f64 / 1e9,
            "what": "learning: every pass with an update of its own",
        }))
    }
}
