//! `hone model new`: fresh weights, and a tokenizer trained on given text.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use hone_chat::files::read_text;
use hone_chat::{ModelDir, TokenizerFiles, train_tokenizer};
use hone_engine::{Config, Cpu, Model};
use serde_json::json;

use super::{Precision, make_empty};

/// Default text for training a tokenizer.
const OWN_TEXT: [&str; 4] = [
    include_str!("../../../../../docs/algorithms.md"),
    include_str!("../../../../../docs/environments.md"),
    include_str!("../../../../../docs/run-directory.md"),
    hone_chat::CHATML,
];

/// Make a small Qwen3 model: fresh weights, a BPE tokenizer, a ChatML template with tools
///
/// The same arguments and texts give the same bytes. transformers loads the directory unchanged.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Directory to make
    dir: PathBuf,
    /// Width of the residual stream
    #[arg(long, default_value_t = 256)]
    hidden: u32,
    /// Transformer layers
    #[arg(long, default_value_t = 6)]
    layers: u32,
    /// Query heads
    #[arg(long, default_value_t = 4)]
    heads: u32,
    /// Key and value heads; divides --heads
    #[arg(long, default_value_t = 2)]
    kv_heads: u32,
    /// Width of a head
    #[arg(long, default_value_t = 64)]
    head_dim: u32,
    /// Width of the MLP
    #[arg(long, default_value_t = 768)]
    mlp: u32,
    /// Rows of the embedding, and the most tokens the tokenizer may have
    #[arg(long, default_value_t = 2048)]
    vocab: u32,
    /// Longest sequence
    #[arg(long, default_value_t = 4096)]
    context: u32,
    /// Use the embedding as the output head
    #[arg(long)]
    tied: bool,
    /// Texts to train the tokenizer on [default: Hone's own documentation]
    #[arg(long, value_name = "FILE", num_args = 1..)]
    text: Vec<PathBuf>,
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[arg(long, value_name = "PRECISION", default_value = "f32")]
    storage: Precision,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    // The shape is checked before anything is trained or written.
    config(args, None)?;
    let files = tokenizer(args)?;
    make_empty(&args.dir)?;
    files.write(&args.dir).with_context(|| format!("cannot write to {}", args.dir.display()))?;
    let config = config(args, Some(&ModelDir::open(&args.dir)?))?;
    let model = Model::random(config, Arc::new(Cpu::new(0)?), args.seed);
    model.save(&args.dir, args.storage.into())?;
    let tokens = ModelDir::open(&args.dir)?.tokenizer()?.vocab_size();
    crate::output::note!(
        "made {}: {} parameters, {tokens} tokens of {} embedding rows, seed {}",
        args.dir.display(),
        model.parameters(),
        args.vocab,
        args.seed
    );
    Ok(ExitCode::SUCCESS)
}

fn tokenizer(args: &Args) -> Result<TokenizerFiles> {
    let texts = if args.text.is_empty() {
        let bytes: usize = OWN_TEXT.iter().map(|text| text.len()).sum();
        crate::output::note!("no --text: the tokenizer is trained on {} KB of Hone's own documentation", bytes / 1000);
        OWN_TEXT.map(str::to_owned).to_vec()
    } else {
        args.text.iter().map(|file| read_text(file)).collect::<std::result::Result<_, _>>()?
    };
    Ok(train_tokenizer(texts, args.vocab as usize, &[])?)
}

fn config(args: &Args, dir: Option<&ModelDir>) -> Result<Config> {
    let mut source = json!({
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": args.vocab,
        "hidden_size": args.hidden,
        "intermediate_size": args.mlp,
        "num_hidden_layers": args.layers,
        "num_attention_heads": args.heads,
        "num_key_value_heads": args.kv_heads,
        "head_dim": args.head_dim,
        "max_position_embeddings": args.context,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": false,
        "tie_word_embeddings": args.tied,
        "initializer_range": 0.02,
        "use_cache": true,
    });
    if let Some(dir) = dir {
        source["eos_token_id"] = json!(dir.stop_ids().first());
        source["pad_token_id"] = json!(dir.stop_ids().last());
    }
    Config::parse(&source.to_string()).map_err(|what| anyhow!("the model cannot have this shape: {what}"))
}
