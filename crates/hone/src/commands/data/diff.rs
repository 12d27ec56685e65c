//! `hone data diff`.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use hone_data::diff::{Diff, Version};
use hone_data::read::Inputs;
use serde_json::json;

use super::Reading;

const EXAMPLES: &str = "\
Examples:
  hone data diff v0.1/ v0.2/                 two directories, each with its train and eval files
  hone data diff v0.1.json v0.2.json --all   every name
  hone data diff old/ new/ --json | jq '.leaks'

Exits with code 1 if tasks leaked: the second set trains on what the first evaluates on, by key or by prompt.";

/// Differences between two versions of a task set: added, removed and edited tasks, variables, moves, leaks
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The older version: a file, directory or URL; several separated by commas (train=a.json,eval=b.json).
    before: String,
    /// The newer version.
    after: String,
    #[command(flatten)]
    reading: Reading,
    /// Name every task, not only the first ten of each kind.
    #[arg(long)]
    all: bool,
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<ExitCode> {
    let mut versions = [Version::default(), Version::default()];
    let mut issues = Vec::new();
    for (name, version) in [&args.before, &args.after].into_iter().zip(&mut versions) {
        let names: Vec<&str> = name.split(',').collect();
        issues.push(args.reading.rows(&Inputs::open(&names)?, &mut |row| version.add(&row))?);
    }
    let diff = Diff::of(&versions[0], &versions[1]);
    let mut out = if args.json { crate::output::json() } else { crate::output::text() };
    if args.json {
        writeln!(out, "{}", json!({"environments": diff.environments, "leaks": diff.leaks, "issues": issues}))?;
    } else {
        write!(out, "{}", if args.markdown { diff.table().markdown() } else { diff.table().text() })?;
        write!(out, "{}", diff.names(if args.all { usize::MAX } else { 10 }))?;
    }
    let strict = issues.iter().any(|issues| args.reading.exit(issues) == ExitCode::FAILURE);
    Ok(if strict || !diff.leaks.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
