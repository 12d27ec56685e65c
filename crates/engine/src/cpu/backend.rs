//! CPU backend: the passes of this folder behind [`Backend`].

use std::borrow::Cow;
use std::sync::Arc;

use hone_trace::Digest;

use crate::backend::{Backend, GradientNorm, Need, PageStore, Trainable};
use crate::config::Config;
use crate::cpu::block::Spread;
use crate::cpu::buffer::Buffer;
use crate::cpu::decode::{Decoder, PageShape, Pages};
use crate::cpu::lora::AdapterWeights;
use crate::cpu::weights::{Weights, digest};
use crate::cpu::workspace::Workspace;
use crate::cpu::{Cpu, optim};
use crate::error::Result;
use crate::forest::Forest;
use crate::generate::step::{Draw, Step};
use crate::lora::{Adapter, LoraConfig};
use crate::model::{Keep, LossGradients, Net, Pass, Scored, Trained};
use crate::optim::AdamWStep;
use crate::weights::{ModelParams, Table, TensorSource};

impl Backend for Cpu {
    type Weights = Weights;
    type Adapter = AdapterWeights;
    type Flat = Buffer;
    type Moments = [Buffer; 2];
    type Activations = Workspace;
    type Pages = Pages;
    type Decoder = Decoder;

    fn load(&self, config: &Config, params: &Arc<ModelParams>, source: &dyn TensorSource) -> Result<Weights> {
        Ok(Weights::new(self, config, Arc::clone(params), values(&params.table, source)?))
    }

    fn read(weights: &Weights) -> Result<Cow<'_, [f32]>> {
        Ok(Cow::Borrowed(&weights.values))
    }

    fn digest(&self, weights: &Weights) -> Digest {
        weights.digest(self)
    }

    fn load_adapter(
        &self,
        config: &Config,
        lora: &LoraConfig,
        table: &Table,
        source: &dyn TensorSource,
    ) -> Result<AdapterWeights> {
        Ok(AdapterWeights::new(self, config, lora, table, values(table, source)?))
    }

    fn read_adapter(weights: &AdapterWeights) -> Result<Cow<'_, [f32]>> {
        Ok(Cow::Borrowed(&weights.values))
    }

    fn digest_adapter(&self, weights: &AdapterWeights) -> Digest {
        digest(self, &weights.values)
    }

    fn zeros(&self, len: usize) -> Buffer {
        Buffer::zeros(len)
    }

    fn clear(&self, flat: &mut Buffer) {
        Self::clear(self, flat);
    }

    fn read_flat(flat: &Buffer) -> Result<Cow<'_, [f32]>> {
        Ok(Cow::Borrowed(flat))
    }

    fn write_flat(flat: &mut Buffer, values: &[f32]) -> Result<()> {
        flat.copy_from_slice(values);
        Ok(())
    }

    fn moments(&self, len: usize) -> [Buffer; 2] {
        [Buffer::zeros(len), Buffer::zeros(len)]
    }

    fn read_moments([m, v]: &[Buffer; 2]) -> Result<[Cow<'_, [f32]>; 2]> {
        Ok([Cow::Borrowed(m), Cow::Borrowed(v)])
    }

    fn write_moments(moments: &mut [Buffer; 2], values: [&[f32]; 2]) -> Result<()> {
        moments.iter_mut().zip(values).for_each(|(to, from)| to.copy_from_slice(from));
        Ok(())
    }

    fn activations(&self, limit: Option<u64>) -> Workspace {
        Workspace { limit, ..Workspace::default() }
    }

    fn pages(&self, config: &Config) -> Pages {
        Pages::new(PageShape::new(config))
    }

    fn bytes(&self, config: &Config, need: Need) -> u64 {
        match need {
            Need::Weights => Weights::bytes(config),
            // A gradient and two moments, in f32.
            Need::Optimizer { parameters } => 12 * parameters as u64,
            Need::Page => PageShape::new(config).bytes(),
            Need::Pass { rows, keep } => Workspace::bytes(config, rows, keep),
        }
    }

    fn available(&self) -> Option<u64> {
        crate::memory::available()
    }

    fn beside(&self, threads: usize) -> Result<Option<Arc<Self>>> {
        Ok(Some(Arc::new(Self::new(threads)?)))
    }

    fn forward(net: Net<'_>, pass: Pass<'_>, keep: Keep, activations: &mut Workspace) -> Result<Scored> {
        net.forward_pass(pass, keep, activations)
    }

    fn backward(
        net: Net<'_>,
        pass: Pass<'_>,
        gradients: LossGradients<'_>,
        activations: &mut Workspace,
        trained: Trained<'_>,
    ) -> Result<()> {
        net.backward_pass(pass, gradients, activations, trained)
    }

    fn logits(net: Net<'_>, forest: &Forest, first: usize, activations: &mut Workspace) -> Result<Vec<f32>> {
        let c = &net.model.config;
        let rows = net.hidden(forest, activations)?;
        let mut out = vec![0.0; (forest.rows() - first) * c.vocab];
        for (row, logits) in rows[first * c.hidden..].chunks_exact(c.hidden).zip(out.chunks_exact_mut(c.vocab)) {
            net.logits(Spread::Columns(&net.model.device), row, logits);
        }
        Ok(out)
    }

    fn decode<D: Draw>(
        net: Net<'_>,
        step: &Step,
        pages: &mut Pages,
        decoder: &mut Decoder,
        draws: &mut [D],
    ) -> Result<()> {
        decoder.run(net, step, pages, draws);
        Ok(())
    }

    fn gradient_norm(&self, table: &Table, gradients: &Buffer) -> Result<GradientNorm> {
        Ok(optim::global_norm(self, table, gradients))
    }

    fn step(
        &self,
        trainable: Trainable<'_, Self>,
        gradients: &Buffer,
        moments: &mut [Buffer; 2],
        step: &AdamWStep,
    ) -> Result<()> {
        let moments = moments.each_mut().map(|moment| &mut moment[..]);
        match trainable {
            Trainable::Weights(table, weights) => {
                optim::update(self, table, &mut weights.values, gradients, moments, step);
                weights.repack(self);
            }
            Trainable::Adapter(Adapter { table, weights, .. }) => {
                optim::update(self, table, &mut weights.values, gradients, moments, step);
                weights.repack(self);
            }
        }
        Ok(())
    }
}

/// All tensors of a table, read into one buffer.
fn values(table: &Table, source: &dyn TensorSource) -> Result<Buffer> {
    let mut values = Buffer::zeros(table.len());
    table.params.iter().try_for_each(|param| source.read(param, &mut values[param.range.clone()]))?;
    Ok(values)
}

impl PageStore for Pages {
    fn grow(&mut self) {
        Self::grow(self);
    }

    fn clear(&mut self, page: usize) {
        Self::clear(self, page);
    }

    fn copy(&mut self, from: usize, to: usize, count: usize) {
        Self::copy(self, from, to, count);
    }
}
