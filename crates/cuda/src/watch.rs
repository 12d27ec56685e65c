//! Watch for non-finite kernel outputs: finds the first of a step. It is on only when a step that went wrong is rerun.
//! [`finite`] checks one buffer, such as the weights after a step.

#![expect(unsafe_code, reason = "launches kernels over buffers just written")]

use std::sync::{Mutex, PoisonError};

use crate::buffer::{Buffer, Float};
use crate::error::Result;
use crate::gpu::{Gpu, Launch};

/// True if every element is a finite number. Waits for the device.
pub fn finite<T: Float>(gpu: &Gpu, output: &Buffer<T>) -> Result<bool> {
    let watch = Watch::new(gpu, true, None)?;
    watch.see(gpu, String::new(), output)?;
    Ok(watch.found()?.is_none())
}

/// Watch: names of the outputs seen so far, and the index of the first that was not finite.
#[derive(Debug)]
pub struct Watch {
    names: Mutex<Vec<String>>,
    flag: Buffer<i32>,
    /// True to check the outputs; otherwise they are only counted.
    looks: bool,
    /// Name of an output to make non-finite, for tests.
    poisoned: Option<String>,
}

impl Watch {
    /// Watch that checks outputs if `looks`, else only counts them. The output named `poisoned` is made non-finite, for tests.
    pub fn new(gpu: &Gpu, looks: bool, poisoned: Option<String>) -> Result<Self> {
        let mut flag = Buffer::uninit(gpu, 1)?;
        // A number that no output has, without a wait for the device.
        flag.fill_bytes(0x7f)?;
        Ok(Self { names: Mutex::default(), flag, looks, poisoned })
    }

    /// Records an output just written.
    pub fn see<T: Float>(&self, gpu: &Gpu, name: String, output: &Buffer<T>) -> Result<()> {
        let poisoned = self.poisoned.as_ref() == Some(&name);
        let index = {
            let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            names.push(name);
            names.len() - 1
        };
        let (view, len) = (output.view(), output.len());
        if len == 0 {
            return Ok(());
        }
        if poisoned {
            let kernel = format!("poison_{}", T::SUFFIX);
            let launch = Launch { module: "watch", kernel: &kernel, grid: (1, 1), block: 1, shared: 0 };
            // SAFETY: the place lies within the buffer, which no one else names while the step runs.
            unsafe { gpu.launch(launch, &[view.into(), ((len / 2) as i64).into()]) }?;
        }
        if self.looks {
            let kernel = format!("watch_{}", T::SUFFIX);
            let grid = (len.div_ceil(4096).clamp(1, 4096) as u32, 1);
            let launch = Launch { module: "watch", kernel: &kernel, grid, block: 256, shared: 0 };
            let args = [view.into(), (len as i64).into(), index.into(), self.flag.view().into()];
            // SAFETY: as watch declares; the flag is this watch's own, changed by nothing but these launches.
            unsafe { gpu.launch(launch, &args) }?;
        }
        Ok(())
    }

    /// Name of the first output that is not finite. Waits for the device.
    pub fn found(&self) -> Result<Option<String>> {
        let first = self.flag.read()?[0];
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(usize::try_from(first).ok().and_then(|i| names.get(i).cloned()))
    }

    /// Names of all outputs seen, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
