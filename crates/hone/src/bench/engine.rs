//! `hone bench engine`: training and generation, beside PyTorch and transformers on the same threads.
//!
//! The two engines alternate in one run; the best of several rounds counts, because other work on the machine can only
//! slow a round down. Each engine's training step runs in a separate process, so that its resident set is its own.

pub(super) mod peer;

use std::io::Write;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use hone_engine::generate::bench::{Workload, generate};
use hone_engine::{Cpu, Keep, Model, bench};
use serde::{Deserialize, Serialize};
use serde_json::json;

use peer::Peer;

/// Time training and generation of the native engine, beside PyTorch where it is installed
///
/// The model: 5.8M parameters, Qwen3, f32 (hidden 256, 6 layers, 4/2 heads of 64, mlp 768, vocab 2048, untied).
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Threads of both engines [default: all cores]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
    /// Rounds; the best of them is printed
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Python with torch and transformers
    #[arg(long, value_name = "PYTHON", default_value = "python3")]
    peer: String,
    /// Measure without a peer
    #[arg(long)]
    no_peer: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Used by the benchmark itself: train in this process, print one JSON line, end
    #[arg(long, hide = true)]
    train_only: bool,
}

const TRAIN: (usize, usize) = (8, 256);
const BATCH: Workload = Workload { prompts: 8, samples: 8, prompt_tokens: 256, new_tokens: 100 };
const SINGLE: Workload = Workload { prompts: 1, samples: 1, prompt_tokens: 256, new_tokens: 100 };
/// A group that shares a prompt: replies, prompt tokens, reply tokens.
const GROUP: (usize, usize, usize) = (8, 1024, 128);
const STEPS: usize = 4;

/// The best of several rounds, ours and the peer's if there is one. Tokens per second unless stated otherwise.
#[derive(Debug, Default, Serialize)]
struct Report {
    threads: usize,
    isa: String,
    rounds: usize,
    peer: Option<String>,
    gemm_gflops: Option<f64>,
    train: Pair,
    train_gflops: f64,
    generate_batch: Pair,
    generate_batch_decode_only: f64,
    /// Lower bound: the minimum operations of any engine, divided by the time.
    generate_batch_gflops: f64,
    generate_single: Pair,
    generate_single_decode_only: f64,
    /// Seconds of a step with the shared prompt computed once and once per reply; the peer computes it per reply.
    group_shared: Seconds,
    group_unshared: Seconds,
    /// Bytes.
    peak_memory: Pair,
}

#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Pair {
    ours: f64,
    peer: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Seconds {
    ours: f64,
    peer: Option<f64>,
}

impl Default for Seconds {
    fn default() -> Self {
        Self { ours: f64::MAX, peer: None }
    }
}

impl Pair {
    fn take(&mut self, ours: f64, peer: Option<f64>) {
        self.ours = self.ours.max(ours);
        self.peer = peer.map(|p| self.peer.map_or(p, |best| best.max(p))).or(self.peer);
    }

    fn ratio(&self) -> Option<f64> {
        self.peer.map(|peer| self.ours / peer)
    }
}

/// Figures printed by the process that only trains.
#[derive(Debug, Serialize, Deserialize)]
struct Trained {
    seconds: f64,
    peak_bytes: Option<u64>,
}

