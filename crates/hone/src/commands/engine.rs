//! `hone engine`: the native model on plain token ids, for comparison with other implementations.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use hone_chat::files::{parse_json, read_json};
use hone_device::{Cuda, Device, Precision};
use hone_engine::generate::{self, Generator, GeneratorSettings};
use hone_engine::parity::{self, How, NamedGradients};
use hone_engine::weights::{Storage, Tensor, write_tensors};
use hone_engine::{Adapter, Backend, Cpu, Model, Net, Policy, Snapshot};
use hone_trace::{SampleRequest, SamplingParams};
use serde::Serialize;
use serde_json::Value;

use crate::place::Place;

/// Run the native model on token ids: logprobs, logits, gradients, greedy tokens
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Logprobs(Logprobs),
    Greedy(Greedy),
}

/// A model to load, and the place to run it.
#[derive(Debug, clap::Args)]
struct Loading {
    /// Model directory: config.json and safetensors; or an adapter, a checkpoint, a run (its best checkpoint)
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// A LoRA adapter on top of it: adapter_config.json, adapter_model.safetensors
    #[arg(long, value_name = "DIR")]
    adapter: Option<PathBuf>,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
    /// Device: cpu, cuda, or auto (a GPU if one can be used)
    #[arg(long, value_name = "DEVICE", default_value_t = Device::Cpu)]
    device: Device,
    /// On a GPU: bf16, or f32 for comparisons
    #[arg(long, value_name = "PRECISION", default_value = "bf16")]
    precision: Precision,
}

/// Print the logprob of every token after the first of each sequence
///
/// Output: {"logprobs": [[…], …]}. None of the ways to compute changes the numbers beyond rounding.
#[derive(Debug, clap::Args)]
struct Logprobs {
    #[command(flatten)]
    loading: Loading,
    /// A JSON list of token-id lists, or one of them, as `hone render --ids` prints it; `-` reads standard input
    #[arg(value_name = "IDS.json")]
    ids: PathBuf,
    /// Also write the logits of every position, as seq{i}.logits
    #[arg(long, value_name = "OUT.safetensors")]
    logits: Option<PathBuf>,
    /// Also compute gradients of sum(weight * logprob): weights in the shape of the logprobs. Written to --out as
    /// seq{i}.grad.<parameter>, or summed as sum.grad.<parameter> where sequences are packed
    #[arg(long, value_name = "WEIGHTS.json", requires = "out", conflicts_with = "adapter")]
    grad: Option<PathBuf>,
    /// Output file of the gradients
    #[arg(long, value_name = "OUT.safetensors", requires = "grad")]
    out: Option<PathBuf>,
    /// All sequences in one forward and backward pass
    #[arg(long)]
    packed: bool,
    /// Compute common prefixes once; implies --packed
    #[arg(long)]
    share_prefix: bool,
    /// Recompute activations in the backward pass instead of keeping them
    #[arg(long)]
    recompute: bool,
}

/// Print the likeliest continuation of each prompt, end tokens ignored
///
/// Output: {"tokens": [[…], …]}.
#[derive(Debug, clap::Args)]
struct Greedy {
    #[command(flatten)]
    loading: Loading,
    /// A JSON list of token-id lists, or one of them, as `hone render --ids` prints it; `-` reads standard input
    #[arg(value_name = "PROMPTS.json")]
    prompts: PathBuf,
    /// Tokens to generate per prompt
    #[arg(long, value_name = "N")]
    max_new: u32,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let loading = match &args.action {
        Action::Logprobs(args) => &args.loading,
        Action::Greedy(args) => &args.loading,
    };
    match (loading.device, loading.precision) {
        (Device::Cpu, _) => on(&args.action, Cpu::new(loading.threads)?),
        (device, Precision::Bf16) => on_gpu(&args.action, device, Cuda::<half::bf16>::open(0)),
        (device, Precision::F32) => on_gpu(&args.action, device, Cuda::<f32>::open(0)),
    }
}

/// Runs on the GPU; if none can be used, an error, or the CPU and a line that says why.
fn on_gpu<B: Backend>(action: &Action, device: Device, gpu: hone_engine::Result<B>) -> Result<ExitCode> {
    match gpu {
        Ok(gpu) => on(action, gpu),
        Err(error) if device == Device::Auto => {
            crate::output::note!("device: cpu ({})", error.to_string().lines().next().unwrap_or_default());
            on(action, Cpu::new(0)?)
        }
        Err(error) => Err(error.into()),
    }
}

