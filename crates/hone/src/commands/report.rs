//! `hone report`: what a run came to, recomputed from its directory.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use hone_train::report::RunReport;

use crate::output;

/// What a run came to: held-out success, windows, advantages, calibration.
///
/// Recomputed from the run directory alone, live or finished: success is recounted from the recorded evaluation traces.
/// Prints Markdown, the same text that `hone train` leaves in report.md.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A run directory.
    run: PathBuf,
    /// Print one JSON object, as in report.json.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let report = RunReport::read(&args.run)?;
    if args.json {
        writeln!(output::json(), "{}", serde_json::to_string(&report)?)?;
    } else {
        write!(output::text(), "{}", report.markdown())?;
    }
    Ok(ExitCode::SUCCESS)
}
