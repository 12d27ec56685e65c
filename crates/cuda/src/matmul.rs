//! Matrix products through cuBLASLt: bf16 or f32 operands, f32 accumulation, bf16 or f32 results.
//!
//! Matrices are row-major here. cuBLASLt thinks in columns, so it is asked for the transposed result with the operands
//! exchanged, which is the same memory. The algorithm of a product with a large weight matrix is the fastest of a trial of
//! cuBLASLt's proposals at first use (see `tune`); the choice is kept on disk, because another algorithm may round differently
//! and a machine should compute the same bits in every run. A small product takes cuBLASLt's first proposal.

#![expect(unsafe_code, reason = "cuBLASLt is a C interface")]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cublaslt::{result, sys};

use crate::buffer::{Buffer, Float, View, ViewMut};
use crate::error::{CudaError, Result, ensure};
use crate::gpu::Gpu;

mod plan;
mod tune;

use plan::{Key, Plan};
use tune::Choices;

/// Workspace for split-K and the like; NVIDIA recommends 32 MiB for Hopper.
const WORKSPACE: usize = 32 << 20;

/// Row-major matrix, `stride` elements from row to row.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    view: View<'a, T>,
    rows: usize,
    cols: usize,
    stride: usize,
}

/// Mutable row-major matrix, `stride` elements from row to row.
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

/// Product of `a` and `b` to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Product {
    /// A·Bᵀ: activations times a weight matrix stored [out, in].
    ABt,
    /// A·B: gradients of activations.
    AB,
    /// Aᵀ·B: gradients of weights.
    AtB,
}

/// Accumulation mode: overwrite the result, or add to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    Set,
    Add,
}

/// cuBLASLt handle and the plans made so far.
///
/// Plans are never dropped, and their number is bounded by the callers: a model has a few shapes of matrices, and callers
/// round the number of rows to few distinct values.
pub struct Blas {
    handle: sys::cublasLtHandle_t,
    plans: Mutex<HashMap<Key, Plan>>,
    choices: Mutex<Choices>,
}
// SAFETY: a cuBLASLt handle may be used from any thread; the descriptors are only read, behind the mutex.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

impl Blas {
    /// Opens cuBLASLt. `device` names the GPU: algorithm choices are kept per GPU and version of cuBLASLt.
    pub(crate) fn new(device: &str) -> Result<Self> {
        // SAFETY: only looks the library up.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoCublasLt);
        }
        let handle = result::create_handle().map_err(CudaError::cublas("cublasLtCreate"))?;
        // SAFETY: the library was found above.
        let version = unsafe { sys::cublasLtGetVersion() };
        let choices = Mutex::new(Choices::load(&format!("{device}, cuBLASLt {version}")));
        Ok(Self { handle, plans: Mutex::default(), choices })
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
    workspace: Arc<Buffer<f32>>,
    /// Rank of the algorithm among cuBLASLt's proposals; `None` for the one [`tune`] chose.
    pub(crate) choice: Option<usize>,
}

impl Matmul {
    pub fn new(gpu: &Gpu) -> Result<Self> {
        gpu.blas()?;
        let workspace = Arc::new(Buffer::uninit(gpu, WORKSPACE / 4)?);
        Ok(Self { gpu: gpu.clone(), workspace, choice: None })
    }

    /// The same products through another handle of the GPU. Scratch memory is shared, so work queued on one stream and
    /// work recorded for it must not run concurrently.
    #[must_use]
    pub fn through(&self, gpu: &Gpu) -> Self {
        Self { gpu: gpu.clone(), workspace: Arc::clone(&self.workspace), choice: self.choice }
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
        self.scaled(product, a, b, c, into, 1.0)
    }

    /// Like [`Self::run`], with the product scaled by `alpha`.
    pub fn scaled<T: Float, O: Float>(
        &self,
        product: Product,
        a: Matrix<'_, T>,
        b: Matrix<'_, T>,
        c: MatrixMut<'_, O>,
        into: Store,
        alpha: f32,
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
        self.gpu.bind()?;
        let blas = self.gpu.blas()?;
        let pointers = [b.view.pointer, a.view.pointer, c.view.pointer];
        let alignment = alignment(pointers);
        let (input, output) = (T::SUFFIX, O::SUFFIX);
        let mut key = Key { product, into, m, n, k, strides, input, output, alignment, choice: 0 };
        key.choice = match self.choice {
            Some(rank) => rank,
            None => self.chosen::<T, O>(blas, key, pointers, c.view.len)?,
        };
        self.spanned_queue::<T, O>(blas, key, pointers, alpha)
    }

