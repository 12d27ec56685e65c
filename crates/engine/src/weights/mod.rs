//! The numbers of a model: one flat buffer in f32, and the packed copies the kernels read.

mod init;
mod load;
mod params;
mod save;

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
use crate::error::Result;
use crate::kernels::matmul::Packed;

/// Weights of one policy version.
#[derive(Debug, Clone)]
pub struct Weights {
    pub params: Arc<ModelParams>,
    /// The f32 master, laid out by `params`.
    pub values: Buffer,
    pub layers: Vec<PackedLayer>,
    pub head: Packed,
    digest: OnceLock<Digest>,
}

/// The matrices of one layer, packed.
#[derive(Debug, Clone)]
pub struct PackedLayer {
    pub qkv: Packed,
    pub out: Packed,
    pub gate_up: Packed,
    pub down: Packed,
}

impl Weights {
    /// Reads the safetensors of a model directory.
    pub fn load(cpu: &Cpu, config: &Config, dir: &Path) -> Result<Self> {
        let params = ModelParams::new(config);
        let files = TensorFiles::open(dir, "model")?;
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
        let (width, out) = (c.heads.width(), c.heads.out_width());
        let pack = |range: &std::ops::Range<usize>, n, k| Packed::new(cpu, &values[range.clone()], n, k);
        let layers = params.layers.iter().map(|l| PackedLayer {
            qkv: pack(&l.qkv, width, c.hidden),
            out: pack(&l.out, c.hidden, out),
            gate_up: pack(&l.gate_up, 2 * c.mlp, c.hidden),
            down: pack(&l.down, c.hidden, c.mlp),
        });
        let layers = layers.collect();
        let head = pack(&params.head, c.vocab, c.hidden);
        Self { params: Arc::new(params), values, layers, head, digest: OnceLock::new() }
    }

    /// Brings the packed copies up to date after `values` changed.
    pub fn repack(&mut self, cpu: &Cpu) {
        self.digest = OnceLock::new();
        for (layer, l) in self.layers.iter_mut().zip(&self.params.layers) {
            layer.qkv.repack(cpu, &self.values[l.qkv.clone()]);
            layer.out.repack(cpu, &self.values[l.out.clone()]);
            layer.gate_up.repack(cpu, &self.values[l.gate_up.clone()]);
            layer.down.repack(cpu, &self.values[l.down.clone()]);
        }
        self.head.repack(cpu, &self.values[self.params.head.clone()]);
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
