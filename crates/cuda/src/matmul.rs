//! Matrix products through cuBLASLt: bf16 or f32 operands, f32 accumulation, bf16 or f32 results.
//!
//! Matrices are row-major here. cuBLASLt thinks in columns, so it is asked for the transposed result with the operands
//! exchanged, which is the same memory. The algorithm is cuBLASLt's own first choice for the shape, asked once and kept;
//! candidates are not raced against one another, because a choice by stopwatch would change results between runs.

#![expect(unsafe_code, reason = "cuBLASLt is a C interface")]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

use cudarc::cublaslt::{result, sys};

use crate::buffer::{Buffer, Float, View, ViewMut};
use crate::error::{CudaError, Result, ensure};
use crate::gpu::Gpu;

/// Scratch memory for split-K and the like; 32 MiB is what NVIDIA advises for Hopper.
const WORKSPACE: usize = 32 << 20;

/// Row-major matrix, `stride` elements from row to row.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    view: View<'a, T>,
    rows: usize,
    cols: usize,
    stride: usize,
}

/// Row-major matrix that is written.
#[derive(Debug)]
pub struct MatrixMut<'a, T> {
    view: ViewMut<'a, T>,
    rows: usize,
    cols: usize,
    stride: usize,
}

impl<'a, T> Matrix<'a, T> {
    pub fn new(view: View<'a, T>, rows: usize, cols: usize) -> Self {
        Self { view, rows, cols, stride: cols }
    }

    pub fn strided(view: View<'a, T>, rows: usize, cols: usize, stride: usize) -> Self {
        Self { view, rows, cols, stride }
    }
}

impl<'a, T> MatrixMut<'a, T> {
    pub fn new(view: ViewMut<'a, T>, rows: usize, cols: usize) -> Self {
        Self { view, rows, cols, stride: cols }
    }

    pub fn strided(view: ViewMut<'a, T>, rows: usize, cols: usize, stride: usize) -> Self {
        Self { view, rows, cols, stride }
    }
}

/// Product to form from `a` and `b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Product {
    /// A·Bᵀ: activations times a weight matrix stored [out, in].
    ABt,
    /// A·B: gradients of activations.
    AB,
    /// Aᵀ·B: gradients of weights.
    AtB,
}

/// Overwrite the result or add to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    Set,
    Add,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    product: Product,
    into: Store,
    m: usize,
    n: usize,
    k: usize,
    strides: [usize; 3],
    input: &'static str,
    output: &'static str,
    choice: usize,
}

struct Plan {
    operation: sys::cublasLtMatmulDesc_t,
    /// Layouts of b, a and c, in cuBLASLt's column order.
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    algorithm: sys::cublasLtMatmulAlgo_t,
}

/// cuBLASLt handle and the plans made so far.
pub struct Blas {
    handle: sys::cublasLtHandle_t,
    plans: Mutex<HashMap<Key, Plan>>,
}
// SAFETY: a cuBLASLt handle may be used from any thread; the descriptors are only read, behind the mutex.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

impl Blas {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: only looks the library up.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoCublasLt);
        }
        let handle = result::create_handle().map_err(CudaError::cublas("cublasLtCreate"))?;
        Ok(Self { handle, plans: Mutex::default() })
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: created in `new` and destroyed once; the driver keeps queued work alive.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// Matrix products of one GPU, with their scratch memory.
#[derive(Debug)]
pub struct Matmul {
    gpu: Gpu,
    workspace: Buffer<f32>,
    /// Rank of the algorithm among cuBLASLt's proposals, its own favourite first. A fixed rank rather than the fastest by
    /// the clock: sums have one order in every process.
    pub(crate) choice: usize,
}

impl Matmul {
    pub fn new(gpu: &Gpu) -> Result<Self> {
        gpu.blas()?;
        Ok(Self { gpu: gpu.clone(), workspace: Buffer::uninit(gpu, WORKSPACE / 4)?, choice: 0 })
    }

