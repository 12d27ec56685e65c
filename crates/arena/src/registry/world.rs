//! A recipe's world: its environments behind one arena, with their tasks.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hone_trace::{Arena, Boundary, Episode, Fault, Held, Task};

use super::{Counts, EnvOptions, RegistryError, TRAIN};
use crate::baseline::Baseline;

/// An arena with tasks to train on and tasks that are never trained on.
#[derive(Clone)]
pub struct World {
    pub arena: Arc<dyn Arena>,
    pub tasks: Vec<Task>,
    pub held_out: Vec<Task>,
    /// Scripted policies, by the environment that declares them.
    pub baselines: BTreeMap<String, Vec<Arc<dyn Baseline>>>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("tasks", &self.tasks.len())
            .field("held_out", &self.held_out.len())
            .finish_non_exhaustive()
    }
}

impl World {
    /// Opens every environment of a recipe. Tasks are in the recipe's order, each under its environment's name;
    /// held-out tasks alternate between the environments, so that the first few of them cover all.
    pub fn open<S: AsRef<dyn EnvOptions>>(specs: &[S]) -> Result<Self, RegistryError> {
        let (mut arenas, mut tasks, mut held_out) = (HashMap::new(), Vec::new(), Vec::new());
        let mut baselines = BTreeMap::new();
        for spec in specs.iter().map(AsRef::as_ref) {
            let environment = spec.open(None)?;
            let Counts { tasks: wanted, held_out: kept_back, .. } = spec.counts();
            let split = |name: &'static str, count: usize| match environment.splits.get(name) {
                Some(set) => Ok(set.iter().take(count).cloned().collect::<Vec<_>>()),
                None if count == 0 => Ok(Vec::new()),
                None => Err(RegistryError::NoSplit {
                    name: environment.name.clone(),
                    split: name,
                    known: environment.splits.keys().cloned().collect::<Vec<_>>().join(", "),
                    fix: "Leave `data` out for a generated world, or give tau2's directory, which has both",
                }),
            };
            tasks.extend(split(TRAIN, wanted)?);
            held_out.push(split(spec.held_out_split(), kept_back)?);
            baselines.insert(environment.name.clone(), environment.baselines);
            if arenas.insert(environment.name.clone(), environment.arena).is_some() {
                return Err(RegistryError::Twice(environment.name));
            }
        }
        Ok(Self { arena: Arc::new(Arenas(arenas)), tasks, held_out: alternate(held_out), baselines })
    }
}

fn alternate(sets: Vec<Vec<Task>>) -> Vec<Task> {
    let mut rest: Vec<_> = sets.into_iter().map(Vec::into_iter).collect();
    let mut tasks = Vec::new();
    while rest.iter().any(|set| set.len() > 0) {
        tasks.extend(rest.iter_mut().filter_map(Iterator::next));
    }
    tasks
}

/// Arenas by the name their tasks carry.
struct Arenas(HashMap<String, Arc<dyn Arena>>);

#[async_trait]
impl Arena for Arenas {
    async fn open(&self, task: &Task, seed: u64) -> Result<Episode, Fault> {
        let Some(arena) = self.0.get(&task.env) else {
            let what = format!("task {} is played in {:?}, which the recipe does not open", task.key, task.env);
            return Err(Fault::new(Boundary::Environment, what));
        };
        arena.open(task, seed).await
    }

    fn patience(&self, task: &Task) -> Option<Duration> {
        self.0.get(&task.env)?.patience(task)
    }

    fn trouble(&self) -> Option<String> {
        self.0.values().find_map(|arena| arena.trouble())
    }

    async fn holds(&self) -> Vec<Held> {
        let mut held = Vec::new();
        for arena in self.0.values() {
            held.extend(arena.holds().await);
        }
        held
    }
}
