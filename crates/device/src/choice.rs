//! Device selection: `engine.device` and `engine.precision`, and how `auto` is resolved.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use half::bf16;
use hone_engine::{Cpu, open_on};
use hone_trace::{Engine, EngineFault, EngineKind, EngineSpec, FreshSpec, nearest};
use serde_json::{Map, Value};

use crate::cuda::Cuda;
use crate::moments::MomentStore;

/// Device that the native engine computes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Device {
    /// A GPU if one can be used, else the cores of this machine.
    Auto,
    #[default]
    Cpu,
    Cuda,
}

/// Storage type of weights and activations on a GPU. Master weights, norms, softmax and sums are f32 in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    #[default]
    Bf16,
    F32,
}

impl Device {
    const ALL: [(&'static str, Self); 3] = [("auto", Self::Auto), ("cpu", Self::Cpu), ("cuda", Self::Cuda)];
}

impl Precision {
    const ALL: [(&'static str, Self); 2] = [("bf16", Self::Bf16), ("f32", Self::F32)];
}

pub(crate) fn named<T: Copy>(text: &str, all: &[(&'static str, T)]) -> Result<T, String> {
    all.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names = all.iter().map(|(name, _)| *name);
        let near = nearest(text, names.clone()).unwrap_or_default();
        format!("there is no {text:?}; did you mean {near:?}? Known are: {}", names.collect::<Vec<_>>().join(", "))
    })
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        named(text, &Self::ALL)
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        named(text, &Self::ALL)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(_, value)| value == self).map_or("", |(name, _)| name))
    }
}

/// `[engine] kind = "native"`: the model on this machine, on its cores or its GPU.
#[derive(Debug, Clone, Copy)]
pub struct Native;

/// Options of the native engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Options {
    device: Device,
    precision: Precision,
    moments: MomentStore,
}

impl Options {
    fn read(options: &Map<String, Value>) -> Result<Self, EngineFault> {
        let mut read = Self::default();
        for (key, value) in options {
            let text = value.as_str().unwrap_or_default();
            let bad = |what| EngineFault::new(format!("engine.{key}: {what}"));
            match key.as_str() {
                "device" => read.device = text.parse().map_err(bad)?,
                "precision" => read.precision = text.parse().map_err(bad)?,
                "moments" => read.moments = text.parse().map_err(bad)?,
                _ => {
                    return Err(EngineFault::new(format!(
                        "the native engine has no option {key:?}; its options are device, precision and moments"
                    )));
                }
            }
        }
        Ok(read)
    }
}

#[async_trait]
impl EngineKind for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    async fn open(&self, spec: &EngineSpec) -> Result<Arc<dyn Engine>, EngineFault> {
        let options = Options::read(&spec.options)?;
        match (options.device, options.precision) {
            (Device::Cpu, _) => on_cpu(options, spec),
            (_, Precision::F32) => on_gpu(options, spec, Cuda::<f32>::open(0)),
            (_, Precision::Bf16) => on_gpu(options, spec, Cuda::<bf16>::open(0)),
        }
    }

    /// Fresh weights are made on the host, the same ones for every device.
    async fn fresh(&self, spec: &FreshSpec<'_>) -> Result<(), EngineFault> {
        hone_engine::Native.fresh(spec).await
    }
}

type Opened = Result<Arc<dyn Engine>, EngineFault>;

/// The engine on the cores of this machine. Its moments are f32 in host memory, so `moments = "host"` is accepted.
fn on_cpu(options: Options, spec: &EngineSpec) -> Opened {
    if options.moments == MomentStore::EightBit {
        return Err(EngineFault::new(
            "engine.moments: 8-bit moments are computed on a GPU only; set engine.moments = \"f32\", or engine.device = \"cuda\"",
        ));
    }
    open_on(Arc::new(Cpu::new(spec.threads)?), spec)
}

/// The engine on the GPU; if none can be used, an error, or the CPU and a line that says why.
fn on_gpu<T: hone_cuda::Float>(options: Options, spec: &EngineSpec, gpu: hone_engine::Result<Cuda<T>>) -> Opened {
    match gpu {
        Ok(gpu) => open_on(Arc::new(gpu.with_moments(options.moments)), spec),
        Err(error) if options.device == Device::Auto => {
            let error = error.to_string();
            eprintln!("device: cpu ({})", error.lines().next().unwrap_or_default());
            on_cpu(options, spec)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<Options, EngineFault> {
        let Value::Object(map) = serde_json::from_str(text).unwrap() else { unreachable!() };
        Options::read(&map)
    }

    #[test]
    fn eight_bits_on_the_cpu_are_refused_with_what_to_write_and_host_memory_is_not() {
        let spec = EngineSpec {
            model: "/no/such/model".into(),
            adapter: None,
            lora: None,
            run: "r".into(),
            seed: 0,
            threads: 1,
            options: Map::new(),
        };
        let said = |moments| on_cpu(Options { moments, ..Options::default() }, &spec).err().unwrap().to_string();
        assert!(said(MomentStore::EightBit).contains("set engine.moments = \"f32\""));
        // They get as far as looking for the model.
        assert!([MomentStore::F32, MomentStore::Host].into_iter().all(|store| said(store).contains("/no/such/model")));
    }

    #[test]
    fn options_are_read_and_others_are_refused_by_name() {
        assert_eq!(options("{}"), Ok(Options::default()));
        let read = options(r#"{"device": "cuda", "precision": "f32", "moments": "8bit"}"#).unwrap();
        assert_eq!((read.device, read.precision, read.moments), (Device::Cuda, Precision::F32, MomentStore::EightBit));
        for (name, store) in MomentStore::ALL {
            assert_eq!(options(&format!(r#"{{"moments": "{name}"}}"#)).unwrap().moments, store);
            assert_eq!(store.to_string(), name);
        }
        for (text, expected) in [
            (r#"{"device": "gpu"}"#, "engine.device: there is no \"gpu\""),
            (r#"{"device": "cudo"}"#, "did you mean \"cuda\"?"),
            (r#"{"device": 1}"#, "Known are: auto, cpu, cuda"),
            (r#"{"precision": "fp8"}"#, "Known are: bf16, f32"),
            (r#"{"moments": "8 bit"}"#, "engine.moments: there is no \"8 bit\"; did you mean \"8bit\"?"),
            (r#"{"devices": "cpu"}"#, "no option \"devices\""),
        ] {
            let error = options(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
