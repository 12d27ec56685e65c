//! `hone recipe`: the recipes inside this binary.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use crate::recipes::{BUILTINS, Builtin};

/// Recipes inside this binary: list them, print one
///
/// `hone train NAME` runs one; printed into a file it is the beginning of your own:
///
///   hone recipe show quickstart > mine.toml
///   hone train mine.toml
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Names and descriptions
    List {
        #[arg(long)]
        json: bool,
    },
    /// The recipe as a file, with its comments
    Show {
        /// One of `hone recipe list`
        name: String,
    },
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match args.command {
        Command::Show { name } => out.write_all(Builtin::find(&name)?.text.as_bytes())?,
        Command::List { json: true } => {
            let all = BUILTINS.iter().map(|builtin| json!({"name": builtin.name, "about": builtin.about()}));
            writeln!(out, "{}", all.collect::<Value>())?;
        }
        Command::List { json: false } => {
            for builtin in BUILTINS {
                writeln!(out, "{:<16} {}", builtin.name, builtin.about())?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
