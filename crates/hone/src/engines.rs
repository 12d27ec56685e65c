//! Engines that a recipe may name in its `[engine]` table: the only place that connects training with them.

use anyhow::{Result, bail};
use hone_trace::{EngineKind, did_you_mean};
use hone_train::recipe::Recipe;
use hone_train::setup::Setup;

static ENGINES: &[&dyn EngineKind] = &[&hone_device::Native];

/// The engine that the recipe names.
pub(crate) fn engine_of(recipe: &Recipe) -> Result<&'static dyn EngineKind> {
    let (wanted, names) = (recipe.engine.kind.as_str(), ENGINES.iter().map(|engine| engine.name()));
    match ENGINES.iter().find(|engine| engine.name() == wanted) {
        Some(engine) => Ok(*engine),
        None => bail!(
            "there is no engine.kind {wanted:?}; {}Known are: {}",
            did_you_mean(wanted, names.clone()),
            names.collect::<Vec<_>>().join(", ")
        ),
    }
}

/// Settings from `--set`, with the device from `--device`.
pub(crate) fn with_device(set: &[String], device: Option<hone_device::Device>) -> Vec<String> {
    set.iter().cloned().chain(device.map(|device| format!("engine.device={device}"))).collect()
}

/// Opens the recipe on the engine that it names.
pub(crate) async fn open(recipe: &Recipe) -> Result<Setup> {
    Ok(Setup::open(recipe, engine_of(recipe)?).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_engine_is_refused_with_the_nearest() {
        let recipe = Recipe::parse("", &["engine.kind=nativ".into()]).unwrap();
        let error = engine_of(&recipe).err().unwrap().to_string();
        assert!(error.contains("did you mean \"native\"?"), "{error}");
        assert_eq!(engine_of(&Recipe::default()).unwrap().name(), "native");
    }
}
