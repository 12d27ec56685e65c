//! The engine these tests run on: the native one on a GPU, with the same small model.

#[path = "../native/engine.rs"]
#[expect(dead_code, reason = "what differs is below")]
mod on_the_cpu;

pub(crate) use on_the_cpu::{config, state};

pub(crate) const KIND: hone_device::Native = hone_device::Native;

/// Settings of the engine in every recipe.
pub(crate) const SETTINGS: &[&str] = &["engine.device=\"cuda\""];

/// Difference between two passes over the same tokens in other batches, in bf16.
pub(crate) const ROUNDING: f64 = 0.05;
