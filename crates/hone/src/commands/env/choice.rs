//! Choice of an environment and a task on the command line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use hone_arena::registry::{Environment, RegistryError};
use hone_arena::users::NewUser;
use hone_trace::{Task, did_you_mean};
use hone_worlds::registry::EnvSpec;
use serde_json::{Map, Value};

use crate::recipes::{Source, setting};

#[derive(Debug, clap::Args)]
pub(crate) struct Choice {
    /// One of `hone env list`; a recipe's file, for its (first) environment; any other name with --set command=[…] for a
    /// program of your own, or --set kind=openenv for a server
    pub(super) name: String,
    #[arg(long)]
    pub(super) seed: Option<u64>,
    /// train and held-out for generated worlds; train, dev or test as a data directory and triage have them
    #[arg(long, default_value = "train")]
    split: String,
    /// Task of the split: its number or its key
    #[arg(long, default_value = "0")]
    task: String,
    /// For retail and airline: the domain's directory of tau-bench or tau2-bench data. Without: a generated world
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// For retail and airline: compat is tau-bench v1 to the byte, strict checks arguments, tau2 is tau2-bench
    #[arg(long, value_name = "NAME")]
    profile: Option<ProfileName>,
    /// A key of the environment's recipe table (docs/environments.md), such as size=full or difficulty=2. Values are TOML, or
    /// text where they are not
    #[arg(long = "set", value_name = "KEY=VALUE")]
    options: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProfileName {
    Compat,
    Strict,
    Tau2,
}

impl Choice {
    /// As if these flags had been given.
    pub(crate) fn of(name: &str, split: &str, task: &str, options: &[String]) -> Self {
        let (name, split, task, options) = (name.into(), split.into(), task.into(), options.to_vec());
        Self { name, seed: None, split, task, data: None, profile: None, options }
    }

    /// Opens the recipe table that these flags describe.
    pub(crate) fn open(&self, user: Option<Arc<NewUser>>) -> Result<Environment> {
        let recipe = match Path::new(&self.name) {
            file if file.extension().is_some_and(|ending| ending == "toml") => Some(Source::find(file)?.read(&[])?),
            _ => None,
        };
        let mut table = Map::new();
        if let Some(spec) = recipe.as_ref().and_then(|recipe| recipe.env.first()) {
            let Value::Object(own) = spec.as_ref().table()? else { bail!("{} has no [env] table", self.name) };
            table = own;
        }
        for option in &self.options {
            let (key, value) = setting(option)?;
            table.insert(key, value);
        }
        table.entry("name").or_insert_with(|| self.name.clone().into());
        if let Some(seed) = self.seed {
            table.insert("seed".into(), seed.into());
        }
        if let Some(data) = &self.data {
            table.insert("data".into(), data.display().to_string().into());
        }
        if let Some(profile) = self.profile.and_then(|profile| profile.to_possible_value()) {
            table.insert("profile".into(), profile.get_name().into());
        }
        let spec = match EnvSpec::read(table) {
            Err(RegistryError::Unknown(_)) if Path::new(&self.name).exists() => bail!(
                "{} is a file or a directory, not an environment; name a recipe with it (recipe.toml), or give a program of your own: \
                 mine --set 'command=[\"python3\", \"my_env.py\"]'",
                self.name
            ),
            read => read?,
        };
        let mut environment = spec.open_with(user)?;
        if let Some(recipe) = recipe {
            environment.rubric = recipe.rubric.build()?;
        }
        Ok(environment)
    }

    pub(crate) fn task<'a>(&self, environment: &'a Environment) -> Result<&'a Task> {
        let known = || environment.splits.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let set = environment.splits.get(&self.split).with_context(|| {
            let near = did_you_mean(&self.split, environment.splits.keys().map(String::as_str));
            format!("{} has no split {:?}; {near}it has {}", self.name, self.split, known())
        })?;
        let numbered = self.task.parse().ok().and_then(|number: usize| set[..].get(number));
        numbered.or_else(|| set.get(&self.task)).with_context(|| {
            format!("{} has no task {:?}; give a number under {} or a key", self.split, self.task, set.len())
        })
    }
}
