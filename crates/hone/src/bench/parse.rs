//! `hone bench parse`: cost of parsing a reply, and the ratio to the same work in Python.

use std::{
    hint::black_box,
    io::Write,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
    time::Instant,
};

use anyhow::Context;
use hone_chat::parse::{Format, Toolbox, parse};
use hone_trace::{ToolCall, ToolSet};
use serde_json::{Value, json};

/// The Python side: json and jsonschema over the Hermes format.
const REFERENCE: &str = include_str!("../../../../scripts/bench_parse.py");

/// Time the tool-call parser: replies, long prose, hostile text, and the ratio to Python.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Case file of replies [default: cases/parser_cases.jsonl under $HONE_SHARED or ../shared; else replies of our own]
    #[arg(long, value_name = "FILE")]
    cases: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A reply and the tools it was given.
struct Case {
    text: String,
    tools: usize,
    hermes: bool,
}

struct Corpus {
    source: String,
    cases: Vec<Case>,
    toolboxes: Vec<(Value, Toolbox)>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let corpus = Corpus::load(args.cases)?;
    let replies = time_replies(&corpus, |_| true);
    let hermes = time_replies(&corpus, |case| case.hermes);
    let prose = time_prose(&corpus.toolboxes[0].1);
    let (hostile_ms, hostile) = time_hostile(&corpus.toolboxes[0].1);
    let python = reference(&corpus);
    let report = json!({
        "corpus": corpus.source,
        "replies": replies.len(),
        "median_ns": quantile(&replies, 0.5),
        "p90_ns": quantile(&replies, 0.9),
        "max_ns": quantile(&replies, 1.0),
        "prose_mb_per_s": prose,
        "hostile_worst_ms_per_mib": hostile_ms,
        "hostile_worst": hostile,
        "hermes_median_ns": quantile(&hermes, 0.5),
        "python_hermes_median_ns": python.as_ref().ok(),
        "times_faster_than_python": python.as_ref().ok().map(|python| python / quantile(&hermes, 0.5)),
        "python_note": python.as_ref().err().map(ToString::to_string),
    });
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{report}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "replies   {} from {}, format found, arguments validated", replies.len(), corpus.source)?;
    let [median, p90, max] = [0.5, 0.9, 1.0].map(|q| quantile(&replies, q));
    writeln!(out, "          median {median:.0} ns, p90 {p90:.0} ns, max {max:.0} ns (bar: median at most 1000 ns)")?;
    writeln!(out, "prose     {prose:.0} MB/s without a call (bar: over 200 MB/s)")?;
    writeln!(out, "hostile   {hostile_ms:.1} ms per MiB at worst, {hostile:?} repeated (bar: under 50 ms)")?;
    match python {
        Ok(python) => writeln!(
            out,
            "python    json + jsonschema over Hermes: median {python:.0} ns; here {:.0} ns: {:.0} times faster",
            quantile(&hermes, 0.5),
            python / quantile(&hermes, 0.5)
        )?,
        Err(why) => writeln!(out, "python    not measured: {why:#}")?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Corpus {
    fn load(path: Option<PathBuf>) -> anyhow::Result<Self> {
        if let Some(path) = path {
            return Self::from_file(&path);
        }
        let shared = std::env::var_os("HONE_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
        let path = shared.join("cases/parser_cases.jsonl");
        if path.exists() { Self::from_file(&path) } else { Self::generated() }
    }

    fn from_file(path: &std::path::Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut corpus = Self { source: path.display().to_string(), cases: Vec::new(), toolboxes: Vec::new() };
        for (number, line) in text.lines().enumerate() {
            let case: Value = serde_json::from_str(line).with_context(|| format!("line {}", number + 1))?;
            let tools = corpus.toolbox(&case["tools"])?;
            let text = case["text"].as_str().with_context(|| format!("line {}: no \"text\"", number + 1))?.to_owned();
            corpus.cases.push(Case { text, tools, hermes: case["format"] == "hermes" });
        }
        anyhow::ensure!(!corpus.cases.is_empty(), "{} holds no cases", path.display());
        Ok(corpus)
    }

    /// One reply per format, if there is no case file.
    fn generated() -> anyhow::Result<Self> {
        let tools = json!([{"type": "function", "function": {"name": "search", "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
            "required": ["query"],
            "additionalProperties": false,
        }}}]);
        let mut corpus = Self { source: "generated replies".to_owned(), cases: Vec::new(), toolboxes: Vec::new() };
        corpus.toolbox(&tools)?;
        let call: ToolCall =
            serde_json::from_value(json!({"name": "search", "arguments": {"query": "rust 2024 edition", "limit": 3}}))?;
        for format in Format::ALL {
            let text = format.render_calls(std::slice::from_ref(&call), &corpus.toolboxes[0].1)?;
            corpus.cases.push(Case { text, tools: 0, hermes: format == Format::Hermes });
        }
        Ok(corpus)
    }

    fn toolbox(&mut self, tools: &Value) -> anyhow::Result<usize> {
        if let Some(known) = self.toolboxes.iter().position(|(known, _)| known == tools) {
            return Ok(known);
        }
        let set: ToolSet = serde_json::from_value(tools.clone())?;
        self.toolboxes.push((tools.clone(), Toolbox::new(&set)?));
        Ok(self.toolboxes.len() - 1)
    }
}

/// Nanoseconds per reply: the best of five rounds for each reply, so that a busy machine matters little.
fn time_replies(corpus: &Corpus, wanted: impl Fn(&Case) -> bool) -> Vec<f64> {
    const REPEATS: u32 = 500;
    let cases: Vec<_> = corpus.cases.iter().filter(|case| wanted(case)).collect();
    let mut best = vec![f64::INFINITY; cases.len()];
    for _ in 0..5 {
        for (case, best) in cases.iter().zip(&mut best) {
            let tools = &corpus.toolboxes[case.tools].1;
            let start = Instant::now();
            for _ in 0..REPEATS {
                black_box(parse(black_box(&case.text), tools, None));
            }
            *best = best.min(start.elapsed().as_nanos() as f64 / f64::from(REPEATS));
        }
    }
    best.sort_by(f64::total_cmp);
    best
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((q * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
}

/// Megabytes of plain text per second.
fn time_prose(tools: &Toolbox) -> f64 {
    let paragraph = "The committee (all seven of them) met on Tuesday; \"nothing was decided\", as a < b shows [3]. \
                     Costs rose by 4%, which nobody had foreseen: the plan {draft 2} was 12 pages long.\n\n";
    let text = paragraph.repeat((8 << 20) / paragraph.len());
    let seconds = seconds(|| drop(black_box(parse(black_box(&text), tools, None))));
    text.len() as f64 / 1e6 / seconds
}

/// Milliseconds for the worst MiB of hostile text, and what it repeats.
fn time_hostile(tools: &Toolbox) -> (f64, &'static str) {
    const FRAGMENTS: [&str; 16] = [
        "{",
        "[",
        "\"",
        "{\"",
        "{\"a\":",
        "{\"name\":",
        "<tool_call>",
        "<tool_call>{\"",
        "<think>",
        "</think>",
        "```json\n{",
        "\nAction: f\nAction Input: {\"",
        "[TOOL_CALLS]{\"",
        "<tool_call><function=f><parameter=a>",
        "<|channel|>commentary to=f<|message|>{\"",
        "\"</tool_call><tool_call>[\",",
    ];
    let time = |fragment: &'static str| {
        let text = fragment.repeat((1 << 20) / fragment.len());
        (seconds(|| drop(black_box(parse(black_box(&text), tools, None)))) * 1e3, fragment)
    };
    FRAGMENTS.into_iter().map(time).max_by(|left, right| left.0.total_cmp(&right.0)).unwrap_or((f64::NAN, ""))
}

/// Seconds of one run: processor time if the system reports it, so that a busy machine matters little; else the best of
/// several by the clock.
fn seconds(work: impl Fn()) -> f64 {
    const ROUNDS: usize = 5;
    let time = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    let before = processor_ns();
    let best = (0..ROUNDS).map(time).fold(f64::INFINITY, f64::min);
    match before.zip(processor_ns()) {
        Some((before, after)) => best.min((after - before) / 1e9 / ROUNDS as f64),
        None => best,
    }
}

/// Processor time of this thread, to a scheduler tick.
fn processor_ns() -> Option<f64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().next()?.parse().ok()
}

/// Median nanoseconds of the Python reference over the Hermes replies.
fn reference(corpus: &Corpus) -> anyhow::Result<f64> {
    let replies: Vec<_> = corpus.cases.iter().filter(|case| case.hermes).map(|case| &case.text).collect();
    let job = json!({"replies": replies, "tools": corpus.toolboxes[0].0});
    let mut child = Command::new("python3")
        .args(["-W", "ignore", "-c", REFERENCE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("python3 does not start; install it to see the ratio")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(job.to_string().as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        anyhow::bail!("the Python side failed ({}); it needs jsonschema", stderr.lines().last().unwrap_or_default());
    }
    let answer: Value = serde_json::from_slice(&output.stdout).context("the Python side's answer")?;
    answer["median_ns"].as_f64().context("the Python side gave no median")
}
