//! LoRA on the CPU: the values of an adapter in one flat buffer, and the packed copies the kernels read.

#![expect(unsafe_code, reason = "tasks write disjoint rows")]

use std::ops::Range;

use crate::config::Config;
use crate::cpu::buffer::Buffer;
use crate::cpu::forward::by_rows;
use crate::cpu::kernels::matmul::{
    self, Accumulate, Packed, pack, pack_untransposed, packed_len, rows_untransposed, untransposed_len,
};
use crate::cpu::kernels::matrix::{MatMut, MatRef};
use crate::cpu::kernels::simd::Isa;
use crate::cpu::{Cpu, Shared, with_scratch};
use crate::lora::{LoraConfig, Module, tensor_name};
use crate::weights::Table;

/// LoRA matrices of an adapter.
#[derive(Debug, Clone)]
pub struct AdapterWeights {
    rank: usize,
    scale: f32,
    /// The f32 master, laid out by the adapter's table.
    pub values: Buffer,
    /// Indexed by layer and module.
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

impl AdapterWeights {
    /// Packs values that are laid out by `table`.
    pub(crate) fn new(cpu: &Cpu, c: &Config, lora: &LoraConfig, table: &Table, values: Buffer) -> Self {
        let rank = lora.rank;
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
        let mut adapter = Self { rank, scale: lora.scale(), pairs: pairs.collect(), values };
        adapter.repack(cpu);
        adapter
    }

    /// Updates the packed copies after `values` changed.
    pub fn repack(&mut self, cpu: &Cpu) {
        let rank = self.rank;
        for pair in self.pairs.iter_mut().flatten().flatten() {
            let (a, b) = (&self.values[pair.a_range.clone()], &self.values[pair.b_range.clone()]);
            pack(cpu, a, rank, pair.inputs, &mut pair.a);
            pack(cpu, b, pair.outputs, rank, &mut pair.b);
            pack_untransposed(cpu, a, rank, pair.inputs, &mut pair.a_untransposed);
            pack_untransposed(cpu, b, pair.outputs, rank, &mut pair.b_untransposed);
        }
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
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
        let scale = self.scale;
        for v in inner {
            *v *= scale;
        }
    }

    /// Adds the module's share of the input gradient to `dx`; `dinner` gets the gradient of `A x` of each row.
    pub(crate) fn input_gradient(&self, isa: Isa, site: Site, dy: MatRef<'_>, dx: MatMut<'_>, dinner: &mut [f32]) {
        let Some(pair) = self.pair(site) else { return };
        let (rank, scale) = (self.rank(), self.scale);
        let (dy, inner) = (dy.columns(pair.columns()), MatMut::of_rows(&mut *dinner, rank));
        rows_untransposed(isa, dy, &pair.b_untransposed, inner, Accumulate::Store);
        for v in dinner.iter_mut() {
            *v *= scale;
        }
        rows_untransposed(isa, MatRef::of_rows(dinner, rank), &pair.a_untransposed, dx, Accumulate::Add);
    }

    /// Adds the gradients of the module's matrices; the inner gradients are from [`AdapterWeights::input_gradient`].
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
        by_rows(cpu, rows, |at, n| {
            // SAFETY: each task has its own rows.
            let inner = unsafe { shared.slice(at * rank, n * rank) };
            self.inner(cpu.isa(), pair, x.rows(at..at + n), inner);
        });
        let matrix = |data| MatRef::new(data, rows, rank, rank);
        let (values, gradients) = (matrix(&*inner.values), matrix(inner.gradients));
        matmul::outer(cpu, dy.columns(pair.columns()), values, &mut grad[pair.b_range.clone()]);
        matmul::outer(cpu, gradients, x, &mut grad[pair.a_range.clone()]);
    }
}

impl Pair {
    /// Its outputs in the fused matrix.
    fn columns(&self) -> Range<usize> {
        self.column..self.column + self.outputs
    }
}
