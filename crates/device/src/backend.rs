//! The CUDA kernels behind the engine's device seam.

use std::borrow::Cow;
use std::sync::Arc;

use hone_cuda::adamw::Norm;
use hone_cuda::heads::wide;
use hone_cuda::{Buffer, Float, View};
use hone_engine::backend::{Backend, GradientNorm, Need, Trainable};
use hone_engine::generate::step::{Draw, Step};
use hone_engine::lora::LoraConfig;
use hone_engine::optim::AdamWStep;
use hone_engine::weights::{ModelParams, Table, TensorSource};
use hone_engine::{Config, Forest, GeneratorSettings, Keep, LossGradients, Net, Pass, Result, Scored, Trained};
use hone_trace::{Digest, LeanState};

use crate::batch::rounded;
use crate::body::Body;
use crate::cuda::{Cuda, Spec, fault};
use crate::decode::Decoder;
use crate::flat::Flat;
use crate::forward::Activations;
use crate::lora::AdapterWeights;
use crate::memory::PassSize;
use crate::moments::{MomentStore, Moments};
use crate::pages::Pages;
use crate::weights::Parameters;

/// Chunked prefill: prompt tokens per decoding step. A GPU computes thousands of rows in the time of a few hundred.
const PREFILL: usize = 8192;
/// Share of the free memory that the KV cache may take.
const CACHE: f64 = 0.3;

/// Weights of one policy version, and the model's dimensions.
#[derive(Debug, Clone)]
pub struct Weights<T> {
    pub(crate) spec: Arc<Spec>,
    pub(crate) values: Parameters<T>,
}

impl<T: Float> Backend for Cuda<T> {
    type Weights = Weights<T>;
    type Adapter = AdapterWeights<T>;
    type Flat = Flat;
    type Moments = Moments;
    type Activations = Activations<T>;
    type Pages = Pages<T>;
    type Decoder = Decoder;

    fn load(&self, config: &Config, params: &Arc<ModelParams>, source: &dyn TensorSource) -> Result<Weights<T>> {
        let spec = Arc::new(Spec::new(config, params)?);
        Ok(Weights { spec, values: Parameters::load(&self.shared, &params.table, source)? })
    }

