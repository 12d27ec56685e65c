//! Device memory: owned buffers and borrowed views of them, typed by element.
//!
//! Every operation goes to the single stream of its [`Gpu`], so a buffer may be freed while kernels that use it are
//! queued: the free is queued behind them.

#![expect(unsafe_code, reason = "allocation and copies of device memory go through the driver's C interface")]

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::cublaslt::sys::cudaDataType;
use cudarc::driver::sys;
use half::bf16;

use crate::error::{CudaError, Result};
use crate::gpu::Gpu;

/// Element of a device buffer: plain bytes on both sides.
pub trait Element: Pod + Default + std::fmt::Debug + Send + Sync {}
impl Element for f32 {}
impl Element for f64 {}
impl Element for bf16 {}
impl Element for i32 {}
impl Element for i16 {}
impl Element for u8 {}

/// Floating-point storage that kernels exist for. Arithmetic is f32 in both.
pub trait Float: Element {
    /// Suffix of kernel names.
    const SUFFIX: &'static str;
    const CUDA: cudaDataType;
    fn from_f64(x: f64) -> Self;
    fn to_f64(self) -> f64;
}

impl Float for bf16 {
    const SUFFIX: &'static str = "bf16";
    const CUDA: cudaDataType = cudaDataType::CUDA_R_16BF;
    fn from_f64(x: f64) -> Self {
        bf16::from_f64(x)
    }
    fn to_f64(self) -> f64 {
        bf16::to_f64(self)
    }
}

impl Float for f32 {
    const SUFFIX: &'static str = "f32";
    const CUDA: cudaDataType = cudaDataType::CUDA_R_32F;
    fn from_f64(x: f64) -> Self {
        x as f32
    }
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

/// Alignment of buffers in bytes. Products are planned for it.
pub(crate) const ALIGNMENT: usize = 256;

/// Device memory, owned or borrowed from another buffer.
#[derive(Debug)]
pub struct Buffer<T> {
    gpu: Gpu,
    pointer: u64,
    len: usize,
    /// Buffer that this one borrows from; absent if the memory is its own.
    lender: Option<Arc<Buffer<f32>>>,
    element: PhantomData<T>,
}

/// Read access to a run of elements.
#[derive(Debug)]
pub struct View<'a, T> {
    pub(crate) pointer: u64,
    pub(crate) len: usize,
    owner: PhantomData<&'a T>,
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for View<'_, T> {}

/// Write access to a run of elements; nothing else can name them during that time.
#[derive(Debug)]
pub struct ViewMut<'a, T> {
    pub(crate) pointer: u64,
    pub(crate) len: usize,
    owner: PhantomData<&'a mut T>,
}

