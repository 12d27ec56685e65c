//! Weights on the CPU: one flat f32 buffer, and the packed copies the kernels read.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use hone_trace::Digest;

use crate::config::Config;
use crate::cpu::Cpu;
use crate::cpu::buffer::Buffer;
use crate::cpu::kernels::matmul::{Packed, pack, packed_len};
use crate::rope::Tables;
use crate::weights::ModelParams;

/// Weights of one policy version.
#[derive(Debug, Clone)]
pub struct Weights {
    pub params: Arc<ModelParams>,
    /// The f32 master, laid out by `params`.
    pub values: Buffer,
    /// Packed copies of all matrices in one allocation: decoding reads all of it for every token.
    packed: Buffer,
    pub layers: Vec<LayerMatrices>,
    pub head: Matrix,
    /// Cosines and sines of RoPE.
    pub(crate) angles: Arc<Tables>,
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
    /// Packs values that are laid out by `params`.
    pub(crate) fn new(cpu: &Cpu, c: &Config, params: Arc<ModelParams>, values: Buffer) -> Self {
        let (layers, head, len) = matrices(c, &params);
        let (packed, angles) = (Buffer::zeros(len), Arc::new(Tables::new(c.rope)));
        let mut weights = Self { params, values, packed, layers, head, angles, digest: OnceLock::new() };
        weights.repack(cpu);
        weights
    }

    /// Size of the values and their packed copies, in bytes.
    pub(crate) fn bytes(c: &Config) -> u64 {
        let params = ModelParams::new(c);
        let (.., packed) = matrices(c, &params);
        ((params.table.len() + packed) * size_of::<f32>()) as u64
    }

    /// Updates the packed copies after `values` changed.
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
