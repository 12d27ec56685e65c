//! Policies of `hone eval`: a checkpoint of the native engine, a model behind an API, or the solution.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use hone_arena::baseline::Baseline;
use hone_arena::chat_client::{ChatClient, ChatSpec};
use hone_arena::player::{Player, Remote};
use hone_arena::registry::World;
use hone_arena::rewards::Rubric;
use hone_trace::rundir::{RunDirError, RunReader, is_recorded, is_run};
use hone_train::recipe::Recipe;
use hone_train::run::recorded_recipe;
use hone_train::setup::Setup;
use hone_worlds::registry::EnvSpec;
use serde_json::json;

use super::{Args, Split};
use crate::commands::sft::MADE_WITH;
use crate::commands::train::{Missing, fetched, shortest, with_policy};
use crate::recipes::{QUICKSTART, Source};

pub(super) enum Who {
    Engine(Box<Setup>),
    Remote(ChatSpec),
    Oracle,
}

/// One policy to play; a run may have several.
#[derive(Debug, Clone)]
pub(super) struct Checkpoint {
    /// Its name in tables.
    pub(super) name: String,
    /// Its weights; absent: those the engine opened.
    pub(super) dir: Option<PathBuf>,
    pub(super) step: Option<u64>,
}

/// A policy in its world.
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) who: Who,
    pub(super) world: World,
    pub(super) rubric: Arc<Rubric>,
    /// The environments' own baselines, and the environment of each by name.
    pub(super) baselines: Vec<Arc<dyn Baseline>>,
    pub(super) own_baselines: HashMap<String, String>,
    /// In the order of their steps.
    pub(super) checkpoints: Vec<Checkpoint>,
    /// The run it belongs to.
    pub(super) run: Option<PathBuf>,
}

/// The run of a checkpoint: RUN/checkpoints/step-….
fn run_of(checkpoint: &Path) -> Option<PathBuf> {
    let above = std::path::absolute(checkpoint).ok()?.parent()?.parent()?.to_owned();
    is_run(&above).then_some(above)
}

/// Refuses a directory that holds neither a run nor a model: a project, a folder of runs.
fn refuse_other(path: &Path) -> Result<()> {
    if ["config.json", "adapter_config.json"].iter().any(|file| path.join(file).is_file()) {
        return Ok(());
    }
    if path.join("recipe.toml").is_file() || is_recorded(path) {
        return Err(RunDirError::NotARun(path.to_owned()).into());
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))?;
    let mut runs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| is_run(path)).collect();
    runs.sort();
    match runs.first() {
        Some(first) => {
            bail!("{} is a folder of runs, not a run; name one of them: hone eval {}", path.display(), first.display())
        }
        None => Ok(()),
    }
}

impl Policy {
    pub(super) async fn open(args: &Args, scratch: &Path) -> Result<(Recipe, Self)> {
        let named = args.policy.as_deref();
        if let Some((url, model)) = named.and_then(|name| name.split_once('#')).filter(|(url, _)| url.contains("://")) {
            return Self::behind_url(args, url, model);
        }
        if named == Some("oracle") {
            let recipe = read_recipe(args, None)?;
            return Self::of(&recipe, "oracle".into(), Who::Oracle).map(|policy| (recipe, policy));
        }
        let path = named.map(PathBuf::from);
        if let Some(path) = &path
            && !path.is_dir()
        {
            if let Some(advice) = fetched(&shortest(path)) {
                bail!("there is no directory {}\nhint: {advice}", path.display());
            }
            bail!(
                "there is no directory {}; name a run, a checkpoint, a model directory, URL#MODEL or oracle",
                path.display()
            );
        }
        let run = path.as_ref().filter(|path| is_run(path));
        if let (None, Some(path)) = (run, &path) {
            refuse_other(path)?;
        }
        let chosen: Vec<(Option<PathBuf>, Option<u64>)> = match (run, &path) {
            (Some(run), _) => checkpoints(run, &args.checkpoint)?,
            (None, Some(path)) => vec![(Some(path.clone()), step_of(path))],
            (None, None) => vec![(None, None)],
        };
        let run = run.cloned().or_else(|| run_of(path.as_deref()?));
        let mut recipe = read_recipe(args, run.as_deref())?;
        if run.is_none()
            && let Some((Some(model), _)) = chosen.first()
        {
            recipe.policy.model = Some(model.clone());
        }
        let given =
            args.recipe.as_deref().map_or_else(|| QUICKSTART.name.to_owned(), |path| path.display().to_string());
        Missing::refuse(&recipe, &given, &args.set)?;
        let recipe = with_policy(recipe, scratch)?;
        let mut setup = Box::new(crate::engines::open(&recipe).await?);
        let world = World {
            arena: Arc::clone(&setup.arena),
            tasks: setup.tasks.clone(),
            held_out: setup.held_out.clone(),
            baselines: setup.baselines.clone(),
        };
        // The held-out tasks of the setup are played: those that were requested.
        let most = args.tasks.unwrap_or_else(|| recipe.eval.most_tasks());
        let take = |tasks: &[hone_trace::Task]| tasks.iter().take(most).cloned().collect::<Vec<_>>();
        setup.held_out = match args.split {
            Split::HeldOut => take(&world.held_out),
            Split::Train => take(&world.tasks),
            Split::Both => [take(&world.tasks), take(&world.held_out)].concat(),
        };
        let shown = args.policy.clone().unwrap_or_else(|| "the recipe's model".into());
        let checkpoints = chosen.into_iter().map(|(dir, step)| Checkpoint {
            name: step.filter(|_| run.is_some()).map_or(shown.clone(), |step| format!("{shown} at step {step}")),
            dir: dir.filter(|_| run.is_some()),
            step,
        });
        let checkpoints: Vec<Checkpoint> = checkpoints.collect();
        let name = if let [one] = &checkpoints[..] { one.name.clone() } else { shown };
        let mut policy = Self::in_world(world, Arc::clone(&setup.rubric), name, Who::Engine(setup));
        (policy.run, policy.checkpoints) = (run, checkpoints);
        Ok((recipe, policy))
    }