    fn read(weights: &Weights<T>) -> Result<Cow<'_, [f32]>> {
        weights.values.read()
    }

    fn finite(weights: &Weights<T>) -> Result<bool> {
        weights.values.finite()
    }

    fn digest(&self, weights: &Weights<T>) -> Digest {
        weights.values.digest()
    }

    fn load_adapter(
        &self,
        config: &Config,
        lora: &LoraConfig,
        table: &Table,
        source: &dyn TensorSource,
    ) -> Result<AdapterWeights<T>> {
        AdapterWeights::load(&self.shared, config, lora, table, source)
    }

    fn read_adapter(weights: &AdapterWeights<T>) -> Result<Cow<'_, [f32]>> {
        weights.values.read()
    }

    fn finite_adapter(weights: &AdapterWeights<T>) -> Result<bool> {
        weights.values.finite()
    }

    fn digest_adapter(&self, weights: &AdapterWeights<T>) -> Digest {
        weights.values.digest()
    }

    fn zeros(&self, len: usize) -> Flat {
        Flat::zeros(&self.shared, len)
    }

    fn clear(&self, flat: &mut Flat) {
        flat.clear();
        self.shared.faults().found = None;
    }

    fn read_flat(flat: &Flat) -> Result<Cow<'_, [f32]>> {
        flat.read()
    }

    fn write_flat(flat: &mut Flat, values: &[f32]) -> Result<()> {
        flat.write(values)
    }

    fn moments(&self, len: usize) -> Moments {
        Moments::new(&self.shared.gpu, len, self.moments)
    }

    fn read_moments(moments: &Moments) -> Result<[Cow<'_, [f32]>; 2]> {
        moments.read()
    }

    fn write_moments(moments: &mut Moments, values: [&[f32]; 2]) -> Result<()> {
        moments.write(values)
    }

    fn activations(&self, limit: Option<u64>) -> Activations<T> {
        Activations { limit, state: None }
    }

    fn pages(&self, config: &Config) -> Pages<T> {
        let page = self.bytes(config, Need::Page).max(1);
        let most = usize::try_from(self.serving().memory_limit / page).unwrap_or(usize::MAX);
        Pages::new(&self.shared, config, wide(config.heads.dim).unwrap_or(config.heads.dim), most)
    }

    fn bytes(&self, config: &Config, need: Need) -> u64 {
        let element = size_of::<T>() as u64;
        match need {
            Need::Weights => Parameters::<T>::bytes(ModelParams::new(config).table.len()),
            Need::Optimizer { parameters } => self.moments.bytes(parameters),
            Need::Page => {
                let wide = wide(config.heads.dim).unwrap_or(config.heads.dim);
                element * Pages::<T>::elements(config, wide) as u64
            }
            Need::Pass { rows, keep } => PassSize::all_scored(config, rounded(rows), keep, element).least(),
        }
    }

    fn available(&self) -> Option<u64> {
        self.shared.gpu.available().ok()
    }

    fn kept_layers(&self, config: &Config, rows: usize, keep: Keep, bytes: u64) -> Option<usize> {
        let pass = PassSize::all_scored(config, rounded(rows), keep, size_of::<T>() as u64);
        (keep == Keep::Everything).then(|| pass.gates(bytes))
    }

    fn lean(&self, parameters: usize) -> Option<LeanState> {
        let leaner = match self.moments {
            MomentStore::F32 => MomentStore::EightBit,
            MomentStore::EightBit => MomentStore::Host,
            MomentStore::Host => return None,
        };
        let (setting, optimizer_bytes) = (leaner.setting(), leaner.bytes(parameters));
        (optimizer_bytes < self.moments.bytes(parameters)).then_some(LeanState { setting, optimizer_bytes })
    }

    /// False: products of a few rows and of many are different kernels.
    fn exact(&self) -> bool {
        false
    }

    fn serving(&self) -> GeneratorSettings {
        let free = self.available().unwrap_or(8 << 30);
        GeneratorSettings {
            memory_limit: (free as f64 * CACHE) as u64,
            prefill_tokens: PREFILL,
            ..GeneratorSettings::default()
        }
    }

    fn forward(net: Net<'_, Self>, pass: Pass<'_>, keep: Keep, activations: &mut Activations<T>) -> Result<Scored> {
        let body = Body::of(net);
        let watch = body.poison()?;
        Body { watch: watch.as_ref(), ..body }.forward(pass, keep, activations)
    }

    fn backward(
        net: Net<'_, Self>,
        _pass: Pass<'_>,
        gradients: LossGradients<'_>,
        activations: &mut Activations<T>,
        trained: Trained<'_, Self>,
    ) -> Result<()> {
        let body = Body::of(net);
        let watch = body.poison()?;
        Body { watch: watch.as_ref(), ..body }.backward(gradients, activations, trained)
    }

    fn logits(net: Net<'_, Self>, forest: &Forest, first: usize, _: &mut Activations<T>) -> Result<Vec<f32>> {
        Body::of(net).logits(forest, first)
    }

    fn decode<D: Draw>(
        net: Net<'_, Self>,
        step: &Step,
        pages: &mut Pages<T>,
        decoder: &mut Decoder,
        draws: &mut [D],
    ) -> Result<()> {
        decoder.run(&Body::of(net), step, pages, draws)
    }

    fn gradient_norm(&self, table: &Table, gradients: &Flat) -> Result<GradientNorm> {
        let Some(buffer) = gradients.buffer() else { return Ok(GradientNorm::Finite(0.0)) };
        let norm = |part: View<'_, f32>| -> Result<f64> {
            let norm = Norm::of(&self.shared.gpu, part, None).map_err(fault)?;
            Ok(f64::from(norm.read().map_err(fault)?))
        };
        let all = norm(buffer.view())?;
        if all.is_finite() {
            return Ok(GradientNorm::Finite(all));
        }
        for param in &table.params {
            if !norm(buffer.view().slice(param.range.clone()))?.is_finite() {
                let found = self.shared.faults().found.take();
                let first = found.map_or_else(String::new, |first| format!(" (the first that is not: {first})"));
                return Ok(GradientNorm::NotFinite(format!("{}{first}", param.name)));
            }
        }
        Ok(GradientNorm::NotFinite("all parameters together".into()))
    }

    fn step(
        &self,
        trainable: Trainable<'_, Self>,
        gradients: &Flat,
        moments: &mut Moments,
        step: &AdamWStep,
    ) -> Result<()> {
        let zeros: Buffer<f32>;
        let grads = match (gradients.buffer(), &trainable) {
            (Some(buffer), _) => buffer,
            (None, trainable) => {
                let len = match trainable {
                    Trainable::Weights(table, _) => table.len(),
                    Trainable::Adapter(adapter) => adapter.table.len(),
                };
                zeros = Buffer::zeros(&self.shared.gpu, len).map_err(fault)?;
                &zeros
            }
        };
        match trainable {
            Trainable::Weights(table, weights) => weights.values.step(table, grads, moments, step),
            Trainable::Adapter(adapter) => adapter.weights.values.step(&adapter.table, grads, moments, step),
        }
    }
}
