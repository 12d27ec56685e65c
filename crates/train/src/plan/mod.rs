//! The sampling plan: which task every group plays.
//!
//! Tasks are visited in passes; every pass has its own order in each environment. Shares bound how much of the sampling
//! an environment gets; a curriculum prefers tasks the policy neither always nor never solves. A draw depends only on
//! the seed and on [`PlanState`], so a resumed run draws what it would have drawn.

mod curriculum;
mod share;

use std::collections::{BTreeMap, BTreeSet};

use hone_trace::{Group, Seed, Task, did_you_mean, documented};
use serde::{Deserialize, Serialize};

pub use curriculum::{By, Curriculum, Measured};
pub use share::Share;

use crate::recipe::RecipeError;

documented! {
    /// `[plan]`
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct PlanRecipe {
        /// Treatment of groups without signal: every episode earned the same, none was scored, or one alone was left.
        pub zero_variance: ZeroVariance,
        /// With `replace`: how often a step may resample to replace groups without signal.
        pub rounds: u32 where whole(0, 1_000),
        /// Bounds of an environment's share of the groups, by its name.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub share: BTreeMap<String, Share> where tables_by_name::<Share>(),
        /// Prefer tasks the policy sometimes solves; absent: all tasks equally.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub curriculum: Option<Curriculum> where table::<Curriculum>(),
    }
}

impl Default for PlanRecipe {
    fn default() -> Self {
        Self { zero_variance: ZeroVariance::default(), rounds: 4, share: BTreeMap::new(), curriculum: None }
    }
}

/// Treatment of a group without signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZeroVariance {
    /// It stays in the batch: it trains nothing, and counts in statistics over the batch.
    #[default]
    Keep,
    /// It leaves the batch and its place stays empty.
    Filter,
    /// It leaves the batch and another task is sampled in its place.
    Replace,
}

impl PlanRecipe {
    /// Refuses a plan that contradicts itself.
    pub fn check(&self) -> Result<(), String> {
        share::check(&self.share)?;
        self.curriculum.as_ref().map_or(Ok(()), Curriculum::check)
    }

    /// Refuses bounds of an environment that has no task.
    pub fn check_tasks(&self, tasks: &[Task]) -> Result<(), RecipeError> {
        let known: BTreeSet<&str> = tasks.iter().map(|task| task.env.as_str()).collect();
        let Some(name) = self.share.keys().find(|name| !known.contains(name.as_str())) else { return Ok(()) };
        let nearest = did_you_mean(name, known.iter().copied());
        let known = Vec::from_iter(known).join(", ");
        let what = format!("plan.share.{name}: no task is of that environment; {nearest}the tasks are of {known}");
        Err(RecipeError::new(what))
    }
}

/// One group to play.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draw {
    /// Index of the draw in the run: every group has its own seed, even if its task repeats.
    pub number: u64,
    /// Place in the run's tasks.
    pub task: usize,
}

/// Position in the plan, as a checkpoint keeps it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PlanState {
    /// Draws so far.
    pub drawn: u64,
    /// Positions in each environment's passes, including skipped tasks.
    pub places: BTreeMap<String, u64>,
    /// Tasks the curriculum passed over.
    pub passed_over: u64,
    /// Measurements of the curriculum.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub measured: BTreeMap<String, Measured>,
}

/// The plan of one run.
#[derive(Debug)]
pub struct Plan<'a> {
    recipe: &'a PlanRecipe,
    seed: Seed,
    tasks: &'a [Task],
    /// Places of each environment's tasks.
    pools: BTreeMap<&'a str, Vec<usize>>,
    /// The pass every environment is in, and its order.
    passes: BTreeMap<&'a str, (u64, Vec<usize>)>,
    pub state: PlanState,
}

