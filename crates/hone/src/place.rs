//! Location of a policy: a model directory, a LoRA adapter on one, a checkpoint, or a run, of which the best checkpoint
//! is used.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use hone_engine::lora::LoraConfig;
use hone_engine::{Adapter, Backend, Model};
use hone_train::recipe::{PolicyRecipe, Recipe};
use hone_train::run::recorded_recipe;

use crate::policies::other_base;

const ADAPTER: &str = "adapter_config.json";

/// A policy on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The model, or the base of the adapter: weights, config.json, tokenizer.
    pub(crate) model: PathBuf,
    pub(crate) adapter: Option<PathBuf>,
}

impl Place {
    /// Finds the policy at a path.
    pub(crate) fn find(given: &Path) -> Result<Self> {
        let dir = directory(given)?;
        if dir.join(ADAPTER).is_file() {
            return Ok(Self { model: base(&dir)?, adapter: Some(dir) });
        }
        if dir.join("config.json").is_file() {
            return Ok(Self { model: dir, adapter: None });
        }
        bail!(
            "{} holds no policy; name a model directory (config.json), an adapter ({ADAPTER}), a checkpoint or a run \
             (recipe.toml, checkpoints)",
            given.display()
        )
    }

    /// A policy, or a base with a separately named adapter.
    pub(crate) fn given(model: &Path, adapter: Option<&Path>) -> Result<Self> {
        Self::join(Some(model), adapter, ["the model", "the adapter"])?.context("no model")
    }

    /// A model and an adapter as the user named them. An adapter with an explicit model need not name a base.
    fn join(model: Option<&Path>, adapter: Option<&Path>, [called, beside]: [&str; 2]) -> Result<Option<Self>> {
        let adapter = adapter.map(|adapter| {
            let dir = directory(adapter).with_context(|| format!("cannot open {beside}"))?;
            if !dir.join(ADAPTER).is_file() {
                bail!("{beside} is {}, which has no {ADAPTER}; name a whole model as {called}", adapter.display());
            }
            Ok(dir)
        });
        let adapter = adapter.transpose()?;
        let Some(model) = model else { return adapter.map(|dir| Self::find(&dir)).transpose() };
        let found = Self::find(model).with_context(|| format!("cannot open {called}"))?;
        if let (Some(_), Some(other)) = (&adapter, &found.adapter) {
            bail!(
                "{called} is an adapter ({}), and {beside} names one too; name the base model as {called}, or merge the \
                 first (hone model merge)",
                other.display()
            );
        }
        if let Some((dir, base)) = adapter.as_ref().and_then(|dir| Some((dir, other_base(&found.model, dir)?))) {
            crate::output::note!(
                "the adapter in {} names {} as its base, and it is put on {}",
                dir.display(),
                base.display(),
                found.model.display()
            );
        }
        Ok(Some(Self { adapter: adapter.or(found.adapter), model: found.model }))
    }

    /// The policy with its weights.
    pub(crate) fn load<B: Backend>(&self, device: Arc<B>) -> Result<(Model<B>, Option<Adapter<B>>)> {
        let model = Model::load(&self.model, device)?;
        let adapter = self.adapter.as_deref().map(|dir| Adapter::load(&model, dir)).transpose()?;
        Ok((model, adapter))
    }

    /// The recipe's policy as an engine opens it: `policy.model` is a model, `policy.adapter` an adapter on it.
    pub(crate) fn settle(policy: &mut PolicyRecipe) -> Result<()> {
        let names = ["policy.model", "policy.adapter"];
        if let Some(found) = Self::join(policy.model.as_deref(), policy.adapter.as_deref(), names)? {
            (policy.model, policy.adapter) = (Some(found.model), found.adapter);
        }
        if let Some(reference) = &policy.reference {
            let found = Self::find(reference).context("cannot open policy.reference")?;
            if found.adapter.is_some() {
                bail!("policy.reference is an adapter; merge it into its base first (hone model merge)");
            }
            policy.reference = Some(found.model);
        }
        // Absolute, as the run records it: it may be resumed from another directory.
        for path in [&mut policy.model, &mut policy.adapter, &mut policy.reference].into_iter().flatten() {
            *path = std::path::absolute(&*path).with_context(|| format!("cannot find {}", path.display()))?;
        }
        Ok(())
    }
}

