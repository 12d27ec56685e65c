//! `hone audit`: attacks the rewards of a recipe.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use hone_audit::{LAWS, Options, PROBES, Stage, Subject, audit, write_texts};
use hone_trace::{EngineSpec, Seed};
use hone_train::recipe::Recipe;
use hone_train::run::recorded_recipe;

use crate::engines::engine_of;
use crate::output;
use crate::policies::Policy;
use crate::recipes::{QUICKSTART, Source};

/// Attack the rewards of a recipe: what junk earns, which laws they break, what would be reinforced.
///
/// Plays policies without a model (film trivia, echoes, shotgun citations, constant confidences, broken forms, a seeded
/// search …) on real tasks of the recipe, through its own parser, environment and rubric, beside the tasks' solutions
/// and honest episodes. Exits with code 1 if a law is broken or junk earns more than honest work. docs/audit.md
/// describes every probe and law.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// A recipe in TOML. Without one: the recipe that --run recorded, else the quickstart
    recipe: Option<PathBuf>,
    /// Set a recipe key, e.g. --set env.tasks=64. May be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Compare with the last step that a run recorded, instead of the policy's own episodes; writes DIR/audit.json,
    /// which `hone view` shows
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Tasks that every probe plays
    #[arg(long, value_name = "N", default_value_t = 16)]
    tasks: usize,
    /// Policies that the seeded search tries; 0: no search
    #[arg(long, value_name = "N", default_value_t = 120)]
    search: usize,
    /// Seed of the search and of the policy's episodes
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Compare with the environment's scripted baselines
    #[arg(long)]
    no_policy: bool,
    /// Show every probe, with what it earns and its advantage among honest episodes
    #[arg(long, short)]
    verbose: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  hone audit recipes/triage-reader.toml
  hone audit my-recipe.toml --run runs/my-recipe-1 --verbose
  hone audit docs/examples/film-trivia.toml     a published rubric, taken apart
  hone audit my-recipe.toml --json | jq '.findings[].says'";

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(audited(&args))
}

async fn audited(args: &Args) -> Result<ExitCode> {
    let recipe = match (&args.recipe, &args.run) {
        (None, Some(run)) => recorded_recipe(run)?,
        (path, _) => path.as_deref().map_or_else(|| Ok(QUICKSTART.source()), Source::find)?.read(&args.set)?,
    };
    let mut subject = Subject::open(recipe)?;
    if let Some(run) = &args.run {
        subject = subject.with_run(run)?;
    }
    let scratch = crate::scratch::Scratch::new()?;
    let texts = texts(&mut subject, args, scratch.path()).await?;
    let options = Options { tasks: args.tasks, search: args.search, group_size: 0, seed: args.seed };
    let mut watch = |what: &str| crate::output::note!("audit: {what}");
    let audit = Box::pin(audit(&subject, &texts, options, PROBES, LAWS, &mut watch)).await?;
    if let Some(run) = &args.run {
        let path = run.join("audit.json");
        std::fs::write(&path, serde_json::to_string(&audit)? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.json {
        writeln!(output::json(), "{}", serde_json::to_string(&audit)?)?;
    } else {
        write!(output::text(), "{}", audit.text(args.verbose))?;
    }
    Ok(if audit.has_errors() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The model directory whose tokens are counted, with its policy if one is needed: the recipe's own, the one inside
/// this binary if the solutions fit its tokens, else a tokenizer without a policy.
async fn texts(subject: &mut Subject, args: &Args, scratch: &Path) -> Result<PathBuf> {
    let asks = !args.no_policy && args.run.is_none();
    if let Some(model) = subject.recipe.policy.model.clone() {
        return served(subject, model, asks).await;
    }
    if let Some(policy) = Policy::of(subject.recipe.env[0].name()) {
        let path = scratch.join("policy");
        policy.unpack(&path)?;
        let (arena, rubric) = (subject.arena.clone(), subject.rubric.clone());
        let stage = Stage::new(&subject.recipe, arena, rubric, &path, Seed::root(args.seed))?;
        if stage.fits(&subject.spread(4)).await? {
            return served(subject, path, asks).await;
        }
    }
    let path = scratch.join("texts");
    write_texts(&*subject.arena, &subject.tasks, &path).await?;
    widen(subject, &path, args.seed).await?;
    Ok(path)
}

/// Factor on the limits in tokens where solutions do not fit.
const WIDER: usize = 8;

/// Wider limits where solutions do not fit them: the recipe's are in the tokens of another tokenizer.
async fn widen(subject: &mut Subject, texts: &Path, seed: u64) -> Result<()> {
    let (arena, rubric) = (subject.arena.clone(), subject.rubric.clone());
    let stage = Stage::new(&subject.recipe, arena, rubric, texts, Seed::root(seed))?;
    if stage.fits(&subject.spread(4)).await? {
        return Ok(());
    }
    let (window, reply) = (&mut subject.recipe.rollout.window, &mut subject.recipe.sampling.max_new_tokens);
    (*window, *reply) = (*window * WIDER, *reply * WIDER as u32);
    crate::output::note!(
        "audit: without a policy.model tokens are counted by a tokenizer made here, and solutions do not fit the recipe's limits \
         in it: rollout.window = {window} and sampling.max_new_tokens = {reply} are used"
    );
    Ok(())
}

/// Opens the policy of a model directory and gives it to the subject.
async fn served(subject: &mut Subject, model: PathBuf, asks: bool) -> Result<PathBuf> {
    let recipe: &Recipe = &subject.recipe;
    let kind = engine_of(recipe)?;
    let spec = EngineSpec {
        model,
        adapter: None,
        lora: None,
        run: recipe.name.clone(),
        seed: recipe.seed,
        threads: recipe.policy.sampler_threads(&recipe.overlap),
        options: recipe.engine.options.clone(),
    };
    let texts = kind.texts(&spec).await?;
    if asks {
        subject.sampler = Some(kind.open(&spec).await?.sampler());
    }
    Ok(texts)
}
