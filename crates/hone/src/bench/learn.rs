//! `hone bench learn`: does a recipe teach? Runs it on several seeds and counts successes again, from the recorded traces.
//!
//! Every seed is a `hone train` of its own, started as a user would. Nothing a run says of its own success is believed.

mod recount;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Value, json};

use recount::Recount;

/// Train a recipe on several seeds and hold it against the bars, recounted from the recorded evaluation traces
///
/// Without a recipe: the quickstart. Ends with 1 when a bar is missed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A recipe in TOML [default: the quickstart]
    recipe: Option<PathBuf>,
    /// Seeds 1 to N
    #[arg(long, value_name = "N", default_value_t = 3)]
    seeds: u64,
    /// Set a recipe key, as for `hone train`. May be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Also run with advantages that carry nothing: shuffle or constant
    #[arg(long, value_name = "KIND")]
    placebo: Option<String>,
    /// Where the runs go; one directory a seed [default: runs/bench-learn-N]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What a quickstart must reach.
const START: [f64; 2] = [0.25, 0.55];
const END: f64 = 0.8;
const GAIN: f64 = 0.3;
const PARSE_FAILURES: f64 = 0.01;
const TASKS: usize = 256;

/// One seed.
#[derive(Debug, Serialize)]
struct Trained {
    seed: u64,
    #[serde(flatten)]
    counted: Recount,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    placebo: Option<Recount>,
    /// The bars it misses, in words.
    missed: Vec<String>,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let out = args.out.clone().unwrap_or_else(free_directory);
    let mut seeds = Vec::new();
    for seed in 1..=args.seeds.max(1) {
        anstream::eprintln!("seed {seed} of {}", args.seeds.max(1));
        let said = train(&args, seed, &out.join(format!("seed-{seed}")))?;
        let counted = recount_run(&said)?;
        let placebo = said.get("placebo").map(recount_run).transpose()?;
        let missed = missed(&counted, placebo.as_ref());
        let seconds = said["seconds"].as_f64().context("hone train named no seconds")?;
        seeds.push(Trained { seed, counted, seconds, placebo, missed });
    }
    let mut stdout = std::io::stdout().lock();
    if args.json {
        writeln!(stdout, "{}", json!({"runs": out, "seeds": seeds}))?;
    } else {
        print(&mut stdout, &seeds, &out)?;
    }
    Ok(if seeds.iter().all(|seed| seed.missed.is_empty()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs `hone train`, its progress on our stderr, and returns what it says of itself.
fn train(args: &Args, seed: u64, directory: &Path) -> Result<Value> {
    let program = std::env::current_exe().context("cannot find this program to run it again")?;
    let mut command = Command::new(program);
    command.arg("train").args(&args.recipe).arg("--json").arg("--run").arg(directory).args(["--samples", "0"]);
    for setting in args.set.iter().chain([&format!("seed={seed}")]) {
        command.args(["--set", setting]);
    }
    if let Some(kind) = &args.placebo {
        command.args(["--placebo", kind]);
    }
    let output = command.stderr(Stdio::inherit()).stdin(Stdio::null()).output().context("cannot start hone train")?;
    if !output.status.success() {
        bail!("hone train ended with {} at seed {seed}", output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().context("hone train said nothing on stdout")?;
    serde_json::from_str(line).context("the last line of hone train")
}

fn recount_run(said: &Value) -> Result<Recount> {
    let directory = said["run"].as_str().context("hone train named no run")?;
    Recount::of(Path::new(directory)).with_context(|| format!("counting {directory} again"))
}

fn missed(counted: &Recount, placebo: Option<&Recount>) -> Vec<String> {
    let Recount { before, after, .. } = counted;
    let [low, high] = START;
    let mut missed = Vec::new();
    let mut hold = |holds: bool, what: String| {
        if !holds {
            missed.push(what);
        }
    };
    hold(
        (low..=high).contains(&before.success),
        format!("the start, {:.3}, is not in {low} to {high}", before.success),
    );
    hold(after.success >= END, format!("the end, {:.3}, is under {END}", after.success));
    hold(counted.gain >= GAIN, format!("the gain, {:.3}, is under {GAIN}", counted.gain));
    let failures = after.parse_failure_rate;
    hold(failures < PARSE_FAILURES, format!("parse failures, {failures:.4}, are not under {PARSE_FAILURES}"));
    hold(counted.do_nothing == 0.0, format!("doing nothing succeeds on {:.3} of the tasks", counted.do_nothing));
    hold(after.n >= TASKS, format!("{} held-out episodes are fewer than {TASKS}", after.n));
    hold(counted.leaked == 0, format!("{} held-out tasks were trained on", counted.leaked));
    if let Some(placebo) = placebo {
        let [low, _] = placebo.gain_ci;
        hold(low <= 0.0, format!("the placebo rises too, by {:.3}", placebo.gain));
    }
    missed
}

fn print(out: &mut impl Write, seeds: &[Trained], directory: &Path) -> Result<()> {
    writeln!(out, "recounted from the evaluation traces in {}; 95 % intervals\n", directory.display())?;
    writeln!(
        out,
        "seed  before                 after                  gain                    parse failures  seconds  nothing"
    )?;
    for Trained { seed, counted, seconds, placebo, missed } in seeds {
        let Recount { before, after, gain, gain_ci, do_nothing, .. } = counted;
        let cell = |value: f64, [low, high]: [f64; 2]| format!("{value:.3} [{low:.3}, {high:.3}]");
        writeln!(
            out,
            "{seed:>4}  {:<22} {:<22} {:<23} {:>14.4} {seconds:>8.0} {do_nothing:>8.3}",
            cell(before.success, before.ci),
            cell(after.success, after.ci),
            cell(*gain, *gain_ci),
            after.parse_failure_rate
        )?;
        if let Some(placebo) = placebo {
            writeln!(out, "      placebo {:+.3}; gain over it {:+.3}", placebo.gain, gain - placebo.gain)?;
        }
        for bar in missed {
            writeln!(out, "      missed: {bar}")?;
        }
    }
    let [low, high] = START;
    writeln!(
        out,
        "\nbars: start {low} to {high}, end {END}, gain {GAIN}, parse failures under {PARSE_FAILURES}, doing nothing 0, {TASKS} tasks"
    )?;
    Ok(())
}

fn free_directory() -> PathBuf {
    let numbered = |number: u32| Path::new("runs").join(format!("bench-learn-{number}"));
    (1..=u32::MAX).map(numbered).find(|path| !path.exists()).unwrap_or_else(|| numbered(0))
}
