//! cuBLASLt's description of one product, and the algorithm it runs with.

use std::mem::MaybeUninit;

use cudarc::cublaslt::{result, sys};

use super::{Product, Store, WORKSPACE};
use crate::error::{CudaError, Result};

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub product: Product,
    pub into: Store,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub strides: [usize; 3],
    pub input: &'static str,
    pub output: &'static str,
    /// Alignment of the addresses in bytes.
    pub alignment: u32,
    pub choice: usize,
}

/// Description of a product, freed when dropped.
struct Operation(sys::cublasLtMatmulDesc_t);

impl Drop for Operation {
    fn drop(&mut self) {
        // SAFETY: created by cuBLASLt and destroyed once.
        let _ = unsafe { result::destroy_matmul_desc(self.0) };
    }
}

/// Layout of a matrix, freed when dropped.
struct Layout(sys::cublasLtMatrixLayout_t);

impl Layout {
    fn new(kind: sys::cudaDataType, (rows, cols): (usize, usize), stride: usize) -> Result<Self> {
        let layout = result::create_matrix_layout(kind, rows as u64, cols as u64, stride as i64);
        layout.map(Self).map_err(CudaError::cublas("cublasLtMatrixLayoutCreate"))
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: created by cuBLASLt and destroyed once.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

pub(super) struct Plan {
    operation: Operation,
    /// Layouts of b, a and c, in cuBLASLt's column order.
    layouts: [Layout; 3],
    pub algorithm: sys::cublasLtMatmulAlgo_t,
}

impl Plan {
    pub(super) fn new(
        handle: sys::cublasLtHandle_t,
        key: &Key,
        input: sys::cudaDataType,
        output: sys::cudaDataType,
    ) -> Result<Self> {
        use sys::cublasLtMatmulDescAttributes_t::{CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB};
        let operation =
            result::create_matmul_desc(sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, sys::cudaDataType::CUDA_R_32F)
                .map(Operation)
                .map_err(CudaError::cublas("cublasLtMatmulDescCreate"))?;
        let transposed = |yes| i32::from(yes);
        // The first operand is b: transposed for A·Bᵀ; the second is a: transposed for Aᵀ·B.
        for (attribute, value) in [
            (CUBLASLT_MATMUL_DESC_TRANSA, transposed(key.product == Product::ABt)),
            (CUBLASLT_MATMUL_DESC_TRANSB, transposed(key.product == Product::AtB)),
        ] {
            // SAFETY: the attribute is a 32-bit integer.
            unsafe { result::set_matmul_desc_attribute(operation.0, attribute, (&raw const value).cast(), 4) }
                .map_err(CudaError::cublas("cublasLtMatmulDescSetAttribute"))?;
        }
        let (m, n, k) = (key.m, key.n, key.k);
        let a = if key.product == Product::AtB { (m, k) } else { (k, m) };
        let b = if key.product == Product::ABt { (k, n) } else { (n, k) };
        let layouts = [
            Layout::new(input, b, key.strides[1])?,
            Layout::new(input, a, key.strides[0])?,
            Layout::new(output, (n, m), key.strides[2])?,
        ];
        let algorithm = proposal(handle, operation.0, layouts.each_ref().map(|layout| layout.0), key)?;
        Ok(Self { operation, layouts, algorithm })
    }

    pub(super) fn operation(&self) -> sys::cublasLtMatmulDesc_t {
        self.operation.0
    }

    /// Layouts of b, a and c.
    pub(super) fn layouts(&self) -> [sys::cublasLtMatrixLayout_t; 3] {
        self.layouts.each_ref().map(|layout| layout.0)
    }
}

/// Maximum number of algorithms requested.
pub(super) const PROPOSALS: usize = 10;

/// Algorithm of rank `choice` among cuBLASLt's proposals.
fn proposal(
    handle: sys::cublasLtHandle_t,
    operation: sys::cublasLtMatmulDesc_t,
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    key: &Key,
) -> Result<sys::cublasLtMatmulAlgo_t> {
    use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
    let choice = key.choice;
    let preference = result::create_matmul_pref().map_err(CudaError::cublas("cublasLtMatmulPreferenceCreate"))?;
    let attribute = sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
    let bytes = WORKSPACE;
    // SAFETY: the attribute is a 64-bit integer.
    unsafe { result::set_matmul_pref_attribute(preference, attribute, (&raw const bytes).cast(), 8) }
        .map_err(CudaError::cublas("cublasLtMatmulPreferenceSetAttribute"))?;
    for attribute in [
        Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
    ] {
        let bytes = key.alignment;
        // SAFETY: the attribute is a 32-bit integer.
        unsafe { result::set_matmul_pref_attribute(preference, attribute, (&raw const bytes).cast(), 4) }
            .map_err(CudaError::cublas("cublasLtMatmulPreferenceSetAttribute"))?;
    }
    let [b, a, c] = layouts;
    let mut found: [MaybeUninit<sys::cublasLtMatmulHeuristicResult_t>; PROPOSALS] =
        [const { MaybeUninit::zeroed() }; PROPOSALS];
    let asked = if choice == 0 { 1 } else { PROPOSALS as i32 };
    let mut count = 0;
    // SAFETY: all descriptors are live, and `found` has room for as many results as are asked for.
    let code = unsafe {
        let to = found.as_mut_ptr().cast();
        sys::cublasLtMatmulAlgoGetHeuristic(handle, operation, b, a, c, c, preference, asked, to, &raw mut count)
    };
    // SAFETY: created above and not used after.
    let _ = unsafe { result::destroy_matmul_pref(preference) };
    code.result().map_err(CudaError::cublas("cublasLtMatmulAlgoGetHeuristic"))?;
    if choice >= count.max(0) as usize {
        let what = format!("{count} algorithms fit, number {choice} was asked for");
        return Err(CudaError::Cublas { call: "cublasLtMatmulAlgoGetHeuristic", what });
    }
    // SAFETY: cuBLASLt wrote the first `count` results.
    let best = unsafe { found[choice].assume_init() };
    best.state.result().map_err(CudaError::cublas("cublasLtMatmulAlgoGetHeuristic"))?;
    Ok(best.algo)
}
