//! `hone train --dry-run`: the resolved recipe on stdout, its cost on stderr.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::Result;
use hone_trace::{clean, clean_json, gigabytes};
use hone_train::budget::{Budget, Estimate, MemoryBudget, estimate};
use hone_train::recipe::Recipe;
use serde_json::json;

use crate::output::{about, duration};

/// Exit code 1 when the machine has less memory than the run may need, or when an episode broke. Memory is printed
/// first, and nothing is measured if there is too little.
pub(super) async fn dry_run(recipe: Recipe, as_json: bool) -> Result<ExitCode> {
    // A recipe without a policy gets one of the size it would train.
    let scratch = crate::scratch::Scratch::new()?;
    let opened = super::with_policy(recipe.clone(), scratch.path())?;
    let setup = crate::engines::open(&opened).await?;
    let (recipe, opened) = (setup.settled(recipe), setup.settled(opened));
    hone_train::run::check(&setup, &opened)?;
    let budget = Budget::of(&setup, &recipe);
    if !as_json {
        show(&budget, &recipe);
    }
    let shortage = budget.shortage();
    let estimate = if shortage.is_some() {
        None
    } else {
        crate::commands::check::before_run(&setup, &opened).await?;
        Some(estimate(&setup, &opened).await)
    };
    let mut stdout = std::io::stdout().lock();
    if as_json {
        let estimate = estimate.as_ref().map(|measured| {
            measured.as_ref().map_or_else(|error| json!({"error": error.to_string()}), |estimate| json!(estimate))
        });
        let shown = json!({"recipe": recipe, "budget": budget, "estimate": estimate});
        writeln!(stdout, "{}", clean_json(&shown.to_string()))?;
    } else {
        match &estimate {
            Some(Ok(estimate)) => show_time(estimate),
            Some(Err(error)) => crate::output::note!("time     not measured: {}", clean(&error.to_string())),
            None => {}
        }
        let text = recipe.to_toml()?;
        // Output to a file is a recipe, byte for byte.
        write!(stdout, "{}", if stdout.is_terminal() { clean(&text) } else { text })?;
    }
    if let Some(shortage) = &shortage {
        crate::output::note!("{shortage}");
    }
    let measured = estimate.and_then(Result::ok);
    let first = measured.and_then(|estimate| Some((estimate.episodes_broken, estimate.first_fault?)));
    if let Some((broken, first)) = &first {
        crate::output::note!("{broken} episodes broke; the first: {}", clean(first));
    }
    Ok(if shortage.is_none() && first.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(budget: &Budget, recipe: &Recipe) {
    match budget.memory {
        Some(memory) => show_memory(memory),
        None => crate::output::note!("memory   on another machine"),
    }
    crate::output::note!(
        "tokens   {} episodes a step, at most {} tokens a step and {} in {} steps (every episode as long as the window)",
        budget.episodes_per_step,
        budget.tokens_per_step,
        budget.tokens,
        recipe.train.steps
    );
}

fn show_memory(memory: MemoryBudget) {
    let (bytes, MemoryBudget { parts, total_bytes }) = (gigabytes, memory);
    let second = match parts.reference_bytes {
        0 => String::new(),
        weights => format!(", second set of weights {}", bytes(weights)),
    };
    crate::output::note!(
        "memory   {} at most: weights {}, gradients and optimizer {}{second}, activations {}, keys and values {}; free {}",
        bytes(total_bytes),
        bytes(parts.weights_bytes),
        bytes(parts.optimizer_bytes),
        bytes(parts.activation_bytes),
        bytes(parts.cache_bytes),
        parts.available_bytes.map_or_else(|| "unknown".to_owned(), bytes),
    );
    if let Some([kept, layers]) = parts.kept_layers {
        let again = match layers - kept {
            0 => "all activations are kept".to_owned(),
            again => format!("the gates and ups of {again} of {layers} layers are computed again in the backward pass"),
        };
        let [pages, tokens] = parts.pages;
        anstream::eprintln!("plan     {again}; keys and values take up to {pages} pages of {tokens} tokens");
    }
    match memory.largest() {
        Some([whole, adapted]) => crate::output::note!(
            "fits     with these batches and this window: models of up to {} parameters trained whole, of up to {} with an \
             adapter (policy.lora)",
            parameters(whole),
            parameters(adapted)
        ),
        None if parts.available_bytes.is_some() => crate::output::note!(
            "fits     with these batches and this window no model: activations, keys and values alone take {}",
            bytes(parts.activation_bytes + parts.cache_bytes)
        ),
        None => {}
    }
}

/// A number of parameters as people say it.
pub(in crate::commands) fn parameters(count: u64) -> String {
    match count {
        0..1_000_000 => format!("{:.0}K", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1}M", count as f64 / 1e6),
        _ => format!("{:.1}B", count as f64 / 1e9),
    }
}

fn show_time(estimate: &Estimate) {
    let broken = match estimate.episodes_broken {
        0 => "none of them broke".to_owned(),
        broken => format!("{broken} of them broke"),
    };
    crate::output::note!("episodes {} played to measure the time; {broken}", estimate.episodes_measured);
    crate::output::note!(
        "time     {} a step and {} in all, without evaluations: measured on {} episodes of {:.0} sampled tokens in {}, \
         and scaled up; larger batches are cheaper per episode",
        about(estimate.step_s),
        duration(estimate.run_s),
        estimate.episodes_measured,
        estimate.sampled_per_episode,
        duration(estimate.measured_s)
    );
}
