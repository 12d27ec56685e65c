//! The policies inside the binary: what `hone train` starts from when a recipe names no model.
//!
//! Each was made by `hone sft` from generated episodes alone: the shop's as recipes/tiny-policy.toml says. The ticket desk's
//! base and searcher were made with the recipes of commit c6e89eb (`hone sft recipes/triage-reader.toml --out base`, then
//! recipes/triage-searcher.toml from it), the reader from the same base with recipes/triage-reader.toml as it is now.

use std::path::Path;

use anyhow::{Context as _, Result};

/// A model directory in Hugging Face's layout, bf16, and the environment it was made for.
pub(crate) struct Policy {
    pub(crate) env: &'static str,
    files: [(&'static str, &'static [u8]); 6],
}

macro_rules! policy {
    ($env:literal) => {
        Policy {
            env: $env,
            files: [
                policy!($env, "config.json"),
                policy!($env, "generation_config.json"),
                policy!($env, "tokenizer.json"),
                policy!($env, "tokenizer_config.json"),
                policy!($env, "chat_template.jinja"),
                // Last: a directory that has the weights is whole.
                policy!($env, "model.safetensors"),
            ],
        }
    };
    ($env:literal, $file:literal) => {
        ($file, include_bytes!(concat!("../policies/", $env, "/", $file)))
    };
}

static POLICIES: [Policy; 3] = [policy!("shop"), policy!("triage-reader"), policy!("triage-searcher")];

impl Policy {
    /// The one made for this environment, else the shop's.
    pub(crate) fn of(env: &str) -> &'static Self {
        Self::made_for(env).unwrap_or(&POLICIES[0])
    }

    /// The one made for this environment, where there is one.
    pub(crate) fn made_for(env: &str) -> Option<&'static Self> {
        POLICIES.iter().find(|policy| policy.env == env)
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