impl<'a> Plan<'a> {
    pub fn new(recipe: &'a PlanRecipe, seed: u64, tasks: &'a [Task], state: PlanState) -> Self {
        let mut pools: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, task) in tasks.iter().enumerate() {
            pools.entry(&task.env).or_default().push(place);
        }
        Self { recipe, seed: Seed::root(seed), tasks, pools, passes: BTreeMap::new(), state }
    }

    pub fn task(&self, draw: Draw) -> &'a Task {
        &self.tasks[draw.task]
    }

    /// Root seed of a group.
    pub fn seed(&self, draw: Draw) -> Seed {
        self.seed.with("rollout").at(draw.number).with(&self.tasks[draw.task].key)
    }

    /// The next groups to play, environment after environment.
    pub fn draw(&mut self, count: usize) -> Vec<Draw> {
        let weights: Vec<f64> = self.pools.iter().map(|(env, pool)| self.weight(env, pool.len())).collect();
        let names: Vec<&'a str> = self.pools.keys().copied().collect();
        let shares = share::shares(&names, &weights, &self.recipe.share);
        let turn = self.seed.with("shares").at(self.state.drawn).rng().unit();
        let counts = share::allot(&shares, count, turn);
        let mut draws = Vec::with_capacity(count);
        for (env, count) in names.into_iter().zip(counts) {
            for _ in 0..count {
                let task = self.next(env);
                draws.push(Draw { number: self.state.drawn, task });
                self.state.drawn += 1;
            }
        }
        draws
    }

    /// Reports a group's result to the curriculum: in how many of its episodes the policy succeeded.
    pub fn observe(&mut self, draw: Draw, group: &Group, success: &str) {
        let Some(curriculum) = &self.recipe.curriculum else { return };
        let scored: Vec<f64> = group.traces().iter().filter_map(|trace| trace.reward(success)).collect();
        let good = scored.iter().filter(|value| **value >= 1.0).count();
        if !scored.is_empty() {
            let bucket = curriculum.by.bucket(&self.tasks[draw.task]);
            self.state.measured.entry(bucket).or_default().add(good, scored.len(), curriculum.by);
        }
    }

    /// Weight of an environment before shares are bounded: its number of tasks, reduced if it teaches little.
    fn weight(&self, env: &str, tasks: usize) -> f64 {
        let measured = self.state.measured.get(env);
        match &self.recipe.curriculum {
            Some(curriculum) if curriculum.by == By::Env && curriculum.is_outside(measured) => {
                tasks as f64 * curriculum.outside
            }
            _ => tasks as f64,
        }
    }

    /// The next task of an environment. A task that teaches little is usually skipped; after a whole pass of skipped
    /// tasks, the next one is taken regardless.
    fn next(&mut self, env: &'a str) -> usize {
        let count = self.pools[env].len();
        let mut tries = 0;
        loop {
            let place = self.state.places.entry(env.to_owned()).or_default();
            let (number, (pass, at)) = (*place, (*place / count as u64, *place % count as u64));
            *place += 1;
            tries += 1;
            let task = self.at(env, pass, at as usize);
            let chance = self.seed.with("curriculum").with(env).at(number).rng().unit();
            if tries > count || self.recipe.curriculum.as_ref().is_none_or(|c| self.wants(c, task, chance)) {
                return task;
            }
            self.state.passed_over += 1;
        }
    }

    /// The task at a place of one pass through an environment.
    fn at(&mut self, env: &'a str, pass: u64, at: usize) -> usize {
        let pool = &self.pools[env];
        let (current, order) = self.passes.entry(env).or_default();
        if *current != pass || order.len() != pool.len() {
            *current = pass;
            *order = (0..pool.len()).collect();
            self.seed.with("order").with(env).at(pass).rng().shuffle(order);
        }
        pool[order[at]]
    }

    fn wants(&self, curriculum: &Curriculum, task: usize, chance: f64) -> bool {
        let measured = self.state.measured.get(&curriculum.by.bucket(&self.tasks[task]));
        curriculum.by == By::Env || !curriculum.is_outside(measured) || chance < curriculum.outside
    }
}
