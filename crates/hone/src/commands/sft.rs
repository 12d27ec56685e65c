//! `hone sft`: the warm start.

mod dry_run;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow, bail};
use hone_doctor::given;
use hone_trace::rundir::RunDirError;
use hone_train::budget::Budget;
use hone_train::checkpoint::{copy_texts, newest};
use hone_train::evaluate::{Evaluation, evaluate};
use hone_train::fresh::{FreshTokenizer, Solutions, Survey, fresh_policy_of};
use hone_train::recipe::Recipe;
use hone_train::run::{TrainError, recorded_recipe};
use hone_train::setup::Setup;
use hone_train::sft::{SftStep, check_references, sft_recorded};
use serde_json::json;

use super::train::{parameters, quoted, repository, shortest};
use crate::engines;
use crate::place::Place;
use crate::progress::interrupt;
use crate::progress::sft::SftProgress;
use crate::progress::train::{optional, with_interval};
use crate::recipes::Source;

/// File of a model directory that holds the recipe it was made with: `hone eval` plays its tasks.
pub(crate) const MADE_WITH: &str = "sft.toml";

/// Warm-start a policy by imitation: of the solutions of generated tasks, of demonstrations, or of recorded traces.
///
/// Loads policy.model (or creates a tiny policy, if the recipe names none or the one that --out is about to create),
/// imitates for sft.steps steps or until sft.stop_at is reached, evaluates on held-out tasks before and after, and
/// writes the model to --out in Hugging Face's layout, tokenizer and template included.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A recipe, or the name of one of `hone recipe list`. Paths in it are relative to it.
    recipe: PathBuf,
    /// Set a recipe key, e.g. --set sft.steps=100. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Device that computes the model: cpu, cuda, or auto (a GPU if one can be used). The same as --set engine.device=…
    #[arg(long, value_name = "DEVICE")]
    device: Option<hone_device::Device>,
    /// Output directory of the model. Must not exist.
    #[arg(long, value_name = "DIR", required_unless_present = "dry_run")]
    out: Option<PathBuf>,
    /// Print what would be created and imitated, the memory it needs and how long it takes (measured for ten seconds);
    /// then stop.
    #[arg(long)]
    dry_run: bool,
    /// Resume an interrupted imitation from its newest checkpoint. Checkpoints are kept in OUT.run until the model is
    /// written; the recipe must be the same.
    #[arg(long)]
    resume: bool,
    /// Print the result as one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let set = engines::with_device(&args.set, args.device);
    let source = Source::find(&args.recipe)?;
    let mut recipe = source.read(&set)?;
    let out = args.out.clone().unwrap_or_else(|| "policy".into());
    // A recipe may name the policy that this command is about to create.
    let named = recipe.policy.model == Some(std::path::absolute(&out)?);
    if named {
        recipe.policy.model = None;
    }
    check_directories(&recipe, Some(&*out).filter(|_| args.out.is_some()))?;
    let run = run_directory(&out);
    if run.exists() && !args.resume && !args.dry_run {
        bail!("{} holds an interrupted imitation; continue it with --resume, or remove it", run.display());
    }
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let tokenizer = runtime.block_on(choose(&mut recipe, &given(&source.text, &set)))?;
    if args.dry_run {
        return runtime.block_on(dry_run::dry_run(recipe, tokenizer.as_ref(), args.json));
    }
    if args.resume && run.exists() {
        same_recipe(&recipe, &run)?;
    }
    let command = continued(&args.recipe, &set, &out);
    let stopped = |step: u64| format!("stopped at step {step}; continue with `{command}`");
    interrupt::say_at_stop(stopped(0));
    let clock = std::time::Instant::now();
    let made = [run.clone(), beside(&out, ".fresh")];
    let new: Vec<&PathBuf> = made.iter().filter(|path| !path.exists()).collect();
    let at_step = |step| interrupt::say_at_stop(stopped(step));
    let mut ended = runtime.block_on(imitate(&recipe, tokenizer.as_ref(), &out, &run, &at_step));
    if ended.is_err() && newest(&run).ok().flatten().is_none() {
        // Nothing was learned: there is nothing to resume. Best effort: the original error matters more.
        new.iter().for_each(|path| drop(std::fs::remove_dir_all(path)));
        ended = ended.map_err(started_over);
    }
    let (before, after) = ended?;
    for aside in made.iter().filter(|path| path.exists()) {
        std::fs::remove_dir_all(aside).with_context(|| format!("cannot remove {}", aside.display()))?;
    }
    if args.json {
        let result =
            json!({"model": out, "eval": {"before": before, "after": after}, "seconds": clock.elapsed().as_secs_f64()});
        writeln!(crate::output::json(), "{result}")?;
    }
    crate::output::note!(
        "success {} -> {}, parse failures {}; the model is in {}\nnext: hone train {}{}",
        optional(before.success),
        with_interval(&after),
        optional(after.parse_failure_rate),
        out.display(),
        args.recipe.display(),
        if named { String::new() } else { format!(" --set policy.model={}", out.display()) }
    );
    Ok(ExitCode::SUCCESS)
}

/// The command that continues this one.
fn continued(recipe: &Path, set: &[String], out: &Path) -> String {
    let set: String = set.iter().map(|set| format!(" --set {}", quoted(set))).collect();
    let [recipe, out] = [recipe, out].map(|path| quoted(&path.display().to_string()));
    format!("hone sft {recipe}{set} --out {out} --resume")
}

