//! `hone model info`: contents of a model directory, memory needed to run and train it, and problems.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use hone_chat::ModelDir;
use hone_chat::parse::{Format, Toolbox};
use hone_chat::template::{ChatTemplate, Clock, TemplateInput};
use hone_engine::lora::LoraConfig;
use hone_engine::weights::ModelParams;
use hone_engine::{Adapter, Config, Cpu, Model};
use hone_trace::{ToolSet, ToolSpec};
use serde::Serialize;
use serde_json::{Value, json};

use crate::place::Place;

/// Describe a policy: shape, memory, tokenizer, template, adapters, and what looks wrong
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A model directory, an adapter, a checkpoint of a run, or the run (its best checkpoint)
    dir: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Read the weights of a large model too, to see that they are whole [default: up to 1 GB]
    #[arg(long)]
    check: bool,
}

/// Weights up to this many bytes are read by default.
const QUICK: u64 = 1 << 30;

#[derive(Debug, Serialize)]
struct Report {
    /// Directory of the weights; of an adapter, of its base.
    model: PathBuf,
    /// The adapter, if the policy is one.
    policy: Option<PathBuf>,
    /// Parameters of that adapter.
    trained: Option<usize>,
    architecture: String,
    parameters: usize,
    hidden: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    mlp: usize,
    vocab: usize,
    context: usize,
    tied: bool,
    memory: Memory,
    tokenizer: Option<TokenizerReport>,
    template: Option<TemplateReport>,
    stop_ids: Vec<u32>,
    adapters: Vec<AdapterReport>,
    /// True when every tensor was read and has the shape that config.json asks for.
    weights_checked: bool,
    warnings: Vec<String>,
}

/// Bytes.
#[derive(Debug, Serialize)]
struct Memory {
    /// Weights as the engine holds them: the f32 master and the packed copies.
    weights: u64,
    /// Gradients and optimizer state of full training, on top.
    training: u64,
    /// Keys and values of one token.
    kv_per_token: u64,
}

#[derive(Debug, Serialize)]
struct TokenizerReport {
    tokens: usize,
    special_ids: Vec<u32>,
}

