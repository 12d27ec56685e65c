//! The policy inside the binary: what `hone train` starts from when a recipe names no model.
//!
//! Made by `hone sft recipes/tiny-policy.toml`, from generated episodes alone.

use std::path::Path;

use anyhow::{Context as _, Result};

/// A model directory in Hugging Face's layout, bf16.
const FILES: [(&str, &[u8]); 6] = [
    ("config.json", include_bytes!("../policy/config.json")),
    ("generation_config.json", include_bytes!("../policy/generation_config.json")),
    ("tokenizer.json", include_bytes!("../policy/tokenizer.json")),
    ("tokenizer_config.json", include_bytes!("../policy/tokenizer_config.json")),
    ("chat_template.jinja", include_bytes!("../policy/chat_template.jinja")),
    ("model.safetensors", include_bytes!("../policy/model.safetensors")),
];

/// Writes it into `dir`, the weights last: a directory that has them is whole.
pub(crate) fn unpack(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for (name, bytes) in FILES {
        let path = dir.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
