//! The subject: what a recipe's rewards are audited with. Opened once, from the recipe alone.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use hone_arena::baseline::Baseline;
use hone_arena::registry::{EnvOptions, TRAIN};
use hone_arena::rewards::Rubric;
use hone_trace::rundir::RunReader;
use hone_trace::{Arena, Boundary, Episode, Fault, Sampler, Task, Trace};
use hone_train::events::Event;
use hone_train::recipe::Recipe;

use crate::AuditError;
use crate::evidence::Component;

/// A recipe, opened without an engine.
pub struct Subject {
    pub recipe: Recipe,
    pub rubric: Arc<Rubric>,
    pub components: Vec<Component>,
    pub arena: Arc<dyn Arena>,
    /// Training tasks to take from.
    pub tasks: Vec<Task>,
    /// Default rubric of each environment, where a recipe has none.
    pub(crate) environments: BTreeMap<String, Rubric>,
    pub(crate) baselines: BTreeMap<String, Vec<Arc<dyn Baseline>>>,
    /// The policy, where one can be asked.
    pub sampler: Option<Arc<dyn Sampler>>,
    /// Episodes of a run to compare with instead.
    pub(crate) recorded: Option<Vec<Trace>>,
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject")
            .field("recipe", &self.recipe.name)
            .field("tasks", &self.tasks.len())
            .finish_non_exhaustive()
    }
}

impl Subject {
    /// Opens the environments and the rubric of a recipe.
    pub fn open(recipe: Recipe) -> Result<Self, AuditError> {
        let rubric = Arc::new(recipe.rubric.build()?);
        let components = Component::of(&rubric, &recipe);
        let (mut arenas, mut tasks) = (HashMap::new(), Vec::new());
        let (mut environments, mut baselines) = (BTreeMap::new(), BTreeMap::new());
        for spec in recipe.env.iter() {
            let options: &dyn EnvOptions = spec.as_ref();
            let environment = options.open(None)?;
            let wanted = options.counts().tasks;
            tasks.extend(environment.splits.get(TRAIN).into_iter().flat_map(|set| set.iter().take(wanted).cloned()));
            environments.insert(environment.name.clone(), environment.rubric);
            baselines.insert(environment.name.clone(), environment.baselines);
            arenas.insert(environment.name, environment.arena);
        }
        if tasks.is_empty() {
            return Err(AuditError::NoTasks);
        }
        let arena = Arc::new(Arenas(arenas));
        Ok(Self { recipe, rubric, components, arena, tasks, environments, baselines, sampler: None, recorded: None })
    }

    /// Compares with the last recorded step of a run instead of the policy.
    pub fn with_run(mut self, run: &Path) -> Result<Self, AuditError> {
        let reader = RunReader::open(run)?;
        let events = reader.events()?.records;
        let mut steps = events.iter().filter_map(Event::read).filter_map(|event| match event {
            Event::Step { traces, .. } => Some(traces),
            _ => None,
        });
        let [from, to] = steps.next_back().ok_or_else(|| AuditError::NoSteps { run: run.display().to_string() })?;
        let traces = reader.traces()?.range(from..to).collect::<Result<Vec<_>, _>>()?;
        let known: HashMap<&str, usize> =
            self.tasks.iter().enumerate().map(|(at, task)| (task.key.as_str(), at)).collect();
        // The run's tasks first, so that they are the ones that are audited.
        let mut first: Vec<usize> = traces.iter().filter_map(|trace| known.get(trace.task.as_str()).copied()).collect();
        first.sort_unstable();
        first.dedup();
        if first.is_empty() {
            return Err(AuditError::OtherTasks { run: run.display().to_string() });
        }
        self.tasks = first.into_iter().map(|at| self.tasks[at].clone()).collect();
        self.recorded = Some(traces);
        Ok(self)
    }

    /// A number of the tasks, spread evenly over them.
    pub fn spread(&self, count: usize) -> Vec<Task> {
        let count = count.clamp(1, self.tasks.len());
        (0..count).map(|at| self.tasks[at * self.tasks.len() / count].clone()).collect()
    }
}

/// Arenas by the name their tasks carry.
struct Arenas(HashMap<String, Arc<dyn Arena>>);

#[async_trait]
impl Arena for Arenas {
    async fn open(&self, task: &Task, seed: u64) -> Result<Episode, Fault> {
        match self.0.get(&task.env) {
            Some(arena) => arena.open(task, seed).await,
            None => Err(Fault::new(Boundary::Environment, format!("the recipe does not open {:?}", task.env))),
        }
    }
}
