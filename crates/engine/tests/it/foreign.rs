//! Second device for the laws of a backend: computes on the CPU, and keeps its storage where the engine cannot look.
//!
//! It compiles only as long as nothing above the interface needs host slices, threads or the CPU's own types.

use std::borrow::Cow;
use std::sync::Arc;

use hone_engine::backend::{Backend, GradientNorm, Need, Trainable};
use hone_engine::cpu::Buffer;
use hone_engine::generate::step::{Draw, Step};
use hone_engine::lora::LoraConfig;
use hone_engine::optim::AdamWStep;
use hone_engine::weights::{ModelParams, Table, TensorSource};
use hone_engine::{
    Adapter, Config, Cpu, Forest, Keep, LossGradients, Model, Net, Pass, Result, Scored, Trained, Workspace,
};
use hone_trace::Digest;

#[derive(Debug)]
pub(crate) struct Foreign(pub Arc<Cpu>);

/// The same network as the CPU sees it.
fn inner(net: Net<'_, Foreign>) -> Net<'_> {
    Net::new(&net.model.weights, net.adapter.map(|adapter| &adapter.weights))
}

/// Runs a computation on the CPU's form of an array.
fn with_buffer<T>(flat: &mut [f32], body: impl FnOnce(&mut Buffer) -> T) -> T {
    let mut buffer = Buffer::zeros(flat.len());
    buffer.copy_from_slice(flat);
    let result = body(&mut buffer);
    flat.copy_from_slice(&buffer);
    result
}

impl Backend for Foreign {
    type Weights = Model;
    type Adapter = Adapter;
    type Flat = Box<[f32]>;
    type Moments = [Box<[f32]>; 2];
    type Activations = Workspace;
    type Pages = <Cpu as Backend>::Pages;
    type Decoder = <Cpu as Backend>::Decoder;

    fn load(&self, config: &Config, params: &Arc<ModelParams>, source: &dyn TensorSource) -> Result<Model> {
        let weights = Arc::new(self.0.load(config, params, source)?);
        let (config, params) = (Arc::new(config.clone()), Arc::clone(params));
        Ok(Model { config, params, weights, device: Arc::clone(&self.0), fingerprint: None })
    }

    fn read(weights: &Model) -> Result<Cow<'_, [f32]>> {
        Ok(Cow::Owned(Cpu::read(&weights.weights)?.into_owned()))
    }

    fn digest(&self, weights: &Model) -> Digest {
        Backend::digest(&*self.0, &weights.weights)
    }

    fn load_adapter(
        &self,
        config: &Config,
        lora: &LoraConfig,
        table: &Table,
        source: &dyn TensorSource,
    ) -> Result<Adapter> {
        let weights = self.0.load_adapter(config, lora, table, source)?;
        Ok(Adapter { config: lora.clone(), table: table.clone(), weights, base: None })
    }

    fn read_adapter(weights: &Adapter) -> Result<Cow<'_, [f32]>> {
        Ok(Cow::Owned(Cpu::read_adapter(&weights.weights)?.into_owned()))
    }

    fn digest_adapter(&self, weights: &Adapter) -> Digest {
        self.0.digest_adapter(&weights.weights)
    }

    fn zeros(&self, len: usize) -> Box<[f32]> {
        vec![0.0; len].into()
    }

    fn clear(&self, flat: &mut Box<[f32]>) {
        flat.fill(0.0);
    }

    fn read_flat(flat: &Box<[f32]>) -> Result<Cow<'_, [f32]>> {
        Ok(Cow::Owned(flat.to_vec()))
    }

    fn write_flat(flat: &mut Box<[f32]>, values: &[f32]) -> Result<()> {
        flat.copy_from_slice(values);
        Ok(())
    }

    fn moments(&self, len: usize) -> [Box<[f32]>; 2] {
        [self.zeros(len), self.zeros(len)]
    }

    fn read_moments(moments: &[Box<[f32]>; 2]) -> Result<[Cow<'_, [f32]>; 2]> {
        Ok(moments.each_ref().map(|moment| Cow::Owned(moment.to_vec())))
    }

    fn write_moments(moments: &mut [Box<[f32]>; 2], values: [&[f32]; 2]) -> Result<()> {
        moments.iter_mut().zip(values).for_each(|(to, from)| to.copy_from_slice(from));
        Ok(())
    }

    fn activations(&self, limit: Option<u64>) -> Workspace {
        self.0.activations(limit)
    }

    fn pages(&self, config: &Config) -> Self::Pages {
        self.0.pages(config)
    }

    fn bytes(&self, config: &Config, need: Need) -> u64 {
        self.0.bytes(config, need)
    }

    fn available(&self) -> Option<u64> {
        None
    }

    fn forward(net: Net<'_, Self>, pass: Pass<'_>, keep: Keep, activations: &mut Workspace) -> Result<Scored> {
        Cpu::forward(inner(net), pass, keep, activations)
    }

    fn backward(
        net: Net<'_, Self>,
        pass: Pass<'_>,
        gradients: LossGradients<'_>,
        activations: &mut Workspace,
        trained: Trained<'_, Self>,
    ) -> Result<()> {
        let net = inner(net);
        match trained {
            Trained::Full(flat) => {
                with_buffer(flat, |to| Cpu::backward(net, pass, gradients, activations, Trained::Full(to)))
            }
            Trained::Adapter(flat) => {
                with_buffer(flat, |to| Cpu::backward(net, pass, gradients, activations, Trained::Adapter(to)))
            }
        }
    }

    fn logits(net: Net<'_, Self>, forest: &Forest, first: usize, activations: &mut Workspace) -> Result<Vec<f32>> {
        Cpu::logits(inner(net), forest, first, activations)
    }

    fn decode<D: Draw>(
        net: Net<'_, Self>,
        step: &Step,
        pages: &mut Self::Pages,
        decoder: &mut Self::Decoder,
        draws: &mut [D],
    ) -> Result<()> {
        Cpu::decode(inner(net), step, pages, decoder, draws)
    }

    fn gradient_norm(&self, table: &Table, gradients: &Box<[f32]>) -> Result<GradientNorm> {
        with_buffer(&mut gradients.clone(), |gradients| self.0.gradient_norm(table, gradients))
    }

    fn step(
        &self,
        trainable: Trainable<'_, Self>,
        gradients: &Box<[f32]>,
        moments: &mut [Box<[f32]>; 2],
        step: &AdamWStep,
    ) -> Result<()> {
        let trainable = match trainable {
            Trainable::Weights(table, model) => Trainable::Weights(table, Arc::make_mut(&mut model.weights)),
            Trainable::Adapter(adapter) => Trainable::Adapter(&mut adapter.weights),
        };
        let mut there = self.0.moments(gradients.len());
        Cpu::write_moments(&mut there, moments.each_ref().map(|moment| &moment[..]))?;
        with_buffer(&mut gradients.clone(), |gradients| self.0.step(trainable, gradients, &mut there, step))?;
        Self::write_moments(moments, there.each_ref().map(|moment| &moment[..]))
    }
}
