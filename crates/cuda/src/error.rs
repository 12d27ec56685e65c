//! Errors of the CUDA backend. Every message ends with its fix.

use thiserror::Error;

pub type Result<T> = std::result::Result<T, CudaError>;

#[derive(Debug, Error)]
pub enum CudaError {
    #[error(
        "no NVIDIA driver: libcuda.so was not found\n  fix: install the NVIDIA driver (nvidia-smi should list the GPU), \
         add its folder to LD_LIBRARY_PATH, or set engine.device = \"cpu\""
    )]
    NoDriver,
    #[error(
        "no CUDA device {ordinal}: the driver shows {count}\n  fix: check nvidia-smi and CUDA_VISIBLE_DEVICES, or set \
         engine.device = \"cpu\""
    )]
    NoDevice { ordinal: usize, count: usize },
    #[error(
        "the NVIDIA driver is too old: it supports CUDA {}.{}, and {needs} needs {}.{}\n  fix: update the driver{}",
        found / 1000, found % 1000 / 10, need / 1000, need % 1000 / 10,
        if *.need > 12_000 { ", or put the libraries of an older CUDA first in LD_LIBRARY_PATH" } else { "" }
    )]
    OldDriver { found: i32, need: i32, needs: &'static str },
    #[error(
        "no NVRTC: libnvrtc.so was not found, and the kernels are compiled with it at first use\n  fix: install the CUDA \
         toolkit or `pip install nvidia-cuda-nvrtc`, and add the folder of libnvrtc.so to LD_LIBRARY_PATH"
    )]
    NoNvrtc,
    #[error(
        "no cuBLASLt: libcublasLt.so was not found, and matrix products run through it\n  fix: install the CUDA toolkit or \
         `pip install nvidia-cublas`, and add the folder of libcublasLt.so to LD_LIBRARY_PATH"
    )]
    NoCublasLt,
    #[error("the GPU {name} (compute capability {major}.{minor}) is not supported: {why}\n  fix: {fix}")]
    UnsupportedArchitecture { name: String, major: i32, minor: i32, why: String, fix: String },
    #[error("the kernel {name} does not compile for {arch}:\n{log}  fix: this is a defect of Hone, please report it")]
    Compile { name: String, arch: String, log: String },
    #[error(
        "out of GPU memory: {} asked for, {} of {} free\n  fix: a smaller batch or context, or end other programs on this GPU",
        size(*asked),
        size(*free),
        size(*total)
    )]
    OutOfMemory { asked: usize, free: usize, total: usize },
    #[error(
        "the system gave no {} of page-locked memory for moments\n  fix: engine.moments = \"8bit\" or LoRA, a machine with more memory, \
         or a higher limit of locked memory (ulimit -l)",
        size(*asked)
    )]
    HostMemory { asked: usize },
    #[error(
        "not a number: {what}\n  fix: a lower learning rate or a stricter max_norm; weights that are not finite come back \
         from the last checkpoint"
    )]
    NotFinite { what: String },
    #[error("{call}: {what}\n  fix: look for errors of the GPU in nvidia-smi and dmesg, and start again")]
    Driver { call: &'static str, what: String },
    #[error("NVRTC, {call}: {what}\n  fix: install the CUDA toolkit again, or another version of it")]
    Nvrtc { call: &'static str, what: String },
    #[error(
        "cuBLASLt, {call}: {what}\n  fix: look for errors of the GPU in nvidia-smi and dmesg, or install another version of \
         cuBLAS"
    )]
    Cublas { call: &'static str, what: String },
    #[error("{kernel}: {what}\n  fix: this is a defect of Hone, please report it")]
    Shape { kernel: &'static str, what: String },
}

impl CudaError {
    pub(crate) fn driver(call: &'static str) -> impl FnOnce(cudarc::driver::DriverError) -> Self {
        move |e| Self::Driver { call, what: format!("{e:?}") }
    }

    pub(crate) fn nvrtc(call: &'static str) -> impl FnOnce(cudarc::nvrtc::result::NvrtcError) -> Self {
        move |e| Self::Nvrtc { call, what: format!("{:?}", e.0) }
    }

    pub(crate) fn cublas(call: &'static str) -> impl FnOnce(cudarc::cublaslt::result::CublasError) -> Self {
        move |e| Self::Cublas { call, what: format!("{:?}", e.0) }
    }
}

/// Shape error unless `condition` holds.
pub(crate) fn ensure(condition: bool, kernel: &'static str, what: impl FnOnce() -> String) -> Result<()> {
    if condition { Ok(()) } else { Err(CudaError::Shape { kernel, what: what() }) }
}

/// Bytes as people read them.
fn size(bytes: usize) -> String {
    if bytes < 1_000_000_000 {
        format!("{:.0} MB", bytes as f64 / 1e6)
    } else {
        format!("{:.1} GB", bytes as f64 / 1e9)
    }
}
