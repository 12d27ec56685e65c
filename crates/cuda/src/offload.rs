//! Optimizer offload: moments in host memory. A step brings them to the device and back slice by slice; copies in both
//! directions overlap with the update of another slice.

#![expect(unsafe_code, reason = "page-locked memory and copies go through the driver's C interface")]

use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::{CudaEvent, CudaStream, sys};

use crate::adamw::{self, DECAY, Factors, Gradient, Parameters};
use crate::buffer::{Buffer, Float};
use crate::error::{CudaError, Result, ensure};
use crate::gpu::Gpu;
use crate::moments::MomentsMut;

/// Slice size in parameters: large enough for the full rate of the bus.
const SLICE: usize = 1 << 24;
/// Number of slices on the device at a time: one arrives, one is updated, one leaves.
const SLOTS: usize = 3;

/// Page-locked host memory of f32 values, initially zeros.
#[derive(Debug)]
struct Pinned {
    gpu: Gpu,
    pointer: *mut f32,
    len: usize,
}

// SAFETY: plain memory; access follows Rust's rules, and copies are waited for before a method returns.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    fn zeros(gpu: &Gpu, len: usize) -> Result<Self> {
        let bytes = (len * size_of::<f32>()).max(16);
        gpu.bind()?;
        let mut pointer = std::ptr::null_mut();
        // SAFETY: the context is current and `pointer` outlives the call.
        let code = unsafe { sys::cuMemHostAlloc(&raw mut pointer, bytes, 0) };
        if code == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Err(CudaError::HostMemory { asked: bytes });
        }
        code.result().map_err(CudaError::driver("cuMemHostAlloc"))?;
        // SAFETY: the allocation has that many bytes, and zeros are floats.
        unsafe { std::ptr::write_bytes(pointer.cast::<u8>(), 0, bytes) };
        Ok(Self { gpu: gpu.clone(), pointer: pointer.cast(), len })
    }

    fn values(&self) -> &[f32] {
        // SAFETY: the allocation is `len` initialised floats and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.pointer, self.len) }
    }

    fn values_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above; `self` is borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.len) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: allocated by `zeros` and freed once; no copy is in flight between calls.
            let _ = unsafe { sys::cuMemFreeHost(self.pointer.cast()) };
        }
    }
}

/// Slot of a slice on the device.
#[derive(Debug)]
struct Slot {
    m: Buffer<f32>,
    v: Buffer<f32>,
    /// Event after its last slice has been copied back.
    free: Option<CudaEvent>,
}

/// First and second moments in host memory.
#[derive(Debug)]
pub struct HostMoments {
    gpu: Gpu,
    m: Pinned,
    v: Pinned,
    inward: Arc<CudaStream>,
    outward: Arc<CudaStream>,
}

impl HostMoments {
    /// Moments of `len` parameters before their first step.
    pub fn zeros(gpu: &Gpu, len: usize) -> Result<Self> {
        let (m, v) = (Pinned::zeros(gpu, len)?, Pinned::zeros(gpu, len)?);
        Ok(Self { gpu: gpu.clone(), m, v, inward: gpu.new_stream()?, outward: gpu.new_stream()? })
    }

    /// Device memory in bytes that a step takes for moments of `len` parameters.
    pub fn device_bytes(len: usize) -> u64 {
        let slots = len.div_ceil(SLICE).min(SLOTS);
        (2 * size_of::<f32>() * slots * len.min(SLICE)) as u64
    }

    pub fn read(&self) -> [&[f32]; 2] {
        [self.m.values(), self.v.values()]
    }

    pub fn write(&mut self, [m, v]: [&[f32]; 2]) -> Result<()> {
        ensure(m.len() == self.m.len && v.len() == self.v.len, "moments", || {
            format!("{} and {} into {}", m.len(), v.len(), self.m.len)
        })?;
        self.m.values_mut().copy_from_slice(m);
        self.v.values_mut().copy_from_slice(v);
        Ok(())
    }

    /// One step of AdamW, like [`adamw::step`]. Waits until the moments are back on the host.
    pub fn step<T: Float>(
        &mut self,
        factors: Factors,
        parameters: &mut Parameters<'_, T>,
        gradient: Gradient<'_>,
    ) -> Result<()> {
        let len = gradient.values.len();
        ensure(self.m.len == len && parameters.weight.len() == len, "adamw", || {
            format!("gradient {len}, weights {}, moments {}", parameters.weight.len(), self.m.len)
        })?;
        let done = self.queue(factors, parameters, gradient);
        // Copies must have ended before anybody looks at the host's memory, whatever failed on the way.
        let waited = [&self.inward, &self.outward].map(|s| s.synchronize().map_err(CudaError::driver("moments")));
        self.gpu.wait()?;
        done?;
        waited.into_iter().collect()
    }

