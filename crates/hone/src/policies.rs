//! Embedded policies: `hone train` starts from these if a recipe for their environment names no model.
//!
//! Each was made by `hone sft` from generated episodes alone: the shop's as recipes/tiny-policy.toml says. The ticket desk's
//! base and searcher were made with the recipes of commit c6e89eb (`hone sft recipes/triage-reader.toml --out base`, then
//! recipes/triage-searcher.toml from it), the reader from the same base with recipes/triage-reader.toml as it is now.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hone_engine::lora::{BASE_FILE, LoraConfig};
use hone_train::recipe::Recipe;
use serde_json::json;

use crate::recipes::Builtin;

/// Options that change neither tools nor prompts: they select or vary tasks, or how `hone sft` is shown their solutions.
const HARMLESS: [&str; 6] = ["tasks", "held_out", "held_out_from", "seed", "worlds", "demonstrator"];

/// A base that an adapter names and that is another directory than the model it is put on. Only of adapters from
/// elsewhere: one that Hone wrote knows the weights of its base, and the engine refuses others.
pub(crate) fn other_base(model: &Path, adapter: &Path) -> Option<PathBuf> {
    if adapter.join(BASE_FILE).is_file() {
        return None;
    }
    let named = PathBuf::from(LoraConfig::load(adapter).ok()?.base?);
    let mut places = [named.clone(), adapter.join(&named)].into_iter();
    let base = places.find(|place| place.join("config.json").is_file())?;
    (base.canonicalize().ok()? != model.canonicalize().ok()?).then_some(base)
}

/// A model directory in Hugging Face's layout, bf16, and the environment it was made for.
pub(crate) struct Policy {
    pub(crate) env: &'static str,
    /// The recipe inside this binary whose environment it was made in.
    pub(crate) recipe: &'static str,
    files: [(&'static str, &'static [u8]); 6],
}

macro_rules! policy {
    ($env:literal, recipe $recipe:literal) => {
        Policy {
            env: $env,
            recipe: $recipe,
            files: [
                policy!($env, "config.json"),
                policy!($env, "generation_config.json"),
                policy!($env, "tokenizer.json"),
                policy!($env, "tokenizer_config.json"),
                policy!($env, "chat_template.jinja"),
                // Last: a directory that has the weights is complete.
                policy!($env, "model.safetensors"),
            ],
        }
    };
    ($env:literal, $file:literal) => {
        ($file, include_bytes!(concat!("../policies/", $env, "/", $file)))
    };
}

static POLICIES: [Policy; 3] = [
    policy!("shop", recipe "quickstart"),
    policy!("triage-reader", recipe "triage-reader"),
    policy!("triage-searcher", recipe "triage-searcher"),
];

impl Policy {
    /// The policy made for this environment. It is useless in any other.
    pub(crate) fn of(env: &str) -> Option<&'static Self> {
        POLICIES.iter().find(|policy| policy.env == env)
    }

    /// Environments that have one.
    pub(crate) fn environments() -> impl Iterator<Item = &'static str> {
        POLICIES.iter().map(|policy| policy.env)
    }

    /// Environment options it was trained with that the recipe sets differently: `size = "tiny"`.
    pub(crate) fn made_otherwise(&self, recipe: &Recipe) -> Result<Vec<String>> {
        let own = Builtin::find(self.recipe)?.source().read(&[])?;
        let (own, theirs) = (json!(own.env.first()), json!(recipe.env.first()));
        let options = own.as_object().into_iter().flatten().filter(|(key, _)| !HARMLESS.contains(&key.as_str()));
        let other = options.filter(|(key, value)| theirs.get(key.as_str()) != Some(value));
        Ok(other.map(|(key, value)| format!("{key} = {value}")).collect())
    }

    /// Writes it into `dir`.
    pub(crate) fn unpack(&self, dir: &Path) -> Result<()> {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        for (name, bytes) in self.files {
            let path = dir.join(name);
            std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_from_elsewhere_on_another_model_is_noted() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for name in ["model", "other", "adapter"] {
            std::fs::create_dir(at(name)).unwrap();
            std::fs::write(at(name).join("config.json"), "{}").unwrap();
        }
        let config = json!({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"],
            "base_model_name_or_path": at("model")});
        std::fs::write(at("adapter/adapter_config.json"), config.to_string()).unwrap();
        assert_eq!(other_base(&at("model"), &at("adapter")), None);
        assert_eq!(other_base(&at("other"), &at("adapter")), Some(at("model")));
        std::fs::write(at("adapter").join(BASE_FILE), "{}").unwrap();
        assert_eq!(other_base(&at("other"), &at("adapter")), None, "the engine compares the weights");
    }
}
