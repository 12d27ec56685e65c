//! `hone train`: the main job.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use hone_train::evaluate::Evaluation;
use hone_train::fresh::fresh_policy;
use hone_train::ledger::Ledger;
use hone_train::recipe::Recipe;
use hone_train::run::{Report, Watch, train};
use hone_train::setup::Setup;
use hone_train::sft::sft;
use serde_json::{Value, json};

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
        anyhow::Ok(train(&setup, &recipe, &directory, &mut Terminal).await?)
    })?;
    summary(&report, &directory);
    if args.json {
        writeln!(std::io::stdout().lock(), "{}", as_json(&report, &recipe, &directory))?;
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
    let every = (recipe.sft.steps / 5).max(1);
    sft(setup, recipe, |step| {
        if step.step % every == 0 {
            anstream::eprintln!("warm start {:>4} of {}  loss {:.3}", step.step, recipe.sft.steps, step.loss);
        }
    })
    .await?;
    Ok(())
}

fn free_directory(name: &str) -> PathBuf {
    let numbered = |number: u32| Path::new("runs").join(format!("{name}-{number}"));
    (1..=u32::MAX).map(numbered).find(|path| !path.exists()).unwrap_or_else(|| numbered(0))
}

/// One plain line per step.
struct Terminal;

impl Watch for Terminal {
    fn evaluated(&mut self, step: u64, evaluation: &Evaluation) {
        let Evaluation { success, ci: [low, high], parse_failure_rate, n, do_nothing, .. } = evaluation;
        anstream::eprintln!(
            "eval at step {step}: success {success:.3} [{low:.3}, {high:.3}] on {n} held-out tasks, parse failures \
             {parse_failure_rate:.3}, doing nothing {do_nothing:.3}"
        );
    }

    fn stepped(&mut self, ledger: &Ledger) {
        let show = |name: &str| ledger.get(name).map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
        anstream::eprintln!(
            "step {:>4}  reward {}  signal {}  parse failures {}  entropy {}  clipped {}  grad {}  {} s",
            ledger.step,
            show("batch_reward/total"),
            show("reward/signal_ratio"),
            show("reward/parse_failure_rate"),
            show("policy/policy_entropy"),
            show("policy/loss_metrics/clip_ratio"),
            show("policy/grad_norm"),
            show("timing/step"),
        );
    }
}

fn summary(report: &Report, directory: &Path) {
    let gain = report.after.success - report.before.success;
    anstream::eprintln!(
        "\nheld-out success {:.3} -> {:.3} ({gain:+.3}) in {:.0} s; the run is in {}",
        report.before.success,
        report.after.success,
        report.seconds,
        directory.display()
    );
}

fn as_json(report: &Report, recipe: &Recipe, directory: &Path) -> Value {
    let sum = |name: &str| report.steps.iter().filter_map(|step| step.get(name)).sum::<f64>() as u64;
    let names = report.steps.first().map(|first| {
        let components = first.iter().filter_map(|(name, _)| name.strip_prefix("batch_reward/"));
        components.filter(|name| !name.contains('/')).map(str::to_owned).collect::<Vec<_>>()
    });
    let at = |step: Option<&Ledger>, name: &str| step.and_then(|step| step.get(&format!("batch_reward/{name}")));
    let components: serde_json::Map<String, Value> = names
        .unwrap_or_default()
        .into_iter()
        .map(|name| {
            let (first, last) = (at(report.steps.first(), &name), at(report.steps.last(), &name));
            (name, json!({"first": first, "last": last}))
        })
        .collect();
    json!({
        "run": directory,
        "steps": report.steps.len(),
        "seed": recipe.seed,
        "eval": {"before": report.before, "after": report.after},
        "components": components,
        "tokens": {"sampled": sum("tokens/sampled"), "trained": sum("tokens/trained")},
        "seconds": report.seconds,
    })
}
