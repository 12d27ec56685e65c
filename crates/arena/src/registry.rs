//! The built-in environments by name: what there is, and how to get one with its tasks and its rubric.
//!
//! A new environment is one entry of [`BUILTINS`] and one arm of [`build`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hone_trace::{Arena, DuplicateTool, Task, TaskSet, TaskSetError};
use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::domains::service::{NewUser, Service, scripted_users};
use crate::domains::tasks::TasksError;
use crate::domains::{self, Domain, Kind, LoadError, Profile};
use crate::rewards::spec::{RubricSpec, SpecError};
use crate::rewards::{Rubric, RubricError};
use crate::shop::{self, Shop};
use crate::triage::{self, GenerateError, Mode, TaskSpec, TriageArena};

/// An environment that comes with Hone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    pub name: &'static str,
    pub about: &'static str,
    /// Whether the agent talks to a user.
    pub user: bool,
    /// Whether it is played on data from a directory rather than a generated world.
    pub needs_data: bool,
}

pub const BUILTINS: [Builtin; 5] = [
    Builtin {
        name: shop::NAME,
        about: "A small shop's desk: three to five tool calls that build on each other. For small models",
        user: false,
        needs_data: false,
    },
    Builtin {
        name: "triage-reader",
        about: "IT tickets with the documents in the prompt: one turn, one submission",
        user: false,
        needs_data: false,
    },
    Builtin {
        name: "triage-searcher",
        about: "IT tickets with a knowledge base to search: many turns",
        user: false,
        needs_data: false,
    },
    Builtin {
        name: "retail",
        about: "Customer service of a shop, as tau-bench defines it",
        user: true,
        needs_data: true,
    },
    Builtin {
        name: "airline",
        about: "Customer service of an airline, as tau-bench defines it",
        user: true,
        needs_data: true,
    },
];

/// How an environment is wanted.
#[derive(Clone)]
pub struct Setup {
    pub seed: u64,
    /// A tau-bench or tau2-bench directory of the domain.
    pub data: Option<PathBuf>,
    pub profile: Profile,
    /// The environment's own options: those of [`TaskSpec`] for triage; `train`, `test` and `difficulty` for the shop.
    pub options: Map<String, Value>,
    /// Who plays the user.
    pub new_user: Arc<NewUser>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { seed: 0, data: None, profile: Profile::Strict, options: Map::new(), new_user: scripted_users() }
    }
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, data, profile, options, .. } = self;
        f.debug_struct("Setup")
            .field("seed", seed)
            .field("data", data)
            .field("profile", profile)
            .field("options", options)
            .finish_non_exhaustive()
    }
}

/// An environment with its tasks, by split, and what an episode earns.
pub struct Environment {
    pub builtin: Builtin,
    pub arena: Arc<dyn Arena>,
    pub splits: IndexMap<String, TaskSet>,
    pub rubric: Rubric,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").field("name", &self.builtin.name).finish_non_exhaustive()
    }
}