/// The directory meant by a path: of a run, its best checkpoint.
fn directory(given: &Path) -> Result<PathBuf> {
    if !given.exists() {
        bail!("{} does not exist; name a model directory, an adapter, a checkpoint or a run", given.display());
    }
    let run = given.join("recipe.toml").is_file() && given.join("checkpoints").is_dir();
    if run { best(given) } else { Ok(given.to_owned()) }
}

/// The best checkpoint of a run, else its newest.
fn best(run: &Path) -> Result<PathBuf> {
    let best = run.join("checkpoints/best");
    if let Ok(path) = best.canonicalize() {
        return Ok(path);
    }
    let newest = hone_trace::rundir::RunReader::open(run)?.checkpoints()?.pop();
    let none = || format!("{} has no checkpoint yet; give the model it began from", run.display());
    newest.map(|(_, path)| path).with_context(none)
}

/// Base model of an adapter: as named by the adapter, otherwise by the recipe of its run.
fn base(adapter: &Path) -> Result<PathBuf> {
    let named = LoraConfig::load(adapter)?.base.map(PathBuf::from);
    let beside = named.iter().map(|named| adapter.join(named));
    let of_run = adapter.canonicalize().ok().and_then(|path| Some(path.parent()?.parent()?.to_owned()));
    let of_run = of_run.and_then(|run| recorded_recipe(&run).ok()).and_then(|recipe: Recipe| recipe.policy.model);
    let mut places = named.clone().into_iter().chain(beside).chain(of_run);
    places.find(|place| place.join("config.json").is_file()).with_context(|| {
        let named = named.map_or("nothing".to_owned(), |named| format!("{}, which is not a model directory here", named.display()));
        format!(
            "the adapter in {} names {named} as its base; write the directory of its base model into base_model_name_or_path \
             of {ADAPTER}",
            adapter.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(dir: &Path, base: Option<&Path>) {
        std::fs::create_dir_all(dir).unwrap();
        let config = serde_json::json!({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"],
            "base_model_name_or_path": base});
        std::fs::write(dir.join(ADAPTER), config.to_string()).unwrap();
    }

    #[test]
    fn every_kind_of_place_is_known() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let model = at("model");
        std::fs::create_dir_all(&model).unwrap();
        std::fs::write(model.join("config.json"), "{}").unwrap();
        let step = at("run/checkpoints/step-00000003");
        adapter(&step, Some(&model));
        std::fs::write(at("run/recipe.toml"), "").unwrap();
        assert_eq!(Place::find(&model).unwrap(), Place { model: model.clone(), adapter: None });
        let expected = Place { model: model.clone(), adapter: Some(step.clone()) };
        assert_eq!(Place::find(&step).unwrap(), expected);
        assert_eq!(Place::find(&at("run")).unwrap(), expected);
        let mut policy = PolicyRecipe { model: Some(at("run")), ..PolicyRecipe::default() };
        Place::settle(&mut policy).unwrap();
        assert_eq!((policy.model, policy.adapter), (Some(model), Some(step)));
    }

    #[test]
    fn a_base_that_is_not_here_is_looked_for_in_the_run_and_then_asked_for() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        std::fs::create_dir_all(at("model")).unwrap();
        std::fs::write(at("model/config.json"), "{}").unwrap();
        let step = at("run/checkpoints/step-00000003");
        adapter(&step, None);
        std::fs::write(at("run/recipe.toml"), format!("[policy]\nmodel = {:?}\n", at("model"))).unwrap();
        assert_eq!(Place::find(&step).unwrap().model, at("model"));
        adapter(&at("lost"), Some(Path::new("/no/such/model")));
        let error = format!("{:#}", Place::find(&at("lost")).unwrap_err());
        assert!(error.contains("base_model_name_or_path"), "{error}");
        let beside = Place::given(&at("model"), Some(&at("lost"))).unwrap();
        assert_eq!(beside, Place { model: at("model"), adapter: Some(at("lost")) }, "a base that is named is the base");
        let error = Place::find(root.path()).unwrap_err().to_string();
        assert!(error.contains("holds no policy"), "{error}");
    }
}
