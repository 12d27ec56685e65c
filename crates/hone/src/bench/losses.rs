//! `hone bench losses`: cost of each loss, as a share of its step.

use std::io::Write;
use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use hone_engine::Cpu;
use hone_trace::{Loss as _, Seed, TokenBatch};
use hone_train::loss::{LOSSES, LossRecipe, Objective};
use serde::Serialize;
use serde_json::json;

use super::step::ours::{Stepper, WORK};

/// Time every loss on the tokens of one GRPO step, beside the whole step
///
/// The step is the one of `hone bench step`: 64 completions of 100 tokens. Exits with code 1 if a loss takes 2 % of it
/// or more.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Threads of the step [default: all cores]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
    /// Rounds; the best of them is printed
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The largest share of a step a loss may take.
const SHARE: f64 = 0.02;

#[derive(Debug, Serialize)]
struct Cost {
    loss: &'static str,
    nanoseconds_per_token: f64,
    share_of_step: f64,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let rounds = args.rounds.max(1);
    let columns = Columns::random(WORK.prompts * WORK.samples, WORK.new_tokens);
    let objectives = LOSSES.iter().map(|entry| Ok((entry.name, named(entry.name)?))).collect::<Result<Vec<_>>>()?;
    let mut stepper = Stepper::new(Cpu::new(args.threads)?.threads(), WORK)?;
    stepper.step(0)?;
    let (mut step, mut best) = (f64::MAX, vec![f64::MAX; objectives.len()]);
    for round in 1..=rounds {
        // Alternating, so that a busy moment of the machine does not affect only one of them.
        step = step.min(stepper.step(round as u64)?.seconds);
        for (best, (_, objective)) in best.iter_mut().zip(&objectives) {
            *best = best.min(columns.time(objective));
        }
    }
    let tokens = columns.logp.len() as f64;
    let costs: Vec<Cost> = objectives
        .iter()
        .zip(&best)
        .map(|((loss, _), seconds)| Cost {
            loss,
            nanoseconds_per_token: seconds / tokens * 1e9,
            share_of_step: seconds / step,
        })
        .collect();
    let missed = costs.iter().any(|cost| cost.share_of_step >= SHARE);
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", json!({"step_seconds": step, "tokens": tokens, "rounds": rounds, "losses": costs}))?;
    } else {
        writeln!(
            out,
            "{tokens} tokens, a step of {step:.2} s, best of {rounds} rounds (bar: under {:.0} %)\n",
            SHARE * 100.0
        )?;
        writeln!(out, "loss                   ns/token   share of the step")?;
        for Cost { loss, nanoseconds_per_token, share_of_step } in &costs {
            writeln!(out, "{loss:<22} {nanoseconds_per_token:>8.1}   {:>8.4} %", share_of_step * 100.0)?;
        }
    }
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn named(name: &str) -> Result<Objective> {
    let mut recipe = LossRecipe::named(name);
    if recipe.build().is_err() {
        // Some losses divide by a length that the recipe must name.
        recipe.hyperparameters.insert("max_tokens".into(), WORK.new_tokens as f64);
    }
    recipe.build().with_context(|| format!("loss {name}"))
}

/// The tokens of an optimizer step, a little off-policy, so that clips have something to do.
struct Columns {
    logp: Vec<f64>,
    old: Vec<f64>,
    advantage: Vec<f64>,
    weight: Vec<f64>,
    entropy: Vec<f64>,
    sequences: Vec<Range<usize>>,
}

impl Columns {
    fn random(sequences: usize, tokens: usize) -> Self {
        let mut rng = Seed::root(0).with("losses").rng();
        let count = sequences * tokens;
        let mut column =
            |low: f64, high: f64| (0..count).map(|_| low + (high - low) * rng.unit()).collect::<Vec<f64>>();
        let (logp, drift, entropy) = (column(-6.0, -0.1), column(-0.4, 0.4), column(0.0, 2.0));
        let advantage = column(-1.0, 1.0);
        Self {
            old: logp.iter().zip(&drift).map(|(logp, drift)| logp + drift).collect(),
            logp,
            // One advantage per sequence.
            advantage: (0..count).map(|at| advantage[at / tokens]).collect(),
            weight: vec![1.0 / count as f64; count],
            entropy,
            sequences: (0..sequences).map(|at| at * tokens..(at + 1) * tokens).collect(),
        }
    }

    /// Seconds of one gradient.
    fn time(&self, objective: &Objective) -> f64 {
        let mut out = vec![0.0; self.logp.len()];
        let tokens = TokenBatch {
            logp: &self.logp,
            old: &self.old,
            sampler: &self.old,
            behaviour: &self.old,
            reference: Some(&self.old),
            advantage: &self.advantage,
            weight: &self.weight,
            entropy: Some(&self.entropy),
            sequences: &self.sequences,
        };
        let clock = Instant::now();
        std::hint::black_box(objective.grad(std::hint::black_box(&tokens), &mut out));
        clock.elapsed().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loss_can_be_timed() {
        let columns = Columns::random(2, 5);
        for entry in LOSSES {
            assert!(columns.time(&named(entry.name).unwrap()) >= 0.0);
        }
        assert!(named("no such loss").is_err());
    }
}
