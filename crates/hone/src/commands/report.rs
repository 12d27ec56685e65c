//! `hone report`: the results of a run, recomputed from its directory.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use hone_train::report::RunReport;

use crate::output;

/// Report of a run: held-out success, windows, advantages, calibration.
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
        write!(output::text(), "{}", page(&report, &args.run))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The reward curve, beside the report.
const CURVE: &str = "reward.svg";

/// Writes report.json, report.md and its reward curve into the run's directory.
pub(crate) fn save(report: &RunReport, directory: &Path) -> Result<()> {
    report.save(directory)?;
    let written = |path: &Path, text: &str| {
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    if let Some(curve) = hone_view::pages::reward_curve(&hone_view::run::Run::open(directory)?) {
        written(&directory.join(CURVE), &curve)?;
    }
    written(&directory.join("report.md"), &page(report, directory))
}

/// The report in Markdown, with the reward curve if it is beside it.
fn page(report: &RunReport, directory: &Path) -> String {
    let page = report.markdown();
    match page.split_once("\n## ") {
        Some((head, rest)) if directory.join(CURVE).is_file() => {
            format!("{head}\n![The reward by component over the steps]({CURVE})\n\n## {rest}")
        }
        _ => page,
    }
}
