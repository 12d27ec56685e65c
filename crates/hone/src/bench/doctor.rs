//! `hone bench doctor`: overhead of the doctor, before a run and during one.

use std::hint::black_box;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result};
use hone_doctor::{Depth, LIVE, Live, PREFLIGHT, Probe, given, preflight};
use hone_train::budget::estimate;
use hone_train::ledger::Ledger;
use hone_train::ledger::names::SECTIONS;
use hone_train::recipe::Recipe;
use serde_json::{Map, Value, json};

use crate::commands::train::with_policy;
use crate::engines;
use crate::recipes::QUICKSTART;

/// Time the doctor on the quickstart: `hone check`, the checks at the start of a run, and those after every step.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Steps whose checks are timed.
const STEPS: u64 = 2000;

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let scratch = tempfile::tempdir().context("cannot make a directory for the policy")?;
    let recipe = with_policy(Recipe::parse(QUICKSTART.text, &[])?, scratch.path())?;
    let report = runtime.block_on(measure(&recipe))?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{report}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let number = |key: &str| report[key].as_f64().unwrap_or(f64::NAN);
    writeln!(
        out,
        "check     {:.1} s on the quickstart, {} checks (bar: under 60 s)",
        number("check_s"),
        PREFLIGHT.len()
    )?;
    writeln!(out, "start     {:.2} s before the first step of `hone train`", number("start_s"))?;
    writeln!(
        out,
        "step      {:.1} us for {} checks, {:.5} % of a step of {:.2} s (bar: under 2 %)",
        number("live_us"),
        LIVE.len(),
        number("live_percent"),
        number("step_s")
    )?;
    Ok(ExitCode::SUCCESS)
}

async fn measure(recipe: &Recipe) -> Result<Value> {
    let clock = Instant::now();
    let probe = Probe::of_recipe(recipe, given(QUICKSTART.text, &[]), engines::engine_of(recipe)?).await;
    let diagnosis = preflight(&probe)?;
    let check_s = clock.elapsed().as_secs_f64();
    let setup = engines::open(recipe).await?;
    let clock = Instant::now();
    preflight(&Probe::of_setup(&setup, recipe, given(QUICKSTART.text, &[]), Depth::Opened).await)?;
    let start_s = clock.elapsed().as_secs_f64();
    let step_s = estimate(&setup, recipe).await?.step_s;
    let live_us = live(recipe);
    Ok(json!({
        "check_s": check_s,
        "check_errors": diagnosis.has_errors(),
        "start_s": start_s,
        "live_us": live_us,
        "step_s": step_s,
        "live_percent": 100.0 * live_us / 1e6 / step_s,
    }))
}

/// Microseconds per step, of the median round.
fn live(recipe: &Recipe) -> f64 {
    let metrics = SECTIONS.iter().flat_map(|section| section.metrics);
    let line: Map<String, Value> = metrics.map(|metric| (metric.name.to_owned(), json!(0.5))).collect();
    let ledgers: Vec<Ledger> = (1..=STEPS)
        .filter_map(|step| {
            let mut line = line.clone();
            line.insert("step".into(), json!(step));
            Ledger::from_map(&line)
        })
        .collect();
    let mut rounds: Vec<f64> = (0..5)
        .map(|_| {
            let (mut live, clock) = (Live::new(recipe), Instant::now());
            for ledger in &ledgers {
                black_box(live.see(black_box(ledger)));
            }
            1e6 * clock.elapsed().as_secs_f64() / STEPS as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}
