//! Flat f32 arrays on the device: gradients.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hone_cuda::{Buffer, ViewMut};
use hone_engine::{EngineError, Result};

use crate::cuda::{Shared, fault};
use crate::loan::Loan;

/// Flat array. Memory is allocated on first use, where a failure can be reported.
#[derive(Debug)]
pub struct Flat {
    shared: Arc<Shared>,
    len: usize,
    /// Absent while all values are zero.
    buffer: Option<Arc<Buffer<f32>>>,
    /// Held until the array is allocated.
    promise: Option<Promise>,
    /// True if the content counts as zeros. It is overwritten or zeroed at the next write, which saves a pass over billions of
    /// gradients; until then the memory is lent to activations.
    cleared: bool,
}

impl Flat {
    pub(crate) fn zeros(shared: &Arc<Shared>, len: usize) -> Self {
        let promise = Some(Promise::new(shared, len));
        Self { shared: Arc::clone(shared), len, buffer: None, promise, cleared: false }
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
        let lent = || {
            EngineError::Device(
                "a gradient is written while activations occupy its memory; this is a defect of Hone, please report it"
                    .into(),
            )
        };
        Arc::get_mut(buffer).ok_or_else(lent)?.write(values).map_err(fault)
    }

    /// Array to overwrite (true) or accumulate into (false); gaps between tensors stay zero. `loan` is the loan of the pass that
    /// writes; if another pass has activations in the memory, they keep it and the array is reallocated.
    pub(crate) fn overwritten(&mut self, loan: Option<&Loan>) -> Result<(&mut Arc<Buffer<f32>>, bool)> {
        let held = self.buffer.take().inspect(|buffer| self.shared.idle.withdraw(buffer));
        let writable = |buffer: &Arc<_>| Arc::strong_count(buffer) == 1 || loan.is_some_and(|loan| loan.is_of(buffer));
        let (buffer, fresh) = match held {
            Some(buffer) if !self.cleared || writable(&buffer) => (buffer, self.cleared),
            _ => (Arc::new(Buffer::zeros(&self.shared.gpu, self.len).map_err(fault)?), true),
        };
        self.promise = None;
        self.cleared = false;
        Ok((self.buffer.insert(buffer), fresh))
    }

    /// Array to accumulate into.
    pub(crate) fn view_mut(&mut self) -> Result<ViewMut<'_, f32>> {
        let (stale, shared) = (self.cleared && self.buffer.is_some(), Arc::clone(&self.shared));
        let (buffer, _) = self.overwritten(None)?;
        let mut view = buffer.lent_mut();
        if stale {
            view.clear(&shared.gpu).map_err(fault)?;
        }
        Ok(view)
    }

    /// The array, if it has been written since it was cleared.
    pub(crate) fn buffer(&self) -> Option<&Buffer<f32>> {
        self.buffer.as_deref().filter(|_| !self.cleared)
    }
}

/// Memory that an array will take when it is first written, so that no pass takes it before.
#[derive(Debug)]
struct Promise {
    shared: Arc<Shared>,
    bytes: u64,
}

impl Promise {
    fn new(shared: &Arc<Shared>, len: usize) -> Self {
        let bytes = (len * size_of::<f32>()) as u64;
        shared.promised.fetch_add(bytes, Ordering::Relaxed);
        Self { shared: Arc::clone(shared), bytes }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.shared.promised.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