    /// A model behind a server that speaks OpenAI's protocol.
    fn behind_url(args: &Args, url: &str, model: &str) -> Result<(Recipe, Self)> {
        let recipe = read_recipe(args, None)?;
        let spec: ChatSpec = serde_json::from_value(json!({
            "url": url, "model": model, "key_env": args.key_env, "max_tokens": recipe.sampling.max_new_tokens.max(256),
        }))?;
        // A missing key is reported before anything is opened.
        remote(spec.clone())?;
        let policy = Self::of(&recipe, model.to_owned(), Who::Remote(spec))?;
        Ok((recipe, policy))
    }

    fn of(recipe: &Recipe, name: String, who: Who) -> Result<Self> {
        let world = World::open(&recipe.env)?;
        Ok(Self::in_world(world, Arc::new(recipe.rubric.build()?), name, who))
    }

    fn in_world(world: World, rubric: Arc<Rubric>, name: String, who: Who) -> Self {
        let own = world.baselines.iter().flat_map(|(env, list)| list.iter().map(move |baseline| (env, baseline)));
        let own_baselines = own.clone().map(|(env, baseline)| (baseline.name().to_owned(), env.clone())).collect();
        let baselines = own.map(|(_, baseline)| Arc::clone(baseline)).collect();
        let checkpoints = vec![Checkpoint { name: name.clone(), dir: None, step: None }];
        Self { name, who, rubric, baselines, own_baselines, world, checkpoints, run: None }
    }
}

pub(super) fn remote(spec: ChatSpec) -> Result<Arc<dyn Player>> {
    match ChatClient::new(spec) {
        Ok(client) => Ok(Arc::new(Remote(client))),
        Err(what) => bail!("the model cannot be asked: {what}"),
    }
}

fn read_recipe(args: &Args, run: Option<&Path>) -> Result<Recipe> {
    match (&args.recipe, run) {
        (Some(path), _) => Source::find(path)?.read(&args.set),
        (None, Some(run)) if args.set.is_empty() => Ok(recorded_recipe(run)?),
        (None, Some(run)) => Ok(Recipe::parse(&RunReader::open(run)?.recipe()?, &args.set)?),
        (None, None) => {
            if let Some(recipe) = made_with(args)? {
                return Ok(recipe);
            }
            let recipe = QUICKSTART.source().read(&args.set)?;
            if args.policy.is_some() {
                let envs = recipe.env.iter().map(EnvSpec::name).collect::<Vec<_>>().join(", ");
                crate::output::note!("no --recipe: playing the quickstart's environment ({envs})");
            }
            Ok(recipe)
        }
    }
}

/// Recipe that a policy of `hone sft` was made with: its words are those of that recipe's environments. A policy of
/// unknown origin is not played elsewhere than beside a recipe.
fn made_with(args: &Args) -> Result<Option<Recipe>> {
    let Some(policy) = args.policy.as_deref().map(Path::new).filter(|path| path.is_dir()) else { return Ok(None) };
    let file = policy.join(MADE_WITH);
    if file.is_file() {
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        crate::output::note!("no --recipe: playing the tasks of the recipe that made it ({})", file.display());
        return Ok(Some(Recipe::parse(&text, &args.set)?));
    }
    if Path::new("recipe.toml").is_file() {
        bail!(
            "{} is a model directory, which does not say what tasks to play; name the recipe: --recipe recipe.toml",
            policy.display()
        );
    }
    Ok(None)
}

/// Checkpoints of a run, each by step, `best` or `last`, or all of them; in the order of their steps, each once.
fn checkpoints(run: &Path, wanted: &str) -> Result<Vec<(Option<PathBuf>, Option<u64>)>> {
    let all = RunReader::open(run)?.checkpoints()?;
    let mut found: BTreeMap<u64, PathBuf> = BTreeMap::new();
    if wanted == "all" && !all.is_empty() {
        found.extend(all);
    } else {
        for one in wanted.split(',').map(str::trim) {
            found.extend([checkpoint(run, &all, one)?]);
        }
    }
    Ok(found.into_iter().map(|(step, dir)| (Some(dir), Some(step))).collect())
}

fn checkpoint(run: &Path, all: &[(u64, PathBuf)], wanted: &str) -> Result<(u64, PathBuf)> {
    let known = || all.iter().map(|(step, _)| step.to_string()).collect::<Vec<_>>().join(", ");
    let found = match wanted {
        "last" => all.last().cloned(),
        "best" => {
            let link = run.join("checkpoints").join("best");
            let target = std::fs::canonicalize(&link).with_context(|| {
                format!(
                    "{} has no best checkpoint; checkpoint.best names what it goes by, and the steps kept are {}",
                    run.display(),
                    known()
                )
            })?;
            step_of(&target).map(|step| (step, target))
        }
        step => {
            let step: u64 = step.parse().with_context(|| {
                format!("--checkpoint takes steps, best and last with commas between them, or all; found {step:?}")
            })?;
            all.iter().find(|(at, _)| *at == step).cloned()
        }
    };
    let has = || if all.is_empty() { "none".into() } else { known() };
    found.with_context(|| format!("{} has no checkpoint {wanted}; it has {}", run.display(), has()))
}

fn step_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("step-")?.parse().ok()
}
