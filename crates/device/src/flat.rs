//! Flat f32 arrays on the device: gradients.

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
    /// The content counts as zeros, and is overwritten or zeroed when it is next written to: a gradient of billions is not
    /// passed over once more than needed.
    cleared: bool,
}

impl Flat {
    pub(crate) fn zeros(gpu: &Gpu, len: usize) -> Self {
        Self { gpu: gpu.clone(), len, buffer: None, cleared: false }
    }

    pub(crate) fn clear(&mut self) {
        self.cleared = true;
    }

    pub(crate) fn read(&self) -> Result<Cow<'_, [f32]>> {
        match self.buffer() {
            Some(buffer) => Ok(Cow::Owned(buffer.read().map_err(fault)?)),
            None => Ok(Cow::Owned(vec![0.0; self.len])),
        }
    }

    pub(crate) fn write(&mut self, values: &[f32]) -> Result<()> {
        self.overwritten()?.0.write(values).map_err(fault)
    }

    /// The array to be overwritten where the second is true, and to be added to where not. Values between tensors are zeros in
    /// both.
    pub(crate) fn overwritten(&mut self) -> Result<(&mut Buffer<f32>, bool)> {
        let (buffer, fresh) = match self.buffer.take() {
            Some(buffer) => (buffer, self.cleared),
            None => (Buffer::zeros(&self.gpu, self.len).map_err(fault)?, true),
        };
        self.cleared = false;
        Ok((self.buffer.insert(buffer), fresh))
    }

    /// The array to be added to.
    pub(crate) fn view_mut(&mut self) -> Result<ViewMut<'_, f32>> {
        let stale = self.cleared && self.buffer.is_some();
        let (buffer, _) = self.overwritten()?;
        if stale {
            buffer.fill_bytes(0).map_err(fault)?;
        }
        Ok(buffer.view_mut())
    }

    /// The array where something was written to it since it was cleared.
    pub(crate) fn buffer(&self) -> Option<&Buffer<f32>> {
        self.buffer.as_ref().filter(|_| !self.cleared)
    }
}
