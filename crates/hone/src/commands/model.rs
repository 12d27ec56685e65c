//! `hone model`: create, describe, merge and export models.

mod convert;
mod info;
mod new;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use hone_engine::weights::Storage;

/// Make a small model, describe one, merge LoRA into one, export one
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    New(new::Args),
    Info(info::Args),
    Merge(convert::MergeArgs),
    Export(convert::ExportArgs),
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match args.action {
        Action::New(args) => new::run(&args),
        Action::Info(args) => info::run(&args),
        Action::Merge(args) => convert::merge(&args),
        Action::Export(args) => convert::export(&args),
    }
}

/// Precision on disk.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Precision {
    F32,
    Bf16,
}

impl From<Precision> for Storage {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::F32 => Self::F32,
            Precision::Bf16 => Self::Bf16,
        }
    }
}

/// Creates an output directory. A non-empty one is refused: a mixture of two models loads and is neither.
fn make_empty(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let mut entries = std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    if entries.next().is_some() {
        bail!("{} is not empty; name a new directory or remove it first", dir.display());
    }
    Ok(())
}
