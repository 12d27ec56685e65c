//! Choice of an environment and a task on the command line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use hone_arena::registry::{Environment, RegistryError};
use hone_arena::users::NewUser;
use hone_trace::{Task, did_you_mean, with_nearest};
use hone_train::recipe::Recipe;
use hone_worlds::registry::EnvSpec;
use serde_json::{Map, Value, json};

use crate::recipes::{Source, setting};

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Choice {
    /// One of `hone env list`; a recipe's file, for its environments; any other name with --set command=[…] for a
    /// program of your own, or --set kind=openenv for a server
    pub(super) name: String,
    /// The environment of a recipe that has several
    #[arg(long, value_name = "NAME")]
    env: Option<String>,
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
        Self { name, env: None, seed: None, split, task, data: None, profile: None, options }
    }

    /// The recipe that is named, if one is.
    fn recipe(&self) -> Result<Option<Recipe>> {
        match Path::new(&self.name) {
            file if file.extension().is_some_and(|ending| ending == "toml") => Ok(Some(Source::find(file)?.read(&[])?)),
            _ if self.env.is_some() => bail!("--env chooses one of a recipe's environments; name the recipe's file"),
            _ => Ok(None),
        }
    }

    pub(super) fn env(&self) -> Option<&str> {
        self.env.as_deref()
    }

    /// One choice for every environment of a recipe, unless one is chosen.
    pub(super) fn each(&self) -> Result<Vec<Self>> {
        match self.recipe()? {
            Some(recipe) if self.env.is_none() && recipe.env.len() > 1 => {
                Ok(recipe.env.iter().map(|spec| Self { env: Some(spec.name().to_owned()), ..self.clone() }).collect())
            }
            _ => Ok(vec![self.clone()]),
        }
    }

    /// The recipe's environment that is chosen, else its first.
    fn spec_of<'a>(&self, recipe: &'a Recipe) -> Result<Option<&'a EnvSpec>> {
        let Some(wanted) = &self.env else { return Ok(recipe.env.first()) };
        let names = || recipe.env.iter().map(EnvSpec::name);
        let found = recipe.env.iter().find(|spec| spec.name() == wanted);
        found.map(Some).with_context(|| {
            let near = did_you_mean(wanted, names());
            format!(
                "{} has no environment {wanted:?}; {near}it has {}",
                self.name,
                names().collect::<Vec<_>>().join(", ")
            )
        })
    }

    /// Opens the recipe table that these flags describe.
    pub(crate) fn open(&self, user: Option<Arc<NewUser>>) -> Result<Environment> {
        let recipe = self.recipe()?;
        let mut table = Map::new();
        if let Some(spec) = recipe.as_ref().map(|recipe| self.spec_of(recipe)).transpose()?.flatten() {
            let Value::Object(own) = spec.as_ref().table()? else { bail!("{} has no [env] table", self.name) };
            table = own;
        }
        for option in &self.options {
            let (key, value) = setting(option)?;
            insert(&mut table, key.strip_prefix("env.").unwrap_or(&key), value);
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
        hone_train::keys::check_env(&table)?;
        let spec = match EnvSpec::read(table) {
            Err(RegistryError::Unknown(unknown)) if Path::new("recipe.toml").is_file() => {
                bail!("{unknown}; for the environment of the recipe here give recipe.toml in place of {}", self.name)
            }
            Err(RegistryError::Unknown(_)) if Path::new(&self.name).exists() => bail!(
                "{} is a file or a directory, not an environment; name a recipe with it (recipe.toml), or give a program of your own: \
                 mine --set 'command=[\"python3\", \"my_env.py\"]'",
                self.name
            ),
            Err(RegistryError::Options { name, what }) => bail!("options of {name}: {}", with_nearest(&what)),
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

/// One option in an environment's table; dots reach into inner tables, and `none` takes a key out.
fn insert(table: &mut Map<String, Value>, key: &str, value: Value) {
    match key.split_once('.') {
        None if value == "none" => _ = table.shift_remove(key),
        None => _ = table.insert(key.to_owned(), value),
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| Map::new().into());
            match inner {
                Value::Object(inner) => insert(inner, rest, value),
                // The environment refuses a table where it has none.
                other => *other = json!({ rest: value }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_written_as_in_a_recipe_or_bare() {
        let choice = |options: &[&str]| {
            let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
            Choice::of("retail", "train", "0", &options).open(None).map(|_| ()).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(choice(&["tasks=4", "held_out=2", "env.difficulty=2"]), Ok(()));
        assert_eq!(choice(&["tasks=4", "held_out=2", "difficulty=2", "env.difficulty=none"]), Ok(()));
        for (option, word) in [
            ("dificulty=2", "did you mean `difficulty`?"),
            ("env.dificulty=2", "did you mean `difficulty`?"),
            ("difficulty=9", "env.difficulty = 9 is out of range: it is a whole number from 1 to 3"),
        ] {
            let error = choice(&[option]).unwrap_err();
            assert!(error.contains(word), "{option}: {error}");
        }
    }
}
