//! `hone data`: task sets: count, compare, split, validate.

mod diff;
mod split;
mod stats;
mod validate;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Subcommand;
use hone_data::read::{Inputs, Item, ReadOptions, Reader};
use hone_data::{Issues, Row};

/// Task sets: count, compare, split, validate
///
/// Reads Fleet JSON, tau-bench and tau2-bench tasks, SkyRL rows and JSON lines of our own, from files, directories, `-`,
/// http(s):// and, built with --features cloud, s3://, gs:// and az://. Rows that are dropped or repaired are named on
/// stderr with file, line, field, reason and fix.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Stats(stats::Args),
    Diff(diff::Args),
    Split(split::Args),
    Validate(validate::Args),
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Stats(args) => stats::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Split(args) => split::run(args),
        Command::Validate(args) => validate::run(args),
    }
}

/// Options of every reading.
#[derive(Debug, clap::Args)]
struct Reading {
    /// The environment of tasks that name none, and the domain (retail, airline) of tau-bench's.
    #[arg(long, value_name = "NAME")]
    env: Option<String>,
    /// Write every dropped or repaired row as a JSON line into this file.
    #[arg(long, value_name = "FILE")]
    issues: Option<PathBuf>,
    /// Exit with code 1 if a row was dropped.
    #[arg(long)]
    strict: bool,
}

impl Reading {
    /// Calls `each` with every row; counts dropped and repaired rows, and reports them on stderr.
    fn rows(&self, inputs: &Inputs, each: &mut dyn FnMut(Row)) -> Result<Issues> {
        self.rows_of(inputs, false, each)
    }

    /// Like [`Reading::rows`]; with `env_by_file`, tasks that name no environment are counted under their file's name.
    fn rows_of(&self, inputs: &Inputs, env_by_file: bool, each: &mut dyn FnMut(Row)) -> Result<Issues> {
        let mut issues = Issues::default();
        if let Some(path) = self.issues.as_deref().filter(|path| is_input(path, inputs)) {
            bail!("the output {} is the input; give --issues another file", path.display());
        }
        let mut file = match &self.issues {
            Some(path) => Some(std::io::BufWriter::new(
                std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?,
            )),
            None => None,
        };
        let (mut failed, mut rows) = (None, 0u64);
        let mut reader = Reader::new(ReadOptions { env: self.env.clone(), env_by_file });
        reader.read(inputs, &mut |item| {
            match item {
                Item::Row(row) => {
                    rows += 1;
                    each(row);
                }
                Item::Issue(issue) => {
                    if let Some(file) = &mut file {
                        let line = serde_json::to_string(&issue).unwrap_or_default();
                        failed = failed.take().or(writeln!(file, "{line}").err());
                    }
                    issues.add(issue);
                }
            }
            Ok(())
        })?;
        if let Some(mut file) = file {
            failed = failed.or(file.flush().err());
        }
        if !reader.named_by_file().is_empty() {
            let names: Vec<&str> = reader.named_by_file().iter().map(String::as_str).collect();
            crate::output::note!(
                "tasks that name no environment are under {}, after their file; --env NAME names it",
                names.join(", ")
            );
        }
        if rows == 0 {
            let names: Vec<&str> = inputs.sources().map(|source| source.name.as_str()).collect();
            crate::output::note!("no task is in {}", names.join(", "));
        }
        match failed {
            Some(error) => Err(error).context("cannot write the issues"),
            None => Ok(issues),
        }
    }

    fn exit(&self, issues: &Issues) -> ExitCode {
        anstream::eprint!("{}", hone_trace::clean(&issues.text()));
        if self.strict && issues.dropped > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

/// True if a path, however it is written, is one of the files that are read.
fn is_input(path: &Path, inputs: &Inputs) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    inputs.sources().any(|source| source.path().canonicalize().is_ok_and(|input| input == path))
}

/// The command line, for manifests.
fn command_line() -> Vec<String> {
    std::iter::once("hone".to_owned()).chain(std::env::args().skip(1)).collect()
}

fn create(path: &Path) -> Result<std::io::BufWriter<std::fs::File>> {
    let file = std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(std::io::BufWriter::new(file))
}
