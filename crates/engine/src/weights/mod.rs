//! Model weights: one flat f32 buffer, and the packed copies the kernels read.

mod init;
mod load;
mod params;
mod save;

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use hone_trace::Digest;
pub(crate) use init::normal;
pub use load::{TensorFiles, read_into};
pub use params::{LayerParams, ModelParams, Param, Table};
pub use save::{Storage, Tensor, tensors, write_tensors};

use crate::buffer::Buffer;
use crate::config::Config;
use crate::cpu::Cpu;
use crate::error::{EngineError, Result};
use crate::kernels::matmul::{Packed, pack, packed_len};

/// Weights of one policy version.
#[derive(Debug, Clone)]
pub struct Weights {
    pub params: Arc<ModelParams>,
    /// The f32 master, laid out by `params`.
    pub values: Buffer,
    /// All matrices once more, packed, in one piece of memory: decoding reads all of it for every token.
    packed: Buffer,
    pub layers: Vec<LayerMatrices>,
    pub head: Matrix,
    digest: OnceLock<Digest>,
}

/// A matrix: its shape, and where its values and its packed copy start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matrix {
    pub outputs: usize,
    pub inputs: usize,
    values: usize,
    packed: usize,
}

/// The matrices of one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerMatrices {
    pub qkv: Matrix,
    pub out: Matrix,
    pub gate_up: Matrix,
    pub down: Matrix,
}

impl Weights {
    /// Reads the safetensors of a model directory.
    pub fn load(cpu: &Cpu, config: &Config, dir: &Path) -> Result<Self> {
        let params = ModelParams::new(config);
        let files = TensorFiles::open(dir, "model")?;
        let (.., packed) = matrices(config, &params);
        check_room(params.table.len() + packed, crate::memory::available())
            .map_err(|what| EngineError::Weights { path: dir.to_owned(), what })?;
        let mut values = Buffer::zeros(params.table.len());
        read_into(&files, &params.table, &mut values, |name| {
            // A tied head is often stored too, and old checkpoints carry their rotary frequencies.
            (config.tied && name == "lm_head.weight") || name.ends_with("rotary_emb.inv_freq")
        })?;
        Ok(Self::from_values(cpu, config, params, values))
    }

    /// Fresh weights: normal with the config's deviation, norms 1, biases 0. The same seed gives the same weights.
    pub fn random(config: &Config, cpu: &Cpu, seed: u64) -> Self {
        let params = ModelParams::new(config);
        let values = init::random(&params.table, config.init_std, seed);
        Self::from_values(cpu, config, params, values)
    }

    fn from_values(cpu: &Cpu, c: &Config, params: ModelParams, values: Buffer) -> Self {
        let (layers, head, len) = matrices(c, &params);
        let packed = Buffer::zeros(len);
        let mut weights = Self { params: Arc::new(params), values, packed, layers, head, digest: OnceLock::new() };
        weights.repack(cpu);
        weights
    }

    /// Brings the packed copies up to date after `values` changed.
    pub fn repack(&mut self, cpu: &Cpu) {
        self.digest = OnceLock::new();
        let in_layers = self.layers.iter().flat_map(|l| [l.qkv, l.out, l.gate_up, l.down]);
        for Matrix { outputs, inputs, values, packed } in in_layers.chain([self.head]) {
            pack(cpu, &self.values[values..][..outputs * inputs], outputs, inputs, &mut self.packed[packed..]);
        }
    }

    /// The packed copy of a matrix.
    pub fn packed(&self, Matrix { outputs, inputs, packed, .. }: Matrix) -> Packed<'_> {
        Packed { outputs, inputs, data: &self.packed[packed..][..packed_len(outputs, inputs)] }
    }

    /// A digest of the values, the same for the same weights on any number of threads.
    pub fn digest(&self, cpu: &Cpu) -> Digest {
        *self.digest.get_or_init(|| digest(cpu, &self.values))
    }

    /// Writes `config.json` and `model.safetensors`: a directory that transformers loads unchanged.
    pub fn save(&self, config: &Config, dir: &Path, storage: Storage) -> Result<()> {
        save::model(self, config, dir, storage)
    }
}

/// Layout of the matrices, and the number of floats of their packed copies.
fn matrices(c: &Config, params: &ModelParams) -> (Vec<LayerMatrices>, Matrix, usize) {
    let (width, out) = (c.heads.width(), c.heads.out_width());
    let mut len = 0;
    let mut place = |range: &Range<usize>, outputs, inputs| {
        let packed = len;
        len += packed_len(outputs, inputs);
        Matrix { outputs, inputs, values: range.start, packed }
    };
    let layers = params.layers.iter().map(|l| LayerMatrices {
        qkv: place(&l.qkv, width, c.hidden),
        out: place(&l.out, c.hidden, out),
        gate_up: place(&l.gate_up, 2 * c.mlp, c.hidden),
        down: place(&l.down, c.hidden, c.mlp),
    });
    let layers = layers.collect();
    let head = place(&params.head, c.vocab, c.hidden);
    (layers, head, len)
}

/// Memory check before loading: weights that do not fit would take the whole machine down without a message.
fn check_room(floats: usize, available: Option<u64>) -> std::result::Result<(), String> {
    let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
    let needed = (floats * size_of::<f32>()) as u64;
    match available.filter(|&bytes| bytes < needed) {
        Some(bytes) => Err(format!(
            "the weights take {:.1} GiB in memory (float32, as they are stored and once more laid out for products) and \
             {:.1} GiB are free; use a smaller model or a machine with more memory",
            gib(needed),
            gib(bytes)
        )),
        None => Ok(()),
    }
}

/// Digest of the digests of pieces, so that it can be taken on all threads.
pub(crate) fn digest(cpu: &Cpu, values: &[f32]) -> Digest {
    const PIECE: usize = 1 << 18;
    let pieces: Vec<&[f32]> = values.chunks(PIECE).collect();
    let found: Vec<OnceLock<String>> = pieces.iter().map(|_| OnceLock::new()).collect();
    cpu.parallel(pieces.len(), |i| {
        found[i].get_or_init(|| Digest::of(bytemuck::cast_slice(pieces[i])).to_string());
    });
    Digest::of(found.iter().filter_map(OnceLock::get).cloned().collect::<String>().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_do_not_fit_are_refused_with_both_sizes() {
        assert_eq!(check_room(1 << 29, None), Ok(()));
        assert_eq!(check_room(1 << 29, Some(2 << 30)), Ok(()));
        let refused = check_room(3 << 28, Some(2 << 30)).unwrap_err();
        assert!(refused.contains("take 3.0 GiB") && refused.contains("2.0 GiB are free"), "{refused}");
    }
}
