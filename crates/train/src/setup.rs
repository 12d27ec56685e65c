//! Everything a recipe names, opened: the engine, the renderer, the world, the rubric.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hone_arena::baseline::Baseline;
use hone_arena::registry::{EnvOptions, RegistryError, World};
use hone_arena::rewards::Rubric;
use hone_arena::rewards::spec::SpecError;
use hone_arena::rollout::Rollouts;
use hone_chat::parse::{CannotRender, Format};
use hone_chat::{ModelDir, ModelDirError, RenderError, RenderSettings, Renderer, TokenizerError, call_format};
use hone_trace::{Arena, Engine, EngineFault, EngineKind, EngineSpec, Fault, Sampler, SamplingParams, Task};

use crate::budget::Budget;
use crate::recipe::{Recipe, RecipeError, TrainRecipe};

/// Reason why a recipe cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(
        "the recipe names no model; set policy.model to a model directory (`hone model new DIR` makes a small one)"
    )]
    NoModel,
    #[error(
        "{setting} is {asked}, and its environments have {found} {what} tasks{why}; {}",
        more_tasks(*found, what)
    )]
    TooFewTasks { setting: &'static str, asked: usize, found: usize, what: &'static str, why: String },
    #[error(
        "task {0} has no reference calls to imitate; give every task a `reference`, or train a model that can already write \
         tool calls: policy.model = \"DIR\""
    )]
    NoSolution(String),
    #[error("the reference of task {task} calls {call:?}, which its environment does not offer; {advice}")]
    NoSuchTool { task: String, call: String, advice: String },
    #[error(
        "the chat template of {0} does not show how its model writes a tool call; name the format in the recipe \
         (rollout.format = \"hermes\"; docs/formats.md lists them), or give the model a chat template with tools"
    )]
    NoCallFormat(PathBuf),
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    #[error(transparent)]
    ModelDir(#[from] ModelDirError),
    #[error(transparent)]
    Engine(#[from] EngineFault),
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error(transparent)]
    Rubric(#[from] SpecError),
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    Oracle(#[from] CannotRender),
    #[error(transparent)]
    Env(#[from] RegistryError),
    #[error(transparent)]
    World(#[from] Fault),
    #[error("no policy could be made: {0}")]
    Fresh(String),
    #[error("{0} has no end-of-turn token; set eos_token_id in its generation_config.json")]
    NoEndOfTurn(PathBuf),
}

/// Advice for a recipe with too few tasks.
fn more_tasks(found: usize, what: &str) -> String {
    match found {
        0 if what == "held-out" => "add tasks, or name a file of held-out ones: env.held_out_file".to_owned(),
        0 => "add tasks".to_owned(),
        _ => format!("lower it to {found} at most, or give them more tasks"),
    }
}

/// Everything training works with.
pub struct Setup {
    /// Serves and trains the policy.
    pub engine: Arc<dyn Engine>,
    pub renderer: Renderer,
    /// The model's own tool-call format.
    pub format: Format,
    pub end_of_turn: u32,
    pub model_dir: PathBuf,
    pub arena: Arc<dyn Arena>,
    pub tasks: Vec<Task>,
    /// Never trained on.
    pub held_out: Vec<Task>,
    pub rubric: Arc<Rubric>,
    /// Scripted policies, by the environment that declares them.
    pub baselines: BTreeMap<String, Vec<Arc<dyn Baseline>>>,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup")
            .field("model_dir", &self.model_dir)
            .field("tasks", &self.tasks.len())
            .finish_non_exhaustive()
    }
}

impl Setup {
    /// Opens the recipe on an engine of this kind, which the recipe's `[engine]` names.
    pub async fn open(recipe: &Recipe, kind: &dyn EngineKind) -> Result<Self, SetupError> {
        let spec = EngineSpec {
            model: recipe.policy.model.clone().ok_or(SetupError::NoModel)?,
            adapter: recipe.policy.adapter.clone(),
            lora: recipe.policy.lora.clone(),
            run: recipe.name.clone(),
            seed: recipe.seed,
            threads: recipe.policy.sampler_threads(&recipe.overlap),
            options: recipe.engine.options.clone(),
        };
        let model_dir = kind.texts(&spec).await?;
        let texts = ModelDir::open(&model_dir)?;
        let special_tokens = recipe.rollout.special_tokens;
        let renderer = Renderer::new(&texts, RenderSettings { special_tokens, ..RenderSettings::default() })?;
        let format = call_format(renderer.template(true), texts.special_tokens()).or(recipe.rollout.format);
        let format = format.ok_or_else(|| SetupError::NoCallFormat(model_dir.clone()))?;
        let end_of_turn = *texts.stop_ids().first().ok_or_else(|| SetupError::NoEndOfTurn(model_dir.clone()))?;
        let engine = kind.open(&spec).await?;
        recipe.check_vocabulary(engine.vocabulary())?;
        let World { arena, tasks, held_out, baselines } = open_world(recipe)?;
        let rubric = Arc::new(recipe.rubric.build()?);
        Ok(Self { engine, renderer, format, end_of_turn, model_dir, arena, tasks, held_out, rubric, baselines })
    }

    /// The recipe with the default that depends on the model: the learning rate.
    pub fn settled(&self, mut recipe: Recipe) -> Recipe {
        if recipe.train.learning_rate.is_none()
            && let Some(memory) = Budget::of(self, &recipe).memory
        {
            let adapter = recipe.policy.lora.is_some() || recipe.policy.adapter.is_some();
            recipe.train.learning_rate = Some(TrainRecipe::default_rate(memory.parts.parameters, adapter));
        }
        recipe
    }

    /// A rollout driver for any sampler in this world.
    pub fn rollouts(&self, recipe: &Recipe, sampler: Arc<dyn Sampler>, temperature: f32) -> Rollouts {
        let sampling = SamplingParams { temperature, ..recipe.sampling.clone() };
        let mut settings = recipe.rollout.clone();
        // Replies are read in the format the model's template writes, so that no other markup runs.
        settings.format = settings.format.or(Some(self.format));
        Rollouts::new(
            Arc::clone(&self.arena),
            sampler,
            self.renderer.clone(),
            Arc::clone(&self.rubric),
            sampling,
            settings,
        )
    }
}

/// Environments of a recipe, with at least the tasks that a step and an evaluation take.
fn open_world(recipe: &Recipe) -> Result<World, SetupError> {
    let world = World::open(&recipe.env)?;
    let enough = |setting, asked, found, what, why: &dyn Fn() -> String| {
        if asked > found { Err(SetupError::TooFewTasks { setting, asked, found, what, why: why() }) } else { Ok(()) }
    };
    let by_lock = || {
        let specs = recipe.env.iter().map(|spec| -> &dyn EnvOptions { spec.as_ref() });
        let mut locked = specs
            .map(|spec| (spec.split_lock(), spec.counts().held_out))
            .filter(|(_, wanted)| *wanted > world.held_out.len())
            .filter_map(|(lock, wanted)| Some((lock?, wanted)));
        locked.next().map_or_else(String::new, |(lock, wanted)| {
            format!(" ({} decides which; env.held_out = {wanted} is ignored)", lock.display())
        })
    };
    // A data directory may hold fewer tasks than the recipe asks for.
    enough("train.groups", recipe.train.groups, world.tasks.len(), "training", &String::new)?;
    enough("eval.tasks", recipe.eval.tasks.unwrap_or(0), world.held_out.len(), "held-out", &by_lock)?;
    Ok(world)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_decides_what_is_held_out_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let lines = (0..20).map(|at| format!("{{\"key\": \"k{at}\", \"prompt\": \"p\"}}\n")).collect::<String>();
        std::fs::write(directory.path().join("tasks.jsonl"), lines).unwrap();
        let mut lock = hone_trace::SplitLock::new(serde_json::Value::Null, Vec::new());
        for at in 0..20 {
            let side = if at < 3 { hone_trace::Side::Eval } else { hone_trace::Side::Train };
            lock.set(&format!("k{at}"), "mine", side);
        }
        let path = directory.path().join(hone_trace::SPLIT_LOCK);
        lock.write(&mut std::fs::File::create(&path).unwrap()).unwrap();
        let error = |more: &str| {
            let text = format!(
                "[env]\nname = \"mine\"\ncommand = [\"x\"]\ntask_file = \"tasks.jsonl\"\n{more}\n[train]\ngroups = 2\n\
                 [eval]\ntasks = 8\n"
            );
            let recipe = Recipe::parse_in(&text, &[], directory.path()).unwrap();
            open_world(&recipe).unwrap_err().to_string()
        };
        let locked = error("held_out = 8");
        assert!(locked.contains("have 3 held-out tasks ("), "{locked}");
        assert!(locked.contains("split.lock decides which; env.held_out = 8 is ignored); lower it to 3"), "{locked}");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(directory.path().join("none.jsonl"), "").unwrap();
        let none = error("held_out = 8\nheld_out_file = \"none.jsonl\"");
        assert!(none.contains("have 0 held-out tasks; add tasks, or name a file"), "{none}");
    }
}
