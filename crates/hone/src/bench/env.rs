//! `hone bench env`: cost of a retail or airline episode, the ratio to tau-bench's own tools in Python, and ten
//! thousand concurrent episodes.

mod crowd;
mod peer;

use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use hone_trace::Task;
use hone_worlds::domains::generate::{Names, Recipe, generate};
use hone_worlds::domains::verdict::judge;
use hone_worlds::domains::{Desk, Domain, Kind, Profile, tasks};
use serde_json::{Value, json};

use peer::{Peer, Python};

/// Rounds in which the two sides alternate; the best of each counts, since the machine may be shared.
const ROUNDS: usize = 5;

/// The bars: times faster than Python, and memory per open episode. A missed bar gives exit code 1.
const TIMES: f64 = 200.0;
const KIB: f64 = 64.0;

/// Episodes held open at the same time for the memory figure.
const OPEN: usize = 10_000;

/// Time the retail and airline environments: reset, reference calls and reward, the ratio to tau-bench in Python, and the
/// memory of many episodes at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory with tau-bench's retail and airline data [default: data/tau/tau-bench under $HONE_SHARED or ../shared; else worlds of our own]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    #[command(flatten)]
    python: Python,

    /// Episodes in play at once for the peak of memory; 0 leaves that part out
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    crowd: usize,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

struct Subject {
    domain: Arc<Domain>,
    tasks: Vec<Task>,
    source: String,
}

/// Figures of one domain.
struct Figures {
    episodes_per_s: f64,
    kib_per_open_episode: Option<f64>,
    /// Episodes per second in Python, or why there is no figure.
    python: Result<f64>,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let mut report = serde_json::Map::new();
    let mut out = std::io::stdout().lock();
    let mut met = true;
    for kind in [Kind::Retail, Kind::Airline] {
        let subject = Subject::load(kind, args.data.as_deref())?;
        let figures = measure(&subject, &args.python)?;
        let ratio = figures.python.as_ref().ok().map(|python| figures.episodes_per_s / python);
        met &= ratio.is_none_or(|ratio| ratio >= TIMES) && figures.kib_per_open_episode.is_none_or(|kib| kib <= KIB);
        report.insert(
            kind.name().into(),
            json!({
                "data": subject.source,
                "tasks": subject.tasks.len(),
                "episodes_per_s": figures.episodes_per_s,
                "python_episodes_per_s": figures.python.as_ref().ok(),
                "times_faster_than_python": ratio,
                "python_note": figures.python.as_ref().err().map(|why| format!("{why:#}")),
                "kib_per_open_episode": figures.kib_per_open_episode,
            }),
        );
        if !args.json {
            print(&mut out, kind, &subject, &figures)?;
        }
    }
    if args.crowd > 0 {
        let crowd = crowd::play(args.crowd)?;
        met &= crowd.is_under_its_bar();
        report.insert("crowd".into(), crowd.to_json());
        if !args.json {
            crowd.print(&mut out)?;
        }
    }
    if args.json {
        writeln!(out, "{}", Value::Object(report))?;
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(out: &mut impl Write, kind: Kind, subject: &Subject, figures: &Figures) -> Result<()> {
    let name = kind.name();
    writeln!(out, "{name:8}  {} tasks of {}, one core, best of {ROUNDS}", subject.tasks.len(), subject.source)?;
    writeln!(out, "          {:.0} episodes/s: reset, reference calls, reward", figures.episodes_per_s)?;
    match &figures.python {
        Ok(python) => {
            let ratio = figures.episodes_per_s / python;
            writeln!(out, "          python {python:.2} episodes/s: {ratio:.0} times faster (bar: {TIMES} times)")?;
        }
        Err(why) => writeln!(out, "          python not measured: {why:#}")?,
    }
    match figures.kib_per_open_episode {
        Some(kib) => {
            writeln!(out, "          {kib:.1} KiB per open episode, {OPEN} open after their calls (bar: {KIB} KiB)")?;
        }
        None => writeln!(out, "          memory not measured: no /proc/self/statm here")?,
    }
    Ok(())
}

impl Subject {
    fn load(kind: Kind, data: Option<&Path>) -> Result<Self> {
        let shared = std::env::var_os("HONE_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
        let root = data.map_or_else(|| shared.join("data/tau/tau-bench"), Path::to_path_buf);
        let directory = root.join(kind.name());
        if data.is_none() && !directory.exists() {
            let recipe = Recipe {
                kind,
                profile: Profile::Compat,
                seed: 1,
                users: 200,
                tasks: 100,
                held_out: 0,
                difficulty: None,
                names: Names::Common,
            };
            let made = generate(&recipe)?;
            return Ok(Self { domain: made.domain, tasks: made.tasks, source: "a generated world".into() });
        }
        Ok(Self {
            domain: Arc::new(Domain::load(kind, Profile::Compat, &directory)?),
            tasks: tasks::load(kind, &directory, "test")?,
            source: directory.display().to_string(),
        })
    }

    /// Opens an episode and makes the reference's calls.
    fn play(&self, at: usize) -> (Desk, &Task) {
        let task = &self.tasks[at % self.tasks.len()];
        let mut desk = self.domain.open();
        for call in task.reference.iter().flatten() {
            // A reference may end in errors; upstream's do.
            let _ = black_box(desk.call(call));
        }
        (desk, task)
    }
}

/// Alternates between ours and Python's, so that a busy machine slows both.
fn measure(subject: &Subject, python: &Python) -> Result<Figures> {
    ensure!(!subject.tasks.is_empty(), "{} holds no tasks", subject.source);
    let kib_per_open_episode = memory(subject);
    let mut peer = if subject.source.starts_with("a generated") {
        Err(anyhow::anyhow!("tau-bench's tools read their own data; give it with --data"))
    } else {
        Peer::start(python, subject.domain.kind, &subject.tasks)
    };
    let (mut ours, mut theirs) = (0f64, Ok(0f64));
    for _ in 0..ROUNDS {
        ours = ours.max(episodes_per_s(subject));
        if let (Ok(peer), Ok(best)) = (&mut peer, &mut theirs) {
            match peer.episodes_per_s(2) {
                Ok(speed) => *best = best.max(speed),
                Err(why) => theirs = Err(why),
            }
        }
    }
    let python = peer.and(theirs);
    Ok(Figures { episodes_per_s: ours, kib_per_open_episode, python })
}

fn episodes_per_s(subject: &Subject) -> f64 {
    let start = Instant::now();
    let mut played = 0;
    while played < subject.tasks.len() || start.elapsed().as_millis() < 300 {
        let (desk, task) = subject.play(played);
        black_box(judge(&desk, task, &task.outputs));
        played += 1;
    }
    played as f64 / start.elapsed().as_secs_f64()
}

/// Growth of resident memory per episode, with all of them open after their calls.
fn memory(subject: &Subject) -> Option<f64> {
    // Warm-up: one-time work is not an episode's cost.
    drop(subject.play(0));
    let before = resident()?;
    let open: Vec<Desk> = (0..OPEN).map(|at| subject.play(at).0).collect();
    let after = resident()?;
    black_box(open.len());
    Some(after.saturating_sub(before) as f64 / 1024.0 / OPEN as f64)
}

/// Resident bytes of this process.
fn resident() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}
