//! Watch over the outputs of a step's kernels: finds the first that is not finite. Off except for a step that went
//! wrong, which is then repeated under it.

#![expect(unsafe_code, reason = "launches kernels over buffers just written")]

use std::sync::{Mutex, PoisonError};

use crate::buffer::{Buffer, Float};
use crate::error::Result;
use crate::gpu::{Gpu, Launch};

/// Outputs seen so far, by name, and the number of the first that was not finite.
#[derive(Debug)]
pub struct Watch {
    names: Mutex<Vec<String>>,
    flag: Buffer<i32>,
    /// Look at the outputs; without it they are only counted.
    looks: bool,
    /// Output that is made not finite, for tests.
    poisoned: Option<String>,
}

impl Watch {
    /// A watch that `looks` at outputs or only counts them. The output named `poisoned` is made not finite, for tests.
    pub fn new(gpu: &Gpu, looks: bool, poisoned: Option<String>) -> Result<Self> {
        let mut flag = Buffer::uninit(gpu, 1)?;
        // A number that no output has, without a wait for the device.
        flag.fill_bytes(0x7f)?;
        Ok(Self { names: Mutex::default(), flag, looks, poisoned })
    }

    /// Notes an output just written.
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

    /// Every output seen, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
