//! Policies without a model on the held-out tasks: the floor under every trained policy. Measured once per run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use hone_arena::baseline::{self, Baseline};
use hone_trace::{Boundary, Fault, Seed, Task};
use serde::{Deserialize, Serialize};

use crate::interval::wilson;
use crate::recipe::Recipe;
use crate::setup::Setup;

/// Results of a baseline's episodes, by task: the value of the success component, `null` if it was not scored.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Played {
    pub name: String,
    pub values: BTreeMap<String, Option<f64>>,
    /// Episodes that broke.
    pub faults: usize,
}

/// A baseline's success.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    pub name: String,
    pub success: Option<f64>,
    pub ci: Option<[f64; 2]>,
    pub n: usize,
    pub unscored: usize,
    pub faults: usize,
}

impl Played {
    pub fn floor(&self) -> Floor {
        let scored: Vec<f64> = self.values.values().flatten().copied().collect();
        let (good, n) = (scored.iter().filter(|value| **value == 1.0).count(), scored.len());
        Floor {
            name: self.name.clone(),
            success: (n > 0).then(|| good as f64 / n as f64),
            ci: wilson(good, n),
            n,
            unscored: self.values.len() - n,
            faults: self.faults,
        }
    }
}

/// The best of the baselines.
pub fn best(floors: &[Floor]) -> Option<&Floor> {
    let scored = floors.iter().filter(|floor| floor.success.is_some());
    scored.max_by(|a, b| a.success.unwrap_or(0.0).total_cmp(&b.success.unwrap_or(0.0)))
}

/// Plays every baseline: those of every environment on all held-out tasks, an environment's own on its tasks.
pub async fn measure(setup: &Setup, recipe: &Recipe) -> Vec<Played> {
    let tasks = recipe.eval.tasks_of(&setup.held_out);
    let mut played = Vec::new();
    for baseline in baseline::everywhere() {
        played.push(one(setup, recipe, &baseline, tasks.iter()).await);
    }
    for (env, baselines) in &setup.baselines {
        for baseline in baselines {
            let own = tasks.iter().filter(|task| task.env == *env);
            played.push(one(setup, recipe, baseline, own).await);
        }
    }
    played
}

async fn one<'a>(
    setup: &Setup,
    recipe: &Recipe,
    baseline: &Arc<dyn Baseline>,
    tasks: impl Iterator<Item = &'a Task>,
) -> Played {
    let seed = Seed::root(recipe.eval.seed).with("baseline").with(baseline.name());
    let limit = Duration::try_from_secs_f64(recipe.rollout.wall_s).unwrap_or(Duration::MAX);
    let plays = tasks.map(|task| async move {
        let seed = seed.with(&task.key);
        let turns = recipe.rollout.max_turns;
        let play = baseline::play(&*setup.arena, &setup.rubric, task, &**baseline, turns, seed);
        let rewards = tokio::time::timeout(limit, play).await;
        let rewards = rewards.unwrap_or_else(|_| Err(Fault::new(Boundary::Environment, "rollout.wall_s is over")));
        let value = rewards.map(|rewards| {
            let reward = rewards.iter().find(|reward| reward.component == recipe.eval.success);
            reward.and_then(hone_trace::Reward::value)
        });
        (task.key.clone(), value)
    });
    let episodes: Vec<_> = futures::stream::iter(plays).buffered(recipe.rollout.concurrency.max(1)).collect().await;
    let mut played = Played { name: baseline.name().to_owned(), ..Played::default() };
    for (task, value) in episodes {
        match value {
            Ok(value) => _ = played.values.insert(task, value),
            Err(_) => played.faults += 1,
        }
    }
    played
}
