//! `hone bench serve`: the OpenEnv server under many sessions, beside the official one in Python.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use hone_remote::http::{Credentials, Http};
use hone_remote::openenv::socket::Socket;
use hone_remote::openenv::wire::Said;
use serde_json::{Value, json};

/// Sessions and steps of the OpenEnv server, and the official Python server as its peer
///
/// Both servers run as separate processes and are driven by the same client: one session per connection, one tool call
/// per step. Ours calls a retail tool that reads the database; the peer echoes a text. Prints steps per second over all
/// sessions, the median and the 99th percentile of a step, and the server's memory.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Concurrent sessions
    #[arg(long, default_value_t = 500)]
    sessions: usize,
    /// Steps of all sessions together
    #[arg(long, default_value_t = 100_000)]
    steps: usize,
    /// A Python with the openenv package, for the peer
    #[arg(long, value_name = "PYTHON")]
    peer: Option<PathBuf>,
    /// Steps of the peer: it is slow
    #[arg(long, default_value_t = 5_000)]
    peer_steps: usize,
    #[arg(long)]
    json: bool,
}

/// A server that ends with the benchmark.
struct Server {
    child: Child,
    url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts a server that prints its address as its first line.
    fn start(command: &mut Command) -> Result<Self> {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("cannot start the server")?;
        let stdout = child.stdout.take().context("the server has no stdout")?;
        let mut url = String::new();
        BufReader::new(stdout).read_line(&mut url)?;
        let server = Self { child, url: url.trim().to_owned() };
        if server.url.is_empty() {
            bail!("the server ended before it said its address; is the package installed there?");
        }
        Ok(server)
    }

    /// Peak memory, in MiB.
    fn memory(&self) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        Some(line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok()? / 1024.0)
    }
}

/// Result of a load test.
struct Load {
    steps_per_s: f64,
    median: Duration,
    p99: Duration,
    memory: Option<f64>,
}

impl Load {
    fn json(&self) -> Value {
        json!({
            "steps_per_s": self.steps_per_s,
            "median_ms": self.median.as_secs_f64() * 1e3,
            "p99_ms": self.p99.as_secs_f64() * 1e3,
            "memory_mib": self.memory,
        })
    }

    fn show(&self, name: &str) {
        let memory = self.memory.map_or("unknown".to_owned(), |mib| format!("{mib:.0} MiB"));
        anstream::println!(
            "{name:<8} {:>9.0} steps/s   median {:>8.2?}   p99 {:>8.2?}   memory {memory}",
            self.steps_per_s,
            self.median,
            self.p99
        );
    }
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["env", "serve", "retail", "--addr", "127.0.0.1:0", "--max-steps", "1000000000"]);
    command.args(["--sessions", "100000", "--per-client", "100000"]);
    let server = Server::start(&mut command)?;
    let call = json!({"tool_name": "list_all_product_types", "arguments": {}});
    let ours = runtime.block_on(load(&server, args.sessions, args.steps, &call))?;
    drop(server);
    let peer = match &args.peer {
        None => None,
        Some(python) => {
            let mut command = Command::new(python);
            command.args(["-c", PEER, &args.sessions.to_string()]);
            let server = Server::start(&mut command)?;
            let call = json!({"type": "call_tool", "tool_name": "echo_message", "arguments": {"message": "hi"}});
            Some(runtime.block_on(load(&server, args.sessions, args.peer_steps, &call))?)
        }
    };
    let ratio = peer.as_ref().map(|peer| ours.steps_per_s / peer.steps_per_s);
    if args.json {
        let result = json!({"sessions": args.sessions, "ours": ours.json(), "peer": peer.as_ref().map(Load::json), "ratio": ratio});
        anstream::println!("{result}");
        return Ok(ExitCode::SUCCESS);
    }
    anstream::println!("{} sessions, one run each", args.sessions);
    ours.show("hone");
    match (&peer, ratio) {
        (Some(peer), Some(ratio)) => {
            peer.show("openenv");
            anstream::println!("{ratio:.1} x the steps of the Python server");
        }
        _ => anstream::println!("no peer: --peer PYTHON names one with the openenv package"),
    }
    Ok(ExitCode::SUCCESS)
}

async fn load(server: &Server, sessions: usize, steps: usize, call: &Value) -> Result<Load> {
    let http = Http::new(&server.url, &Credentials::default()).map_err(|what| anyhow!(what))?;
    let mut open = Vec::with_capacity(sessions);
    for _ in 0..sessions {
        let socket = connect(&http).await?;
        let (socket, said) = socket.ask(&json!({"type": "reset", "data": {"seed": 1}})).await?;
        if !matches!(said, Said::Observation(_)) {
            bail!("a reset was answered by {said:?}");
        }
        open.push(socket);
    }
    let message = json!({"type": "step", "data": call});
    let each = steps.div_ceil(sessions);
    let clock = Instant::now();
    let tasks: Vec<_> = open
        .into_iter()
        .map(|socket| {
            let message = message.clone();
            tokio::spawn(async move { session(socket, &message, each).await })
        })
        .collect();
    let mut times = Vec::with_capacity(each * sessions);
    for task in tasks {
        times.extend(task.await??);
    }
    let seconds = clock.elapsed().as_secs_f64();
    times.sort_unstable();
    let at =
        |share: f64| times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1))).copied();
    let (median, p99) = (at(0.5).unwrap_or_default(), at(0.99).unwrap_or_default());
    Ok(Load { steps_per_s: times.len() as f64 / seconds, median, p99, memory: server.memory() })
}

/// A server that has just started may not listen yet.
async fn connect(http: &Http) -> Result<Socket> {
    let mut last = None;
    for _ in 0..100 {
        match Socket::connect(http, "ws").await {
            Ok(socket) => return Ok(socket),
            Err(failure) => last = Some(failure),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(last.map_or_else(|| anyhow!("no connection"), Into::into))
}

async fn session(mut socket: Socket, message: &Value, steps: usize) -> Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(steps);
    for _ in 0..steps {
        let clock = Instant::now();
        let (kept, said) = socket.ask(message).await?;
        times.push(clock.elapsed());
        match said {
            Said::Observation(envelope) if envelope.observation.get("error").is_none_or(Value::is_null) => {}
            other => bail!("a step was answered by {other:?}"),
        }
        socket = kept;
    }
    Ok(times)
}

/// The official server with an environment that echoes, at a free port.
const PEER: &str = include_str!("../../../../scripts/openenv_echo.py");
