//! Extending a run: a finished run is trained further with other settings, and records the change. A key says itself
//! whether it may change (`may_change`); the policy, the tasks and the objective may not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hone_trace::rundir::{RunDir, RunReader};
use serde_json::Value;

use super::TrainError;
use crate::checkpoint::{self, State};
use crate::events::Event;
use crate::keys;
use crate::recipe::{Recipe, RecipeError};

/// Recipe recorded by a run, with settings on top, to continue with.
pub fn extended_recipe(directory: &Path, settings: &[String]) -> Result<Recipe, TrainError> {
    let may_change = keys::may_change();
    for setting in settings {
        let key = setting.split('=').next().unwrap_or_default().trim();
        if !may_change.iter().any(|known| known == key) {
            // A key that does not exist is answered with the one that was meant.
            Recipe::parse("", std::slice::from_ref(setting))?;
            return Err(RecipeError::new(format!(
                "--set {setting}: a resumed run keeps its recipe; these may change: {}. For anything else start a new \
                 run from this one: --set policy.model={}",
                may_change.join(", "),
                directory.display()
            ))
            .into());
        }
    }
    let recipe = Recipe::parse(&RunReader::open(directory)?.recipe()?, settings)?;
    let state = checkpoint::newest(directory)?.map(|(_, state)| state).unwrap_or_default();
    unchanged(directory, &state)?;
    let done = state.step;
    if recipe.train.steps < done {
        return Err(RecipeError::new(format!(
            "train.steps is {} and the run has done {done}; give a larger number",
            recipe.train.steps
        ))
        .into());
    }
    Ok(recipe)
}

/// Keys of a run's recipe.toml that may be edited by hand, beside those that `--set` may change: places, which are others
/// after a move.
fn is_place(key: &str) -> bool {
    let named = ["policy.model", "policy.adapter", "policy.reference"].contains(&key);
    named || key.rsplit('.').next().is_some_and(|last| ["directory", "url", "key_env"].contains(&last))
}

/// Refuses to go on with a recipe that is no longer the one its checkpoint was written under.
pub(super) fn unchanged(directory: &Path, state: &State) -> Result<(), TrainError> {
    let Some(written) = &state.recipe else { return Ok(()) };
    let found = RunReader::open(directory)?.recipe()?;
    if found == *written {
        return Ok(());
    }
    let leaves = |text: &str| -> Result<BTreeMap<String, Value>, TrainError> {
        let mut leaves = BTreeMap::new();
        flatten(&serde_json::to_value(Recipe::parse(text, &[])?).unwrap_or_default(), "", &mut leaves);
        Ok(leaves)
    };
    // What this version does not know, it did not write.
    let (Ok(was), is) = (leaves(written), leaves(&found)?) else { return Ok(()) };
    let may_change = keys::may_change();
    let own = |key: &&String| !is_place(key) && !may_change.contains(*key);
    let keys: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    let changed: Vec<&str> =
        keys.into_iter().filter(own).filter(|key| was.get(*key) != is.get(*key)).map(String::as_str).collect();
    if changed.is_empty() {
        return Ok(());
    }
    Err(RecipeError::new(format!(
        "recipe.toml of this run was changed since it was written: {}; restore it, or start a new run with the changes from this \
         one's policy: policy.model = {}",
        changed.join(", "),
        directory.display()
    ))
    .into())
}

/// Values by their dotted keys. An item of a list has the list's key, and one that follows the first its number.
fn flatten(value: &Value, key: &str, leaves: &mut BTreeMap<String, Value>) {
    let under = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    match value {
        Value::Object(table) => table.iter().for_each(|(name, value)| flatten(value, &under(name), leaves)),
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (at, item) in items.iter().enumerate() {
                let key = if at == 0 { key.to_owned() } else { under(&at.to_string()) };
                flatten(item, &key, leaves);
            }
        }
        other => drop(leaves.insert(key.to_owned(), other.clone())),
    }
}

/// Records the differences from the run's own recipe, if any.
pub(super) fn record(run: &mut RunDir, recipe: &Recipe, step: u64) -> Result<(), TrainError> {
    let was = Recipe::parse(&RunReader::open(run.path())?.recipe()?, &[])?;
    let changed = differences(&was, recipe);
    if changed.is_empty() {
        return Ok(());
    }
    run.replace_recipe(&recipe.to_toml()?)?;
    run.event(&Event::Extended { step, changed })?;
    Ok(())
}

fn differences(was: &Recipe, is: &Recipe) -> BTreeMap<String, [Value; 2]> {
    let value = |recipe: &Recipe| serde_json::to_value(recipe).unwrap_or_default();
    let (was, is) = (value(was), value(is));
    let at = |recipe: &Value, key: &str| recipe.pointer(&format!("/{}", key.replace('.', "/"))).cloned();
    keys::may_change()
        .into_iter()
        .filter_map(|key| {
            let (was, is) = (at(&was, &key).unwrap_or_default(), at(&is, &key).unwrap_or_default());
            (was != is).then_some((key, [was, is]))
        })
        .collect()
}
