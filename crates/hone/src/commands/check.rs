//! `hone check`: diagnosis of a recipe before its first step.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use hone_doctor::{Depth, Named, Probe, Severity, given, preflight};
use hone_trace::Trace;
use hone_trace::rundir::RunDir;
use hone_train::recipe::Recipe;
use hone_train::setup::Setup;
use hone_worlds::registry::EnvSpec;

use super::doctor::{finding, print};
use super::env::waiting;
use super::train::{Missing, with_policy};
use crate::engines;
use crate::output::patiently;
use crate::recipes::{QUICKSTART, Source};

const EXAMPLES: &str = "\
A recipe waives a check by name, with a reason that the run records:
  [doctor]
  waive = { do_nothing = \"a third of these tickets need no answer\" }

Examples:
  hone check                                   the quickstart
  hone check my.toml --set policy.model=DIR    a recipe of your own
  hone check my.toml --traces probe            keep the episodes that findings point at";

/// Find out what is wrong with a recipe before its first step: the fault, the arithmetic, the fix.
///
/// Opens everything that the recipe names, replays references and other scripts in its environment, plays a few groups
/// with the start policy at the training temperature, lets the learner score the sampled tokens, and takes one small
/// optimizer step, which is undone. Under a minute on the quickstart; nothing is trained and nothing is kept. Findings
/// that follow from another one are shown under it. Exits with code 1 if a finding is an error that the recipe does not
/// waive, with code 2 if the recipe cannot be read. docs/doctor.md describes every check.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// A recipe in TOML. Without one: the quickstart, with the tiny policy inside this binary.
    recipe: Option<PathBuf>,
    /// Set a recipe key, e.g. --set rollout.window=2048. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Keep the start policy's episodes in a run directory: findings name them by number.
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Also list the checks that found nothing.
    #[arg(long, short)]
    verbose: bool,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let source = args.recipe.as_deref().map_or_else(|| Ok(QUICKSTART.source()), Source::find)?;
    let scratch = crate::scratch::Scratch::new()?;
    let read = source.read(&args.set);
    let unread = read.is_err();
    let probe = match read {
        Ok(recipe) => {
            Missing::refuse(&recipe, &source.given, &args.set)?;
            let recipe = with_policy(recipe, scratch.path())?;
            let engine = engines::engine_of(&recipe)?;
            runtime.block_on(Probe::of_recipe(&recipe, given(&source.text, &args.set), engine))
        }
        Err(error) => Probe::of_unreadable(format!("{error:#}")),
    };
    if let Some(directory) = &args.traces {
        keep(&probe, directory)?;
    }
    let diagnosis = preflight(&probe)?;
    let mut out = anstream::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&diagnosis)?)?;
    } else {
        print(&mut out, &diagnosis, args.verbose)?;
    }
    // What cannot be read was not checked: no answer about it, not even "no".
    Ok(ExitCode::from(if unread { 2 } else { u8::from(diagnosis.has_errors()) }))
}

/// The probe's episodes as a run directory.
fn keep(probe: &Probe, directory: &Path) -> Result<()> {
    let Some(played) = probe.played.known() else { return Ok(()) };
    let mut run = RunDir::create(directory, &probe.recipe.to_toml()?)?;
    let traces: Vec<Trace> = played.episodes().map(|(_, trace)| trace.clone()).collect();
    run.traces(&traces)?;
    Ok(run.sync()?)
}

/// A run refused by its preflight: an answer about the recipe, like those of `hone check`.
#[derive(Debug)]
pub(crate) struct Refused;

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "the run was not started, since it could not be relied on; correct the errors above (`hone check` looks \
             further), or waive a check by its name: [doctor] waive = { NAME = \"reason\" }",
        )
    }
}

impl std::error::Error for Refused {}

/// The cheap checks at the start of a run: refuses on errors that are not waived, and reports other findings.
pub(crate) async fn before_run(setup: &Setup, recipe: &Recipe) -> Result<Vec<Named>> {
    let probe = Box::pin(Probe::of_setup(setup, recipe, std::collections::BTreeSet::new(), Depth::Opened));
    let probe = patiently(|| waiting(recipe.env.first().map_or("", EnvSpec::name)), probe).await;
    let diagnosis = preflight(&probe)?;
    if diagnosis.has_errors() {
        let mut out = anstream::stderr().lock();
        let error = |named: &&Named| named.finding.severity == Severity::Error && named.waived.is_none();
        for named in diagnosis.findings.iter().filter(error) {
            finding(&mut out, named)?;
        }
        return Err(Refused.into());
    }
    for named in diagnosis.findings.iter().filter(|named| named.finding.severity != Severity::Note) {
        let word = if named.waived.is_some() { "waived" } else { named.finding.severity.word() };
        crate::output::note!("{word}: {}  [{}]", named.finding.says, named.check);
    }
    Ok(diagnosis.findings)
}
