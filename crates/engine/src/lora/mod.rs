//! LoRA (low-rank adapters): `y = W x + scale * B (A x)`, in PEFT's format.
//!
//! The base model is shared and never changed: without the adapter it is the reference policy, at no extra memory, and
//! any number of adapters share it.

#![expect(unsafe_code, reason = "tasks write disjoint rows")]

mod config;

use std::ops::Range;
use std::path::Path;

pub use config::{LoraConfig, Module};

use crate::buffer::Buffer;
use crate::config::Config;
use crate::cpu::{Cpu, Shared, with_scratch};
use crate::error::{EngineError, Result};
use crate::kernels::matmul::{
    self, Accumulate, Packed, pack, pack_untransposed, packed_len, rows_untransposed, untransposed_len,
};
use crate::kernels::matrix::{MatMut, MatRef};
use crate::kernels::simd::Isa;
use crate::model::Model;
use crate::model::workspace_rows;
use crate::weights::{Storage, Table, TensorFiles, Weights, normal, read_into, tensors, write_tensors};

/// LoRA adapter: its values in one flat buffer, and the packed copies the kernels read.
#[derive(Debug, Clone)]
pub struct Adapter {
    pub config: LoraConfig,
    pub table: Table,
    /// The f32 master, laid out by `table`.
    pub values: Buffer,
    /// By layer and module.
    pairs: Vec<[Option<Pair>; Module::COUNT]>,
}

/// The two matrices of one adapted module.
#[derive(Debug, Clone)]
struct Pair {
    inputs: usize,
    outputs: usize,
    /// First output in the fused matrix the module is part of.
    column: usize,
    a_range: Range<usize>,
    b_range: Range<usize>,
    a: Buffer,
    b: Buffer,
    /// Untransposed, for dX = dY W.
    a_untransposed: Buffer,
    b_untransposed: Buffer,
}

/// Adapted matrix: a module of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) layer: usize,
    pub(crate) module: Module,
}

/// Inner activations `scale * A x` of an adapter, recomputed into `values`, and their gradients; `[rows][rank]`.
#[derive(Debug)]
pub(crate) struct Inner<'a> {
    pub(crate) values: &'a mut [f32],
    pub(crate) gradients: &'a [f32],
}

impl Adapter {
    /// A fresh adapter, which changes nothing yet: B is 0, A is drawn as PEFT draws it, by variance.
    pub fn new(model: &Model, config: LoraConfig, seed: u64) -> Self {
        let table = table(&model.config, &config);
        let mut values = Buffer::zeros(table.len());
        for param in table.params.iter().filter(|p| p.name.ends_with("lora_A.weight")) {
            let deviation = (1.0 / (3.0 * param.shape[1] as f32)).sqrt();
            normal(&mut values[param.range.clone()], deviation, seed, &param.name);
        }
        Self::from_values(&model.config, &model.cpu, config, table, values)
    }

    /// Reads `adapter_config.json` and `adapter_model.safetensors`.
    pub fn load(model: &Model, dir: &Path) -> Result<Self> {
        let config = LoraConfig::load(dir)?;
        let table = table(&model.config, &config);
        let files = TensorFiles::open(dir, "adapter_model")?;
        let mut values = Buffer::zeros(table.len());
        read_into(&files, &table, &mut values, |_| false)?;
        Ok(Self::from_values(&model.config, &model.cpu, config, table, values))
    }

    /// Writes a directory that PEFT loads unchanged.
    pub fn save(&self, dir: &Path) -> Result<()> {
        std::fs::create_dir_all(dir).map_err(|source| EngineError::Io {
            action: "make",
            path: dir.to_owned(),
            source,
        })?;
        let all = tensors("", &self.table, &self.values, Storage::F32);
        write_tensors(&dir.join("adapter_model.safetensors"), all, &[])?;
        self.config.save(dir)
    }

    fn from_values(c: &Config, cpu: &Cpu, config: LoraConfig, table: Table, values: Buffer) -> Self {
        let rank = config.rank;
        let pairs = (0..c.layers).map(|layer| {
            Module::ALL.map(|module| {
                let range = |part: &str| {
                    let name = tensor_name(layer, module, part);
                    table.params.iter().find(|p| p.name == name).map(|p| p.range.clone())
                };
                let (a_range, b_range) = (range("lora_A")?, range("lora_B")?);
                let (inputs, outputs) = (module.inputs(c), module.outputs(c));
                Some(Pair {
                    inputs,
                    outputs,
                    column: module.column(c),
                    a: Buffer::zeros(packed_len(rank, inputs)),
                    b: Buffer::zeros(packed_len(outputs, rank)),
                    a_untransposed: Buffer::zeros(untransposed_len(rank, inputs)),
                    b_untransposed: Buffer::zeros(untransposed_len(outputs, rank)),
                    a_range,
                    b_range,
                })
            })
        });
        let mut adapter = Self { pairs: pairs.collect(), config, table, values };
        adapter.repack(cpu);
        adapter
    }

    /// Brings the packed copies up to date after `values` changed.
    pub fn repack(&mut self, cpu: &Cpu) {
        let rank = self.config.rank;
        for pair in self.pairs.iter_mut().flatten().flatten() {
            let (a, b) = (&self.values[pair.a_range.clone()], &self.values[pair.b_range.clone()]);
            pack(cpu, a, rank, pair.inputs, &mut pair.a);
            pack(cpu, b, pair.outputs, rank, &mut pair.b);
            pack_untransposed(cpu, a, rank, pair.inputs, &mut pair.a_untransposed);
            pack_untransposed(cpu, b, pair.outputs, rank, &mut pair.b_untransposed);
        }
    }

