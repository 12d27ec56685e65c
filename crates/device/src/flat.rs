//! Flat f32 arrays on the device: gradients and moments.

use std::borrow::Cow;

use hone_cuda::{Buffer, Gpu, ViewMut};
use hone_engine::Result;

use crate::cuda::fault;

/// Flat array. Memory is allocated on first use, where a failure can be reported.
#[derive(Debug)]
pub struct Flat {
    gpu: Gpu,
    len: usize,
    /// Absent: zeros.
    buffer: Option<Buffer<f32>>,
}

impl Flat {
    pub(crate) fn zeros(gpu: &Gpu, len: usize) -> Self {
        Self { gpu: gpu.clone(), len, buffer: None }
    }

    pub(crate) fn clear(&mut self) {
        if let Some(buffer) = &mut self.buffer
            && buffer.fill_bytes(0).is_err()
        {
            // The device reports the error on its next use; none of the old content may remain.
            self.buffer = None;
        }
    }

    pub(crate) fn read(&self) -> Result<Cow<'_, [f32]>> {
        match &self.buffer {
            Some(buffer) => Ok(Cow::Owned(buffer.read().map_err(fault)?)),
            None => Ok(Cow::Owned(vec![0.0; self.len])),
        }
    }

    pub(crate) fn write(&mut self, values: &[f32]) -> Result<()> {
        self.made()?.write(values).map_err(fault)
    }

    pub(crate) fn made(&mut self) -> Result<&mut Buffer<f32>> {
        let made = match self.buffer.take() {
            Some(buffer) => buffer,
            None => Buffer::zeros(&self.gpu, self.len).map_err(fault)?,
        };
        Ok(self.buffer.insert(made))
    }

    pub(crate) fn view_mut(&mut self) -> Result<ViewMut<'_, f32>> {
        Ok(self.made()?.view_mut())
    }

    /// The array where something was ever written to it.
    pub(crate) fn buffer(&self) -> Option<&Buffer<f32>> {
        self.buffer.as_ref()
    }
}
