//! `hone model merge` and `hone model export`: conversion of models.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use hone_engine::Cpu;

use super::{Precision, make_empty};
use crate::place::Place;

/// Files of a model besides its weights and config.json, if they exist.
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
    /// The base model; or the adapter itself, a checkpoint of a LoRA run, or the run (its best checkpoint), where the
    /// adapter knows its base
    dir: PathBuf,
    /// The adapter: adapter_config.json, adapter_model.safetensors
    #[arg(long, value_name = "DIR")]
    adapter: Option<PathBuf>,
    /// Directory to make
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[arg(long, value_name = "PRECISION", default_value = "f32")]
    storage: Precision,
}

/// Write a model for transformers, or an adapter for PEFT
#[derive(Debug, clap::Args)]
pub(super) struct ExportArgs {
    /// The model, an adapter, a checkpoint of a run, or the run (its best checkpoint)
    dir: PathBuf,
    /// Directory to make
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// hf: one model.safetensors, config and tokenizer. peft: the adapter with the tokenizer, and its base by name
    /// [default: peft of an adapter, hf of anything else]
    #[arg(long, value_name = "FORM")]
    to: Option<Form>,
    /// The adapter to export with --to peft, where DIR is its base
    #[arg(long, value_name = "DIR")]
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
    let place = Place::given(&args.dir, args.adapter.as_deref())?;
    let (model, Some(adapter)) = place.load(Arc::new(Cpu::new(0)?))? else {
        bail!("{} is a whole model; name the adapter to merge into it with --adapter DIR", args.dir.display());
    };
    make_empty(&args.out)?;
    adapter.merge(&model)?.save(&args.out, args.storage.into())?;
    copy_companions(&place.model, &args.out)?;
    let from = place.adapter.unwrap_or_default();
    crate::output::note!("merged {} into {}: {}", from.display(), place.model.display(), args.out.display());
    Ok(ExitCode::SUCCESS)
}

pub(super) fn export(args: &ExportArgs) -> Result<ExitCode> {
    let place = Place::given(&args.dir, args.adapter.as_deref())?;
    let (model, adapter) = place.load(Arc::new(Cpu::new(0)?))?;
    let to = args.to.unwrap_or(if adapter.is_some() { Form::Peft } else { Form::Hf });
    match (to, adapter) {
        (Form::Hf, None) => {
            make_empty(&args.out)?;
            model.save(&args.out, args.storage.into())?;
        }
        (Form::Hf, Some(_)) => {
            bail!("--to hf writes a model without an adapter; add it in with `hone model merge`, or use --to peft")
        }
        (Form::Peft, None) => {
            bail!("{} is a whole model; name the adapter with --adapter DIR, or use --to hf", args.dir.display())
        }
        (Form::Peft, Some(mut adapter)) => {
            adapter.config.base = Some(place.model.display().to_string());
            make_empty(&args.out)?;
            adapter.save(&args.out)?;
        }
    }
    copy_companions(&place.model, &args.out)?;
    crate::output::note!("wrote {}", args.out.display());
    Ok(ExitCode::SUCCESS)
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
