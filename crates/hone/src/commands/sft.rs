//! `hone sft`: the warm start.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use hone_engine::weights::Storage;
use hone_train::evaluate::evaluate;
use hone_train::recipe::Recipe;
use hone_train::setup::Setup;
use hone_train::sft::sft;
use serde_json::json;

use crate::progress::sft::SftProgress;

/// Warm-start a policy by imitating the oracle on generated tasks.
///
/// Loads policy.model, imitates for sft.steps steps, evaluates on held-out tasks before and after, and writes the model
/// to --out in Hugging Face's layout, tokenizer and template included.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A recipe; `recipes/tiny-policy.toml` is one.
    recipe: PathBuf,
    /// Set a recipe key, e.g. --set sft.steps=100. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Where the model goes. Must not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print the result as one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

/// The text files of a model directory, which go where its weights go.
const TEXTS: [&str; 4] = ["tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"];

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let text =
        std::fs::read_to_string(&args.recipe).with_context(|| format!("cannot read {}", args.recipe.display()))?;
    let recipe = Recipe::parse(&text, &args.set).with_context(|| format!("in {}", args.recipe.display()))?;
    if args.out.exists() {
        bail!("{} exists; name a new directory for the model", args.out.display());
    }
    let setup = Setup::open(&recipe)?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let clock = std::time::Instant::now();
    let (before, after) = runtime.block_on(async {
        let mut progress = SftProgress::start(&recipe.name, recipe.sft.steps);
        progress.doing("evaluating");
        let (before, _) = evaluate(&setup, &recipe).await?;
        progress.doing("imitating");
        sft(&setup, &recipe, |step| progress.stepped(step)).await?;
        progress.doing("evaluating");
        let (after, _) = evaluate(&setup, &recipe).await?;
        anyhow::Ok((before, after))
    })?;
    save(&setup, &args.out)?;
    if args.json {
        let result = json!({"model": args.out, "eval": {"before": before, "after": after}, "seconds": clock.elapsed().as_secs_f64()});
        writeln!(std::io::stdout().lock(), "{result}")?;
    }
    anstream::eprintln!(
        "success {:.3} -> {:.3} [{:.3}, {:.3}], parse failures {:.3}; the model is in {}",
        before.success,
        after.success,
        after.ci[0],
        after.ci[1],
        after.parse_failure_rate,
        args.out.display()
    );
    Ok(ExitCode::SUCCESS)
}

fn save(setup: &Setup, out: &Path) -> Result<()> {
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    setup.policy.current().model.save(out, Storage::Bf16)?;
    for name in TEXTS {
        let from = setup.model_dir.join(name);
        if from.is_file() {
            std::fs::copy(&from, out.join(name)).with_context(|| format!("cannot copy {}", from.display()))?;
        }
    }
    Ok(())
}