    pub(crate) fn rank(&self) -> usize {
        self.config.rank
    }

    fn pair(&self, site: Site) -> Option<&Pair> {
        self.pairs[site.layer][site.module as usize].as_ref()
    }

    /// Adds the module's output to that of its fused projection, for the rows of `x`.
    pub(crate) fn add(&self, isa: Isa, site: Site, x: MatRef<'_>, y: MatMut<'_>) {
        let Some(pair) = self.pair(site) else { return };
        with_scratch(x.rows * self.rank(), |inner| {
            self.inner(isa, pair, x, inner);
            let b = Packed { outputs: pair.outputs, inputs: self.rank(), data: &pair.b };
            let y = y.columns(pair.columns());
            matmul::rows(isa, MatRef::of_rows(inner, self.rank()), b, y, Accumulate::Add);
        });
    }

    /// `scale * A x` of each row.
    fn inner(&self, isa: Isa, pair: &Pair, x: MatRef<'_>, inner: &mut [f32]) {
        let rank = self.rank();
        let a = Packed { outputs: rank, inputs: pair.inputs, data: &pair.a };
        matmul::rows(isa, x, a, MatMut::of_rows(&mut *inner, rank), Accumulate::Store);
        let scale = self.config.scale();
        for v in inner {
            *v *= scale;
        }
    }

    /// Adds the module's share of the input gradient to `dx`; `dinner` gets the gradient of `A x` of each row.
    pub(crate) fn input_gradient(&self, isa: Isa, site: Site, dy: MatRef<'_>, dx: MatMut<'_>, dinner: &mut [f32]) {
        let Some(pair) = self.pair(site) else { return };
        let (rank, scale) = (self.rank(), self.config.scale());
        let (dy, inner) = (dy.columns(pair.columns()), MatMut::of_rows(&mut *dinner, rank));
        rows_untransposed(isa, dy, &pair.b_untransposed, inner, Accumulate::Store);
        for v in dinner.iter_mut() {
            *v *= scale;
        }
        rows_untransposed(isa, MatRef::of_rows(dinner, rank), &pair.a_untransposed, dx, Accumulate::Add);
    }

    /// Adds the gradients of the module's matrices; the inner gradients are from [`Adapter::input_gradient`].
    pub(crate) fn gradient(
        &self,
        cpu: &Cpu,
        site: Site,
        dy: MatRef<'_>,
        x: MatRef<'_>,
        inner: &mut Inner<'_>,
        grad: &mut [f32],
    ) {
        let Some(pair) = self.pair(site) else { return };
        let (rows, rank) = (dy.rows, self.rank());
        let shared = Shared::new(&mut *inner.values);
        workspace_rows(cpu, rows, |at, n| {
            // SAFETY: each task has its own rows.
            let inner = unsafe { shared.slice(at * rank, n * rank) };
            self.inner(cpu.isa(), pair, x.rows(at..at + n), inner);
        });
        let matrix = |data| MatRef::new(data, rows, rank, rank);
        let (values, gradients) = (matrix(&*inner.values), matrix(inner.gradients));
        matmul::outer(cpu, dy.columns(pair.columns()), values, &mut grad[pair.b_range.clone()]);
        matmul::outer(cpu, gradients, x, &mut grad[pair.a_range.clone()]);
    }

    /// Merged weights: the base with the adapter added: `W + scale * B A`.
    pub fn merge(&self, model: &Model) -> Weights {
        let mut weights = Weights::clone(&model.weights);
        let (rank, scale) = (self.rank(), self.config.scale());
        for (pairs, layer) in self.pairs.iter().zip(&model.weights.params.layers) {
            for (pair, module) in pairs.iter().zip(Module::ALL) {
                let Some(pair) = pair else { continue };
                let fused = module.range(layer).start + pair.column * pair.inputs;
                let (a, b) = (&self.values[pair.a_range.clone()], &self.values[pair.b_range.clone()]);
                for (row, b) in b.chunks_exact(rank).enumerate() {
                    let w = &mut weights.values[fused + row * pair.inputs..][..pair.inputs];
                    for (b, a) in b.iter().zip(a.chunks_exact(pair.inputs)) {
                        w.iter_mut().zip(a).for_each(|(w, a)| *w += scale * b * a);
                    }
                }
            }
        }
        weights.repack(&model.cpu);
        weights
    }
}

impl Pair {
    /// Its outputs in the fused matrix.
    fn columns(&self) -> Range<usize> {
        self.column..self.column + self.outputs
    }
}

fn tensor_name(layer: usize, module: Module, part: &str) -> String {
    format!("base_model.model.model.layers.{layer}.{}.{part}.weight", module.path())
}

fn table(c: &Config, config: &LoraConfig) -> Table {
    let mut table = Table::default();
    for layer in 0..c.layers {
        for &module in &config.modules {
            table.group(&[(tensor_name(layer, module, "lora_A"), vec![config.rank, module.inputs(c)])]);
            table.group(&[(tensor_name(layer, module, "lora_B"), vec![module.outputs(c), config.rank])]);
        }
    }
    table
}
