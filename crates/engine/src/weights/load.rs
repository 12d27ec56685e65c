//! Reading safetensors: one file or shards, f32, bf16 or f16 on disk, f32 in memory.

#![expect(unsafe_code, reason = "files are memory mapped")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::error::{EngineError, Result};
use crate::weights::{Param, Table, TensorSource};

/// The safetensors files of a directory, mapped.
#[derive(Debug)]
pub struct TensorFiles {
    /// Named in messages: the single file, or the index of the shards.
    path: PathBuf,
    files: Vec<(PathBuf, Mmap)>,
}

impl TensorFiles {
    /// Opens `<stem>.safetensors`, or the shards that `<stem>.safetensors.index.json` lists.
    pub fn open(dir: &Path, stem: &str) -> Result<Self> {
        let single = dir.join(format!("{stem}.safetensors"));
        let index = dir.join(format!("{stem}.safetensors.index.json"));
        if single.exists() || !index.exists() {
            return Ok(Self { files: vec![(single.clone(), map(&single)?)], path: single });
        }
        let refuse = |what: String| EngineError::Weights { path: index.clone(), what };
        let text = std::fs::read_to_string(&index).map_err(|source| EngineError::Io {
            action: "read",
            path: index.clone(),
            source,
        })?;
        let json: serde_json::Value = serde_json::from_str(&text)
            .map_err(|e| refuse(format!("not JSON: {e}; copy the index of the shards again")))?;
        let names = json
            .get("weight_map")
            .and_then(|m| m.as_object())
            .ok_or_else(|| refuse("weight_map is missing; copy the index of the shards again".into()))?;
        let shards: BTreeSet<&str> = names.values().filter_map(serde_json::Value::as_str).collect();
        let mut files = Vec::new();
        for shard in shards {
            let plain = Path::new(shard).file_name().is_some_and(|n| n == shard);
            if !plain {
                return Err(refuse(format!(
                    "shard {shard:?} is not a plain file name; put the shards beside their index"
                )));
            }
            files.push((dir.join(shard), map(&dir.join(shard))?));
        }
        Ok(Self { path: index, files })
    }

    /// A value of the first file's metadata.
    pub fn metadata(&self, key: &str) -> Option<String> {
        let (_, header) = SafeTensors::read_metadata(&self.files.first()?.1).ok()?;
        header.metadata().as_ref()?.get(key).cloned()
    }
}

fn map(path: &Path) -> Result<Mmap> {
    let io = |source| EngineError::Io { action: "open", path: path.to_owned(), source };
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let what = "there is no such file; name a whole model's or adapter's directory, or copy its weights there";
            return Err(EngineError::Weights { path: path.to_owned(), what: what.into() });
        }
        opened => opened.map_err(io)?,
    };
    // SAFETY: the map is read-only and lives while the tensors are copied out. Truncating the file at that time would
    // end the process, as it would for every reader of these files; it cannot make us read outside the map.
    unsafe { Mmap::map(&file) }.map_err(io)
}

/// Copies every tensor of `table` into `values`; as strict as [`TensorFiles::check`].
pub(crate) fn read_into(
    files: &TensorFiles,
    table: &Table,
    values: &mut [f32],
    ignore: impl Fn(&str) -> bool,
) -> Result<()> {
    let source = files.check(table, ignore)?;
    table.params.iter().try_for_each(|param| source.read(param, &mut values[param.range.clone()]))
}

/// Files that hold all tensors of a table and no others.
#[derive(Debug)]
pub struct Checked<'f> {
    files: Vec<(&'f Path, SafeTensors<'f>)>,
}

