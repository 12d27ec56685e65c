//! Concurrent episodes: strict retail, a scripted user, a policy that knows the solutions, all through the rollout
//! driver. The first reply of every episode waits until all of them are open.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use hone_arena::registry::{Environment, TRAIN};
use hone_arena::rewards::TOTAL;
use hone_arena::rollout::{RolloutSettings, Rollouts, Slot};
use hone_arena::solution::{Move, solution};
use hone_chat::parse::Format;
use hone_chat::{ModelDir, RenderSettings, Renderer, call_format, train_tokenizer};
use hone_trace::{
    Digest, PolicyVersion, Sample, SampleFault, SampleRequest, Sampled, Sampler, SamplingParams, StopReason, Task,
};
use hone_worlds::EnvSpec;
use serde_json::{Value, json};
use tokio::sync::Barrier;

/// Upper bound on resident memory.
const BAR_GIB: f64 = 2.0;
/// Episodes of one task, as a group would have them.
const GROUP: usize = 16;
const VOCAB: usize = 4096;

/// Figures of a crowd.
pub(super) struct Crowd {
    episodes: usize,
    solved: usize,
    tokens: usize,
    seconds: f64,
    peak_gib: Option<f64>,
}

impl Crowd {
    /// Everything was solved, within the memory.
    pub(super) fn is_under_its_bar(&self) -> bool {
        self.solved == self.episodes && self.peak_gib.is_none_or(|peak| peak < BAR_GIB)
    }

    pub(super) fn to_json(&self) -> Value {
        let Self { episodes, solved, tokens, seconds, peak_gib } = self;
        json!({"episodes": episodes, "solved": solved, "tokens": tokens, "seconds": seconds, "peak_gib": peak_gib,
               "bar_gib": BAR_GIB})
    }

    pub(super) fn print(&self, out: &mut impl Write) -> Result<()> {
        let Self { episodes, solved, tokens, seconds, peak_gib } = self;
        writeln!(
            out,
            "crowd     {episodes} strict retail episodes at once, scripted user and policy: {solved} solved"
        )?;
        writeln!(out, "          {tokens} tokens in {seconds:.1} s, one core")?;
        match peak_gib {
            Some(peak) => writeln!(out, "          {peak:.2} GiB resident at the peak (bar: {BAR_GIB} GiB)")?,
            None => writeln!(out, "          memory not measured: no /proc/self/status here")?,
        }
        Ok(())
    }
}

pub(super) fn play(episodes: usize) -> Result<Crowd> {
    let table = json!({"name": "retail", "tasks": episodes.div_ceil(GROUP), "held_out": 0});
    let environment = EnvSpec::read(table.as_object().cloned().unwrap_or_default())?.open()?;
    let tasks = environment.splits[TRAIN].to_vec();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(crowd(environment, &tasks, episodes))
}

async fn crowd(environment: Environment, tasks: &[Task], episodes: usize) -> Result<Crowd> {
    let (renderer, format) = renderer(&environment, tasks).await?;
    let first = environment.arena.open(&tasks[0], 0).await?;
    let settings = RolloutSettings {
        window: 1 << 16,
        max_turns: 64,
        wall_s: 86_400.0,
        sampler_deadline_s: 86_400.0,
        ..Default::default()
    };
    let sampling = SamplingParams { max_new_tokens: 4096, ..SamplingParams::default() };
    let open = Arc::new(Barrier::new(episodes));
    let nobody = Knowing::with(VecDeque::new(), &open);
    let rollouts =
        Rollouts::new(environment.arena, nobody, renderer.clone(), Arc::new(environment.rubric), sampling, settings);
    let tools = rollouts.toolbox(&first.tools)?;

    let start = Instant::now();
    let mut plays = Vec::with_capacity(episodes);
    for number in 0..episodes {
        let task = &tasks[number / GROUP];
        let mut lines = VecDeque::new();
        for step in solution(task).with_context(|| format!("{} has no solution", task.key))? {
            let text = match step {
                Move::Call(call) => format.render_calls(&[call], &tools)?,
                Move::Say(text) => text,
            };
            lines.push_back(renderer.tokenizer().encode(&format!("{text}<|im_end|>"))?);
        }
        let rollouts = rollouts.with_sampler(Knowing::with(lines, &open));
        let slot = Slot { task, replica: (number % GROUP) as u32, seed: number as u64 };
        plays.push(async move { rollouts.play(slot).await });
    }
    let traces = futures::future::join_all(plays).await;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(traces.len() == episodes, "{} of {episodes} episodes came back", traces.len());
    Ok(Crowd {
        episodes,
        solved: traces.iter().filter(|trace| trace.reward(TOTAL) == Some(1.0)).count(),
        tokens: traces.iter().map(|trace| trace.tokens().count()).sum(),
        seconds,
        peak_gib: peak_bytes().map(|bytes| bytes as f64 / f64::from(1 << 30)),
    })
}

/// A tokenizer trained on the world's own texts: about four letters per token, like real ones.
async fn renderer(environment: &Environment, tasks: &[Task]) -> Result<(Renderer, Format)> {
    let mut texts = Vec::new();
    for task in tasks.iter().take(8) {
        let episode = environment.arena.open(task, 0).await?;
        let tools: Vec<String> = episode.tools.iter().map(|tool| tool.to_openai().to_string()).collect();
        texts.push(format!("{}\n{}\n{}", episode.system, tools.join("\n"), json!(task)));
    }
    let directory = tempfile::tempdir()?;
    train_tokenizer(texts, VOCAB, &[])?.write(directory.path())?;
    let model = ModelDir::open(directory.path())?;
    let renderer = Renderer::new(&model, RenderSettings::default())?;
    let format = call_format(renderer.template(true), model.special_tokens()).context("the template has no calls")?;
    Ok((renderer, format))
}

/// A policy of one episode that knows the solution, and starts when all episodes are open.
struct Knowing {
    lines: Mutex<VecDeque<Vec<u32>>>,
    began: AtomicBool,
    open: Arc<Barrier>,
}

impl Knowing {
    fn with(lines: VecDeque<Vec<u32>>, open: &Arc<Barrier>) -> Arc<dyn Sampler> {
        Arc::new(Self { lines: Mutex::new(lines), began: AtomicBool::new(false), open: Arc::clone(open) })
    }
}

#[async_trait::async_trait]
impl Sampler for Knowing {
    async fn sample(&self, request: SampleRequest) -> Result<Sample, SampleFault> {
        // A model would keep its cache, not the request.
        drop(request);
        if !self.began.swap(true, Ordering::Relaxed) {
            self.open.wait().await;
        }
        let Some(tokens) = self.lines.lock().unwrap_or_else(PoisonError::into_inner).pop_front() else {
            return Err(SampleFault::Failed { what: "no line left".into(), transient: false });
        };
        let version = PolicyVersion { run: "crowd".into(), step: 0, weights: Digest::of(b"crowd") };
        Ok(Sample { sampled: Sampled::by(version, vec![0.0; tokens.len()]), tokens, stop: StopReason::StopId })
    }
}

/// Peak resident memory of this process.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