#[expect(clippy::needless_pass_by_value, reason = "every command has this signature")]
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let cpu = Arc::new(Cpu::new(args.threads)?);
    if args.train_only {
        let trained = train_here(&cpu)?;
        writeln!(std::io::stdout().lock(), "{}", serde_json::to_string(&trained)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut peer = if args.no_peer { None } else { find_peer(&args.peer, cpu.threads()) };
    let report = measure(args.rounds, &cpu, peer.as_mut())?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", with_ratios(&report)?)?;
    } else {
        print(&report, &mut out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A missing peer is not a failure: the figures are then ours only, and the output says so.
fn find_peer(python: &str, threads: usize) -> Option<Peer> {
    match Peer::start(python, threads) {
        Ok(peer) => Some(peer),
        Err(error) => {
            anstream::eprintln!("no peer: {error:#}; `pip install torch transformers` and --peer PYTHON give one");
            None
        }
    }
}

fn measure(rounds: usize, cpu: &Arc<Cpu>, mut peer: Option<&mut Peer>) -> Result<Report> {
    let model = Model::random(bench::config()?, Arc::clone(cpu), 1);
    let mut report = Report {
        threads: cpu.threads(),
        isa: cpu.isa().name().to_owned(),
        rounds: rounds.max(1),
        peer: peer.as_ref().map(|peer| peer.name.clone()),
        gemm_gflops: bench::gemm_peak(cpu),
        ..Report::default()
    };
    let tokens = (TRAIN.0 * TRAIN.1) as f64;
    for round in 0..report.rounds {
        anstream::eprintln!("round {} of {}", round + 1, report.rounds);
        let trained = train_apart(cpu.threads())?;
        let theirs = peer.as_mut().map(|peer| peer.train(STEPS)).transpose()?;
        report.train.take(tokens / trained.seconds, theirs.as_ref().map(|t| tokens / t.seconds));
        // Memory is the largest seen, not the best.
        let theirs = theirs.map(|t| t.peak_bytes);
        report.peak_memory.take(trained.peak_bytes.unwrap_or(0) as f64, theirs);

        for (work, pair, decode) in [
            (BATCH, &mut report.generate_batch, &mut report.generate_batch_decode_only),
            (SINGLE, &mut report.generate_single, &mut report.generate_single_decode_only),
        ] {
            let ours = generate(&model, work)?;
            let theirs = peer.as_mut().map(|peer| peer.generate(work)).transpose()?;
            pair.take(ours.tokens_per_second(), theirs);
            *decode = decode.max(ours.decode_tokens_per_second);
        }
        group(&model, &mut report, peer.as_deref_mut())?;
    }
    let per_token = BATCH.flops(&model.config) / BATCH.tokens() as f64;
    report.generate_batch_gflops = per_token * report.generate_batch.ours / 1e9;
    report.train_gflops = bench::training_flops(&model.config, TRAIN.0, TRAIN.1) * report.train.ours / tokens / 1e9;
    Ok(report)
}

/// One round of the group that shares a prompt.
fn group(model: &Model, report: &mut Report, peer: Option<&mut Peer>) -> Result<()> {
    let (replies, prompt, reply) = GROUP;
    let step = |share: bool| -> Result<f64> {
        let mut trainer = bench::Trainer::group(model.clone(), replies, prompt, reply, share)?;
        Ok(trainer.step()?.0.min(trainer.step()?.0))
    };
    let (shared, unshared) = (step(true)?, step(false)?);
    report.group_shared.ours = report.group_shared.ours.min(shared);
    report.group_unshared.ours = report.group_unshared.ours.min(unshared);
    if let Some(peer) = peer {
        let seconds = peer.group(1)?;
        report.group_unshared.peer = Some(report.group_unshared.peer.map_or(seconds, |old| old.min(seconds)));
    }
    Ok(())
}

/// Trains in a separate process.
fn train_apart(threads: usize) -> Result<Trained> {
    let program = std::env::current_exe().context("cannot find this program to run it again")?;
    let threads = threads.to_string();
    let output = Command::new(program).args(["bench", "engine", "--train-only", "--threads", &threads]).output()?;
    if !output.status.success() {
        bail!("the training process failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("the training process's answer")
}

fn train_here(cpu: &Arc<Cpu>) -> Result<Trained> {
    let model = Model::random(bench::config()?, Arc::clone(cpu), 1);
    let mut trainer = bench::Trainer::sequences(model, TRAIN.0, TRAIN.1, Keep::Everything)?;
    let mut seconds = f64::MAX;
    for _ in 0..STEPS {
        seconds = seconds.min(trainer.step()?.0);
    }
    Ok(Trained { seconds, peak_bytes: bench::peak_resident() })
}

fn with_ratios(report: &Report) -> Result<serde_json::Value> {
    let mut json = serde_json::to_value(report)?;
    json["ratios"] = json!({
        "train": report.train.ratio(),
        "generate_batch": report.generate_batch.ratio(),
        "generate_single": report.generate_single.ratio(),
        "prefix_sharing": report.group_unshared.ours / report.group_shared.ours,
        "group_against_peer": report.group_unshared.peer.map(|peer| peer / report.group_shared.ours),
        "peak_memory": report.peak_memory.ratio(),
        "share_of_gemm_peak": report.gemm_gflops.map(|peak| report.train_gflops / peak),
        "generate_batch_share_of_gemm_peak": report.gemm_gflops.map(|peak| report.generate_batch_gflops / peak),
    });
    Ok(json)
}

fn print(r: &Report, out: &mut impl Write) -> Result<()> {
    let peer = r.peer.as_deref().unwrap_or("no peer");
    writeln!(out, "{} threads, {}, f32, best of {} rounds; peer: {peer}", r.threads, r.isa, r.rounds)?;
    writeln!(out)?;
    writeln!(out, "                                       ours        peer   ratio")?;
    let mut line = |what: &str, pair: &Pair, scale: f64, unit: &str, bar: &str| {
        let show = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| format!("{:.0}", v / scale));
        let ratio = pair.ratio().map_or_else(|| "-".to_owned(), |r| format!("{r:.2}x"));
        writeln!(out, "{what:<30} {:>12} {:>11} {ratio:>7}  {unit}{bar}", show(Some(pair.ours)), show(pair.peer))
    };
    line("train, 8 x 256", &r.train, 1.0, "tokens/s", " (bar: 1.3x)")?;
    line("generate, 8 prompts x 8", &r.generate_batch, 1.0, "tokens/s", " (bar: 12x)")?;
    line("  decoding only", &Pair { ours: r.generate_batch_decode_only, peer: None }, 1.0, "tokens/s", "")?;
    line("generate, batch 1", &r.generate_single, 1.0, "tokens/s", " (bar: 10x)")?;
    line("  decoding only", &Pair { ours: r.generate_single_decode_only, peer: None }, 1.0, "tokens/s", "")?;
    line("peak memory, training", &r.peak_memory, 1e6, "MB", " (bar: 0.33x)")?;
    let group = Pair { ours: r.group_unshared.ours * 1e3, peer: r.group_unshared.peer.map(|s| s * 1e3) };
    line("train 8 x (1024 + 128), apart", &group, 1.0, "ms/step", "")?;
    line("  prompt shared", &Pair { ours: r.group_shared.ours * 1e3, peer: None }, 1.0, "ms/step", "")?;
    writeln!(out, "\nprefix sharing   {:.2}x faster (bar: 3x)", r.group_unshared.ours / r.group_shared.ours)?;
    let Some(peak) = r.gemm_gflops else {
        writeln!(
            out,
            "training step    {:.0} GFLOP/s (built with --features gemm: beside the gemm crate)",
            r.train_gflops
        )?;
        return Ok(());
    };
    let share = |gflops: f64| format!("{gflops:.0} GFLOP/s, {:.0}%", 100.0 * gflops / peak);
    writeln!(out, "training step    {} of the {peak:.0} that the gemm crate reaches here", share(r.train_gflops))?;
    writeln!(out, "8 prompts x 8    {} of it, prompts and attention included", share(r.generate_batch_gflops))?;
    if let Some(ratio) = r.generate_batch.ratio() {
        let most = ratio * peak / r.generate_batch_gflops;
        writeln!(out, "                 at all of it this would be {most:.1}x the peer")?;
    }
    Ok(())
}
