//! The embedded recipes: each loads, prints back, opens its world, and can be imitated where it has solutions.

use std::path::{Path, PathBuf};

use hone_arena::registry::World;
use hone_train::fresh::{FreshTokenizer, Solutions, fresh_policy};
use hone_train::recipe::Recipe;
use hone_train::run::check;
use hone_train::setup::{Setup, SetupError};
use hone_train::sft::sft;

use crate::engine::KIND;

fn recipes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes")
}

fn read(name: &str, settings: &[&str]) -> Recipe {
    let text = std::fs::read_to_string(recipes().join(name)).unwrap();
    let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
    Recipe::parse(&text, &settings).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn every_recipe_loads_and_opens_its_world() {
    for file in std::fs::read_dir(recipes()).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let recipe = read(&name, &[]);
        let printed = recipe.to_toml().unwrap();
        assert_eq!(Recipe::parse(&printed, &[]).unwrap().to_toml().unwrap(), printed, "{name}");
        recipe.rubric.build().unwrap_or_else(|error| panic!("{name}: {error}"));
        let (tasks, held_out) = (recipe.env.tasks(), recipe.env.held_out());
        assert!(recipe.train.groups <= tasks && recipe.eval.tasks.is_none_or(|asked| asked <= held_out), "{name}");
        let fewer = read(&name, &["env.tasks=48", "env.held_out=16", "train.groups=2", "eval.tasks=2"]);
        let world = World::open(&fewer.env).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((world.tasks.len(), world.held_out.len()), (48, 16), "{name}");
    }
}

/// One step of imitation in the recipe's world, with a policy made for it.
async fn imitate(mut recipe: Recipe) -> Result<f64, SetupError> {
    let directory = tempfile::tempdir().unwrap();
    fresh_policy(&recipe, &KIND, directory.path()).await?;
    recipe.policy.model = Some(directory.path().to_owned());
    let setup = Setup::open(&recipe, &KIND).await?;
    let mut loss = f64::NAN;
    match sft(&setup, &recipe, |step| loss = step.loss).await {
        Ok(()) => Ok(loss),
        Err(hone_train::run::TrainError::Setup(error)) => Err(error),
        Err(other) => panic!("{other}"),
    }
}

const SMALL: [&str; 9] = [
    "env.tasks=16",
    "env.held_out=8",
    "train.groups=4",
    "eval.tasks=8",
    "sft.steps=1",
    "sft.batch=2",
    "sft.copying=0.0",
    "sft.warmup=0",
    "policy.threads=2",
];

#[tokio::test(flavor = "multi_thread")]
async fn the_oracle_can_be_imitated_in_every_built_in_environment() {
    let tiny = [("triage-reader.toml", None), ("triage-searcher.toml", None)];
    let worlds = [("retail.toml", None), ("airline.toml", None), ("triage.toml", None)];
    let searcher = ("triage.toml", Some(["env.name=triage-searcher", "rollout.max_turns=12"]));
    for (name, more) in worlds.into_iter().chain(tiny).chain([searcher]) {
        let mut settings = SMALL.to_vec();
        settings.extend(more.into_iter().flatten());
        let loss = imitate(read(name, &settings)).await.unwrap();
        assert!(loss.is_finite() && loss > 0.0, "{name}: {loss}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_trained_in_as_well() {
    let script = recipes().join("../docs/examples/guess_env.py").canonicalize().unwrap();
    let command = format!("env.command=[\"python3\", {script:?}]");
    let mut settings = SMALL.to_vec();
    settings.push(&command);
    let recipe = read("stdio.toml", &settings);
    let world = World::open(&recipe.env).unwrap();
    let episode = world.arena.open(&world.tasks[0], 0).await.unwrap();
    assert!(episode.tools.get("guess").is_some());
    // Its tasks have no solutions: an error, instead of imitating nothing.
    let error = imitate(recipe).await.unwrap_err();
    assert!(matches!(error, SetupError::NoSolution(_)), "{error}");

    // With solutions in a task file, they are played.
    let file = tempfile::NamedTempFile::new().unwrap();
    let lines: Vec<String> = (0..24)
        .map(|n| {
            let guess = serde_json::json!([{"name": "guess", "arguments": {"n": n}}]);
            serde_json::json!({"key": format!("t{n}"), "prompt": "Guess.", "reference": guess}).to_string()
        })
        .collect();
    std::fs::write(file.path(), lines.join("\n")).unwrap();
    let tasks = format!("env.task_file={}", file.path().display());
    settings.push(&tasks);
    assert!(imitate(read("stdio.toml", &settings)).await.unwrap().is_finite());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_solved_episodes_do_not_fit_is_refused_before_training() {
    let recipe = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        Recipe::parse("[env]\nname = \"shop\"\ntasks = 32\nheld_out = 8\n", &settings).unwrap()
    };
    let wide = recipe(&[]);
    let solutions = Solutions::of(&wide).await.unwrap();
    let longest = |recipe: &Recipe| FreshTokenizer::of(recipe, &solutions).unwrap().longest;
    let tokenizer = FreshTokenizer::of(&wide, &solutions).unwrap();
    tokenizer.check(&wide).unwrap();
    let exact = recipe(&[&format!("rollout.window={}", tokenizer.longest)]);
    tokenizer.check(&exact).unwrap();
    let narrow = recipe(&["rollout.window=64"]);
    let refused = tokenizer.check(&narrow).unwrap_err().to_string();
    let words = format!("the longest solved episode takes {} tokens with this tokenizer", tokenizer.longest);
    assert!(refused.contains(&words) && refused.contains("rollout.window is 64; raise rollout.window"), "{refused}");
    // Measured with the tokenizer of the recipe's size, not with another.
    assert!(longest(&recipe(&["policy.fresh.vocabulary=300"])) > tokenizer.longest);
}

#[test]
fn what_a_run_would_refuse_is_refused_without_one() {
    let refused = |setting: &str| {
        let recipe = crate::tiny::recipe(&["train.groups=2", setting]);
        check(&crate::tiny::setup(&recipe), &recipe).map_err(|error| error.to_string())
    };
    refused("train.steps=1").unwrap();
    assert!(refused("plan.share.parcels.min=0.2").unwrap_err().contains("plan.share.parcels: no task is of that"));
    assert!(refused("train.kl_within=nope").unwrap_err().contains("nope"));
}