/// Why an environment cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error("there is no environment {name:?}; there are {known}", known = names())]
    Unknown { name: String },
    #[error("{name} is played on data: give the directory of the domain (for retail: the one with users.json)")]
    NoData { name: &'static str },
    #[error("{path} has no tasks: neither tasks_train.json, tasks_dev.json and tasks_test.json nor tasks.json")]
    NoTasks { path: String },
    #[error("options of {name}: {what}")]
    Options { name: &'static str, what: String },
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Tasks(#[from] TasksError),
    #[error(transparent)]
    Generate(#[from] GenerateError),
    #[error(transparent)]
    Set(#[from] TaskSetError),
    #[error(transparent)]
    Rubric(#[from] RubricError),
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Tools(#[from] DuplicateTool),
}

fn names() -> String {
    BUILTINS.map(|builtin| builtin.name).join(", ")
}

/// The entry of a name.
pub fn find(name: &str) -> Result<Builtin, RegistryError> {
    BUILTINS
        .into_iter()
        .find(|builtin| builtin.name == name)
        .ok_or_else(|| RegistryError::Unknown { name: name.to_owned() })
}

/// The environment of a name, ready to play.
pub fn build(name: &str, setup: &Setup) -> Result<Environment, RegistryError> {
    let builtin = find(name)?;
    match builtin.name {
        "triage-reader" => triage(builtin, Mode::Reader, setup),
        "triage-searcher" => triage(builtin, Mode::Searcher, setup),
        "retail" => service(builtin, Kind::Retail, setup),
        "airline" => service(builtin, Kind::Airline, setup),
        _ => shop(builtin, setup),
    }
}

fn options<T: DeserializeOwned>(builtin: Builtin, setup: &Setup) -> Result<T, RegistryError> {
    serde_json::from_value(Value::Object(setup.options.clone()))
        .map_err(|error| RegistryError::Options { name: builtin.name, what: error.to_string() })
}

fn triage(builtin: Builtin, mode: Mode, setup: &Setup) -> Result<Environment, RegistryError> {
    // The name says the mode and the setup the seed: an option that says otherwise would be dropped silently.
    if let Some(key) = ["mode", "seed"].into_iter().find(|key| setup.options.contains_key(*key)) {
        let what = format!("{key:?} is not an option here; choose the environment for the mode and the seed beside it");
        return Err(RegistryError::Options { name: builtin.name, what });
    }
    let spec = TaskSpec { mode, seed: setup.seed, ..options(builtin, setup)? };
    let made = spec.generate()?;
    let splits = [("train", made.train), ("dev", made.dev), ("test", made.test)];
    Ok(Environment {
        builtin,
        arena: Arc::new(TriageArena::default()),
        splits: splits.into_iter().map(|(name, tasks)| (name.to_owned(), tasks)).collect(),
        rubric: triage::rubric()?,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ShopOptions {
    train: usize,
    test: usize,
    difficulty: u8,
}

impl Default for ShopOptions {
    fn default() -> Self {
        Self { train: 2000, test: 200, difficulty: 1 }
    }
}

fn shop(builtin: Builtin, setup: &Setup) -> Result<Environment, RegistryError> {
    let ShopOptions { train, test, difficulty } = options(builtin, setup)?;
    let mut splits = IndexMap::new();
    for (name, count) in [("train", train), ("test", test)] {
        let tasks = shop::tasks(name, setup.seed, count, difficulty);
        splits.insert(name.to_owned(), set(builtin, name, &format!("seed{}", setup.seed), tasks)?);
    }
    Ok(Environment {
        builtin,
        arena: Arc::new(Shop),
        splits,
        rubric: RubricSpec::single("tau_state", Map::new()).build()?,
    })
}

fn service(builtin: Builtin, kind: Kind, setup: &Setup) -> Result<Environment, RegistryError> {
    let directory = setup.data.as_deref().ok_or(RegistryError::NoData { name: builtin.name })?;
    let domain = Arc::new(Domain::load(kind, setup.profile, directory)?);
    let service = Service::new(domain, Arc::clone(&setup.new_user))?.with_texts_of(directory);
    let mut splits = IndexMap::new();
    for name in split_names(directory) {
        let tasks = domains::tasks::load(kind, directory, name)?;
        splits.insert(name.to_owned(), set(builtin, name, "data", tasks)?);
    }
    if splits.is_empty() {
        return Err(RegistryError::NoTasks { path: directory.display().to_string() });
    }
    let rubric = RubricSpec::single("tau", Map::new()).build()?;
    Ok(Environment { builtin, arena: Arc::new(service), splits, rubric })
}

/// The splits a data directory has.
fn split_names(directory: &Path) -> Vec<&'static str> {
    if directory.join("tasks.json").exists() {
        return vec!["train", "test"];
    }
    let has = |name: &&str| directory.join(format!("tasks_{name}.json")).exists();
    ["train", "dev", "test"].into_iter().filter(has).collect()
}

fn set(builtin: Builtin, split: &str, version: &str, tasks: Vec<Task>) -> Result<TaskSet, RegistryError> {
    Ok(TaskSet::new(format!("{}-{split}", builtin.name), version, tasks)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn setup(options: &Value) -> Setup {
        Setup { options: options.as_object().cloned().unwrap_or_default(), ..Setup::default() }
    }

    #[test]
    fn every_generated_environment_opens_its_tasks() {
        for builtin in BUILTINS.into_iter().filter(|builtin| !builtin.needs_data) {
            let environment = build(builtin.name, &setup(&json!({"train": 20, "test": 10}))).unwrap();
            assert_eq!((environment.splits["train"].len(), environment.splits["test"].len()), (20, 10));
            for task in environment.splits.values().flat_map(|set| set.iter()) {
                assert_eq!(task.env, builtin.name);
                let episode = futures::executor::block_on(environment.arena.open(task, 0)).unwrap();
                assert!(!episode.tools.is_empty() && !episode.first.is_empty());
            }
        }
    }

    #[test]
    fn what_cannot_be_had_is_said_with_the_way_out() {
        let error = |name: &str, options: &Value| build(name, &setup(options)).unwrap_err().to_string();
        assert!(error("retial", &json!({})).contains("retail, airline"));
        assert!(error("retail", &json!({})).contains("users.json"));
        assert!(error("triage-reader", &json!({"sise": "full"})).contains("`size`"));
        assert!(error("triage-reader", &json!({"seed": 3})).contains("not an option here"));
        assert!(error("shop", &json!({"dev": 3})).contains("`difficulty`"));
    }
}
