//! `hone train`: the main job.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use hone_train::fresh::fresh_policy;
use hone_train::recipe::Recipe;
use hone_train::report::{Row, RunReport};
use hone_train::run::{Report, train};
use hone_train::setup::Setup;
use hone_train::sft::sft;
use serde_json::{Value, json};

use crate::progress::Style;
use crate::progress::sft::SftProgress;
use crate::progress::summary::summary;
use crate::progress::train::TrainProgress;

/// Train a policy with reinforcement learning, and measure it on tasks it never trained on.
///
/// Samples groups of episodes, scores them, credits every sampled token against its siblings, learns, and repeats.
/// Everything is recorded in the run directory (docs/run-directory.md). Progress goes to stderr; with --json the last
/// line on stdout is one JSON object with the evaluation before and after.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A recipe in TOML. Without one: the quickstart, which makes a tiny policy of its own where policy.model is not set.
    recipe: Option<PathBuf>,
    /// Set a recipe key, e.g. --set train.steps=5. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Where the run is recorded. Default: runs/NAME-N, the first N that is free.
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Show a conversation every N steps; 0 shows none.
    #[arg(long, value_name = "N", default_value_t = 10)]
    samples: u64,
    /// Print the resolved recipe and stop.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

const QUICKSTART: &str = include_str!("../../../../recipes/quickstart.toml");

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let recipe = read_recipe(&args)?;
    let given = recipe.policy.model.clone();
    if args.dry_run {
        write!(std::io::stdout().lock(), "{}", recipe.to_toml()?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let directory = args.run.clone().unwrap_or_else(|| free_directory(&recipe.name));
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let report = runtime.block_on(async {
        let recipe = with_policy(recipe.clone(), &directory).await?;
        let setup = Setup::open(&recipe)?;
        if recipe.policy.model != given {
            warm_start(&setup, &recipe).await?;
        }
        let mut watch = TrainProgress::start(&recipe, &setup, args.samples, &directory);
        anyhow::Ok(train(&setup, &recipe, &directory, &mut watch).await?)
    })?;
    let recounted = RunReport::read(&directory)?;
    recounted.save(&directory)?;
    anstream::eprint!("{}", summary(&recounted, &directory, Style::for_stderr()));
    if args.json {
        writeln!(std::io::stdout().lock(), "{}", as_json(&report, &recounted, &directory))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read_recipe(args: &Args) -> Result<Recipe> {
    match &args.recipe {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            Recipe::parse(&text, &args.set).with_context(|| format!("in {}", path.display()))
        }
        None => Ok(Recipe::parse(QUICKSTART, &args.set)?),
    }
}

/// The recipe with a policy: its own, or one made on the spot beside the run.
async fn with_policy(mut recipe: Recipe, directory: &Path) -> Result<Recipe> {
    if recipe.policy.model.is_none() {
        let path = directory.join("policy");
        anstream::eprintln!(
            "no policy.model: making a tiny one in {} and warming it up by {} steps of imitation. No trained policy is \
             shipped yet, and this warm start is far too short to solve tasks: the run shows the loop, not learning. \
             `hone sft` trains a policy for longer",
            path.display(),
            recipe.sft.steps
        );
        fresh_policy(&recipe, &path).await?;
        recipe.policy.model = Some(path);
    }
    Ok(recipe)
}

async fn warm_start(setup: &Setup, recipe: &Recipe) -> Result<()> {
    let mut progress = SftProgress::start("warm start", recipe.sft.steps);
    progress.doing("imitating");
    sft(setup, recipe, |step| progress.stepped(step)).await?;
    Ok(())
}

fn free_directory(name: &str) -> PathBuf {
    let numbered = |number: u32| Path::new("runs").join(format!("{name}-{number}"));
    (1..=u32::MAX).map(numbered).find(|path| !path.exists()).unwrap_or_else(|| numbered(0))
}

fn as_json(report: &Report, recounted: &RunReport, directory: &Path) -> Value {
    let tokens = |place: &str| recounted.tokens.get(place).copied().unwrap_or(0.0).round() as u64;
    let component = |row: &Row| (row.name.clone(), json!({"first": row.first, "last": row.last}));
    json!({
        "run": directory,
        "steps": recounted.steps,
        "seed": recounted.seed,
        "eval": {"before": report.before, "after": report.after},
        "components": recounted.components.iter().map(component).collect::<serde_json::Map<_, _>>(),
        "tokens": {"sampled": tokens("sampled"), "trained": tokens("trained")},
        "seconds": report.seconds,
    })
}
