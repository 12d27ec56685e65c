//! One GPU: context, stream, kernels by name, timers.
//!
//! A [`Gpu`] has one stream; whatever is launched, copied or freed through it happens in that order. It is cheap to clone
//! and may go to another thread.

#![expect(unsafe_code, reason = "kernels are launched through the driver's C interface")]

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::{CudaContext, CudaEvent, CudaStream, result, sys};

use crate::compile::{Compiler, SOURCES, cache_folder};
use crate::error::{CudaError, Result};
pub(crate) use crate::launch::{Arg, Launch};
use crate::matmul::Blas;
use crate::scratch::Scratch;

/// Minimum CUDA version of the driver.
const DRIVER: i32 = 12_000;

#[derive(Clone)]
pub struct Gpu {
    inner: Arc<Inner>,
    stream: Arc<CudaStream>,
    /// Memory of the buffers made through this handle; `None` for the device's pool.
    scratch: Option<Arc<Scratch>>,
    /// True if launches are recorded and not run.
    recording: bool,
}

struct Inner {
    context: Arc<CudaContext>,
    name: String,
    capability: (i32, i32),
    processors: u32,
    shared_memory: usize,
    driver: i32,
    compiler: Compiler,
    kernels: Mutex<Kernels>,
    blas: OnceLock<Blas>,
    profile: Mutex<Option<Vec<Span>>>,
}

/// One launch while profiling: its name, and the marks before and after it.
type Span = (String, CudaEvent, CudaEvent);

/// Time of all launches of one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelTime {
    pub kernel: String,
    pub launches: usize,
    pub ms: f64,
}

#[derive(Default)]
struct Kernels {
    modules: HashMap<&'static str, Module>,
    functions: HashMap<(&'static str, String), Function>,
}

#[derive(Clone, Copy)]
struct Module(sys::CUmodule);
#[derive(Clone, Copy)]
struct Function(sys::CUfunction);
// SAFETY: the driver's handles may be used from any thread that has the context current, and `bind` makes it so.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Send for Function {}

impl Gpu {
    /// Opens a device and checks for everything the kernels need, so that a missing library is reported now and not in
    /// a step.
    pub fn open(ordinal: usize) -> Result<Self> {
        Self::open_as(ordinal, true)
    }

    /// Opens a device without the instructions specific to its architecture, as a later architecture would run it.
    pub fn open_portable(ordinal: usize) -> Result<Self> {
        Self::open_as(ordinal, false)
    }