#[derive(Debug, Serialize)]
struct TemplateReport {
    /// The tool-call format, if the template writes calls in a known one.
    call_format: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct AdapterReport {
    path: PathBuf,
    rank: usize,
    alpha: f64,
    modules: Vec<&'static str>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let place = Place::find(&args.dir)?;
    let mut report = describe(&place.model, args.check)?;
    report.model.clone_from(&place.model);
    if let Some(adapter) = &place.adapter {
        let loaded = Adapter::load(&Model::load(&place.model, Arc::new(Cpu::new(0)?))?, adapter)?;
        report.memory.training = 12 * loaded.table.len() as u64;
        report.trained = Some(loaded.table.len());
        if !report.adapters.iter().any(|known| known.path == *adapter) {
            report.adapters.push(described(adapter.clone())?);
        }
        report.policy = Some(adapter.clone());
    }
    let mut out = if args.json { crate::output::json() } else { crate::output::text() };
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        print(&report, &mut out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(dir: &Path, check: bool) -> Result<Report> {
    let config = Config::load(dir)?;
    let params = ModelParams::new(&config);
    let values = params.table.values() as u64;
    let check = check || values * 8 <= QUICK;
    if check {
        Model::load(dir, Arc::new(Cpu::new(0)?))?;
    }
    let chat = ModelDir::open(dir)?;
    let tokenizer = chat.tokenizer().ok();
    if let Some(tokens) = tokenizer.map(hone_chat::Tokenizer::vocab_size).filter(|n| *n > config.vocab) {
        bail!(
            "{}: the tokenizer has {tokens} tokens and the embedding (model.embed_tokens.weight) {} rows; use the \
             tokenizer the model was made with, or a model whose embedding was resized to it",
            dir.display(),
            config.vocab
        );
    }
    let template = chat.template(true);
    let broken = template.as_ref().err().map(ToString::to_string);
    let template = template.ok().map(|t| TemplateReport { call_format: call_format(&chat, &t) });
    Ok(Report {
        model: dir.to_owned(),
        policy: None,
        trained: None,
        architecture: config.source.get("architectures").and_then(|a| a[0].as_str()).unwrap_or("unknown").to_owned(),
        parameters: params.table.values(),
        hidden: config.hidden,
        layers: config.layers,
        heads: config.heads.queries,
        kv_heads: config.heads.keys,
        head_dim: config.heads.dim,
        mlp: config.mlp,
        vocab: config.vocab,
        context: config.context,
        tied: config.tied,
        memory: Memory { weights: 8 * values, training: 12 * values, kv_per_token: kv_bytes(&config) },
        warnings: warnings(&config, &chat, template.as_ref(), broken),
        tokenizer: tokenizer.map(|t| TokenizerReport { tokens: t.vocab_size(), special_ids: t.special_ids() }),
        template,
        stop_ids: chat.stop_ids().to_vec(),
        adapters: adapters(dir)?,
        weights_checked: check,
    })
}

fn kv_bytes(config: &Config) -> u64 {
    let per_head = config.heads.dim + config.heads.padded();
    (config.layers * config.heads.keys * per_head * 4) as u64
}

fn warnings(
    config: &Config,
    chat: &ModelDir,
    template: Option<&TemplateReport>,
    broken: Option<String>,
) -> Vec<String> {
    let mut found = Vec::new();
    match chat.tokenizer() {
        Err(error) => found.push(format!("no tokenizer: {error}")),
        Ok(tokenizer) => {
            let special = tokenizer.special_ids();
            let strange = |id: &&u32| tokenizer.id_to_token(**id).is_none();
            found.extend(chat.stop_ids().iter().find(strange).map(|id| format!("stop id {id} is not a token")));
            if !chat.stop_ids().iter().any(|id| special.contains(id)) && !chat.stop_ids().is_empty() {
                found.push("no stop id is a special token: replies may end inside text".into());
            }
        }
    }
    if chat.stop_ids().is_empty() {
        found.push(
            "no stop ids: replies end only at the token limit; name eos_token_id in generation_config.json".into(),
        );
    }
    match template {
        // The error says whether there is none, or one that cannot be read.
        None => found.extend(broken.map(|why| format!("messages cannot be rendered: {why}"))),
        Some(TemplateReport { call_format: None }) => found.push(
            "the template writes no tool calls in a known format: name the one the model writes in the recipe, \
             rollout.format = \"hermes\" (docs/formats.md)"
                .into(),
        ),
        Some(_) => {}
    }
    if chat.context_window().is_some_and(|window| window != config.context) {
        found.push(format!(
            "sequences of up to {} tokens are computed, config.json names another length",
            config.context
        ));
    }
    found
}

/// The format in which the template writes a call, found by rendering one.
fn call_format(chat: &ModelDir, template: &ChatTemplate) -> Option<&'static str> {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let spec = ToolSpec::new("get_weather", "Weather of a city", parameters.clone());
    let tools = Toolbox::new(&ToolSet::new(vec![spec]).ok()?).ok()?;
    let offered = [json!({"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a city", "parameters": parameters,
    }})];
    let user = json!({"role": "user", "content": "How is the weather in Paris?"});
    let call = json!({"role": "assistant", "content": "", "tool_calls": [
        {"id": "call00001", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Paris"}}},
    ]});
    let render = |messages: &[Value]| {
        let input = TemplateInput {
            messages,
            tools: Some(&offered),
            documents: None,
            add_generation_prompt: false,
            variables: chat.special_tokens(),
            clock: Clock::host(),
        };
        template.render(&input).ok()
    };
    let (before, after) = (render(std::slice::from_ref(&user))?, render(&[user, call])?);
    // The text the template adds for the reply; the whole text if it rewrites earlier turns.
    let reply = after.strip_prefix(&before).unwrap_or(&after);
    Some(Format::detect(reply, &tools)?.name())
}

/// Adapters in the directory itself or one level below.
fn adapters(dir: &Path) -> Result<Vec<AdapterReport>> {
    let below = std::fs::read_dir(dir)?.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    let mut places: Vec<PathBuf> = std::iter::once(dir.to_owned()).chain(below).collect();
    places.retain(|path| path.join("adapter_config.json").is_file());
    places.sort();
    places.into_iter().map(described).collect()
}

fn described(path: PathBuf) -> Result<AdapterReport> {
    let config = LoraConfig::load(&path)?;
    let modules = config.modules.iter().map(|module| module.name()).collect();
    Ok(AdapterReport { path, rank: config.rank, alpha: config.alpha, modules })
}

fn print(r: &Report, out: &mut impl Write) -> Result<()> {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    if let (Some(adapter), Some(trained)) = (&r.policy, r.trained) {
        writeln!(out, "policy        the adapter {} ({trained} parameters)", adapter.display())?;
        writeln!(out, "base          {}", r.model.display())?;
    }
    writeln!(out, "architecture  {}{}", r.architecture, if r.tied { ", head tied to the embedding" } else { "" })?;
    let checked = if r.weights_checked { "" } else { ", weights not read (--check reads them)" };
    writeln!(out, "parameters    {}{checked}", r.parameters)?;
    writeln!(
        out,
        "shape         hidden {}, {} layers, {} query and {} key heads of {}, mlp {}, vocab {}, context {}",
        r.hidden, r.layers, r.heads, r.kv_heads, r.head_dim, r.mlp, r.vocab, r.context
    )?;
    writeln!(
        out,
        "memory        {:.1} MB of weights in f32, {:.1} MB more to train all of them; {:.1} KB of keys and values per token",
        mb(r.memory.weights),
        mb(r.memory.training),
        r.memory.kv_per_token as f64 / 1e3
    )?;
    match &r.tokenizer {
        Some(t) => writeln!(out, "tokenizer     {} tokens, special {:?}", t.tokens, t.special_ids)?,
        None => writeln!(out, "tokenizer     none")?,
    }
    match &r.template {
        Some(t) => writeln!(out, "template      calls as {}", t.call_format.unwrap_or("unknown"))?,
        None => writeln!(out, "template      none that can be used")?,
    }
    writeln!(out, "stop ids      {:?}", r.stop_ids)?;
    for a in &r.adapters {
        let modules = a.modules.join(", ");
        writeln!(out, "adapter       {}: rank {}, alpha {}, {modules}", a.path.display(), a.rank, a.alpha)?;
    }
    for warning in &r.warnings {
        writeln!(out, "warning       {warning}")?;
    }
    Ok(())
}
