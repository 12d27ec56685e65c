//! CUDA graphs: a series of launches recorded once and queued by one call, which costs the host microseconds regardless
//! of the number of kernels.

#![expect(unsafe_code, reason = "capture and replay go through the driver's C interface")]

use cudarc::driver::sys;

use crate::error::{CudaError, Result};
use crate::gpu::Gpu;

/// Recorded launches. Their arguments are fixed: the memory they name must outlive every launch of the graph.
#[derive(Debug)]
pub struct Graph {
    gpu: Gpu,
    exec: sys::CUgraphExec,
}
// SAFETY: the driver's handle may be used from any thread that has the context current, and `bind` makes it so.
unsafe impl Send for Graph {}

impl Graph {
    /// Records the work that `body` queues on the stream of `gpu`, without running it. `body` must not allocate except
    /// from a [`Scratch`](crate::scratch::Scratch), copy to or from the host, or wait, and every kernel in it must have
    /// been launched before (loading one cannot be recorded).
    pub fn record(gpu: &Gpu, body: impl FnOnce() -> Result<()>) -> Result<Self> {
        Self::begin(gpu)?;
        let queued = body();
        let recorded = Self::end(gpu);
        queued?;
        recorded
    }

    /// Starts recording the work this thread queues on the stream of `gpu`; [`Graph::end`] must follow, whatever
    /// happens in between.
    pub fn begin(gpu: &Gpu) -> Result<()> {
        gpu.bind()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is live and not being captured: only `begin` captures.
        unsafe { sys::cuStreamBeginCapture_v2(gpu.stream(), mode) }
            .result()
            .map_err(CudaError::driver("cuStreamBeginCapture"))
    }

    pub fn end(gpu: &Gpu) -> Result<Self> {
        let mut graph = std::ptr::null_mut();
        // SAFETY: ends the capture begun above, whatever the body did.
        unsafe { sys::cuStreamEndCapture(gpu.stream(), &raw mut graph) }
            .result()
            .map_err(CudaError::driver("cuStreamEndCapture"))?;
        let mut exec = std::ptr::null_mut();
        // SAFETY: the graph was just captured; instantiated once and destroyed once.
        let made = unsafe {
            let made = sys::cuGraphInstantiateWithFlags(&raw mut exec, graph, 0);
            sys::cuGraphDestroy(graph);
            made
        };
        made.result().map_err(CudaError::driver("cuGraphInstantiate"))?;
        Ok(Self { gpu: gpu.clone(), exec })
    }

    /// Queues the recorded launches on the stream they were recorded on.
    pub fn launch(&self) -> Result<()> {
        self.launch_on(&self.gpu)
    }

    /// Queues the recorded launches on another stream of the same device.
    pub fn launch_on(&self, gpu: &Gpu) -> Result<()> {
        gpu.bind()?;
        // SAFETY: the graph is live; the memory it names is its owner's to keep.
        unsafe { sys::cuGraphLaunch(self.exec, gpu.stream()) }.result().map_err(CudaError::driver("cuGraphLaunch"))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            // SAFETY: instantiated in `record` and destroyed once; launches in flight keep what they need.
            let _ = unsafe { sys::cuGraphExecDestroy(self.exec) };
        }
    }
}
