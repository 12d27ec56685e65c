//! Extending a run: a finished run is trained further with other settings, and records the change. A key says itself
//! whether it may change (`may_change`); the policy, the tasks and the objective may not.

use std::collections::BTreeMap;
use std::path::Path;

use hone_trace::rundir::{RunDir, RunReader};
use serde_json::Value;

use super::TrainError;
use crate::checkpoint;
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
    let done = checkpoint::newest(directory)?.map_or(0, |(_, state)| state.step);
    if recipe.train.steps < done {
        return Err(RecipeError::new(format!(
            "train.steps is {} and the run has done {done}; give a larger number",
            recipe.train.steps
        ))
        .into());
    }
    Ok(recipe)
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