    fn open_as(ordinal: usize, own: bool) -> Result<Self> {
        // SAFETY: only looks the library up.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoDriver);
        }
        let driver = driver_version()?;
        if driver < DRIVER {
            return Err(CudaError::OldDriver { found: driver, need: DRIVER, needs: "Hone" });
        }
        let count = devices()?;
        if ordinal >= count {
            return Err(CudaError::NoDevice { ordinal, count });
        }
        let context = CudaContext::new(ordinal).map_err(CudaError::driver("opening the device"))?;
        let name = context.name().map_err(CudaError::driver("cuDeviceGetName"))?;
        let (major, minor) = context.compute_capability().map_err(CudaError::driver("cuDeviceGetAttribute"))?;
        let attribute = |which| context.attribute(which).map_err(CudaError::driver("cuDeviceGetAttribute"));
        let processors = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let shared_memory = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let arch = architecture(&name, (major, minor))?;
        let own = if own && arch == 90 && minor == 0 { "a" } else { "" };
        let compiler = Compiler::new(format!("sm_{arch}{own}"), cache_folder())?;
        let need = compiler.cuda_version() / 1000 * 1000;
        if driver < need {
            return Err(CudaError::OldDriver { found: driver, need, needs: "the NVRTC found" });
        }
        let stream = context.new_stream().map_err(CudaError::driver("cuStreamCreate"))?;
        keep_freed_memory(&context)?;
        let inner = Inner {
            context,
            name,
            capability: (major, minor),
            processors: processors as u32,
            shared_memory: shared_memory.max(0) as usize,
            driver,
            compiler,
            kernels: Mutex::default(),
            blas: OnceLock::new(),
            profile: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner), stream, scratch: None, recording: false })
    }

    /// Handle of the same stream, with buffers out of `scratch`.
    #[must_use]
    pub fn with_scratch(&self, scratch: &Arc<Scratch>) -> Self {
        Self { scratch: Some(Arc::clone(scratch)), ..self.clone() }
    }

    /// Handle of a stream on which nothing runs, for [`Graph::record`](crate::graph::Graph::record), with buffers out of `scratch`.
    /// Launches of other threads do not get into the recording.
    pub fn recorder(&self, scratch: &Arc<Scratch>) -> Result<Self> {
        let stream = self.inner.context.new_stream().map_err(CudaError::driver("cuStreamCreate"))?;
        Ok(Self { stream, scratch: Some(Arc::clone(scratch)), recording: true, ..self.clone() })
    }

    pub(crate) fn scratch(&self) -> Option<&Scratch> {
        self.scratch.as_deref()
    }

    pub(crate) fn is_recording(&self) -> bool {
        self.recording
    }

    pub fn name(&self) -> &str {
        &self.inner.name
    }

    pub fn capability(&self) -> (i32, i32) {
        self.inner.capability
    }

    /// True if kernels are compiled with the instructions only Hopper has.
    pub fn hopper(&self) -> bool {
        self.inner.compiler.arch() == "sm_90a"
    }

    /// Bytes per second of the device's memory at its full clock, if the driver says so.
    pub fn bandwidth(&self) -> Option<f64> {
        let attribute = |which| self.inner.context.attribute(which).ok().filter(|&value| value > 0).map(f64::from);
        let kilohertz = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?;
        let bits = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?;
        // Two transfers per clock.
        Some(2.0 * 1e3 * kilohertz * bits / 8.0)
    }

    /// Number of streaming multiprocessors.
    pub fn processors(&self) -> u32 {
        self.inner.processors
    }

    /// Bytes of shared memory that a block may have.
    pub fn shared_memory(&self) -> usize {
        self.inner.shared_memory
    }

    /// CUDA version the driver supports (13.0 is 13000).
    pub fn driver(&self) -> i32 {
        self.inner.driver
    }

    pub fn compiler(&self) -> &Compiler {
        &self.inner.compiler
    }

    /// Free and total memory of the device, in bytes.
    pub fn memory(&self) -> Result<(usize, usize)> {
        self.bind()?;
        result::mem_get_info().map_err(CudaError::driver("cuMemGetInfo"))
    }

    /// Available memory in bytes: free on the device, or freed by this process and kept.
    pub fn available(&self) -> Result<u64> {
        let kept = self.pool_bytes(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
        Ok(self.memory()?.0 as u64 + kept.saturating_sub(self.used()?))
    }

    /// Memory in use by this process's buffers, in bytes.
    pub fn used(&self) -> Result<u64> {
        self.pool_bytes(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
    }

    /// Peak memory in use by this process's buffers since the last [`Self::reset_peak`], in bytes.
    pub fn peak(&self) -> Result<u64> {
        self.pool_bytes(sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)
    }

    fn pool_bytes(&self, attribute: sys::CUmemPool_attribute) -> Result<u64> {
        let mut value = 0u64;
        let pool = pool(&self.inner.context)?;
        // SAFETY: the attribute is a 64-bit integer.
        unsafe { sys::cuMemPoolGetAttribute(pool, attribute, (&raw mut value).cast()) }
            .result()
            .map_err(CudaError::driver("cuMemPoolGetAttribute"))?;
        Ok(value)
    }

    pub fn reset_peak(&self) -> Result<()> {
        let mut value = 0u64;
        let pool = pool(&self.inner.context)?;
        let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH;
        // SAFETY: the attribute is a 64-bit integer, and zero resets it.
        unsafe { sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut value).cast()) }
            .result()
            .map_err(CudaError::driver("cuMemPoolSetAttribute"))
    }

    /// Waits for everything queued, and reports kernels that failed.
    pub fn wait(&self) -> Result<()> {
        self.stream.synchronize().map_err(CudaError::driver("waiting for the GPU"))
    }

    /// Second stream of the device, for copies.
    pub(crate) fn new_stream(&self) -> Result<Arc<CudaStream>> {
        self.inner.context.new_stream().map_err(CudaError::driver("cuStreamCreate"))
    }

    /// Makes work queued from now on run after the event.
    pub(crate) fn wait_for(&self, event: &CudaEvent) -> Result<()> {
        self.stream.wait(event).map_err(CudaError::driver("cuStreamWaitEvent"))
    }

    /// Event after everything queued so far, for timing.
    pub fn mark(&self) -> Result<CudaEvent> {
        self.stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT)).map_err(CudaError::driver("cuEventRecord"))
    }

    /// Milliseconds between two marks; waits for the second.
    pub fn milliseconds(from: &CudaEvent, to: &CudaEvent) -> Result<f32> {
        from.elapsed_ms(to).map_err(CudaError::driver("cuEventElapsedTime"))
    }

    /// Times every launch in `body` on its own, the longest total first. The marks cost a few microseconds per launch.
    pub fn profile(&self, body: impl FnOnce() -> Result<()>) -> Result<Vec<KernelTime>> {
        *self.inner.profile.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
        let done = body();
        let spans = self.inner.profile.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
        done?;
        let mut all: Vec<KernelTime> = Vec::new();
        for (kernel, from, to) in spans {
            let ms = f64::from(Self::milliseconds(&from, &to)?);
            match all.iter_mut().find(|t| t.kernel == kernel) {
                Some(time) => (time.launches, time.ms) = (time.launches + 1, time.ms + ms),
                None => all.push(KernelTime { kernel, launches: 1, ms }),
            }
        }
        all.sort_by(|a, b| b.ms.total_cmp(&a.ms));
        Ok(all)
    }

    /// Runs `body`, between two marks if profiling is on.
    pub(crate) fn spanned(&self, name: impl FnOnce() -> String, body: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.inner.profile.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return body();
        }
        let from = self.mark()?;
        body()?;
        let to = self.mark()?;
        if let Some(spans) = self.inner.profile.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            spans.push((name(), from, to));
        }
        Ok(())
    }

    pub(crate) fn bind(&self) -> Result<()> {
        self.inner.context.bind_to_thread().map_err(CudaError::driver("cuCtxSetCurrent"))
    }

    pub(crate) fn stream(&self) -> sys::CUstream {
        self.stream.cu_stream()
    }

    pub(crate) fn blas(&self) -> Result<&Blas> {
        if self.inner.blas.get().is_none() {
            self.bind()?;
            // A second thread may have been faster; its handle is then kept.
            let _ = self.inner.blas.set(Blas::new(&self.inner.name)?);
        }
        self.inner.blas.get().ok_or(CudaError::NoCublasLt)
    }

    /// Queues a kernel.
    ///
    /// # Safety
    ///
    /// The arguments match the kernel's parameters in number, order and width, and the memory they point to covers
    /// everything the kernel reads and writes in this grid.
    pub(crate) unsafe fn launch(&self, launch: Launch<'_>, args: &[Arg]) -> Result<()> {
        if launch.grid.0 == 0 || launch.grid.1 == 0 {
            return Ok(());
        }
        self.bind()?;
        let function = self.function(launch)?;
        let mut args = args.to_vec();
        let mut addresses: Vec<*mut c_void> = args.iter_mut().map(Arg::address).collect();
        self.spanned(
            || launch.kernel.to_owned(),
            || {
                let (grid, block) = ((launch.grid.0, launch.grid.1, 1), (launch.block, 1, 1));
                // SAFETY: the caller's promise; `args` and `addresses` outlive the call, which copies them.
                unsafe { result::launch_kernel(function.0, grid, block, launch.shared, self.stream(), &mut addresses) }
                    .map_err(|e| CudaError::Driver {
                        call: "cuLaunchKernel",
                        what: format!("{}: {e:?}", launch.kernel),
                    })
            },
        )
    }

    fn function(&self, launch: Launch<'_>) -> Result<Function> {
        let mut kernels = self.inner.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (launch.module, launch.kernel.to_owned());
        if let Some(&function) = kernels.functions.get(&key) {
            return Ok(function);
        }
        let missing =
            || CudaError::Driver { call: "cuModuleGetFunction", what: format!("no kernel {}", launch.kernel) };
        let module = if let Some(&module) = kernels.modules.get(launch.module) {
            module
        } else {
            let source = SOURCES.iter().find(|s| s.name == launch.module).ok_or_else(missing)?;
            let cubin = self.inner.compiler.cubin(source)?;
            // SAFETY: a whole image of machine code, which the driver copies.
            let module = unsafe { result::module::load_data(cubin.as_ptr().cast()) }
                .map_err(CudaError::driver("cuModuleLoadData"))?;
            kernels.modules.insert(launch.module, Module(module));
            Module(module)
        };
        let name = CString::new(launch.kernel).map_err(|_| missing())?;
        // SAFETY: the module stays loaded as long as the process.
        let function = unsafe { result::module::get_function(module.0, name) }.map_err(|_| missing())?;
        if launch.shared > 48 * 1024 {
            let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function was just looked up.
            unsafe { result::function::set_function_attribute(function, attribute, launch.shared as i32) }
                .map_err(CudaError::driver("cuFuncSetAttribute"))?;
        }
        kernels.functions.insert(key, Function(function));
        Ok(Function(function))
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gpu")
            .field("name", &self.inner.name)
            .field("capability", &self.inner.capability)
            .finish_non_exhaustive()
    }
}