impl<T: Element> Buffer<T> {
    /// Uninitialised memory, for outputs that a kernel writes completely.
    pub fn uninit(gpu: &Gpu, len: usize) -> Result<Self> {
        let bytes = (len * size_of::<T>()).max(16);
        if let Some(scratch) = gpu.scratch() {
            let pointer = scratch.take(gpu, bytes)?;
            return Ok(Self { gpu: gpu.clone(), pointer, len, lender: None, element: PhantomData });
        }
        gpu.bind()?;
        let mut pointer = 0;
        // SAFETY: the context is current, the stream is live and `pointer` outlives the call.
        let code = unsafe { sys::cuMemAllocAsync(&raw mut pointer, bytes, gpu.stream()) };
        if code == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            let (free, total) = gpu.memory()?;
            return Err(CudaError::OutOfMemory { asked: bytes, free, total });
        }
        code.result().map_err(CudaError::driver("cuMemAllocAsync"))?;
        Ok(Self { gpu: gpu.clone(), pointer, len, lender: None, element: PhantomData })
    }

    /// Memory for `len` elements within a range of another buffer, which lives as long; `None` where they do not fit. What was
    /// there is lost, and so are these elements once the range is written to (see [`Buffer::lent_mut`]).
    pub fn within(lender: &Arc<Buffer<f32>>, range: Range<usize>, len: usize) -> Option<Self> {
        let start = (range.start * size_of::<f32>()).next_multiple_of(ALIGNMENT);
        let end = range.end.min(lender.len) * size_of::<f32>();
        (start + len * size_of::<T>() <= end).then(|| Self {
            gpu: lender.gpu.clone(),
            pointer: lender.pointer + start as u64,
            len,
            lender: Some(Arc::clone(lender)),
            element: PhantomData,
        })
    }

    pub fn zeros(gpu: &Gpu, len: usize) -> Result<Self> {
        let mut buffer = Self::uninit(gpu, len)?;
        buffer.fill_bytes(0)?;
        Ok(buffer)
    }

    pub fn from_slice(gpu: &Gpu, from: &[T]) -> Result<Self> {
        let mut buffer = Self::uninit(gpu, from.len())?;
        buffer.write(from)?;
        Ok(buffer)
    }

    /// Sets every byte; 0xff makes floats NaN, by which tests find elements that nothing wrote.
    pub fn fill_bytes(&mut self, byte: u8) -> Result<()> {
        self.gpu.bind()?;
        // SAFETY: the range is this buffer's own allocation.
        unsafe { sys::cuMemsetD8Async(self.pointer, byte, self.len * size_of::<T>(), self.gpu.stream()) }
            .result()
            .map_err(CudaError::driver("cuMemsetD8Async"))
    }

    /// Copies from the host and waits, so that `from` may be dropped at once.
    pub fn write(&mut self, from: &[T]) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(from);
        if from.len() != self.len {
            return Err(CudaError::Shape {
                kernel: "copy to the GPU",
                what: format!("{} into {}", from.len(), self.len),
            });
        }
        self.gpu.bind()?;
        // SAFETY: both ranges have `bytes.len()` bytes, and the stream is waited for before `from` can go.
        unsafe { sys::cuMemcpyHtoDAsync_v2(self.pointer, bytes.as_ptr().cast(), bytes.len(), self.gpu.stream()) }
            .result()
            .map_err(CudaError::driver("cuMemcpyHtoDAsync"))?;
        self.gpu.wait()
    }

    /// Copies to the host, after everything queued before.
    pub fn read(&self) -> Result<Vec<T>> {
        let mut to = vec![T::default(); self.len];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut to);
        self.gpu.bind()?;
        // SAFETY: both ranges have `bytes.len()` bytes, and the stream is waited for before `to` is read.
        unsafe { sys::cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), self.pointer, bytes.len(), self.gpu.stream()) }
            .result()
            .map_err(CudaError::driver("cuMemcpyDtoHAsync"))?;
        self.gpu.wait()?;
        Ok(to)
    }

    /// Copies from the host to the elements from `at` on. The driver has read `from` when this returns.
    pub fn put(&mut self, at: usize, from: &[T]) -> Result<()> {
        if at + from.len() > self.len {
            return Err(CudaError::Shape {
                kernel: "copy to the GPU",
                what: format!("{} into {} at {at}", from.len(), self.len),
            });
        }
        let bytes: &[u8] = bytemuck::cast_slice(from);
        let to = self.pointer + (at * size_of::<T>()) as u64;
        self.gpu.bind()?;
        // SAFETY: the range is this buffer's own; pageable memory is staged by the driver before the call returns.
        unsafe { sys::cuMemcpyHtoDAsync_v2(to, bytes.as_ptr().cast(), bytes.len(), self.gpu.stream()) }
            .result()
            .map_err(CudaError::driver("cuMemcpyHtoDAsync"))
    }

    /// Another buffer with the same content, at least `len` elements long; the rest is uninitialised.
    pub fn grown(&self, len: usize) -> Result<Self> {
        let copy = Self::uninit(&self.gpu, len.max(self.len))?;
        // SAFETY: both allocations have at least this buffer's bytes.
        unsafe { sys::cuMemcpyDtoDAsync_v2(copy.pointer, self.pointer, self.len * size_of::<T>(), self.gpu.stream()) }
            .result()
            .map_err(CudaError::driver("cuMemcpyDtoDAsync"))?;
        Ok(copy)
    }

    /// Copies a run of elements to another place of the same buffer; the two must not overlap.
    pub fn copy_within(&mut self, from: Range<usize>, to: usize) -> Result<()> {
        let len = from.end.saturating_sub(from.start);
        let apart = to >= from.end || to + len <= from.start;
        if from.end > self.len || to + len > self.len || !apart {
            return Err(CudaError::Shape { kernel: "copy", what: format!("{from:?} to {to} of {}", self.len) });
        }
        let at = |element: usize| self.pointer + (element * size_of::<T>()) as u64;
        self.gpu.bind()?;
        // SAFETY: both ranges lie within this allocation and apart from each other.
        unsafe { sys::cuMemcpyDtoDAsync_v2(at(to), at(from.start), len * size_of::<T>(), self.gpu.stream()) }
            .result()
            .map_err(CudaError::driver("cuMemcpyDtoDAsync"))
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Device address of the first element.
    pub fn address(&self) -> u64 {
        self.pointer
    }

    pub fn view(&self) -> View<'_, T> {
        View { pointer: self.pointer, len: self.len, owner: PhantomData }
    }

    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut { pointer: self.pointer, len: self.len, owner: PhantomData }
    }

    /// The first `len` elements. Panics past the end, as a slice does.
    pub fn first(&self, len: usize) -> View<'_, T> {
        self.view().slice(0..len)
    }

    /// A run of elements. Panics past the end, as a slice does.
    pub fn part_mut(&mut self, range: Range<usize>) -> ViewMut<'_, T> {
        let View { pointer, len, .. } = self.view().slice(range);
        ViewMut { pointer, len, owner: PhantomData }
    }

    /// The first `len` elements. Panics past the end, as a slice does.
    pub fn first_mut(&mut self, len: usize) -> ViewMut<'_, T> {
        assert!(len <= self.len, "{len} of {}", self.len);
        ViewMut { pointer: self.pointer, len, owner: PhantomData }
    }
}

