//! `hone model merge` and `hone model export`: a model read and written in another form.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use hone_engine::{Adapter, Cpu, Model};

use super::{Precision, make_empty};

/// Files of a model beside its weights and config.json, where they exist.
const COMPANIONS: [&str; 9] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "generation_config.json",
    "chat_template.jinja",
    "chat_template.json",
];

/// Add a LoRA adapter into the weights of its base: W + scale * B A
#[derive(Debug, clap::Args)]
pub(super) struct MergeArgs {
    /// The base model
    dir: PathBuf,
    /// The adapter: adapter_config.json, adapter_model.safetensors
    #[arg(long, value_name = "DIR")]
    adapter: PathBuf,
    /// Directory to make
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[arg(long, value_name = "PRECISION", default_value = "f32")]
    storage: Precision,
}

/// Write a model for transformers, or an adapter for PEFT
#[derive(Debug, clap::Args)]
pub(super) struct ExportArgs {
    /// The model, a checkpoint of a run included
    dir: PathBuf,
    /// Directory to make
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// hf: one model.safetensors, config and tokenizer. peft: the adapter, checked against DIR as its base
    #[arg(long, value_name = "FORM", default_value = "hf")]
    to: Form,
    /// The adapter to export with --to peft
    #[arg(long, value_name = "DIR", required_if_eq("to", "peft"))]
    adapter: Option<PathBuf>,
    /// Precision of a model; adapters are stored in f32
    #[arg(long, value_name = "PRECISION", default_value = "f32")]
    storage: Precision,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Hf,
    Peft,
}

pub(super) fn merge(args: &MergeArgs) -> Result<ExitCode> {
    let model = load(&args.dir)?;
    let adapter = Adapter::load(&model, &args.adapter)?;
    make_empty(&args.out)?;
    adapter.merge(&model)?.save(&args.out, args.storage.into())?;
    copy_companions(&args.dir, &args.out)?;
    anstream::eprintln!("merged {} into {}: {}", args.adapter.display(), args.dir.display(), args.out.display());
    Ok(ExitCode::SUCCESS)
}

pub(super) fn export(args: &ExportArgs) -> Result<ExitCode> {
    let model = load(&args.dir)?;
    match (args.to, &args.adapter) {
        (Form::Hf, None) => {
            make_empty(&args.out)?;
            model.save(&args.out, args.storage.into())?;
            copy_companions(&args.dir, &args.out)?;
        }
        (Form::Hf, Some(_)) => {
            bail!("--to hf writes the model without the adapter; add it in with `hone model merge`, or use --to peft")
        }
        (Form::Peft, adapter) => {
            let adapter = adapter.as_deref().context("--to peft needs --adapter DIR")?;
            let mut adapter = Adapter::load(&model, adapter)?;
            adapter.config.base = Some(args.dir.display().to_string());
            make_empty(&args.out)?;
            adapter.save(&args.out)?;
        }
    }
    anstream::eprintln!("wrote {}", args.out.display());
    Ok(ExitCode::SUCCESS)
}

fn load(dir: &Path) -> Result<Model> {
    Ok(Model::load(dir, Arc::new(Cpu::new(0)?))?)
}

fn copy_companions(from: &Path, to: &Path) -> Result<()> {
    let mut files: Vec<PathBuf> = COMPANIONS.iter().map(PathBuf::from).collect();
    let more = Path::new("additional_chat_templates");
    if from.join(more).is_dir() {
        std::fs::create_dir_all(to.join(more))?;
        for entry in std::fs::read_dir(from.join(more))? {
            files.push(more.join(entry?.file_name()));
        }
    }
    for file in files.iter().filter(|file| from.join(file).is_file()) {
        std::fs::copy(from.join(file), to.join(file))
            .with_context(|| format!("cannot copy {} to {}", from.join(file).display(), to.display()))?;
    }
    Ok(())
}
