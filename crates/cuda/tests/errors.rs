//! Without a GPU, or with the wrong one, the message says what to do.

use hone_cuda::CudaError;

#[test]
fn every_missing_piece_names_its_fix() {
    let architecture = CudaError::UnsupportedArchitecture {
        name: "Tesla V100".into(),
        major: 7,
        minor: 0,
        why: "no bf16".into(),
        fix: "another GPU".into(),
    };
    for (error, parts) in [
        (CudaError::NoDriver, ["no NVIDIA driver", "device = \"cpu\""]),
        (CudaError::NoDevice { ordinal: 2, count: 1 }, ["no CUDA device 2", "CUDA_VISIBLE_DEVICES"]),
        (CudaError::OldDriver { found: 11_080, need: 12_000, needs: "Hone" }, ["CUDA 11.8", "12.0"]),
        (CudaError::OldDriver { found: 12_040, need: 13_000, needs: "the NVRTC found" }, ["12.4", "older CUDA"]),
        (CudaError::NoNvrtc, ["libnvrtc.so", "LD_LIBRARY_PATH"]),
        (CudaError::NoCublasLt, ["libcublasLt.so", "LD_LIBRARY_PATH"]),
        (
            CudaError::OutOfMemory { asked: 5 << 30, free: 3_000_000, total: 80_000_000_000 },
            ["5.4 GB asked for, 3 MB of 80.0 GB free", "smaller batch"],
        ),
        (CudaError::NotFinite { what: "layer 3, gate_up".into() }, ["layer 3, gate_up", "learning rate"]),
        (
            CudaError::Driver { call: "cuLaunchKernel", what: "illegal address".into() },
            ["cuLaunchKernel", "nvidia-smi"],
        ),
        (CudaError::Cublas { call: "cublasLtMatmul", what: "not supported".into() }, ["cublasLtMatmul", "cuBLAS"]),
        (CudaError::Nvrtc { call: "nvrtcVersion", what: "internal error".into() }, ["nvrtcVersion", "toolkit"]),
        (CudaError::Shape { kernel: "rope", what: "heads of 96".into() }, ["rope: heads of 96", "report"]),
        (architecture, ["Tesla V100 (compute capability 7.0)", "another GPU"]),
    ] {
        let text = error.to_string();
        assert!(text.contains("fix: "), "{text}");
        for part in parts {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