fn driver_version() -> Result<i32> {
    let mut version = 0;
    // SAFETY: the pointer is to a live integer.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().map_err(CudaError::driver("cuDriverGetVersion"))?;
    Ok(version)
}

fn devices() -> Result<usize> {
    // cuInit returns an error if there is a driver but no device.
    if let Err(e) = result::init() {
        return match e.0 {
            sys::CUresult::CUDA_ERROR_NO_DEVICE => Ok(0),
            _ => Err(CudaError::driver("cuInit")(e)),
        };
    }
    Ok(result::device::get_count().map_err(CudaError::driver("cuDeviceGetCount"))?.max(0) as usize)
}

/// Architecture to compile for, as a number (90 is sm_90).
fn architecture(name: &str, (major, minor): (i32, i32)) -> Result<i32> {
    let refuse = |why: String, fix: &str| {
        Err(CudaError::UnsupportedArchitecture { name: name.to_owned(), major, minor, why, fix: fix.to_owned() })
    };
    if major < 8 {
        return refuse(
            "the kernels need bf16 tensor cores, which came with 8.0 (A100, RTX 30)".into(),
            "use such a GPU, or set engine.device = \"cpu\"",
        );
    }
    nearest(&Compiler::architectures()?, major * 10 + minor).map_or_else(
        || {
            let (a, b) = Compiler::found()?;
            refuse(format!("NVRTC {a}.{b} does not know it"), "put a newer CUDA's libraries on LD_LIBRARY_PATH")
        },
        Ok,
    )
}

