//! `hone train`: the main job.

mod dry_run;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use hone_train::placebo::Placebo;
use hone_train::recipe::Recipe;
use hone_train::report::{BeforeAfter, PLACEBO, Row, RunReport};
use hone_train::run::{recorded_recipe, resume, train};
use serde_json::{Value, json};

use crate::engines;
use crate::policies::Policy;
use crate::progress::Style;
use crate::progress::summary::{gain_line, summary};
use crate::progress::train::TrainProgress;

/// Train a policy with reinforcement learning, and measure it on tasks it never trained on.
///
/// Samples groups of episodes, scores them, credits every sampled token against its siblings, learns, and repeats.
/// Everything is recorded in the run directory (docs/run-directory.md). Progress goes to stderr; with --json the last
/// line on stdout is one JSON object with the evaluation before and after.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A recipe in TOML. Without one: the quickstart, with the tiny policy inside this binary.
    recipe: Option<PathBuf>,
    /// Set a recipe key, e.g. --set train.steps=5. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Where the run is recorded. Default: runs/NAME-N, the first N that is free.
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Go on with a run from its newest checkpoint, by the recipe it recorded. The numbers are those of a run that was
    /// never stopped.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["recipe", "set", "run"])]
    resume: Option<PathBuf>,
    /// Also run the recipe with advantages that know nothing of the rewards, with the same seeds and budget, as one more
    /// control. permute: handed out across tasks, no step further from the start than the run's own (the KL is matched
    /// step by step). shuffle, constant: without that bound; small policies collapse under them, and a gain over a ruin
    /// says nothing. Recorded in RUN/placebo.
    #[arg(long, value_name = "KIND", value_parser = placebo_kind)]
    placebo: Option<Placebo>,
    /// Show a conversation every N steps; 0 shows none.
    #[arg(long, value_name = "N", default_value_t = 10)]
    samples: u64,
    /// Print the resolved recipe, what the run may need of memory and tokens, and how long it may take; then stop.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

fn placebo_kind(text: &str) -> Result<Placebo, String> {
    let names = Placebo::ALL.map(Placebo::name).join(", ");
    Placebo::ALL
        .into_iter()
        .find(|placebo| placebo.name() == text)
        .ok_or_else(|| format!("{text:?} is none of {names}"))
}