    fn queue<T: Float>(
        &mut self,
        factors: Factors,
        parameters: &mut Parameters<'_, T>,
        gradient: Gradient<'_>,
    ) -> Result<()> {
        let len = gradient.values.len();
        let slices: Vec<Range<usize>> = (0..len).step_by(SLICE).map(|at| at..(at + SLICE).min(len)).collect();
        let mut slots = Vec::new();
        for _ in 0..slices.len().min(SLOTS) {
            let (m, v) = (Buffer::uninit(&self.gpu, SLICE.min(len))?, Buffer::uninit(&self.gpu, SLICE.min(len))?);
            slots.push(Slot { m, v, free: None });
        }
        // The device's own stream has made the slots.
        let made = self.gpu.mark()?;
        self.inward.wait(&made).map_err(CudaError::driver("cuStreamWaitEvent"))?;
        for (number, range) in slices.into_iter().enumerate() {
            let slot = &mut slots[number % SLOTS];
            self.slice(range, slot, factors, parameters, gradient)?;
        }
        // Slots are freed in the order of the device's own stream: after the last copy out of them.
        for slot in &slots {
            if let Some(free) = &slot.free {
                self.gpu.wait_for(free)?;
            }
        }
        Ok(())
    }

    /// Queues one slice: in, update, out.
    fn slice<T: Float>(
        &mut self,
        range: Range<usize>,
        slot: &mut Slot,
        factors: Factors,
        parameters: &mut Parameters<'_, T>,
        gradient: Gradient<'_>,
    ) -> Result<()> {
        if let Some(free) = &slot.free {
            self.inward.wait(free).map_err(CudaError::driver("cuStreamWaitEvent"))?;
        }
        bring(&self.inward, &self.m.values()[range.clone()], &mut slot.m)?;
        bring(&self.inward, &self.v.values()[range.clone()], &mut slot.v)?;
        let here = self.inward.record_event(None).map_err(CudaError::driver("cuEventRecord"))?;
        self.gpu.wait_for(&here)?;
        let mut part = Parameters {
            weight: parameters.weight.slice(range.clone()),
            low: parameters.low.as_mut().map(|low| low.slice(range.clone())),
        };
        let count = range.len();
        let mut moments = MomentsMut::Full { m: slot.m.first_mut(count), v: slot.v.first_mut(count) };
        let flags = range.start / DECAY..range.end.div_ceil(DECAY);
        let gradient = Gradient {
            values: gradient.values.slice(range.clone()),
            decays: gradient.decays.map(|decays| decays.slice(flags)),
            norm: gradient.norm,
        };
        adamw::step(&self.gpu, factors, &mut part, &mut moments, gradient)?;
        let updated = self.gpu.mark()?;
        self.outward.wait(&updated).map_err(CudaError::driver("cuStreamWaitEvent"))?;
        take(&self.outward, &slot.m, &mut self.m.values_mut()[range.clone()])?;
        take(&self.outward, &slot.v, &mut self.v.values_mut()[range])?;
        slot.free = Some(self.outward.record_event(None).map_err(CudaError::driver("cuEventRecord"))?);
        Ok(())
    }
}

fn bring<E: Pod>(stream: &CudaStream, from: &[E], to: &mut Buffer<E>) -> Result<()> {
    let bytes = size_of_val(from);
    // SAFETY: the slot is at least as long as a slice; the caller waits for the stream before `from` may change.
    unsafe { sys::cuMemcpyHtoDAsync_v2(to.raw(), from.as_ptr().cast(), bytes, stream.cu_stream()) }
        .result()
        .map_err(CudaError::driver("cuMemcpyHtoDAsync"))
}

fn take<E: Pod>(stream: &CudaStream, from: &Buffer<E>, to: &mut [E]) -> Result<()> {
    // SAFETY: the slot is at least as long as a slice; the caller waits for the stream before `to` is read.
    unsafe { sys::cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from.raw(), size_of_val(to), stream.cu_stream()) }
        .result()
        .map_err(CudaError::driver("cuMemcpyDtoHAsync"))
}