/// Architectures of Jetson modules: their machine code is their own.
const JETSON: [i32; 4] = [87, 88, 101, 110];

/// A device's own architecture, or the newest before it of the same generation, whose machine code it also runs.
fn nearest(known: &[i32], own: i32) -> Option<i32> {
    if known.contains(&own) {
        return Some(own);
    }
    let runs = |arch: &i32| arch / 10 == own / 10 && *arch < own && !JETSON.contains(arch) && !JETSON.contains(&own);
    known.iter().copied().filter(runs).max()
}

fn pool(context: &CudaContext) -> Result<sys::CUmemoryPool> {
    let mut pool = std::ptr::null_mut();
    // SAFETY: the device is the context's own.
    unsafe { sys::cuDeviceGetDefaultMemPool(&raw mut pool, context.cu_device()) }
        .result()
        .map_err(CudaError::driver("cuDeviceGetDefaultMemPool"))?;
    Ok(pool)
}

/// Keeps freed buffers with the process: by default every wait would return them to the system, and the next step would
/// pay for them again.
fn keep_freed_memory(context: &CudaContext) -> Result<()> {
    let pool = pool(context)?;
    let mut keep = u64::MAX;
    let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the attribute is a 64-bit integer.
    unsafe { sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut keep).cast()) }
        .result()
        .map_err(CudaError::driver("cuMemPoolSetAttribute"))
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn machine_code_is_of_the_devices_generation_and_no_newer() {
        let known = [75, 80, 86, 89, 90, 100, 101, 120];
        for (own, arch) in [
            (80, Some(80)),
            (87, None),
            (89, Some(89)),
            (90, Some(90)),
            (101, Some(101)),
            (103, Some(100)),
            (110, None),
            (121, Some(120)),
        ] {
            assert_eq!(nearest(&known, own), arch, "{own}");
        }
    }
}