/// The error of a warm start that left nothing behind. That of its records says that they are intact.
fn started_over(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<TrainError>() {
        Some(TrainError::Run(RunDirError::Io { what, path, source })) => anyhow!(
            "{what} {}: {source}, before the first checkpoint; nothing was kept: make room, then start again without --resume",
            path.display()
        ),
        _ => error,
    }
}

/// Summary line of the imitation, before the first wait.
fn start_line(recipe: &Recipe, setup: &Setup) -> String {
    let size = Budget::of(setup, recipe).memory.map(|memory| parameters(memory.parts.parameters));
    format!(
        "{}: {}{} tasks and {} held out; imitating for {} steps of {} episodes at a learning rate of {:e}, from {}",
        recipe.name,
        size.map_or_else(String::new, |size| format!("{size} parameters; ")),
        setup.tasks.len(),
        setup.held_out.len(),
        recipe.sft.steps,
        recipe.sft.batch,
        recipe.sft.learning_rate,
        shortest(&setup.model_dir)
    )
}

/// Imitates and writes the model to `out`. Returns the evaluations before and after.
async fn imitate(
    recipe: &Recipe,
    tokenizer: Option<&FreshTokenizer>,
    out: &Path,
    run: &Path,
    at_step: &dyn Fn(u64),
) -> Result<(Evaluation, Evaluation)> {
    let setup = engines::open(&with_policy(recipe.clone(), tokenizer, &beside(out, ".fresh")).await?).await?;
    check_references(recipe, &setup.tasks)?;
    crate::output::note!("{}", start_line(recipe, &setup));
    let mut progress = SftProgress::start(&recipe.name, recipe.sft.steps);
    progress.doing("evaluating");
    let before = evaluate(&setup, recipe, setup.engine.sampler()).await;
    progress.doing("imitating");
    let stepped = |step: SftStep| {
        at_step(step.step);
        progress.stepped(step);
    };
    sft_recorded(&setup, recipe, run, stepped).await?;
    progress.doing("evaluating");
    let after = evaluate(&setup, recipe, setup.engine.sampler()).await;
    drop(progress);
    save(&setup, recipe, out).await?;
    Ok((before, after))
}

/// Refuses a model that does not exist, and an output that does.
fn check_directories(recipe: &Recipe, out: Option<&Path>) -> Result<()> {
    if let Some(model) = recipe.policy.model.as_ref().filter(|model| !model.exists()) {
        if let Some(advice) = repository(&shortest(model)) {
            bail!("policy.model is {}, and there is no such directory\nhint: {advice}", shortest(model));
        }
        bail!(
            "policy.model is {}, and there is no such directory\nhint: with --out {0} a new policy is made there; or name a \
             model directory to go on from",
            model.display()
        );
    }
    if let Some(out) = out.filter(|out| out.exists()) {
        bail!("{} exists; name a new directory for the model", out.display());
    }
    Ok(())
}

/// Size and schedule of a new policy, where the recipe's author wrote none: those that fit the environment.
/// Returns the tokenizer of the policy; `None` if the recipe names one.
async fn choose(recipe: &mut Recipe, written: &BTreeSet<String>) -> Result<Option<FreshTokenizer>> {
    if recipe.policy.model.is_some() || recipe.policy.adapter.is_some() {
        return Ok(None);
    }
    crate::output::note!("no policy.model: looking at solved episodes, to make one that fits");
    let solutions = Solutions::of(recipe).await?;
    check_references(recipe, &solutions.tasks)?;
    let mut survey = Survey::of(&solutions, recipe.env.len())?;
    let chosen = survey.choose(recipe, |key| written.contains(key));
    let tokenizer = FreshTokenizer::of(recipe, &solutions)?;
    survey.longest = tokenizer.longest;
    match chosen.words(recipe) {
        Some(chosen) => {
            crate::output::note!("{chosen}, because {survey} ([policy.fresh] and [sft] change that)");
        }
        None => crate::output::note!("the size and the schedule are the recipe's; {survey}"),
    }
    tokenizer.check(recipe)?;
    Ok(Some(tokenizer))
}

/// The recipe with a policy: its own, or a new one in `fresh`.
async fn with_policy(mut recipe: Recipe, tokenizer: Option<&FreshTokenizer>, fresh: &Path) -> Result<Recipe> {
    if let Some(tokenizer) = tokenizer {
        if !fresh.exists() {
            fresh_policy_of(&recipe, tokenizer, engines::engine_of(&recipe)?, fresh).await?;
        }
        recipe.policy.model = Some(fresh.to_owned());
    }
    Place::settle(&mut recipe.policy)?;
    Ok(recipe)
}

/// Directory of the checkpoints until the model is written.
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

async fn save(setup: &Setup, recipe: &Recipe, out: &Path) -> Result<()> {
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    setup.engine.export(out).await?;
    copy_texts(&setup.model_dir, out).with_context(|| format!("cannot copy the tokenizer to {}", out.display()))?;
    let path = out.join(MADE_WITH);
    std::fs::write(&path, recipe.to_toml()?).with_context(|| format!("cannot write {}", path.display()))
}
