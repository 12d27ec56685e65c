//! `hone doctor`: diagnosis of a run from its records.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use hone_doctor::{Confidence, Diagnosis, Named, Severity, examine};
use hone_trace::{clean, clean_json};
use owo_colors::OwoColorize as _;

use super::foreign;

/// Find out what is wrong with a run: the fault, the arithmetic, the traces that show it, the fix.
///
/// Examines the recorded tokens, traces and evaluations of a run, live or finished. Findings that follow from another
/// one are shown under it. Exits with code 1 if a finding is an error. docs/doctor.md describes every check.
///
/// Records of other trainers are read as far as they go: TRL's completions (parquet), SkyRL's dumps, ART's and verifiers'
/// JSON lines, W&B histories (JSON lines, CSV). A check that lacks data says what it needs (--verbose).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A run directory, or a file or directory that another trainer wrote.
    run: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Also list the checks that found nothing.
    #[arg(long, short)]
    verbose: bool,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let diagnosis = match foreign::diagnosed(&args.run)? {
        Some(diagnosis) => diagnosis,
        None => examine(&args.run)?,
    };
    let mut out = anstream::stdout().lock();
    if args.json {
        writeln!(out, "{}", clean_json(&serde_json::to_string(&diagnosis)?))?;
    } else {
        print(&mut out, &diagnosis, args.verbose)?;
    }
    Ok(if diagnosis.has_errors() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

pub(super) fn print(out: &mut impl Write, diagnosis: &Diagnosis, verbose: bool) -> Result<()> {
    for named in &diagnosis.findings {
        finding(out, named)?;
    }
    let Diagnosis { findings, skipped, healthy } = diagnosis;
    if findings.is_empty() {
        writeln!(out, "nothing wrong was found")?;
    }
    let were = |count: usize| if count == 1 { "check" } else { "checks" };
    writeln!(
        out,
        "{} {} found nothing wrong, {} could not be made",
        healthy.len(),
        were(healthy.len()),
        skipped.len()
    )?;
    if verbose {
        writeln!(out, "  nothing wrong: {}", healthy.join(", "))?;
        for skipped in skipped {
            writeln!(out, "  not made: {}, which needs {}", skipped.check, skipped.needs)?;
        }
    }
    Ok(())
}

/// One finding: the fault, its evidence, what follows from it, and the fix.
pub(super) fn finding(out: &mut impl Write, named: &Named) -> Result<()> {
    let Named { check, finding, consequences, waived, .. } = named;
    match finding.severity {
        _ if waived.is_some() => write!(out, "{}", "waived".bold())?,
        Severity::Error => write!(out, "{}", "error".red().bold())?,
        Severity::Warning => write!(out, "{}", "warning".yellow().bold())?,
        Severity::Note => write!(out, "{}", "note".bold())?,
    }
    match finding.confidence {
        Confidence::Certain => writeln!(out, ": {}  [{check}]", clean(&finding.says))?,
        other => writeln!(out, " ({}): {}  [{check}]", other.word(), clean(&finding.says))?,
    }
    if let Some(reason) = waived {
        writeln!(out, "    the recipe's reason: {}", clean(reason))?;
    }
    for line in &finding.evidence.lines {
        writeln!(out, "    {}", clean(line))?;
    }
    if !finding.evidence.traces.is_empty() {
        let numbers: Vec<String> = finding.evidence.traces.iter().map(u64::to_string).collect();
        writeln!(out, "    traces that show it: {}", numbers.join(", "))?;
    }
    for other in consequences {
        writeln!(out, "    from it follows: {}  [{}]", clean(&other.finding.says), other.check)?;
    }
    writeln!(out, "  {}: {}\n", "fix".green(), clean(named.fix()))?;
    Ok(())
}
