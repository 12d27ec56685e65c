//! Thread pool for parallel regions of microseconds.
//!
//! Decoding one token runs some thirty parallel regions of ten to twenty microseconds each; a pool that puts its
//! threads to sleep in between spends more time waking them than computing. Workers of this pool spin for a moment
//! before they sleep, and a worker that wakes too late for a region is not waited for.
//!
//! Each thread first takes the tasks of its own share, the same part of the indices in every region: rows are then
//! computed by the thread that computed them before and has them in its caches, since cores of one machine need not
//! share any. A thread that runs out of tasks takes some from the others (work stealing).

#![expect(unsafe_code, reason = "a borrowed task is lent to the workers for the length of one call")]

use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Rounds of spinning before a worker sleeps: some fifty microseconds.
const SPINS: u32 = 4000;

/// The caller and `threads - 1` workers.
#[derive(Debug)]
pub(crate) struct ThreadPool {
    shared: Arc<Region>,
    workers: Vec<JoinHandle<()>>,
    /// Held during a region: the pool computes one at a time.
    busy: Mutex<()>,
}

/// State shared by caller and workers. A worker learns about a region from one cache line and reports back on another:
/// moving a line between cores takes as long as a thousand multiplications.
#[derive(Debug)]
struct Region {
    header: Header,
    /// One per thread; the caller's first.
    shares: Vec<Share>,
    done: Done,
    sleeping: Vec<AtomicBool>,
    over: AtomicBool,
}

/// The open region, or the last one that was: its number (0 while it changes) and its task, a closure behind a pointer.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Header {
    number: AtomicU64,
    data: AtomicPtr<()>,
    call: AtomicPtr<()>,
    count: AtomicUsize,
}

/// Progress of the workers.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Done {
    /// Units, over all regions.
    units: AtomicU64,
    /// A task of the current region panicked: the rest of it is not needed.
    broken: AtomicBool,
}

/// A task as a thread sees it.
#[derive(Debug, Clone, Copy)]
struct Task {
    number: u64,
    data: *mut (),
    call: *mut (),
    count: usize,
}

type Call = unsafe fn(*const (), usize);

/// The most units a region is cut into: a share counts them in 16 bits.
const UNITS: usize = u16::MAX as usize;

impl Task {
    /// Indices handed out together: one, except in enormous regions.
    fn unit(self) -> usize {
        self.count.div_ceil(UNITS).max(1)
    }

    fn units(self) -> usize {
        self.count.div_ceil(self.unit())
    }

    /// Computes a unit.
    ///
    /// # Safety
    /// The unit must have been taken from an open region of which `self` is the task.
    unsafe fn run(self, unit: usize) {
        // SAFETY: `call` was made from a `Call` in `ThreadPool::run`.
        let call = unsafe { std::mem::transmute::<*mut (), Call>(self.call) };
        for index in unit * self.unit()..((unit + 1) * self.unit()).min(self.count) {
            // SAFETY: a region ends when all its units are done, and its closure lives until then.
            unsafe { call(self.data, index) };
        }
    }
}

/// Remaining units of one thread: the region's number (its lower half), their start and their end. A share with an
/// older number is untouched; only the threads that take from it write it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Share(AtomicU64);

impl Share {
    /// Takes a unit of `all`, this share of the region: the owner from the front, others from the back.
    fn take(&self, number: u64, all: Range<usize>, front: bool) -> Option<usize> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let age = (number as u32).wrapping_sub((word >> 32) as u32) as i32;
            let (start, end) = match age {
                0 => ((word >> 16) as u16 as usize, word as u16 as usize),
                1.. => (all.start, all.end),
                // The region is over, and a later one has begun.
                _ => return None,
            };
            if start >= end {
                return None;
            }
            let (unit, left) = if front { (start, start + 1..end) } else { (end - 1, start..end - 1) };
            let new = u64::from(number as u32) << 32 | (left.start as u64) << 16 | left.end as u64;
            // Only start and end can change while the number stays the same: a later region has a later number.
            match self.0.compare_exchange_weak(word, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(unit),
                Err(now) => word = now,
            }
        }
    }
}