fn on<B: Backend>(action: &Action, device: B) -> Result<ExitCode> {
    let device = Arc::new(device);
    match action {
        Action::Logprobs(args) => logprobs(args, device),
        Action::Greedy(args) => greedy(args, device),
    }
}

impl Loading {
    fn load<B: Backend>(&self, device: Arc<B>) -> Result<(Model<B>, Option<Adapter<B>>)> {
        Place::given(&self.model, self.adapter.as_deref())?.load(device)
    }
}

/// Token-id lists, each with at least `least` ids of the model.
fn read_ids<B: Backend>(path: &Path, least: usize, model: &Model<B>) -> Result<Vec<Vec<u32>>> {
    let read: Result<Vec<Value>, _> = if path.as_os_str() == "-" {
        let text = std::io::read_to_string(std::io::stdin().lock()).context("cannot read standard input")?;
        parse_json(path, &text)
    } else {
        read_json(path)
    };
    let expected = "expected a JSON list of token-id lists, for example [[1, 2, 3], [4, 5]], or one of them";
    let lists = lists(read.context(expected)?).with_context(|| path.display().to_string())?;
    for (number, ids) in lists.iter().enumerate() {
        ensure!(
            ids.len() >= least,
            "{}: sequence {number} has {} tokens and needs at least {least}",
            path.display(),
            ids.len()
        );
        if let Some((at, id)) = ids.iter().enumerate().find(|(_, id)| **id as usize >= model.config.vocab) {
            bail!(
                "{}: token {at} of sequence {number} is {id}; the model has {} ids (0 to {}). Encode with this model's \
                 own tokenizer",
                path.display(),
                model.config.vocab,
                model.config.vocab - 1
            );
        }
        ensure!(
            ids.len() <= model.config.context,
            "{}: sequence {number} has {} tokens and the model's context is {} (max_position_embeddings); shorten it",
            path.display(),
            ids.len(),
            model.config.context
        );
    }
    Ok(lists)
}

/// The lists of a list, or a list of ids by itself, as `hone render --ids` prints it.
fn lists(items: Vec<Value>) -> Result<Vec<Vec<u32>>> {
    let one = items.first().is_some_and(|item| !item.is_array());
    let lists = if one { vec![Value::Array(items)] } else { items };
    let ids = |(number, list): (usize, Value)| {
        let list = list
            .as_array()
            .with_context(|| format!("item {number} is {list} and the others lists of ids; make it one"))?;
        let id = |(at, id): (usize, &Value)| {
            let read = id.as_u64().and_then(|id| u32::try_from(id).ok());
            read.with_context(|| {
                format!("token {at} of sequence {number} is {id}, which is no token id; write a whole number from 0 on")
            })
        };
        list.iter().enumerate().map(id).collect()
    };
    lists.into_iter().enumerate().map(ids).collect()
}

#[derive(Serialize)]
struct LogprobsReport {
    logprobs: Vec<Vec<f32>>,
}

#[derive(Serialize)]
struct GreedyReport {
    tokens: Vec<Vec<u32>>,
}

fn print(report: &impl Serialize) -> Result<ExitCode> {
    writeln!(crate::output::json(), "{}", serde_json::to_string(report)?)?;
    Ok(ExitCode::SUCCESS)
}

fn logprobs<B: Backend>(args: &Logprobs, device: Arc<B>) -> Result<ExitCode> {
    let (model, adapter) = args.loading.load(device)?;
    let net = Net::new(&model, adapter.as_ref());
    let ids = read_ids(&args.ids, 1, &model)?;
    let how = How { packed: args.packed, share_prefix: args.share_prefix, recompute: args.recompute };
    let weights: Option<Vec<Vec<f32>>> = match &args.grad {
        Some(path) => Some(read_json(path).context("expected weights in the shape of the logprobs")?),
        None => None,
    };
    let logprobs = parity::logprobs(&net, &ids, how)?;
    for (number, row) in logprobs.iter().enumerate() {
        // JSON cannot represent these, and null would look like an answer.
        if let Some(at) = row.iter().position(|l| !l.is_finite()) {
            bail!("logprob {at} of sequence {number} is {}: the weights are damaged or have diverged", row[at]);
        }
    }
    if let Some(path) = &args.logits {
        write_logits(&net, &ids, path)?;
    }
    if let (Some(weights), Some(out)) = (&weights, &args.out) {
        write_gradients(&parity::gradients(&net, &ids, weights, how)?, args.packed || args.share_prefix, out)?;
    }
    print(&LogprobsReport { logprobs })
}

