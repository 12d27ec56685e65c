//! Fingerprint of a model's weights: identifies the base of an adapter.

use std::cell::RefCell;
use std::collections::BTreeMap;

use hone_trace::Digest;

use crate::error::Result;
use crate::weights::{Param, Table, TensorSource};

/// Maximum number of values sampled from a tensor.
const SAMPLED: usize = 1024;

/// Tensor source that records a digest of every tensor read through it.
pub(crate) struct Noted<'s> {
    source: &'s dyn TensorSource,
    seen: RefCell<BTreeMap<String, Digest>>,
}

impl<'s> Noted<'s> {
    pub(crate) fn new(source: &'s dyn TensorSource) -> Self {
        Self { source, seen: RefCell::default() }
    }

    /// Fingerprint of the tensors read; `None` unless all of the table were.
    pub(crate) fn fingerprint(self, table: &Table) -> Option<Digest> {
        let seen = self.seen.into_inner();
        (seen.len() == table.params.len()).then(|| whole(&seen))
    }
}

impl TensorSource for Noted<'_> {
    fn read(&self, param: &Param, out: &mut [f32]) -> Result<()> {
        self.source.read(param, out)?;
        self.seen.borrow_mut().insert(param.name.clone(), tensor(param, out));
        Ok(())
    }
}

/// Fingerprint of values laid out by a table.
pub(crate) fn fingerprint(table: &Table, values: &[f32]) -> Digest {
    let seen = table.params.iter().map(|param| (param.name.clone(), tensor(param, &values[param.range.clone()])));
    whole(&seen.collect())
}

/// Values spread over the tensor, rounded to bf16: a model has one fingerprint in any precision it is stored in.
fn tensor(param: &Param, values: &[f32]) -> Digest {
    let mut bytes = format!("{:?}", param.shape).into_bytes();
    let spread = values.iter().step_by(values.len().div_ceil(SAMPLED).max(1));
    bytes.extend(spread.flat_map(|value| half::bf16::from_f32(*value).to_le_bytes()));
    Digest::of(&bytes)
}

fn whole(seen: &BTreeMap<String, Digest>) -> Digest {
    let lines: Vec<String> = seen.iter().map(|(name, digest)| format!("{name} {digest}\n")).collect();
    Digest::of(lines.concat().as_bytes())
}