thread_local! {
    /// `true` while this thread computes a region: a nested region runs on the thread that opens it.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

impl ThreadPool {
    pub(crate) fn new(threads: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Region {
            header: Header::default(),
            shares: (0..threads.max(1)).map(|_| Share::default()).collect(),
            done: Done::default(),
            sleeping: (1..threads).map(|_| AtomicBool::new(false)).collect(),
            over: AtomicBool::new(false),
        });
        let mut pool = Self { shared: Arc::clone(&shared), workers: Vec::new(), busy: Mutex::new(()) };
        for index in 0..threads.saturating_sub(1) {
            let shared = Arc::clone(&shared);
            let worker = std::thread::Builder::new().name(format!("engine-{}", index + 1));
            pool.workers.push(worker.spawn(move || shared.serve(index))?);
        }
        Ok(pool)
    }

    /// Calls `task(0)` to `task(count - 1)`, in any order, on all threads.
    pub(crate) fn run<F: Fn(usize) + Sync>(&self, count: usize, task: F) {
        unsafe fn call<F: Fn(usize)>(data: *const (), index: usize) {
            // SAFETY: `data` is the closure of the `run` that opened the region.
            unsafe { (*data.cast::<F>())(index) }
        }
        if count < 2 || self.workers.is_empty() || BUSY.get() {
            return (0..count).for_each(task);
        }
        let guard = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let (call, data): (Call, _) = (call::<F>, std::ptr::from_ref(&task).cast_mut().cast());
        let before = self.shared.done.units.load(Ordering::Relaxed);
        let lent = self.shared.open(data, call as *mut (), count, &self.workers);
        BUSY.set(true);
        let (mine, panic) = self.shared.work(lent, 0);
        // Even if a task of this thread panicked: the workers still use `task`.
        let mut spins = 0;
        while self.shared.done.units.load(Ordering::Acquire) - before < lent.units() as u64 - mine {
            pause(&mut spins);
        }
        BUSY.set(false);
        let broken = self.shared.done.broken.load(Ordering::Relaxed);
        drop(guard);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        assert!(!broken, "a task of a parallel region panicked");
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker only ends by itself, and its panics are caught.
            drop(worker.join());
        }
    }
}

impl Region {
    /// Opens the next region. The caller holds the lock, and the last region is over.
    fn open(&self, data: *mut (), call: *mut (), count: usize, workers: &[JoinHandle<()>]) -> Task {
        let number = self.header.number.load(Ordering::Relaxed) + 1;
        if number.is_multiple_of(1 << 30) {
            // Ages are distinguishable up to half the range of 32 bits, so a share that is never touched must not grow
            // too old.
            let fresh = u64::from((number - 1) as u32) << 32;
            self.shares.iter().for_each(|share| share.0.store(fresh, Ordering::Relaxed));
        }
        if self.done.broken.load(Ordering::Relaxed) {
            self.done.broken.store(false, Ordering::Relaxed);
        }
        // Without a number while its fields change: a worker that read one of the new ones will find the number gone.
        self.header.number.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        self.header.data.store(data, Ordering::Relaxed);
        self.header.call.store(call, Ordering::Relaxed);
        self.header.count.store(count, Ordering::Relaxed);
        self.header.number.store(number, Ordering::Release);
        for (worker, sleeping) in workers.iter().zip(&self.sleeping) {
            // A worker that falls asleep right now may miss the region; the others do its share.
            if sleeping.load(Ordering::Relaxed) {
                worker.thread().unpark();
            }
        }
        Task { number, data, call, count }
    }

    /// Worker loop.
    fn serve(&self, index: usize) {
        BUSY.set(true);
        let mut last = 0;
        while let Some(task) = self.wait(index, last) {
            last = task.number;
            self.work(task, index + 1);
        }
    }

