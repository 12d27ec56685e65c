//! `hone bench step`: one synchronous GRPO step, beside TRL's GRPOTrainer on the same threads.
//!
//! The two alternate; the best of several rounds counts, because other work on the machine can only slow a round down.
//! Each step runs in a separate process, so that its resident set is its own.

pub(super) mod ours;

use std::io::Write;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use hone_engine::generate::bench::Workload;
use hone_engine::{Cpu, bench};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::engine::peer::Process;
use ours::{Stepper, WORK};

/// Time one GRPO step, beside TRL where it is installed
///
/// 8 prompts of 256 tokens, 8 completions of 100 tokens each, one optimizer step on all of them. The model: 5.8M
/// parameters, Qwen3, f32 (hidden 256, 6 layers, 4/2 heads of 64, mlp 768, vocab 2048, untied). Exits with code 1 if a
/// bar is missed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Threads of both [default: all cores]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
    /// Rounds; the best of them is printed
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Python with trl
    #[arg(long, value_name = "PYTHON", default_value = "python3")]
    peer: String,
    /// Measure without a peer
    #[arg(long)]
    no_peer: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Used by the benchmark itself: step in this process, print one JSON line, end
    #[arg(long, hide = true)]
    ours_only: bool,
}

/// Bars: times faster than the peer, and share of its memory at most.
const FASTER: f64 = 6.0;
const MEMORY: f64 = 0.2;
/// Steps of ours in a round, after one that warms up. A step of the peer takes as long as many of ours.
const STEPS: u64 = 3;

const SCRIPT: &str = include_str!("../../../../scripts/bench_step_trl.py");

/// The best step of a process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Measured {
    seconds: f64,
    /// Seconds of sampling among them; the peer does not report it.
    sampling: Option<f64>,
    peak_bytes: f64,
}

impl Measured {
    /// The faster of two steps, with the larger of two resident sets.
    fn best(self, other: Self) -> Self {
        let faster = if other.seconds < self.seconds { other } else { self };
        Self { peak_bytes: self.peak_bytes.max(other.peak_bytes), ..faster }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "every command has this signature")]
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let threads = Cpu::new(args.threads)?.threads();
    if args.ours_only {
        let measured = step_here(threads)?;
        writeln!(std::io::stdout().lock(), "{}", serde_json::to_string(&measured)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let about = if args.no_peer { None } else { find_peer(&args.peer, threads) };
    let (mut ours, mut theirs) = (None::<Measured>, None::<Measured>);
    for round in 0..args.rounds.max(1) {
        anstream::eprintln!("round {} of {}", round + 1, args.rounds.max(1));
        let measured = step_apart(threads)?;
        ours = Some(ours.map_or(measured, |best| best.best(measured)));
        if about.is_some() {
            let measured = peer_step(&args.peer, threads)?;
            theirs = Some(theirs.map_or(measured, |best| best.best(measured)));
        }
    }
    let ours = ours.context("no round was run")?;
    let bars = theirs
        .map(|theirs| Bars { faster: theirs.seconds / ours.seconds, memory: ours.peak_bytes / theirs.peak_bytes });
    let mut out = std::io::stdout().lock();
    if args.json {
        let result = json!({"threads": threads, "rounds": args.rounds.max(1), "ours": ours, "peer": theirs, "ratios": bars,
                            "config": {"ours": ours::configuration()?, "peer": about}});
        writeln!(out, "{result}")?;
    } else {
        print(&mut out, threads, args.rounds.max(1), ours, theirs, about.as_ref(), bars)?;
    }
    let missed = bars.is_some_and(|bars| bars.faster < FASTER || bars.memory > MEMORY);
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Bars {
    faster: f64,
    memory: f64,
}

fn step_here(threads: usize) -> Result<Measured> {
    let mut stepper = Stepper::new(threads, WORK)?;
    stepper.step(0)?;
    let steps = (1..=STEPS).map(|number| stepper.step(number)).collect::<Result<Vec<_>>>()?;
    let best = steps.into_iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds)).context("no step was taken")?;
    let peak_bytes = bench::peak_resident().unwrap_or(0) as f64;
    Ok(Measured { seconds: best.seconds, sampling: Some(best.sampling), peak_bytes })
}

fn step_apart(threads: usize) -> Result<Measured> {
    let program = std::env::current_exe().context("cannot find this program to run it again")?;
    let threads = threads.to_string();
    let output = Command::new(program).args(["bench", "step", "--ours-only", "--threads", &threads]).output()?;
    if !output.status.success() {
        bail!("the process that steps failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("the answer of the process that steps")
}

/// A missing peer is not a failure: the figures are then ours only, and the output says so.
fn find_peer(python: &str, threads: usize) -> Option<Value> {
    match Process::start(SCRIPT, python, threads).and_then(|mut process| process.ask("ready")) {
        Ok(about) => Some(about),
        Err(error) => {
            anstream::eprintln!("no peer: {error:#}; `pip install trl` and --peer PYTHON give one");
            None
        }
    }
}

fn peer_step(python: &str, threads: usize) -> Result<Measured> {
    let answer = Process::start(SCRIPT, python, threads)?.ask("step 1")?;
    let seconds = answer["seconds"].as_array().context("the peer named no seconds")?;
    let seconds = seconds.iter().filter_map(Value::as_f64).fold(f64::MAX, f64::min);
    let peak_bytes = answer["peak_rss_bytes"].as_f64().context("the peer named no peak_rss_bytes")?;
    Ok(Measured { seconds, sampling: None, peak_bytes })
}

fn print(
    out: &mut impl Write,
    threads: usize,
    rounds: usize,
    ours: Measured,
    theirs: Option<Measured>,
    about: Option<&Value>,
    bars: Option<Bars>,
) -> Result<()> {
    let Workload { prompts, samples, prompt_tokens, new_tokens } = WORK;
    writeln!(
        out,
        "one GRPO step, {prompts} prompts x {samples}, {prompt_tokens} + {new_tokens} tokens, {threads} threads, best of {rounds} rounds"
    )?;
    writeln!(out, "ours: {}", ours::configuration()?)?;
    match about {
        Some(about) => writeln!(out, "peer: {about}")?,
        None => writeln!(out, "peer: none")?,
    }
    let show = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    writeln!(out, "\n                    ours        peer   ratio")?;
    let (faster, memory) = (show(bars.map(|bars| bars.faster)), show(bars.map(|bars| bars.memory)));
    let seconds = show(theirs.map(|theirs| theirs.seconds));
    writeln!(out, "seconds     {:>12.2} {seconds:>11} {faster:>6}x  (bar: {FASTER}x, aim 9x)", ours.seconds)?;
    writeln!(out, "  sampling  {:>12}", show(ours.sampling))?;
    let bytes = show(theirs.map(|theirs| theirs.peak_bytes / 1e6));
    writeln!(out, "peak MB     {:>12.2} {bytes:>11} {memory:>6}x  (bar: at most {MEMORY}x)", ours.peak_bytes / 1e6)?;
    Ok(())
}
