//! `hone sft --dry-run`: what would be made and imitated, its memory and its time.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use hone_trace::gigabytes;
use hone_train::budget::Budget;
use hone_train::fresh::FreshTokenizer;
use hone_train::recipe::Recipe;
use hone_train::setup::Setup;
use hone_train::sft::sft;
use serde_json::json;

use crate::engines;
use crate::output::{about, duration};
use crate::scratch::Scratch;

/// Seconds of a measurement. Steps of one episode are measured, whatever they take.
const SECONDS: f64 = 10.0;
const LEAST: usize = 1;
/// Seconds of an imitation that is better left to a GPU.
const LONG: f64 = 6.0 * 3600.0;

pub(super) async fn dry_run(recipe: Recipe, tokenizer: Option<&FreshTokenizer>, as_json: bool) -> Result<ExitCode> {
    let scratch = Scratch::new()?;
    let recipe = super::with_policy(recipe, tokenizer, &scratch.path().join("policy")).await?;
    let setup = engines::open(&recipe).await?;
    let budget = Budget::of(&setup, &recipe);
    let parameters = budget.memory.map(|memory| memory.parts.parameters);
    let memory = budget.memory.map(|memory| memory.total_bytes);
    if let (Some(parameters), Some(memory)) = (parameters, memory) {
        crate::output::note!("memory   {parameters} parameters, {} at most", gigabytes(memory));
    }
    if let Some(shortage) = budget.shortage() {
        crate::output::note!("{shortage}");
        return Ok(ExitCode::FAILURE);
    }
    crate::output::note!("measuring the time of a step, for {SECONDS:.0} s at most, or two steps of one episode");
    let (step, episodes) = measured(&setup, &recipe).await?;
    let (steps, batch) = (recipe.sft.steps, recipe.sft.batch);
    let step = step * batch as f64 / episodes as f64;
    let scaled =
        if episodes < batch { format!(", scaled up from steps of {episodes} episodes") } else { String::new() };
    let seconds = step * steps as f64;
    crate::output::note!(
        "time     {} a step and {} for {steps} steps, without evaluations{scaled}",
        about(step),
        duration(seconds)
    );
    if seconds > LONG {
        crate::output::note!("that is long: a GPU takes a fraction of it (--device cuda)");
    }
    if as_json {
        let result = json!({"parameters": parameters, "memory_bytes": memory, "step_s": step, "run_s": seconds});
        writeln!(crate::output::json(), "{result}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Seconds of one step, and its episodes: as many as the measurement has time for.
async fn measured(setup: &Setup, recipe: &Recipe) -> Result<(f64, usize)> {
    let clock = Instant::now();
    let few = LEAST.min(recipe.sft.batch);
    let first = second_step(setup, recipe, few).await?;
    // As many again for the warm-up, and twice the second step.
    let fits = ((SECONDS - clock.elapsed().as_secs_f64()) / (2.0 * first)) as usize;
    let more = recipe.sft.batch.min(fits.saturating_mul(few));
    if more < 2 * few { Ok((first, few)) } else { Ok((second_step(setup, recipe, more).await?, more)) }
}

/// Seconds of the second step: threads wake up and memory is allocated in the first.
async fn second_step(setup: &Setup, recipe: &Recipe, batch: usize) -> Result<f64> {
    let mut short = recipe.clone();
    (short.sft.steps, short.sft.batch, short.sft.stop_at) = (2, batch, None);
    // Whole episodes: they are the dearest.
    (short.sft.copying, short.sft.opening_turns) = (0.0, 0);
    let (mut clock, mut last) = (Instant::now(), 0.0);
    sft(setup, &short, |_| {
        last = clock.elapsed().as_secs_f64();
        clock = Instant::now();
    })
    .await?;
    Ok(last.max(1e-6))
}