    /// The next region after `last`; `None` at the end of the pool.
    fn wait(&self, index: usize, last: u64) -> Option<Task> {
        let mut spins = 0;
        loop {
            if let Some(task) = self.look(last) {
                return Some(task);
            }
            if self.over.load(Ordering::SeqCst) {
                return None;
            }
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
                continue;
            }
            self.sleeping[index].store(true, Ordering::SeqCst);
            // Checked again after the flag is set: a region opened before would not have woken this worker.
            if self.header.number.load(Ordering::SeqCst) == last && !self.over.load(Ordering::SeqCst) {
                std::thread::park();
            }
            self.sleeping[index].store(false, Ordering::SeqCst);
            spins = 0;
        }
    }

    /// The region that is open, unless it is `last`. It may be over before its task is read; then there is nothing left
    /// to take.
    fn look(&self, last: u64) -> Option<Task> {
        let number = self.header.number.load(Ordering::Acquire);
        if number == last || number == 0 {
            return None;
        }
        let task = Task {
            number,
            data: self.header.data.load(Ordering::Relaxed),
            call: self.header.call.load(Ordering::Relaxed),
            count: self.header.count.load(Ordering::Relaxed),
        };
        fence(Ordering::Acquire);
        // Another number: the fields may be of both regions.
        (self.header.number.load(Ordering::Relaxed) == number).then_some(task)
    }

    /// Computes all available units. Returns the number of units done, and the panic of a task if there was one.
    fn work(&self, task: Task, thread: usize) -> (u64, Option<Box<dyn Any + Send>>) {
        let (mut total, mut panic) = (0, None);
        let (units, threads) = (task.units(), self.shares.len());
        for step in 0..threads {
            let owner = (thread + step) % threads;
            let all = (owner * units).div_ceil(threads)..((owner + 1) * units).div_ceil(threads);
            let mut done = 0;
            while let Some(unit) = self.shares[owner].take(task.number, all.clone(), step == 0) {
                done += 1;
                if self.done.broken.load(Ordering::Relaxed) {
                    continue;
                }
                // SAFETY: the unit was taken from this region, which is open until the unit is reported.
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| unsafe { task.run(unit) })) {
                    self.done.broken.store(true, Ordering::Relaxed);
                    panic = Some(payload);
                }
            }
            total += done;
            // Reported share by share: looking for more elsewhere takes time.
            if thread > 0 && done > 0 {
                self.done.units.fetch_add(done, Ordering::Release);
            }
        }
        (total, panic)
    }
}

/// Spins for a while, then lets other threads run.
fn pause(spins: &mut u32) {
    if *spins < SPINS {
        *spins += 1;
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_is_computed_once_in_every_region() {
        let pool = ThreadPool::new(4).unwrap();
        for count in [0, 1, 2, 3, 17, 1000] {
            for _ in 0..200 {
                let seen: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                pool.run(count, |i| {
                    seen[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(seen.iter().all(|s| s.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn more_tasks_than_units_and_fewer_than_threads() {
        let pool = ThreadPool::new(5).unwrap();
        for count in [2, 3, 4, UNITS - 1, UNITS, UNITS + 1, 3 * UNITS + 7] {
            let seen: Vec<AtomicBool> = (0..count).map(|_| AtomicBool::new(false)).collect();
            pool.run(count, |i| assert!(!seen[i].swap(true, Ordering::Relaxed), "{i} of {count} twice"));
            assert!(seen.iter().all(|s| s.load(Ordering::Relaxed)), "{count}");
        }
    }

    #[test]
    fn a_share_is_taken_from_both_ends_and_only_in_its_region() {
        let share = Share::default();
        let all = || 3..6;
        assert_eq!([share.take(7, all(), true), share.take(7, all(), false)], [Some(3), Some(5)]);
        assert_eq!([share.take(7, all(), false), share.take(7, all(), true)], [Some(4), None]);
        assert_eq!(share.take(8, all(), true), Some(3), "the next region finds it whole");
        assert_eq!(share.take(7, all(), true), None, "a region that is over finds nothing");
        let late = (1 << 32) + 2;
        share.0.store(u64::from(u32::MAX) << 32, Ordering::Relaxed);
        assert_eq!(share.take(late, all(), true), Some(3), "numbers go on past 32 bits");
    }

    #[test]
    fn regions_nest_and_callers_wait_for_each_other() {
        let pool = ThreadPool::new(3).unwrap();
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        pool.run(5, |_| {
                            pool.run(7, |_| {
                                total.fetch_add(1, Ordering::Relaxed);
                            });
                        });
                    }
                });
            }
        });
        assert_eq!(total.load(Ordering::Relaxed), 4 * 100 * 35);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_works_on() {
        let pool = ThreadPool::new(3).unwrap();
        for bad in 0..20 {
            let result = catch_unwind(AssertUnwindSafe(|| pool.run(20, |i| assert!(i != bad, "task {bad}"))));
            assert!(result.is_err());
            let count = AtomicUsize::new(0);
            pool.run(20, |_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(count.load(Ordering::Relaxed), 20);
        }
    }
}