    /// `c = product(a, b)` or `c += product(a, b)`.
    pub fn run<T: Float, O: Float>(
        &self,
        product: Product,
        a: Matrix<'_, T>,
        b: Matrix<'_, T>,
        c: MatrixMut<'_, O>,
        into: Store,
    ) -> Result<()> {
        let (m, n, k, inner) = match product {
            Product::ABt => (a.rows, b.rows, a.cols, b.cols),
            Product::AB => (a.rows, b.cols, a.cols, b.rows),
            Product::AtB => (a.cols, b.cols, a.rows, b.rows),
        };
        ensure(k == inner && c.rows == m && c.cols == n, "matmul", || {
            let (ar, ac, br, bc, cr, cc) = (a.rows, a.cols, b.rows, b.cols, c.rows, c.cols);
            format!("{product:?} of [{ar}, {ac}] and [{br}, {bc}] into [{cr}, {cc}]")
        })?;
        for (len, rows, cols, stride) in [
            (a.view.len, a.rows, a.cols, a.stride),
            (b.view.len, b.rows, b.cols, b.stride),
            (c.view.len, c.rows, c.cols, c.stride),
        ] {
            ensure(stride >= cols && (rows == 0 || (rows - 1) * stride + cols <= len), "matmul", || {
                format!("[{rows}, {cols}] with stride {stride} in a view of {len}")
            })?;
        }
        if m == 0 || n == 0 || k == 0 {
            return Ok(());
        }
        let strides = [a.stride, b.stride, c.stride];
        let (input, output, choice) = (T::SUFFIX, O::SUFFIX, self.choice);
        let key = Key { product, into, m, n, k, strides, input, output, choice };
        self.gpu.bind()?;
        let blas = self.gpu.blas()?;
        let mut plans = blas.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = match plans.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Plan::new(blas.handle, &key, T::CUDA, O::CUDA)?),
        };
        self.gpu.spanned(
            || format!("matmul {product:?} {m}x{n}x{k}"),
            || self.queue(blas.handle, plan, into, [b.view.pointer, a.view.pointer, c.view.pointer]),
        )
    }

    fn queue(&self, handle: sys::cublasLtHandle_t, plan: &Plan, into: Store, [b, a, c]: [u64; 3]) -> Result<()> {
        let (alpha, beta) = (1f32, if into == Store::Add { 1f32 } else { 0f32 });
        // SAFETY: the plan was made for these shapes, which were checked against the views; scalars are f32 and copied.
        unsafe {
            result::matmul(
                handle,
                plan.operation,
                (&raw const alpha).cast(),
                (&raw const beta).cast(),
                b as *const c_void,
                plan.layouts[0],
                a as *const c_void,
                plan.layouts[1],
                c as *const c_void,
                plan.layouts[2],
                c as *mut c_void,
                plan.layouts[2],
                &raw const plan.algorithm,
                self.workspace.view().pointer as *mut c_void,
                WORKSPACE,
                self.gpu.stream().cast(),
            )
        }
        .map_err(CudaError::cublas("cublasLtMatmul"))
    }
}

impl Plan {
    fn new(
        handle: sys::cublasLtHandle_t,
        key: &Key,
        input: sys::cudaDataType,
        output: sys::cudaDataType,
    ) -> Result<Self> {
        use sys::cublasLtMatmulDescAttributes_t::{CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB};
        let operation =
            result::create_matmul_desc(sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, sys::cudaDataType::CUDA_R_32F)
                .map_err(CudaError::cublas("cublasLtMatmulDescCreate"))?;
        let transposed = |yes| i32::from(yes);
        // The first operand is b: transposed for A·Bᵀ; the second is a: transposed for Aᵀ·B.
        for (attribute, value) in [
            (CUBLASLT_MATMUL_DESC_TRANSA, transposed(key.product == Product::ABt)),
            (CUBLASLT_MATMUL_DESC_TRANSB, transposed(key.product == Product::AtB)),
        ] {
            // SAFETY: the attribute is a 32-bit integer.
            unsafe { result::set_matmul_desc_attribute(operation, attribute, (&raw const value).cast(), 4) }
                .map_err(CudaError::cublas("cublasLtMatmulDescSetAttribute"))?;
        }
        let (m, n, k) = (key.m, key.n, key.k);
        let a = if key.product == Product::AtB { (m, k) } else { (k, m) };
        let b = if key.product == Product::ABt { (k, n) } else { (n, k) };
        let layout = |kind, (rows, cols): (usize, usize), stride: usize| {
            result::create_matrix_layout(kind, rows as u64, cols as u64, stride as i64)
                .map_err(CudaError::cublas("cublasLtMatrixLayoutCreate"))
        };
        let layouts = [
            layout(input, b, key.strides[1])?,
            layout(input, a, key.strides[0])?,
            layout(output, (n, m), key.strides[2])?,
        ];
        let algorithm = proposal(handle, operation, layouts, key.choice)?;
        Ok(Self { operation, layouts, algorithm })
    }
}

/// Most algorithms asked for.
const PROPOSALS: usize = 12;

/// Algorithm of rank `choice` among cuBLASLt's proposals.
fn proposal(
    handle: sys::cublasLtHandle_t,
    operation: sys::cublasLtMatmulDesc_t,
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    choice: usize,
) -> Result<sys::cublasLtMatmulAlgo_t> {
    let preference = result::create_matmul_pref().map_err(CudaError::cublas("cublasLtMatmulPreferenceCreate"))?;
    let attribute = sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
    let bytes = WORKSPACE;
    // SAFETY: the attribute is a 64-bit integer.
    unsafe { result::set_matmul_pref_attribute(preference, attribute, (&raw const bytes).cast(), 8) }
        .map_err(CudaError::cublas("cublasLtMatmulPreferenceSetAttribute"))?;
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

impl Drop for Plan {
    fn drop(&mut self) {
        for layout in self.layouts {
            // SAFETY: created in `new` and destroyed once.
            let _ = unsafe { result::destroy_matrix_layout(layout) };
        }
        // SAFETY: as above.
        let _ = unsafe { result::destroy_matmul_desc(self.operation) };
    }
}

impl std::fmt::Debug for Blas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blas").finish_non_exhaustive()
    }
}
