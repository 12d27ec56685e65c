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

/// Threads per core that are still no mistake.
const CROWD: usize = 4;

/// A note if the recipe asks for far more threads than the machine has cores: every step then takes many times as long.
fn crowded(threads: usize, cores: usize) -> Option<String> {
    (threads > CROWD * cores).then(|| {
        format!("policy.threads is {threads} on a machine of {cores}, and waits more than it works; 0 takes all cores")
    })
}

/// Opens the recipe on the engine that it names.
pub(crate) async fn open(recipe: &Recipe) -> Result<Setup> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    crowded(recipe.policy.threads, cores).iter().for_each(|note| crate::output::noted(note));
    Ok(Setup::open(recipe, engine_of(recipe)?).await?)
}

#[cfg(test)]
mod tests {
    use hone_device::{Device, MomentStore, Precision};
    use hone_trace::NativeOptions;
    use hone_trace::keys::{Documented as _, Kind};

    use super::*;

    #[test]
    fn the_native_engine_reads_every_option_that_is_documented() {
        let mut read = 0;
        for key in NativeOptions::KEYS {
            let Kind::OneOf(names) = (key.kind)() else { panic!("{} is no choice", key.name) };
            for name in names {
                let known = match key.name {
                    "device" => name.parse::<Device>().is_ok(),
                    "precision" => name.parse::<Precision>().is_ok(),
                    "moments" => name.parse::<MomentStore>().is_ok(),
                    _ => false,
                };
                assert!(known, "{} = {name}", key.name);
                read += 1;
            }
        }
        assert_eq!(read, 8);
    }

    #[test]
    fn far_more_threads_than_cores_are_noted() {
        assert_eq!(crowded(8, 2), None);
        assert!(crowded(500, 2).unwrap().starts_with("policy.threads is 500 on a machine of 2"));
    }

    #[test]
    fn an_unknown_engine_is_refused_with_the_nearest() {
        let recipe = Recipe::parse("", &["engine.kind=nativ".into()]).unwrap();
        let error = engine_of(&recipe).err().unwrap().to_string();
        assert!(error.contains("did you mean \"native\"?"), "{error}");
        assert_eq!(engine_of(&Recipe::default()).unwrap().name(), "native");
    }
}
