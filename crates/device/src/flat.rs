//! Flat f32 arrays on the device: gradients.

use std::borrow::Cow;
use std::sync::Arc;

use hone_cuda::{Buffer, ViewMut};
use hone_engine::{EngineError, Result};

use crate::cuda::{Shared, fault};
use crate::loan::Loan;

/// Flat array. Memory is allocated on first use, where a failure can be reported.
#[derive(Debug)]
pub struct Flat {
    shared: Arc<Shared>,
    len: usize,
    /// Absent: zeros.
    buffer: Option<Arc<Buffer<f32>>>,
    /// The content counts as zeros, and is overwritten or zeroed when it is next written to: a gradient of billions is not
    /// passed over once more than needed. Until then the memory is lent to activations.
    cleared: bool,
}

impl Flat {
    pub(crate) fn zeros(shared: &Arc<Shared>, len: usize) -> Self {
        Self { shared: Arc::clone(shared), len, buffer: None, cleared: false }
    }

    pub(crate) fn clear(&mut self) {
        self.cleared = true;
        if let Some(buffer) = &self.buffer {
            self.shared.idle.offer(buffer);
        }
    }

    pub(crate) fn read(&self) -> Result<Cow<'_, [f32]>> {
        match self.buffer() {
            Some(buffer) => Ok(Cow::Owned(buffer.read().map_err(fault)?)),
            None => Ok(Cow::Owned(vec![0.0; self.len])),
        }
    }

    pub(crate) fn write(&mut self, values: &[f32]) -> Result<()> {
        let (buffer, _) = self.overwritten(None)?;
        let lent = || EngineError::State("a gradient is written while activations lie in its memory".into());
        Arc::get_mut(buffer).ok_or_else(lent)?.write(values).map_err(fault)
    }

    /// The array to be overwritten where the second is true, and to be added to where not. Values between tensors are zeros in
    /// both. A `loan` of this very array is of the pass that writes it; activations of another pass keep the memory they lie in,
    /// and the array moves.
    pub(crate) fn overwritten(&mut self, loan: Option<&Loan>) -> Result<(&mut Arc<Buffer<f32>>, bool)> {
        let held = self.buffer.take().inspect(|buffer| self.shared.idle.withdraw(buffer));
        let writable = |buffer: &Arc<_>| Arc::strong_count(buffer) == 1 || loan.is_some_and(|loan| loan.is_of(buffer));
        let (buffer, fresh) = match held {
            Some(buffer) if !self.cleared || writable(&buffer) => (buffer, self.cleared),
            _ => (Arc::new(Buffer::zeros(&self.shared.gpu, self.len).map_err(fault)?), true),
        };
        self.cleared = false;
        Ok((self.buffer.insert(buffer), fresh))
    }

    /// The array to be added to.
    pub(crate) fn view_mut(&mut self) -> Result<ViewMut<'_, f32>> {
        let (stale, shared) = (self.cleared && self.buffer.is_some(), Arc::clone(&self.shared));
        let (buffer, _) = self.overwritten(None)?;
        let mut view = buffer.lent_mut();
        if stale {
            view.clear(&shared.gpu).map_err(fault)?;
        }
        Ok(view)
    }

    /// The array where something was written to it since it was cleared.
    pub(crate) fn buffer(&self) -> Option<&Buffer<f32>> {
        self.buffer.as_deref().filter(|_| !self.cleared)
    }
}