const QUICKSTART: &str = include_str!("../../../../recipes/quickstart.toml");

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let mut recipe = match &args.resume {
        Some(run) => recorded_recipe(run)?,
        None => recipe_of(args.recipe.as_deref(), &args.set)?,
    };
    if args.resume.is_none() && args.placebo == Some(Placebo::Permute) {
        recipe.train.kl_to_start = true;
    }
    if args.dry_run {
        return runtime.block_on(dry_run::dry_run(recipe, args.json));
    }
    let fresh = || args.run.clone().unwrap_or_else(|| free_directory(&recipe.name));
    let directory = args.resume.clone().unwrap_or_else(fresh);
    let mut report = runtime.block_on(one_run(recipe, &directory, args.resume.is_some(), args.samples))?;
    let mut control = None;
    // A run that was stopped is not compared with one that was not.
    if let Some(placebo) = args.placebo.filter(|_| report.steps >= report.planned) {
        let aside = directory.join(PLACEBO);
        let resume = aside.join("recipe.toml").exists();
        let recipe = controlled(recorded_recipe(&directory)?, placebo, &directory)?;
        let aside_report = runtime.block_on(one_run(recipe, &aside, resume, args.samples))?;
        control = Some(as_json(&aside_report, &aside));
        // The run's report again, now with its control.
        report = RunReport::read(&directory)?;
        report.save(&directory)?;
        anstream::eprintln!("{}", gain_line(&report));
    }
    let mut result = as_json(&report, &directory);
    if let Some(control) = control {
        result["placebo"] = control;
    }
    if args.json {
        writeln!(std::io::stdout().lock(), "{result}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The recipe of a run's control.
fn controlled(mut recipe: Recipe, placebo: Placebo, directory: &Path) -> Result<Recipe> {
    recipe.placebo = Some(placebo);
    recipe.eval.controls = false;
    if placebo == Placebo::Permute {
        let run = std::path::absolute(directory).with_context(|| format!("cannot find {}", directory.display()))?;
        recipe.train.kl_within = Some(run);
    }
    Ok(recipe)
}

/// Trains or goes on training, and shows what came of it. A run that is refused before it begins leaves no directory.
async fn one_run(recipe: Recipe, directory: &Path, resumes: bool, samples: u64) -> Result<RunReport> {
    let ours = !directory.exists();
    let result = Box::pin(begun(recipe, directory, resumes, samples)).await;
    if result.is_err() && ours && !directory.join("recipe.toml").exists() {
        // The policy may lie there, and nothing else; that it cannot be removed is not what went wrong.
        let _ = std::fs::remove_dir_all(directory);
    }
    result
}

async fn begun(recipe: Recipe, directory: &Path, resumes: bool, samples: u64) -> Result<RunReport> {
    let recipe = with_policy(recipe, directory)?;
    let setup = engines::open(&recipe).await?;
    setup.check(&recipe).await?;
    let mut watch = TrainProgress::start(&recipe, &setup, samples, directory);
    if resumes {
        resume(&setup, &recipe, directory, &mut watch).await?;
    } else {
        train(&setup, &recipe, directory, &mut watch).await?;
    }
    drop(watch);
    let report = RunReport::read(directory)?;
    report.save(directory)?;
    anstream::eprint!("{}", summary(&report, directory, Style::for_stderr()));
    Ok(report)
}

/// A recipe file with settings over it; without a file, the quickstart.
pub(super) fn recipe_of(path: Option<&Path>, settings: &[String]) -> Result<Recipe> {
    match path {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            Recipe::parse(&text, settings).with_context(|| format!("in {}", path.display()))
        }
        None => Ok(Recipe::parse(QUICKSTART, settings)?),
    }
}

/// The recipe with a policy: its own, or the one inside this binary, laid beside the run.
pub(super) fn with_policy(mut recipe: Recipe, directory: &Path) -> Result<Recipe> {
    if recipe.policy.model.is_none() {
        let path = directory.join("policy");
        let policy = Policy::of(recipe.env[0].name());
        anstream::eprintln!("no policy.model: starting from the tiny {} policy inside this binary", policy.env);
        policy.unpack(&path)?;
        recipe.policy.model = Some(path);
    }
    // As the run records it: it may be resumed from another directory.
    for path in [&mut recipe.policy.model, &mut recipe.policy.reference].into_iter().flatten() {
        *path = std::path::absolute(&*path).with_context(|| format!("cannot find {}", path.display()))?;
    }
    Ok(recipe)
}

fn free_directory(name: &str) -> PathBuf {
    let numbered = |number: u32| Path::new("runs").join(format!("{name}-{number}"));
    (1..=u32::MAX).map(numbered).find(|path| !path.exists()).unwrap_or_else(|| numbered(0))
}

/// What the run's directory says, as one object.
fn as_json(report: &RunReport, directory: &Path) -> Value {
    let tokens = |place: &str| report.tokens.get(place).copied().unwrap_or(0.0).round() as u64;
    let component = |row: &Row| (row.name.clone(), json!({"first": row.first, "last": row.last}));
    let held_out = &report.held_out;
    let both = |kind: &BeforeAfter| json!({"before": kind.before, "after": kind.after});
    json!({
        "run": directory,
        "steps": report.steps,
        "planned": report.planned,
        "seed": report.seed,
        // `before` and `after` are the headline's; a run that was stopped early has no `after`.
        "eval": {
            "before": report.before,
            "after": report.after,
            "greedy": both(&held_out.greedy),
            "sampled": both(&held_out.sampled),
        },
        "verdict": held_out.judgement.as_ref().map(|judgement| judgement.verdict),
        "judgement": held_out.judgement,
        "controls": held_out.controls,
        "gain": held_out.gain,
        "baselines": held_out.baselines,
        "overlap": held_out.overlap,
        "notes": held_out.notes,
        "components": report.components.iter().map(component).collect::<serde_json::Map<_, _>>(),
        "tokens": {"sampled": tokens("sampled"), "trained": tokens("trained")},
        "seconds": report.elapsed,
    })
}