fn write_logits<B: Backend>(net: &Net<'_, B>, ids: &[Vec<u32>], path: &Path) -> Result<()> {
    let vocab = net.model.config.vocab;
    let mut all = BTreeMap::new();
    for (number, ids) in ids.iter().enumerate() {
        all.insert(format!("seq{number}.logits"), ([ids.len(), vocab], parity::logits(net, ids)?));
    }
    let tensors = all.iter().map(|(name, (shape, values))| {
        (name.clone(), Tensor { shape: shape.as_slice(), values: values.as_slice(), storage: Storage::F32 })
    });
    Ok(write_tensors(path, tensors, &[])?)
}

fn write_gradients(gradients: &[NamedGradients], summed: bool, path: &Path) -> Result<()> {
    let tensors = gradients.iter().enumerate().flat_map(|(number, named)| {
        let prefix = if summed { "sum.grad".to_owned() } else { format!("seq{number}.grad") };
        named.iter().map(move |(name, (shape, values))| {
            (format!("{prefix}.{name}"), Tensor { shape, values, storage: Storage::F32 })
        })
    });
    Ok(write_tensors(path, tensors, &[])?)
}

fn greedy<B: Backend>(args: &Greedy, device: Arc<B>) -> Result<ExitCode> {
    let (model, adapter) = args.loading.load(device)?;
    let prompts = read_ids(&args.prompts, 1, &model)?;
    let new = args.max_new as usize;
    ensure!(new > 0, "--max-new must be at least 1");
    if let Some((number, ids)) = prompts.iter().enumerate().find(|(_, ids)| ids.len() + new > model.config.context) {
        bail!(
            "prompt {number} has {} tokens: {new} more do not fit the model's context of {}; lower --max-new or shorten \
             the prompt",
            ids.len(),
            model.config.context
        );
    }
    // Beyond this length frequencies change with every token and nothing can be cached: each token is a full pass.
    let window = generate::window(&model.config);
    let snapshot = Snapshot::new(model, adapter, "greedy");
    let settings = GeneratorSettings { memory_limit: u64::MAX, ..snapshot.model.device.serving() };
    let generator = Generator::new(Policy::new(snapshot.clone()), settings)?;
    let params = SamplingParams { temperature: 0.0, max_new_tokens: args.max_new, ..SamplingParams::default() };
    let cached: Vec<_> = prompts
        .iter()
        .map(|prompt| {
            let request = SampleRequest { prompt: prompt.clone(), params: params.clone(), seed: 0, gate: None };
            (prompt.len() + new <= window).then(|| generator.submit(request))
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut tokens = Vec::new();
    for (prompt, reply) in prompts.iter().zip(cached) {
        tokens.push(match reply {
            Some(reply) => runtime.block_on(reply)?.tokens,
            None => parity::greedy(&snapshot.net(), prompt, new)?,
        });
    }
    print(&GreedyReport { tokens })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_are_one_list_or_several() {
        let read = |ids: Value| lists(ids.as_array().unwrap().clone()).map_err(|error| error.to_string());
        assert_eq!(read(json!([1, 2])).unwrap(), [[1, 2]]);
        assert_eq!(read(json!([[1, 2], []])).unwrap(), [vec![1, 2], vec![]]);
        assert!(read(json!([])).unwrap().is_empty());
        let wrong = read(json!([[1], [2, "x"]])).unwrap_err();
        assert!(wrong.starts_with("token 1 of sequence 1 is \"x\", which is no token id; "), "{wrong}");
        assert!(read(json!([1, -1])).unwrap_err().starts_with("token 1 of sequence 0 is -1"));
        assert!(read(json!([[1], 2])).unwrap_err().starts_with("item 1 is 2"));
    }
}
