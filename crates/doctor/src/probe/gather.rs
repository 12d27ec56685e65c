//! Gathering: everything is opened and played once, in the order of a pipeline.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use hone_arena::registry;
use hone_chat::parse::Format;
use hone_chat::template::Clock;
use hone_chat::{ModelDir, RenderSettings, Renderer, call_format};
use hone_trace::EngineKind;
use hone_train::budget::Budget;
use hone_train::recipe::Recipe;
use hone_train::setup::{Setup, SetupError};

use super::{Depth, Part, Probe, Texts, identity, opening, play, world};

/// Limits of a full probe: of it all, whatever it finds, a minute on the quickstart.
const SCRIPTS: Duration = Duration::from_secs(12);
const EPISODES: Duration = Duration::from_secs(20);

impl Probe {
    /// A recipe that cannot be read.
    pub fn of_unreadable(words: impl Into<String>) -> Self {
        Self { unreadable: Some(words.into()), ..Self::default() }
    }

    /// Looks at a recipe that may not even open.
    pub async fn of_recipe(recipe: &Recipe, given: BTreeSet<String>, kind: &dyn EngineKind) -> Self {
        match Setup::open(recipe, kind).await {
            Ok(setup) => Self::of_setup(&setup, recipe, given, Depth::Played).await,
            Err(error) => Self::of_refused(recipe, given, &error).await,
        }
    }

    /// Looks at what a run would work with.
    pub async fn of_setup(setup: &Setup, recipe: &Recipe, given: BTreeSet<String>, depth: Depth) -> Self {
        let recipe = &setup.settled(recipe.clone());
        let mut texts = texts(recipe, &setup.model_dir);
        if let Part::Known(texts) = &mut texts {
            texts.vocabulary = Some(setup.engine.vocabulary());
        }
        let scene = opening::Scene {
            recipe,
            renderer: &setup.renderer,
            // Another reading of the tokenizer: seconds where it is large.
            dated: if depth == Depth::Played { dated(&setup.model_dir) } else { None },
            format: recipe.rollout.format.unwrap_or(setup.format),
        };
        let mut world = world::of(&setup.tasks, &setup.held_out);
        world.openings = opening::open(&*setup.arena, &setup.tasks, &scene, depth).await;
        let mut probe =
            Self { recipe: recipe.clone(), given, texts, budget: Some(Budget::of(setup, recipe)), ..Self::default() };
        let opens =
            world.openings.iter().all(|opening| opening.rendered.known().is_some() && !opening.tools.is_empty());
        if depth == Depth::Played && opens {
            let mut scripts = world::scripts(setup, recipe, SCRIPTS).await;
            if let Some(words) = &scripts.gone {
                // Rollouts would wait for it with all their patience.
                let why = format!("episodes no longer open: {words}");
                (probe.played, probe.identity) = (Part::Broken(why.clone()), Part::Broken(why));
            } else {
                let groups = play::groups(setup, recipe, EPISODES).await;
                scripts.spoiled = world::spoiled(setup, recipe, &scripts).await;
                probe.identity = identity::of(setup, recipe, &groups.groups).await;
                probe.played = Part::Known(groups);
            }
            world.scripts = Part::Known(scripts);
        } else if depth == Depth::Played {
            let why = "no episode opens";
            world.scripts = Part::Broken(why.into());
            (probe.played, probe.identity) = (Part::Broken(why.into()), Part::Broken(why.into()));
        } else if opens {
            world.first = world::first_episodes(setup, recipe).await;
        }
        probe.world = Part::Known(world);
        probe
    }

    async fn of_refused(recipe: &Recipe, given: BTreeSet<String>, error: &SetupError) -> Self {
        let why = "the recipe does not open";
        let mut probe = Self {
            recipe: recipe.clone(),
            given,
            refused: Some(error_words(error)),
            texts: Part::Broken(why.into()),
            world: Part::Broken(why.into()),
            played: Part::Broken(why.into()),
            identity: Part::Broken(why.into()),
            ..Self::default()
        };
        let Some(model) = &recipe.policy.model else { return probe };
        probe.texts = texts(recipe, model);
        let renderer = ModelDir::open(model).ok().and_then(|dir| Renderer::new(&dir, RenderSettings::default()).ok());
        let Ok(opened) = registry::World::open(&recipe.env) else { return probe };
        let mut world = world::of(&opened.tasks, &opened.held_out);
        world.scripts = Part::Broken(why.into());
        if let Some(renderer) = renderer {
            let format = probe.texts.known().and_then(|texts| texts.template_format);
            let format = recipe.rollout.format.or(format).unwrap_or(Format::Hermes);
            let scene = opening::Scene { recipe, renderer: &renderer, dated: dated(model), format };
            world.openings = opening::open(&*opened.arena, &opened.tasks, &scene, Depth::Opened).await;
        }
        probe.world = Part::Known(world);
        probe
    }
}

/// An error with its causes.
pub(super) fn error_words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let more = source.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = source.source();
    }
    words
}

fn texts(recipe: &Recipe, model: &Path) -> Part<Texts> {
    let dir = match ModelDir::open(model) {
        Ok(dir) => dir,
        Err(error) => return Part::Broken(error_words(&error)),
    };
    let (tokenizer, template) = match (dir.tokenizer(), dir.template(true)) {
        (Ok(tokenizer), Ok(template)) => (tokenizer, template),
        (Err(error), _) | (_, Err(error)) => return Part::Broken(error_words(&error)),
    };
    let tokenizer_of = |dir: &Path| std::fs::read(dir.join("tokenizer.json")).ok();
    let largest = (0..tokenizer.vocab_size() as u32 + 1024).rev().find(|id| tokenizer.id_to_token(*id).is_some());
    Part::Known(Texts {
        model: model.to_owned(),
        template_format: call_format(&template, dir.special_tokens()),
        context_window: dir.context_window(),
        largest_id: largest.unwrap_or(0),
        vocabulary: None,
        reference_agrees: recipe.policy.reference.as_deref().map(|other| tokenizer_of(other) == tokenizer_of(model)),
    })
}

/// The renderer on another day.
fn dated(model: &Path) -> Option<Renderer> {
    let date = Clock::parse("2001-02-03").ok();
    Renderer::new(&ModelDir::open(model).ok()?, RenderSettings { date, ..RenderSettings::default() }).ok()
}
