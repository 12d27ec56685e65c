//! `hone replay`: recorded tool calls through a domain, one JSON line per step; recorded results, re-graded.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use hone_worlds::domains::grade::Graded;
use hone_worlds::domains::{self, Domain};

use crate::output;

/// Run recorded tool calls through a domain, one JSON line per step, or grade recorded results again
#[derive(Debug, clap::Args)]
#[command(after_long_help = FORMATS)]
pub(crate) struct Args {
    #[arg(long)]
    domain: Kind,
    /// Without: tau2 for a tau2-bench directory, else compat
    #[arg(long)]
    profile: Option<Profile>,
    /// The domain's own directory: users.json, orders.json, products.json for retail; tau2's holds db.json, telecom's
    /// db.toml and user_db.toml
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Grade a result file of tau-bench or tau2-bench again, one JSON line per episode. Exits with code 1 if a reward
    /// differs
    #[arg(long, value_name = "RESULTS.json", conflicts_with = "actions")]
    grade: Option<PathBuf>,
    /// JSON lines of calls; `-` reads standard input
    #[arg(value_name = "ACTIONS.jsonl", default_value = "-")]
    actions: PathBuf,
}

const FORMATS: &str = "\
In, one JSON object per line:
  {\"name\": str, \"kwargs\": {…}}   a call; with \"requestor\": \"user\", of a user who has tools (telecom)
  {\"reset\": true}                fresh data; prints nothing
Out, one per call:
  {\"observation\": str, \"state_sha256\": hex, \"state_changed\": bool}   changed: against fresh data
  telecom has \"user_state_sha256\" too, of the user's own database
  \"observation\" is null, with the reason in \"lost\", where upstream's environment itself breaks on the call, and where
  a line cannot be read: it fails alone

With --grade, out, one per episode of the file:
  {\"task\": str, \"trial\": int, \"recorded\": number, \"reward\": number, \"state\": bool, \"outputs\": {…}, \"conditions\": {…},
   \"why\": str}
  \"reward\" is null, with the reason in \"why\", where an episode cannot be judged

compat: tau-bench v1 to the byte. strict: arguments checked, known faults mended. tau2: tau2-bench.";

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Retail,
    Airline,
    /// tau2's, whose users have tools too
    Telecom,
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
        Kind::Telecom => domains::Kind::Telecom,
    };
    let profile = match args.profile {
        None => domains::Profile::of(&args.data, domains::Profile::Compat),
        Some(Profile::Compat) => domains::Profile::Compat,
        Some(Profile::Strict) => domains::Profile::Strict,
        Some(Profile::Tau2) => domains::Profile::Tau2,
    };
    let domain = Arc::new(Domain::load(kind, profile, &args.data)?);
    if let Some(results) = &args.grade {
        return grade(&domain, results);
    }
    let input: Box<dyn BufRead> = if args.actions.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(&args.actions).with_context(|| format!("opening {}", args.actions.display()))?;
        Box::new(BufReader::new(file))
    };
    let unread = domains::replay::replay(&domain, input, output::json_lines())?;
    if unread > 0 {
        crate::output::note!("{unread} lines could not be read; their answers say why");
    }
    Ok(ExitCode::SUCCESS)
}

fn grade(domain: &Arc<Domain>, path: &Path) -> Result<ExitCode> {
    let shown = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("opening {shown}"))?;
    let results = serde_json::from_str(&text).with_context(|| format!("{shown} is not JSON"))?;
    let graded = domains::grade::grade(domain, &results).with_context(|| format!("{shown} is not a result file"))?;
    let mut out = output::json_lines();
    for episode in &graded {
        writeln!(out, "{}", serde_json::to_string(episode)?)?;
    }
    out.flush()?;
    let count = |holds: fn(&Graded) -> bool| graded.iter().filter(|episode| holds(episode)).count();
    let differ = count(|episode| episode.agrees() == Some(false));
    crate::output::note!(
        "{} episodes: {} earn what the file says, {differ} something else, {} have no reward in the file, {} could not be \
         judged",
        graded.len(),
        count(|episode| episode.agrees() == Some(true)),
        count(|episode| episode.reward.is_some() && episode.recorded.is_none()),
        count(|episode| episode.reward.is_none())
    );
    Ok(if differ == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
