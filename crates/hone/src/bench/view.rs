//! `hone bench view`: time to open a large run in the viewer and to render its pages, and memory.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hone_trace::rundir::RunDir;
use hone_trace::{
    Advantage, Digest, Lesson, Message, Node, Outcome, PolicyVersion, Reward, Sampled, SamplingParams, ToolCall,
    ToolSet, ToolSpec, Trace, TraceBuilder, TraceHead, TurnRecord,
};
use hone_train::evaluate::{Evaluation, Kind};
use hone_train::events::Event;
use hone_train::ledger::names;
use hone_view::pages::{Query, page};
use hone_view::site::Site;
use serde_json::{Map, Value, json};

/// Deadline of background work.
const PATIENCE: Duration = Duration::from_mins(5);

/// Tasks of each of the two evaluations.
const HELD_OUT: u64 = 256;

/// Open a large run in the viewer: seconds to open, milliseconds per page, memory.
///
/// Without a run one is generated, of 2,000 steps and 1,000,000 traces, and opened by a separate process, so that
/// generating it does not count.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A run directory to measure instead of generating one.
    run: Option<PathBuf>,
    #[arg(long, default_value_t = 2000, conflicts_with = "run")]
    steps: u64,
    /// Rollouts of each step, in groups of 10.
    #[arg(long, default_value_t = 500, conflicts_with = "run")]
    rollouts: u64,
    /// Times each page is made; the median and the worst are printed.
    #[arg(long, default_value_t = 5)]
    repeats: usize,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    if let Some(run) = &args.run {
        measure(run, args.repeats)?;
        return Ok(ExitCode::SUCCESS);
    }
    let scratch = tempfile::tempdir().context("cannot make a directory for the run")?;
    let path = scratch.path().join("run");
    let begun = Instant::now();
    generate(&path, args.steps, args.rollouts)?;
    anstream::eprintln!("generated {} traces in {:.0} s", args.steps * args.rollouts, begun.elapsed().as_secs_f64());
    let hone = std::env::current_exe().context("cannot find this program")?;
    let status =
        Command::new(hone).args(["bench", "view", "--repeats", &args.repeats.to_string()]).arg(&path).status()?;
    if !status.success() {
        bail!("the measurement failed");
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(run: &Path, repeats: usize) -> Result<()> {
    let begun = Instant::now();
    let site = Site::open(&[run.to_owned()])?;
    anstream::println!("open              {:>8.1} ms", begun.elapsed().as_secs_f64() * 1e3);
    let (steps, traces) = {
        let opened = site.run(0)?;
        (opened.done(), opened.traces()?.len())
    };
    let (step, trace) = (steps / 2, traces / 2);
    let pages = [
        ("run", "/".to_owned()),
        ("run, smoothed", "/?smooth=0.9".to_owned()),
        ("step", format!("/r/0/step-{step}")),
        ("step, searched", format!("/r/0/step-{step}?q=refund")),
        ("group", format!("/r/0/step-{step}/1")),
        ("trace", format!("/r/0/trace/{trace}")),
        ("tokens", format!("/r/0/trace/{trace}?view=tokens")),
        ("token table", format!("/r/0/trace/{trace}?view=table")),
        ("evaluations", "/r/0/eval".to_owned()),
        ("compare", "/compare".to_owned()),
        ("doctor", "/r/0/doctor".to_owned()),
        ("data", "/r/0/data".to_owned()),
        ("audit", "/r/0/audit".to_owned()),
        ("metrics", "/r/0/metrics".to_owned()),
    ];
    for (name, url) in pages {
        let (path, query) = url.split_once('?').unwrap_or((&url, ""));
        let mut times = Vec::new();
        let mut bytes = 0;
        for _ in 0..repeats.max(1) {
            let begun = Instant::now();
            bytes = page(&site, path, &Query::parse(query))?.as_str().len();
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
        anstream::println!("{name:<17} {median:>8.1} ms   worst {worst:>8.1} ms   {:>7} kB", bytes / 1000);
    }
    let begun = Instant::now();
    settle(&site)?;
    anstream::println!(
        "doctor, compare   {:>8.1} s until both are done, beside the pages",
        begun.elapsed().as_secs_f64()
    );
    if let Some(peak) = peak_memory() {
        anstream::println!(
            "memory            {:>8.0} MiB at most, {traces} traces, {steps} steps",
            peak as f64 / 1024.0
        );
    }
    Ok(())
}

/// Waits for background work, so that its memory counts.
fn settle(site: &Site) -> Result<()> {
    let begun = Instant::now();
    for path in ["/r/0/doctor", "/compare"] {
        while page(site, path, &Query::default())?.as_str().contains("data-wait") {
            if begun.elapsed() > PATIENCE {
                bail!("{path} was not done in {} s", PATIENCE.as_secs());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// Peak memory of this process in KiB, if the system reports it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn generate(path: &Path, steps: u64, rollouts: u64) -> Result<()> {
    let mut run =
        RunDir::create(path, "name = \"generated\"\n[train]\nsteps = 2000\n[eval]\nsuccess = \"tau_state\"\n")?;
    let tool = ToolSpec::new(
        "find_order",
        "Finds an order by its customer",
        json!({"type": "object", "properties": {"name": {"type": "string"}}}),
    );
    let tools = Arc::new(ToolSet::new(vec![tool]).context("one tool")?);
    evaluation(&mut run, &tools, 0)?;
    for step in 1..=steps {
        let traces: Vec<Trace> =
            (0..rollouts).map(|at| trace(&tools, step, at / 10, at % 10)).collect::<Result<Vec<_>>>()?;
        let numbers = run.traces(&traces)?;
        run.event(&Event::Step { step, traces: [numbers.start, numbers.end] })?;
        run.event(&Event::Checkpoint { step, best: None })?;
        let wave = (step as f64 / 40.0).sin() * 0.1 + step as f64 / steps as f64;
        let mut line = Map::from_iter([("step".to_owned(), json!(step))]);
        for metric in [
            names::BATCH_REWARD_TOTAL,
            names::REWARD_SUCCESS_RATE,
            names::REWARD_SIGNAL_RATIO,
            names::POLICY_POLICY_ENTROPY,
            names::POLICY_GRAD_NORM,
        ] {
            line.insert(metric.name.to_owned(), json!(wave));
        }
        line.insert(names::BATCH_REWARD_COMPONENT.of([&"tau_state"]).to_string(), json!(wave));
        // As many metrics as a run has.
        line.extend((0..90).map(|at| (format!("environment/metric_{at}"), json!(wave * f64::from(at)))));
        line.insert(names::TOKENS_SAMPLED.name.to_owned(), json!(rollouts * 40));
        line.insert(names::TOKENS_TRAINED.name.to_owned(), json!(rollouts * 30));
        run.metrics(&line)?;
    }
    evaluation(&mut run, &tools, steps)
}

fn evaluation(run: &mut RunDir, tools: &Arc<ToolSet>, step: u64) -> Result<()> {
    let mut traces = (0..HELD_OUT).map(|task| trace(tools, step, task, 0)).collect::<Result<Vec<Trace>>>()?;
    for (task, trace) in traces.iter_mut().enumerate() {
        (trace.task, trace.lesson) = (format!("held-out-{task}"), None);
    }
    let numbers = run.traces(&traces)?;
    let tasks = HELD_OUT as usize;
    let result = Evaluation { success: Some(0.33), ci: Some([0.28, 0.39]), n: tasks, tasks, ..Evaluation::default() };
    let (kind, traces) = (Kind::Greedy, [numbers.start, numbers.end]);
    run.event(&Event::Eval { step, kind, result: Some(result), traces })?;
    Ok(())
}

fn trace(tools: &Arc<ToolSet>, step: u64, group: u64, replica: u64) -> Result<Trace> {
    let head = TraceHead {
        task: format!("task-{step}-{group}"),
        env: "shop".to_owned(),
        replica: replica as u32,
        seed: step * 1000 + replica,
        tools: Arc::clone(tools),
        sampling: SamplingParams::default(),
    };
    let mut builder = TraceBuilder::new(head, (0..120).map(|at| 300 + at).collect());
    let version = PolicyVersion { run: "generated".into(), step, weights: Digest::of(b"generated") };
    let call = ToolCall::new("find_order", Map::from_iter([("name".to_owned(), json!(format!("customer {replica}")))]));
    let mut messages = vec![Message::system("You work at the desk of a shop."), Message::user("Where is my refund?")];
    for turn in 0..2_u32 {
        let logprobs = (0..20).map(|at| -((step as u32 + at + turn) as f32 % 7.0) / 10.0).collect();
        let ids = (0..20).map(|at| 400 + at + turn).collect();
        builder.push(Node::sampled(ids, Sampled::by(version.clone(), logprobs))?);
        let calls = if turn == 0 { vec![call.clone()] } else { Vec::new() };
        builder.record(TurnRecord { executed: calls.len() as u32, calls, ..TurnRecord::default() });
        builder.push(Node::observation((0..12).map(|at| 500 + at).collect()));
    }
    messages.extend([
        Message::calls(vec![call]),
        Message::tool("find_order", "{\"order\": 7}"),
        Message::assistant("It is on its way."),
    ]);
    let mut trace = builder.finish(Outcome::Finished);
    let solved = f64::from(u8::from((step + group + replica).is_multiple_of(3)));
    trace.rewards = vec![
        Reward::scored("tau_state", solved, "the order was found"),
        Reward::scored("total", solved, "sum: all components"),
    ];
    trace.facts.insert("messages".to_owned(), serde_json::to_value(messages).unwrap_or(Value::Null));
    trace.lesson = Some(Lesson {
        advantage: Advantage::Whole { value: solved - 0.3 },
        logprobs: (0..40).map(|at| -(at as f32 % 7.0) / 10.0).collect(),
        entropies: vec![0.25; 40],
        fates: "t".repeat(40),
    });
    Ok(trace)
}
