//! `hone sft`: the warm start.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use hone_train::checkpoint::copy_texts;
use hone_train::evaluate::evaluate;
use hone_train::fresh::fresh_policy;
use hone_train::recipe::Recipe;
use hone_train::run::recorded_recipe;
use hone_train::setup::Setup;
use hone_train::sft::sft_recorded;
use serde_json::json;

use crate::engines;
use crate::progress::sft::SftProgress;
use crate::progress::train::{optional, with_interval};

/// Warm-start a policy by imitation: of the solutions of generated tasks, of demonstrations, or of recorded traces.
///
/// Loads policy.model (or makes a tiny policy, where the recipe names none), imitates for sft.steps steps or until
/// sft.stop_at is reached, evaluates on held-out tasks before and after, and writes the model to --out in Hugging Face's
/// layout, tokenizer and template included.
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
    /// Go on from the newest checkpoint of an imitation that was stopped. Checkpoints are kept in OUT.run until the model
    /// is written; the recipe must be the same.
    #[arg(long)]
    resume: bool,
    /// Print the result as one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let text =
        std::fs::read_to_string(&args.recipe).with_context(|| format!("cannot read {}", args.recipe.display()))?;
    let recipe = Recipe::parse(&text, &args.set).with_context(|| format!("in {}", args.recipe.display()))?;
    if args.out.exists() {
        bail!("{} exists; name a new directory for the model", args.out.display());
    }
    let run = run_directory(&args.out);
    if run.exists() && !args.resume {
        bail!("{} holds an imitation that was stopped; go on with --resume, or remove it", run.display());
    }
    if args.resume && run.exists() {
        same_recipe(&recipe, &run)?;
    }
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let setup = runtime.block_on(async {
        let recipe = with_policy(recipe.clone(), &args.out).await?;
        engines::open(&recipe).await
    })?;
    let clock = std::time::Instant::now();
    let (before, after) = runtime.block_on(async {
        let mut progress = SftProgress::start(&recipe.name, recipe.sft.steps);
        progress.doing("evaluating");
        let before = evaluate(&setup, &recipe, setup.engine.sampler()).await;
        progress.doing("imitating");
        sft_recorded(&setup, &recipe, &run, |step| progress.stepped(step)).await?;
        progress.doing("evaluating");
        let after = evaluate(&setup, &recipe, setup.engine.sampler()).await;
        anyhow::Ok((before, after))
    })?;
    runtime.block_on(save(&setup, &args.out))?;
    for aside in [run, beside(&args.out, ".fresh")].iter().filter(|path| path.exists()) {
        std::fs::remove_dir_all(aside).with_context(|| format!("cannot remove {}", aside.display()))?;
    }
    if args.json {
        let result = json!({"model": args.out, "eval": {"before": before, "after": after}, "seconds": clock.elapsed().as_secs_f64()});
        writeln!(crate::output::json(), "{result}")?;
    }
    anstream::eprintln!(
        "success {} -> {}, parse failures {}; the model is in {}",
        optional(before.success),
        with_interval(&after),
        optional(after.parse_failure_rate),
        args.out.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// The recipe with a policy: its own, or one made on the spot in OUT.fresh.
async fn with_policy(mut recipe: Recipe, out: &Path) -> Result<Recipe> {
    if recipe.policy.model.is_none() {
        let path = beside(out, ".fresh");
        if !path.exists() {
            anstream::eprintln!("no policy.model: making a tiny one in {}", path.display());
            fresh_policy(&recipe, engines::engine_of(&recipe)?, &path).await?;
        }
        recipe.policy.model = Some(path);
    }
    Ok(recipe)
}

/// Where the checkpoints are while the model is not there yet.
fn run_directory(out: &Path) -> PathBuf {
    beside(out, ".run")
}

fn beside(out: &Path, ending: &str) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn same_recipe(recipe: &Recipe, run: &Path) -> Result<()> {
    let recorded = recorded_recipe(run)?.to_toml()?;
    if recorded != recipe.to_toml()? {
        bail!(
            "{} was begun by another recipe: {} is it. Go on with that one, or remove it",
            run.display(),
            run.join("recipe.toml").display()
        );
    }
    Ok(())
}

async fn save(setup: &Setup, out: &Path) -> Result<()> {
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    setup.engine.export(out).await?;
    copy_texts(&setup.model_dir, out).with_context(|| format!("cannot copy the tokenizer to {}", out.display()))
}