impl TensorFiles {
    /// Checks the files against a table: tensors that are missing, of another shape or type, or left over (unless
    /// `ignore` accepts them) are errors that name them.
    pub fn check(&self, table: &Table, ignore: impl Fn(&str) -> bool) -> Result<Checked<'_>> {
        let wanted: BTreeMap<&str, &Param> = table.params.iter().map(|p| (p.name.as_str(), p)).collect();
        let (mut found, mut unexpected, mut files) = (BTreeSet::new(), Vec::new(), Vec::new());
        for (path, bytes) in &self.files {
            let refuse = |what| EngineError::Weights { path: path.clone(), what };
            let tensors = SafeTensors::deserialize(bytes).map_err(|e| {
                refuse(format!(
                    "{} bytes that are not whole safetensors ({e}); the file is truncated or damaged: copy or download \
                     it again",
                    bytes.len()
                ))
            })?;
            for (name, tensor) in tensors.iter() {
                match wanted.get(name) {
                    Some(param) => {
                        check_tensor(param, &tensor).map_err(refuse)?;
                        found.insert(param.name.as_str());
                    }
                    None if !ignore(name) => unexpected.push(format!("{name} {:?}", tensor.shape())),
                    None => {}
                }
            }
            files.push((path.as_path(), tensors));
        }
        let missing = table.params.iter().filter(|p| !found.contains(p.name.as_str()));
        let missing: Vec<String> = missing.map(|p| format!("{} {:?}", p.name, p.shape)).collect();
        let refuse = |what| Err(EngineError::Weights { path: self.path.clone(), what });
        if !missing.is_empty() {
            let names = shorten(&missing);
            return refuse(format!(
                "missing tensors: {names}; the file is incomplete or of another model, copy it again"
            ));
        }
        if !unexpected.is_empty() {
            return refuse(format!(
                "tensors that config.json gives no place to: {}; the weights and config.json are not of the same model",
                shorten(&unexpected)
            ));
        }
        Ok(Checked { files })
    }
}

/// Checks the shape and storage type of a tensor against its parameter.
fn check_tensor(param: &Param, tensor: &TensorView<'_>) -> std::result::Result<(), String> {
    let (name, shape) = (&param.name, tensor.shape());
    if shape != param.shape {
        return Err(format!(
            "tensor {name} has shape {shape:?}, config.json asks for {:?}; the weights and config.json are not of the \
             same model",
            param.shape
        ));
    }
    match tensor.dtype() {
        Dtype::F32 | Dtype::BF16 | Dtype::F16 => Ok(()),
        dtype => Err(format!("tensor {name} is stored as {dtype:?}; convert it to F32, BF16 or F16")),
    }
}

impl TensorSource for Checked<'_> {
    fn read(&self, param: &Param, out: &mut [f32]) -> Result<()> {
        // A tensor that several shards hold is taken from the last of them.
        let found = self.files.iter().rev().find_map(|(path, tensors)| Some((path, tensors.tensor(&param.name).ok()?)));
        let Some((path, tensor)) = found else {
            return Err(EngineError::Device(format!(
                "{} is not in the files that were checked; this is a defect of Hone, please report it",
                param.name
            )));
        };
        let refuse = |what| EngineError::Weights { path: path.to_path_buf(), what };
        check_tensor(param, &tensor).map_err(refuse)?;
        convert(&tensor, out);
        Ok(())
    }
}

/// The first few of a list.
fn shorten(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let head = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN { format!("{head} and {} more", names.len() - SHOWN) } else { head }
}

/// Floats of a checked tensor.
fn convert(tensor: &TensorView<'_>, out: &mut [f32]) {
    let data = tensor.data();
    let halves = || data.chunks_exact(2).map(|b| [b[0], b[1]]);
    match tensor.dtype() {
        Dtype::BF16 => out.iter_mut().zip(halves()).for_each(|(to, b)| *to = half::bf16::from_le_bytes(b).to_f32()),
        Dtype::F16 => out.iter_mut().zip(halves()).for_each(|(to, b)| *to = half::f16::from_le_bytes(b).to_f32()),
        _ => {
            for (to, b) in out.iter_mut().zip(data.chunks_exact(4)) {
                *to = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
            }
        }
    }
}
