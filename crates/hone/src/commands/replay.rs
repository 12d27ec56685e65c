//! `hone replay`: recorded tool calls through a domain, one JSON line per step.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use hone_worlds::domains::{self, Domain};

use crate::output;

/// Run recorded tool calls through a domain, one JSON line per step: observation and state hash
#[derive(Debug, clap::Args)]
#[command(after_long_help = FORMATS)]
pub(crate) struct Args {
    #[arg(long)]
    domain: Kind,
    /// Without: tau2 for a tau2-bench directory, else compat
    #[arg(long)]
    profile: Option<Profile>,
    /// The domain's own directory: users.json, orders.json, products.json for retail; tau2's holds db.json
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// JSON lines of calls; `-` reads standard input
    #[arg(value_name = "ACTIONS.jsonl", default_value = "-")]
    actions: PathBuf,
}

const FORMATS: &str = "\
In, one JSON object per line:
  {\"name\": str, \"kwargs\": {…}}   a call
  {\"reset\": true}                fresh data; prints nothing
Out, one per call:
  {\"observation\": str, \"state_sha256\": hex, \"state_changed\": bool}   changed: against fresh data
  \"observation\" is null, with the reason in \"lost\", where upstream's environment itself breaks on the call, and where
  a line cannot be read: it fails alone

compat: tau-bench v1 to the byte. strict: arguments checked, known faults mended. tau2: tau2-bench.";

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Retail,
    Airline,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Profile {
    Compat,
    Strict,
    Tau2,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let kind = match args.domain {
        Kind::Retail => domains::Kind::Retail,
        Kind::Airline => domains::Kind::Airline,
    };
    let profile = match args.profile {
        None => domains::Profile::of(&args.data, domains::Profile::Compat),
        Some(Profile::Compat) => domains::Profile::Compat,
        Some(Profile::Strict) => domains::Profile::Strict,
        Some(Profile::Tau2) => domains::Profile::Tau2,
    };
    let domain = Arc::new(Domain::load(kind, profile, &args.data)?);
    let input: Box<dyn BufRead> = if args.actions.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(&args.actions).with_context(|| format!("opening {}", args.actions.display()))?;
        Box::new(BufReader::new(file))
    };
    let unread = domains::replay::replay(&domain, input, output::json_lines())?;
    if unread > 0 {
        anstream::eprintln!("{unread} lines could not be read; their answers say why");
    }
    Ok(ExitCode::SUCCESS)
}