impl<T> Buffer<T> {
    pub(crate) fn raw(&self) -> u64 {
        self.pointer
    }
}

impl Buffer<f32> {
    /// Write access to a buffer that may have lent parts of itself: callers must not write a part while it is borrowed.
    pub fn lent_mut(self: &Arc<Self>) -> ViewMut<'_, f32> {
        ViewMut { pointer: self.pointer, len: self.len, owner: PhantomData }
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        if self.lender.is_some() {
            return;
        }
        if let Some(scratch) = self.gpu.scratch() {
            return scratch.give(self.pointer);
        }
        // Nothing useful can be done about a failing free; the next call on the stream reports a broken context.
        if self.gpu.bind().is_ok() {
            // SAFETY: allocated by `uninit` on this stream and freed once.
            let _ = unsafe { sys::cuMemFreeAsync(self.pointer, self.gpu.stream()) };
        }
    }
}

impl<'a, T> View<'a, T> {
    /// Device address of the first element.
    pub fn address(&self) -> u64 {
        self.pointer
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Part of the view. Panics past the end, as a slice does.
    #[must_use]
    pub fn slice(self, range: Range<usize>) -> View<'a, T> {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        View {
            pointer: self.pointer + (range.start * size_of::<T>()) as u64,
            len: range.end - range.start,
            owner: PhantomData,
        }
    }
}

impl<'a> View<'a, f32> {
    /// The same bytes as elements of another type, no wider.
    pub(crate) fn cast<E: Element>(self) -> View<'a, E> {
        View { pointer: self.pointer, len: self.len * size_of::<f32>() / size_of::<E>(), owner: PhantomData }
    }
}

impl<'a, T> ViewMut<'a, T> {
    /// The first `at` elements and the rest. Panics past the end, as a slice does.
    #[must_use]
    pub fn split(self, at: usize) -> (ViewMut<'a, T>, ViewMut<'a, T>) {
        assert!(at <= self.len, "{at} of {}", self.len);
        let rest = self.pointer + (at * size_of::<T>()) as u64;
        (
            ViewMut { pointer: self.pointer, len: at, owner: PhantomData },
            ViewMut { pointer: rest, len: self.len - at, owner: PhantomData },
        )
    }
}

impl<T> ViewMut<'_, T> {
    /// Sets every byte to zero.
    pub fn clear(&mut self, gpu: &Gpu) -> Result<()> {
        gpu.bind()?;
        // SAFETY: the range is part of a live allocation, which this view alone may write.
        unsafe { sys::cuMemsetD8Async(self.pointer, 0, self.len * size_of::<T>(), gpu.stream()) }
            .result()
            .map_err(CudaError::driver("cuMemsetD8Async"))
    }

    /// Part of the view. Panics past the end, as a slice does.
    pub fn slice(&mut self, range: Range<usize>) -> ViewMut<'_, T> {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        ViewMut {
            pointer: self.pointer + (range.start * size_of::<T>()) as u64,
            len: range.end - range.start,
            owner: PhantomData,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn view(&self) -> View<'_, T> {
        View { pointer: self.pointer, len: self.len, owner: PhantomData }
    }

    pub fn reborrow(&mut self) -> ViewMut<'_, T> {
        ViewMut { pointer: self.pointer, len: self.len, owner: PhantomData }
    }
}
