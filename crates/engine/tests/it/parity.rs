//! The engine against transformers: logits, logprobs, gradients and greedy tokens of the recorded reference models.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hone_engine::kernels::simd::Isa;
use hone_engine::parity::{self, How};
use hone_engine::{Cpu, Model, Net};
use hone_testdata::committed;
use safetensors::{Dtype, SafeTensors};

/// Recorded tensors, as doubles.
struct Reference(BTreeMap<String, Vec<f64>>);

impl Reference {
    fn load(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap();
        let values = |t: &safetensors::tensor::TensorView<'_>| match t.dtype() {
            Dtype::F32 => t.data().chunks(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap()))).collect(),
            Dtype::I64 => t.data().chunks(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f64).collect(),
            other => panic!("{other:?} in a reference"),
        };
        Self(SafeTensors::deserialize(&bytes).unwrap().iter().map(|(name, t)| (name.to_owned(), values(&t))).collect())
    }

    fn ids(&self, name: &str) -> Option<Vec<u32>> {
        self.0.get(name).map(|v| v.iter().map(|&x| x as u32).collect())
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        self.0[name].iter().map(|&x| x as f32).collect()
    }

    fn numbered(&self, pattern: &str) -> Vec<Vec<u32>> {
        (0..).map_while(|i| self.ids(&pattern.replace('*', &i.to_string()))).collect()
    }
}

/// The reference models, and any more that `HONE_ENGINE_REFERENCES` (a directory of the same shape) holds.
fn models() -> Vec<PathBuf> {
    let roots = [Some(committed("engine")), std::env::var("HONE_ENGINE_REFERENCES").ok().map(PathBuf::from)];
    let mut found: Vec<PathBuf> = roots
        .into_iter()
        .flatten()
        .filter_map(|root| std::fs::read_dir(root).ok())
        .flat_map(|entries| entries.flatten().map(|e| e.path()))
        .filter(|dir| dir.join("reference.safetensors").exists())
        .collect();
    found.sort();
    assert!(found.len() >= 3, "reference models are missing: {found:?}");
    found
}

/// Calls `check` for every reference model, on the machine's best instruction set and on the portable path.
fn each(check: impl Fn(&str, &Net<'_>, &Reference)) {
    for dir in models() {
        let reference = Reference::load(&dir.join("reference.safetensors"));
        for isa in [Isa::detect(), Isa::Portable] {
            let cpu = Arc::new(Cpu::with_isa(2, isa).unwrap());
            let model = Model::load(&dir, cpu).unwrap();
            let name = format!("{} on {}", dir.file_name().unwrap().to_string_lossy(), isa.name());
            check(&name, &Net::new(&model, None), &reference);
        }
    }
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|v| v * v).sum::<f64>().sqrt()
}

fn assert_norm(found: &[f32], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let difference = norm(found.iter().zip(expected).map(|(&f, e)| f64::from(f) - e));
    let scale = norm(expected.iter().copied());
    assert!(difference <= tolerance * scale + 1e-30, "{what}: off by {:.2e} relative", difference / scale);
}

const WAYS: [How; 6] = [
    How { packed: false, share_prefix: false, recompute: false },
    How { packed: true, share_prefix: false, recompute: false },
    How { packed: true, share_prefix: true, recompute: false },
    How { packed: false, share_prefix: false, recompute: true },
    How { packed: true, share_prefix: false, recompute: true },
    How { packed: true, share_prefix: true, recompute: true },
];

#[test]
fn logits_match() {
    each(|name, net, reference| {
        for (i, ids) in reference.numbered("seq*.input_ids").iter().enumerate() {
            let found = parity::logits(net, ids).unwrap();
            let expected = &reference.0[&format!("seq{i}.logits")];
            let scale = expected.iter().fold(0f64, |m, v| m.max(v.abs()));
            let worst = found.iter().zip(expected).fold(0f64, |m, (&f, e)| m.max((f64::from(f) - e).abs()));
            assert!(worst <= 2e-5 * scale, "{name}, sequence {i}: {worst:.2e} of {scale:.2e}");
            assert_norm(&found, expected, 2e-5, &format!("{name}, sequence {i}"));
        }
    });
}

#[test]
fn logprobs_match_however_they_are_computed() {
    each(|name, net, reference| {
        let sequences = reference.numbered("seq*.input_ids");
        let alone = parity::logprobs(net, &sequences, WAYS[0]).unwrap();
        for (i, found) in alone.iter().enumerate() {
            let expected = &reference.0[&format!("seq{i}.target_logprobs")];
            let worst = found.iter().zip(expected).fold(0f64, |m, (&f, e)| m.max((f64::from(f) - e).abs()));
            assert!(found.len() == expected.len() && worst <= 1e-5, "{name}, sequence {i}: off by {worst:.2e}");
        }
        for how in WAYS {
            assert_eq!(parity::logprobs(net, &sequences, how).unwrap(), alone, "{name}: {how:?} changed bits");
        }
    });
}

#[test]
fn gradients_match_alone() {
    each(|name, net, reference| {
        let sequences = reference.numbered("seq*.input_ids");
        let weights: Vec<_> = (0..sequences.len()).map(|i| reference.floats(&format!("seq{i}.weights"))).collect();
        for how in WAYS.into_iter().filter(|h| !h.packed) {
            for (i, grads) in parity::gradients(net, &sequences, &weights, how).unwrap().iter().enumerate() {
                for (parameter, (_, found)) in grads {
                    let expected = &reference.0[&format!("seq{i}.grad.{parameter}")];
                    assert_norm(found, expected, 1e-4, &format!("{name}, {how:?}, sequence {i}, {parameter}"));
                }
                let recorded = reference.0.keys().filter(|k| k.starts_with(&format!("seq{i}.grad."))).count();
                assert_eq!(recorded, grads.len(), "{name}: a parameter has no gradient");
            }
        }
    });
}

#[test]
fn gradients_match_packed() {
    each(|name, net, reference| {
        let sequences = reference.numbered("seq*.input_ids");
        let weights: Vec<_> = (0..sequences.len()).map(|i| reference.floats(&format!("seq{i}.weights"))).collect();
        for how in WAYS.into_iter().filter(|h| h.packed) {
            let grads = &parity::gradients(net, &sequences, &weights, how).unwrap()[0];
            for (parameter, (_, found)) in grads {
                let each = (0..sequences.len()).map(|i| &reference.0[&format!("seq{i}.grad.{parameter}")]);
                let sum = each.fold(vec![0.0; found.len()], |s, g| s.iter().zip(g).map(|(a, b)| a + b).collect());
                assert_norm(found, &sum, 1e-4, &format!("{name}, {how:?}, {parameter}"));
            }
        }
    });
}

#[test]
fn greedy_tokens_match() {
    each(|name, net, reference| {
        for (i, prompt) in reference.numbered("greedy*.prompt").iter().enumerate() {
            let expected = reference.ids(&format!("greedy{i}.tokens")).unwrap();
            let found = parity::greedy(net, prompt, expected.len()).unwrap();
            assert_eq!(found, expected, "{name}, prompt {i}");
        }
    });
}
