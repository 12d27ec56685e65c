//! CPU device: instruction set and thread pool that the kernels run on.

#![expect(unsafe_code, reason = "threads write disjoint parts of one buffer")]

use std::cell::RefCell;
use std::marker::PhantomData;

use crate::cpu::buffer::Buffer;
use crate::cpu::kernels::simd::Isa;
use crate::cpu::pool::ThreadPool;
use crate::error::{EngineError, Result};

/// CPU device: an instruction set and a thread pool. Results do not depend on the number of threads: work is divided by
/// problem size only, and every sum is taken in the order of the pieces.
#[derive(Debug)]
pub struct Cpu {
    isa: Isa,
    threads: usize,
    pool: ThreadPool,
}

impl Cpu {
    /// `threads` 0 means all cores. The instruction set is the machine's best (see [`Isa::detect`]).
    pub fn new(threads: usize) -> Result<Self> {
        Self::with_isa(threads, Isa::detect())
    }

    pub fn with_isa(threads: usize, isa: Isa) -> Result<Self> {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let pool = ThreadPool::new(threads).map_err(|e| EngineError::Threads { threads, what: e.to_string() })?;
        Ok(Self { isa: isa.or_less(), threads, pool })
    }

    pub fn isa(&self) -> Isa {
        self.isa
    }

    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Calls `task(0)` to `task(count - 1)`, in any order, on all threads.
    pub(crate) fn parallel(&self, count: usize, task: impl Fn(usize) + Sync) {
        self.pool.run(count, task);
    }

    /// Zeros a large buffer.
    pub fn clear(&self, data: &mut [f32]) {
        const RUN: usize = 1 << 18;
        let (len, data) = (data.len(), Shared::new(data));
        // SAFETY: each task has its own run.
        self.parallel(len.div_ceil(RUN), |i| unsafe { data.slice(i * RUN, RUN.min(len - i * RUN)) }.fill(0.0));
    }
}

/// Shared mutable buffer: several tasks write disjoint parts of it.
#[derive(Debug)]
pub struct Shared<'a, T = f32> {
    data: *mut T,
    len: usize,
    life: PhantomData<&'a mut [T]>,
}

impl<T> Clone for Shared<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<'_, T> {}

// SAFETY: access goes through `slice`, whose contract forbids overlap between threads.
unsafe impl<T: Send> Send for Shared<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub fn new(data: &'a mut [T]) -> Self {
        Self { data: data.as_mut_ptr(), len: data.len(), life: PhantomData }
    }

    /// `len` items from `start`.
    ///
    /// # Safety
    /// While the slice lives, no other task may touch any part of it.
    pub unsafe fn slice(&self, start: usize, len: usize) -> &'a mut [T] {
        assert!(start <= self.len && len <= self.len - start, "{start}+{len} lies outside {}", self.len);
        // SAFETY: in bounds by the assertion, unaliased by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(start), len) }
    }

    pub(crate) fn ptr(&self) -> *mut T {
        self.data
    }
}

thread_local! {
    static SCRATCH: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
}

/// Thread-local scratch of `len` floats, kept between calls. Its contents are whatever the last user left.
pub fn with_scratch<R>(len: usize, body: impl FnOnce(&mut [f32]) -> R) -> R {
    // Popped while in use, so that nested calls get separate buffers.
    let mut buffer = SCRATCH.with_borrow_mut(Vec::pop).unwrap_or_default();
    buffer.grow(len);
    let result = body(&mut buffer[..len]);
    SCRATCH.with_borrow_mut(|pool| pool.push(buffer));
    result
}
