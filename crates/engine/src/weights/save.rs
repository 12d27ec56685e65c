//! Hugging Face directories, written as transformers reads them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use safetensors::{Dtype, View};

use crate::config::Config;
use crate::error::{EngineError, Result};
use crate::weights::params::Table;

/// Precision on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    F32,
    Bf16,
}

impl Storage {
    fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::Bf16 => "bfloat16",
        }
    }
}

/// A tensor to write.
#[derive(Debug)]
pub struct Tensor<'a> {
    pub shape: &'a [usize],
    pub values: &'a [f32],
    pub storage: Storage,
}

impl View for Tensor<'_> {
    fn dtype(&self) -> Dtype {
        match self.storage {
            Storage::F32 => Dtype::F32,
            Storage::Bf16 => Dtype::BF16,
        }
    }

    fn shape(&self) -> &[usize] {
        self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match self.storage {
            Storage::F32 => self.values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>().into(),
            Storage::Bf16 => {
                self.values.iter().flat_map(|v| half::bf16::from_f32(*v).to_le_bytes()).collect::<Vec<_>>().into()
            }
        }
    }

    fn data_len(&self) -> usize {
        self.values.len() * if self.storage == Storage::F32 { 4 } else { 2 }
    }
}

/// The tensors of a table, named `prefix` + name.
pub fn tensors<'a>(
    prefix: &'a str,
    table: &'a Table,
    values: &'a [f32],
    storage: Storage,
) -> impl Iterator<Item = (String, Tensor<'a>)> {
    table.params.iter().map(move |param| {
        let values = &values[param.range.clone()];
        (format!("{prefix}{}", param.name), Tensor { shape: &param.shape, values, storage })
    })
}

/// Writes tensors to a file atomically.
pub fn write_tensors<'a>(
    path: &Path,
    tensors: impl Iterator<Item = (String, Tensor<'a>)>,
    metadata: &[(&str, String)],
) -> Result<()> {
    let io = |source| EngineError::Io { action: "write", path: path.to_owned(), source };
    let mut all = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    all.extend(metadata.iter().map(|(k, v)| ((*k).to_owned(), v.clone())));
    let partial = path.with_extension("partial");
    // The crate writes files that only the owner may read; a model should be as readable as any other file.
    let readable = std::fs::File::create(&partial).and_then(|file| file.metadata()).map_err(io)?.permissions();
    safetensors::serialize_to_file(tensors, Some(all), &partial)
        .map_err(|e| io(std::io::Error::other(e.to_string())))?;
    std::fs::set_permissions(&partial, readable).map_err(io)?;
    std::fs::rename(&partial, path).map_err(io)
}

/// Writes `config.json` and `model.safetensors`: a directory that transformers loads unchanged.
pub(crate) fn save_model(config: &Config, table: &Table, values: &[f32], dir: &Path, storage: Storage) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(|source| EngineError::Io { action: "make", path: dir.to_owned(), source })?;
    let all = tensors("", table, values, storage);
    write_tensors(&dir.join("model.safetensors"), all, &[])?;
    let mut json = config.source.clone();
    // transformers 4 reads `torch_dtype`, 5 reads `dtype`: whichever the model came with is kept true.
    let key = if json.contains_key("torch_dtype") { "torch_dtype" } else { "dtype" };
    json.insert(key.into(), storage.name().into());
    let path = dir.join("config.json");
    let text = serde_json::to_string_pretty(&json).unwrap_or_default() + "\n";
    std::fs::write(&path, text).map_err(|source| EngineError::Io { action: "write", path, source })
}