    /// Runs `body` with the plan of a product, made at first use.
    fn plan<T: Float, O: Float>(blas: &Blas, key: Key, body: impl FnOnce(&Plan) -> Result<()>) -> Result<()> {
        let mut plans = blas.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = match plans.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Plan::new(blas.handle, &key, T::CUDA, O::CUDA)?),
        };
        body(plan)
    }

    fn spanned_queue<T: Float, O: Float>(&self, blas: &Blas, key: Key, pointers: [u64; 3], alpha: f32) -> Result<()> {
        Self::plan::<T, O>(blas, key, |plan| {
            self.gpu.spanned(
                || format!("matmul {:?} {}x{}x{}", key.product, key.m, key.n, key.k),
                || self.queue(blas.handle, plan, key.into, pointers, alpha),
            )
        })
    }

    /// Rank of the algorithm for a product: the stored one, else the fastest of a trial.
    fn chosen<T: Float, O: Float>(&self, blas: &Blas, key: Key, pointers: [u64; 3], len: usize) -> Result<usize> {
        if !tune::worthwhile(&key) {
            return Ok(0);
        }
        let known = blas.choices.lock().unwrap_or_else(PoisonError::into_inner).get(&key);
        if let Some(rank) = known {
            return Self::usable::<T, O>(blas, Key { choice: rank, ..key });
        }
        // A trial may overwrite a result that is overwritten anyway; a result that is added to gets a separate buffer
        // for the trial, or no trial yet if there is no memory for it.
        let Ok(trial) = Buffer::<O>::zeros(&self.gpu, if key.into == Store::Add { len } else { 0 }) else {
            return Ok(0);
        };
        let [b, a, c] = pointers;
        let to = if key.into == Store::Add { trial.view().pointer } else { c };
        let rank = tune::fastest(&self.gpu, &key, |choice| {
            self.spanned_queue::<T, O>(blas, Key { choice, ..key }, [b, a, to], 1.0)
        })?;
        blas.choices.lock().unwrap_or_else(PoisonError::into_inner).put(&key, rank);
        Ok(rank)
    }

    /// The rank of a key, which has a plan afterwards. Another number of tokens may have fewer proposals than the size that was
    /// tuned: the first proposal is then kept under this rank, so that the heuristic is not run again for every product.
    fn usable<T: Float, O: Float>(blas: &Blas, key: Key) -> Result<usize> {
        if Self::plan::<T, O>(blas, key, |_| Ok(())).is_err() {
            let first = Plan::new(blas.handle, &Key { choice: 0, ..key }, T::CUDA, O::CUDA)?;
            blas.plans.lock().unwrap_or_else(PoisonError::into_inner).insert(key, first);
        }
        Ok(key.choice)
    }

    fn queue(
        &self,
        handle: sys::cublasLtHandle_t,
        plan: &Plan,
        into: Store,
        [b, a, c]: [u64; 3],
        alpha: f32,
    ) -> Result<()> {
        let beta = if into == Store::Add { 1f32 } else { 0f32 };
        let [b_layout, a_layout, c_layout] = plan.layouts();
        // SAFETY: the plan was made for these shapes, which were checked against the views; scalars are f32 and copied.
        unsafe {
            result::matmul(
                handle,
                plan.operation(),
                (&raw const alpha).cast(),
                (&raw const beta).cast(),
                b as *const c_void,
                b_layout,
                a as *const c_void,
                a_layout,
                c as *const c_void,
                c_layout,
                c as *mut c_void,
                c_layout,
                &raw const plan.algorithm,
                self.workspace.view().pointer as *mut c_void,
                WORKSPACE,
                self.gpu.stream().cast(),
            )
        }
        .map_err(CudaError::cublas("cublasLtMatmul"))
    }
}

/// Common alignment of all three addresses in bytes, at most 256: cuBLASLt's fastest kernels depend on it.
fn alignment(pointers: [u64; 3]) -> u32 {
    let together = pointers.iter().fold(256, |all, p| all | p);
    1 << together.trailing_zeros()
}

impl std::fmt::Debug for Blas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blas").finish_non_exhaustive()
    }
}
