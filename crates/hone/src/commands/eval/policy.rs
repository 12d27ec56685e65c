//! Whom `hone eval` measures: a checkpoint of the native engine, a model behind an API, or the solution.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use hone_arena::baseline::Baseline;
use hone_arena::chat_client::{ChatClient, ChatSpec};
use hone_arena::player::{Player, Remote};
use hone_arena::registry::World;
use hone_arena::rewards::Rubric;
use hone_trace::Sampler;
use hone_trace::rundir::RunReader;
use hone_train::recipe::Recipe;
use hone_train::run::recorded_recipe;
use hone_train::setup::Setup;
use hone_worlds::registry::EnvSpec;
use serde_json::json;

use super::{Args, Split};
use crate::recipes::{QUICKSTART, Source};

pub(super) enum Who {
    Sampler { setup: Box<Setup>, sampler: Arc<dyn Sampler> },
    Player(Arc<dyn Player>),
    Oracle,
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
    /// The run it is of, and the step of its checkpoint.
    pub(super) run: Option<PathBuf>,
    pub(super) step: Option<u64>,
}

/// The run of a checkpoint: RUN/checkpoints/step-….
fn run_of(checkpoint: &Path) -> Option<PathBuf> {
    let above = std::path::absolute(checkpoint).ok()?.parent()?.parent()?.to_owned();
    above.join("recipe.toml").is_file().then_some(above)
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
            bail!(
                "there is no directory {}; name a run, a checkpoint, a model directory, URL#MODEL or oracle",
                path.display()
            );
        }
        let run = path.as_ref().filter(|path| path.join("recipe.toml").is_file());
        let (checkpoint, step) = match (run, &path) {
            (Some(run), _) => checkpoint(run, &args.checkpoint)?,
            (None, Some(path)) => (Some(path.clone()), step_of(path)),
            (None, None) => (None, None),
        };
        let run = run.cloned().or_else(|| run_of(path.as_deref()?));
        let mut recipe = read_recipe(args, run.as_deref())?;
        if run.is_none()
            && let Some(model) = &checkpoint
        {
            recipe.policy.model = Some(model.clone());
        }
        let recipe = super::super::train::with_policy(recipe, scratch)?;
        let mut setup = Box::new(crate::engines::open(&recipe).await?);
        let sampler = match (&run, &checkpoint) {
            (Some(_), Some(dir)) => setup.engine.sampler_of(dir).await?,
            _ => setup.engine.sampler(),
        };
        let world = World {
            arena: Arc::clone(&setup.arena),
            tasks: setup.tasks.clone(),
            held_out: setup.held_out.clone(),
            baselines: setup.baselines.clone(),
        };
        // What is played are the held-out tasks of the setup: those that were asked for.
        let most = args.tasks.unwrap_or_else(|| recipe.eval.most_tasks());
        let take = |tasks: &[hone_trace::Task]| tasks.iter().take(most).cloned().collect::<Vec<_>>();
        setup.held_out = match args.split {
            Split::HeldOut => take(&world.held_out),
            Split::Train => take(&world.tasks),
            Split::Both => [take(&world.tasks), take(&world.held_out)].concat(),
        };
        let shown = args.policy.clone().unwrap_or_else(|| "the recipe's model".into());
        let name = step.filter(|_| run.is_some()).map_or(shown.clone(), |step| format!("{shown} at step {step}"));
        let mut policy = Self::in_world(world, Arc::clone(&setup.rubric), name, Who::Sampler { setup, sampler });
        (policy.run, policy.step) = (run, step);
        Ok((recipe, policy))
    }

    /// A model behind a server that speaks OpenAI's protocol.
    fn behind_url(args: &Args, url: &str, model: &str) -> Result<(Recipe, Self)> {
        let recipe = read_recipe(args, None)?;
        let spec: ChatSpec = serde_json::from_value(json!({
            "url": url, "model": model, "key_env": args.key_env, "max_tokens": recipe.sampling.max_new_tokens.max(256),
            "temperature": f64::from(recipe.eval.temperature.unwrap_or(recipe.sampling.temperature)),
        }))?;
        let client = match ChatClient::new(spec) {
            Ok(client) => client,
            Err(what) => bail!("the model cannot be asked: {what}"),
        };
        let policy = Self::of(&recipe, model.to_owned(), Who::Player(Arc::new(Remote(client))))?;
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
        Self { name, who, rubric, baselines, own_baselines, world, run: None, step: None }
    }
}

fn read_recipe(args: &Args, run: Option<&Path>) -> Result<Recipe> {
    match (&args.recipe, run) {
        (Some(path), _) => Source::find(path)?.read(&args.set),
        (None, Some(run)) if args.set.is_empty() => Ok(recorded_recipe(run)?),
        (None, Some(run)) => Ok(Recipe::parse(&RunReader::open(run)?.recipe()?, &args.set)?),
        (None, None) => {
            let recipe = QUICKSTART.source().read(&args.set)?;
            if args.policy.is_some() {
                let envs = recipe.env.iter().map(EnvSpec::name).collect::<Vec<_>>().join(", ");
                anstream::eprintln!("no --recipe: playing the quickstart's environment ({envs})");
            }
            Ok(recipe)
        }
    }
}

/// A checkpoint of a run, by step, `best` or `last`.
fn checkpoint(run: &Path, wanted: &str) -> Result<(Option<PathBuf>, Option<u64>)> {
    let all = RunReader::open(run)?.checkpoints()?;
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
            let step: u64 =
                step.parse().with_context(|| format!("--checkpoint takes a step, best or last, found {step:?}"))?;
            all.iter().find(|(at, _)| *at == step).cloned()
        }
    };
    match found {
        Some((step, path)) => Ok((Some(path), Some(step))),
        None => bail!(
            "{} has no checkpoint {wanted}; it has {}",
            run.display(),
            if all.is_empty() { "none".into() } else { known() }
        ),
    }
}

fn step_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("step-")?.parse().ok()
}
