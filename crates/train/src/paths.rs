//! Paths in a recipe: relative to the recipe's file, those of `--set` relative to the current directory.

use std::path::{Path, PathBuf};

use hone_trace::keys::{Key, Shape};
use toml::{Table, Value};

use crate::keys::tables;
use crate::recipe::{Recipe, RecipeError};

impl Recipe {
    /// Recipe in `directory`, with `key=value` settings on top. All its paths are made absolute, so that a run can be
    /// resumed from anywhere.
    pub fn parse_in(text: &str, settings: &[String], directory: &Path) -> Result<Self, RecipeError> {
        // Parsed as written first, so that errors show the line.
        Self::parse(text, settings)?;
        let written: Table = toml::from_str(text).map_err(|error| RecipeError::new(error.to_string()))?;
        let recipe = Self::parse(&print(&placed(written, directory)?)?, settings)?;
        let resolved: Table =
            toml::from_str(&recipe.to_toml()?).map_err(|error| RecipeError::new(error.to_string()))?;
        Self::parse(&print(&placed(resolved, Path::new("."))?)?, &[])
    }
}

fn print(table: &Table) -> Result<String, RecipeError> {
    toml::to_string(table).map_err(|error| RecipeError::new(format!("the recipe cannot be written: {error}")))
}

/// The table with every path in it absolute: the keys say which they are.
fn placed(mut table: Table, directory: &Path) -> Result<Table, RecipeError> {
    let mut result = Ok(());
    tables(&mut table, &mut |keys, table| {
        for key in keys.iter().copied().flatten() {
            if result.is_ok() {
                result = place(key, table, directory);
            }
        }
    });
    result.map(|()| table)
}

/// One key of a table, if it is a path. A program runs in the directory of its recipe, unless the recipe names another.
fn place(key: &Key, table: &mut Table, directory: &Path) -> Result<(), RecipeError> {
    if let Shape::Home(program) = key.rule.shape
        && table.contains_key(program)
    {
        table.entry(key.name).or_insert_with(|| Value::String(".".into()));
    }
    let Some(Value::String(path)) = table.get_mut(key.name).filter(|_| key.rule.is_path()) else { return Ok(()) };
    let place = std::path::absolute(directory.join(at_home(path)))
        .map_err(|error| RecipeError::new(format!("{} = {path:?} cannot be made absolute: {error}", key.name)))?;
    *path = place.to_str().map(str::to_owned).ok_or_else(|| {
        RecipeError::new(format!("{} is not UTF-8; move the recipe to a directory whose name is", place.display()))
    })?;
    Ok(())
}

/// A path with `~/` replaced by the home directory: a shell leaves it inside `--set KEY=~/…`.
fn at_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => path.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[policy]\nmodel = \"p\"\nreference = \"/base\"\n[env]\ncommand = [\"python3\", \"e.py\"]\ntask_file = \
                        \"t.jsonl\"\nheld_out_file = \"eval.jsonl\"\n[[rubric.component]]\nkind = \"correct\"\n[[rubric.component]]\nkind = \"stdio\"\ncommand = \
                        [\"python3\", \"r.py\"]\n[log]\nwandb = \"../logs\"\n";

    fn value(recipe: &Recipe) -> serde_json::Value {
        serde_json::to_value(recipe).unwrap()
    }

    #[test]
    fn paths_of_the_file_are_relative_to_it() {
        let recipe = value(&Recipe::parse_in(TEXT, &[], Path::new("/there/./is")).unwrap());
        assert_eq!(recipe["policy"]["model"], "/there/is/p");
        assert_eq!(recipe["policy"]["reference"], "/base");
        assert_eq!(
            (&recipe["env"]["directory"], &recipe["env"]["task_file"]),
            (&"/there/is".into(), &"/there/is/t.jsonl".into())
        );
        assert_eq!(recipe["env"]["held_out_file"], "/there/is/eval.jsonl");
        assert_eq!(recipe["rubric"]["component"][1]["directory"], "/there/is");
        assert_eq!(recipe["log"]["wandb"], "/there/is/../logs");
    }

    #[test]
    fn a_tilde_is_the_home_directory() {
        let home = std::env::home_dir().unwrap();
        let recipe = Recipe::parse_in("", &["policy.model=~/models/x".to_owned()], Path::new("/there")).unwrap();
        assert_eq!(recipe.policy.model.unwrap(), home.join("models/x"));
    }

    #[test]
    fn paths_that_are_set_are_relative_to_here() {
        let settings = ["policy.model=mine".to_owned(), "sft.traces=runs/x".to_owned()];
        let recipe = value(&Recipe::parse_in(TEXT, &settings, Path::new("/there")).unwrap());
        let here = |name: &str| std::path::absolute(name).unwrap().display().to_string();
        assert_eq!(recipe["policy"]["model"], here("mine"));
        assert_eq!(recipe["sft"]["traces"], here("runs/x"));
        assert_eq!(recipe["env"]["directory"], "/there");
    }

    #[test]
    fn a_recorded_recipe_means_the_same_anywhere() {
        let recipe = Recipe::parse_in(TEXT, &[], Path::new("/there")).unwrap().to_toml().unwrap();
        assert_eq!(Recipe::parse_in(&recipe, &[], Path::new("/elsewhere")).unwrap().to_toml().unwrap(), recipe);
    }

    #[test]
    fn errors_show_the_line_of_the_file() {
        let error = Recipe::parse_in("[policy]\nmodel = \"p\"\n[train]\nstep = 3\n", &[], Path::new("/x")).unwrap_err();
        assert!(error.to_string().contains("line 4"), "{error}");
    }
}
