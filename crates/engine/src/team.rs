//! A team of threads for regions of microseconds.
//!
//! Decoding one token runs some thirty parallel regions of ten to twenty microseconds each; a pool that puts its
//! threads to sleep in between spends more time waking them than computing. Members of a team spin for a moment before
//! they sleep, and a member that wakes too late for a region is not waited for.
//!
//! Each thread first takes the tasks of its own share, the same part of the indices in every region: rows are then
//! computed by the thread that computed them before, which has them in its caches. Where the cores of a machine do not
//! share a cache, that is a tenth of a training step. Who is done helps the others.

#![expect(unsafe_code, reason = "a borrowed task is lent to the members for the length of one call")]

use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};

/// Rounds of spinning before a member sleeps: some fifty microseconds.
const SPINS: u32 = 4000;

/// The caller and `threads - 1` members.
#[derive(Debug)]
pub(crate) struct Team {
    shared: Arc<Region>,
    members: Vec<JoinHandle<()>>,
    /// Held during a region: the team computes one at a time.
    turn: Mutex<()>,
}

/// A lent task: a closure behind a pointer, and the function that calls it.
#[derive(Clone, Copy)]
struct Task {
    data: *const (),
    call: unsafe fn(*const (), usize),
    count: usize,
}

/// What caller and members share.
struct Region {
    /// Number of the region that is open to members; 0 when none is.
    open: AtomicU64,
    /// Members inside.
    inside: AtomicUsize,
    /// Indices left to compute, by thread; the caller's first.
    shares: Vec<Share>,
    task: UnsafeCell<Task>,
    sleeping: Vec<AtomicBool>,
    /// A member's task panicked.
    broken: AtomicBool,
    over: AtomicBool,
}

/// A range of indices, its start in the lower half. On cache lines of its own: its owner counts through it alone.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Share(AtomicU64);

impl Share {
    fn set(&self, indices: Range<usize>) {
        self.0.store((indices.end as u64) << 32 | indices.start as u64, Ordering::Relaxed);
    }

    /// Takes an index: the owner from the front, others from the back.
    fn take(&self, front: bool) -> Option<usize> {
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |range| {
            let (start, end) = (range & u64::from(u32::MAX), range >> 32);
            (start < end).then(|| if front { range + 1 } else { range - (1 << 32) })
        });
        let range = taken.ok()?;
        Some(if front { range as u32 as usize } else { (range >> 32) as usize - 1 })
    }
}

// SAFETY: `task` is written by the caller only while no region is open and nobody is inside, and read by members only
// between entering an open region and leaving it; the pointer in it is to a `Sync` closure that outlives the region.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region").field("open", &self.open).field("inside", &self.inside).finish_non_exhaustive()
    }
}

thread_local! {
    /// Whether this thread is computing a region: regions inside regions run on the thread they are met on.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

impl Team {
    pub(crate) fn new(threads: usize) -> std::io::Result<Self> {
        unsafe fn nothing(_: *const (), _: usize) {}
        let shared = Arc::new(Region {
            open: AtomicU64::new(0),
            inside: AtomicUsize::new(0),
            shares: (0..threads.max(1)).map(|_| Share::default()).collect(),
            task: UnsafeCell::new(Task { data: std::ptr::null(), call: nothing, count: 0 }),
            sleeping: (1..threads).map(|_| AtomicBool::new(false)).collect(),
            broken: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        let mut team = Self { shared: Arc::clone(&shared), members: Vec::new(), turn: Mutex::new(()) };
        for index in 0..threads.saturating_sub(1) {
            let shared = Arc::clone(&shared);
            let member = std::thread::Builder::new().name(format!("engine-{}", index + 1));
            team.members.push(member.spawn(move || shared.serve(index))?);
        }
        Ok(team)
    }

    /// Calls `task(0)` to `task(count - 1)`, in any order, on all threads.
    pub(crate) fn run<F: Fn(usize) + Sync>(&self, count: usize, task: F) {
        unsafe fn call<F: Fn(usize)>(data: *const (), index: usize) {
            // SAFETY: `data` is the closure of the `run` that opened the region.
            unsafe { (*data.cast::<F>())(index) }
        }
        if count < 2 || self.members.is_empty() || BUSY.get() {
            return (0..count).for_each(task);
        }
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let lent = Task { data: std::ptr::from_ref(&task).cast(), call: call::<F>, count };
        self.shared.open(lent, &self.members);
        // Closes the region and waits for its members also when a task of this thread panics: they use `task`.
        let closing = Closing(&self.shared);
        self.shared.work(lent, 0);
        drop(closing);
        let broken = self.shared.broken.load(Ordering::Relaxed);
        drop(turn);
        assert!(!broken, "a task of a parallel region panicked");
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        for member in self.members.drain(..) {
            member.thread().unpark();
            // A member only ends by itself, and its panics are caught.
            drop(member.join());
        }
    }
}

struct Closing<'a>(&'a Region);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        // A member first counts itself in, then looks whether the region is still open; here it is first closed, then
        // counted. In the one order of all four operations at least one side sees the other.
        self.0.open.store(0, Ordering::SeqCst);
        let mut spins = 0;
        while self.0.inside.load(Ordering::SeqCst) > 0 {
            pause(&mut spins);
        }
    }
}

impl Region {
    fn open(&self, task: Task, members: &[JoinHandle<()>]) {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        // SAFETY: the caller has the turn, the last region was closed and left by all.
        unsafe { *self.task.get() = task };
        let (count, threads) = (task.count, self.shares.len());
        assert!(u32::try_from(count).is_ok(), "{count} tasks in one region");
        for (i, share) in self.shares.iter().enumerate() {
            share.set(i * count / threads..(i + 1) * count / threads);
        }
        self.broken.store(false, Ordering::Relaxed);
        self.open.store(NUMBER.fetch_add(1, Ordering::Relaxed), Ordering::SeqCst);
        for (member, sleeping) in members.iter().map(JoinHandle::thread).zip(&self.sleeping) {
            wake(member, sleeping);
        }
    }

    /// A member's life.
    fn serve(&self, index: usize) {
        BUSY.set(true);
        let mut last = 0;
        while let Some(region) = self.wait(index, last) {
            self.inside.fetch_add(1, Ordering::SeqCst);
            if self.open.load(Ordering::SeqCst) == region {
                // SAFETY: the region is open and cannot be closed to its end while this member is inside.
                let task = unsafe { *self.task.get() };
                if catch_unwind(AssertUnwindSafe(|| self.work(task, index + 1))).is_err() {
                    self.broken.store(true, Ordering::Relaxed);
                }
            }
            self.inside.fetch_sub(1, Ordering::SeqCst);
            last = region;
        }
    }

    /// The next region after `last`; `None` at the end of the team.
    fn wait(&self, index: usize, last: u64) -> Option<u64> {
        let mut spins = 0;
        loop {
            let region = self.open.load(Ordering::SeqCst);
            if region != 0 && region != last {
                return Some(region);
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
            // Looked at once more after the flag is up: a region opened before would not have woken this member.
            if self.idle(last) {
                std::thread::park();
            }
            self.sleeping[index].store(false, Ordering::SeqCst);
            spins = 0;
        }
    }

    /// Nothing to do for a member that has seen region `last`.
    fn idle(&self, last: u64) -> bool {
        let region = self.open.load(Ordering::SeqCst);
        (region == 0 || region == last) && !self.over.load(Ordering::SeqCst)
    }

    /// The next index for a thread: of its own share, else of another's.
    fn take(&self, thread: usize) -> Option<usize> {
        let (before, own) = self.shares.split_at(thread);
        own[0].take(true).or_else(|| own[1..].iter().chain(before).find_map(|share| share.take(false)))
    }

    fn work(&self, task: Task, thread: usize) {
        let was = BUSY.replace(true);
        let result = catch_unwind(AssertUnwindSafe(|| {
            while let Some(index) = self.take(thread) {
                // SAFETY: the region is open or waits for this thread; its closure is alive.
                unsafe { (task.call)(task.data, index) };
            }
        }));
        BUSY.set(was);
        if let Err(panic) = result {
            // Nobody needs the rest.
            self.shares.iter().for_each(|share| share.set(0..0));
            resume_unwind(panic);
        }
    }
}

fn wake(member: &Thread, sleeping: &AtomicBool) {
    if sleeping.load(Ordering::SeqCst) {
        member.unpark();
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
        let team = Team::new(4).unwrap();
        for count in [0, 1, 2, 3, 17, 1000] {
            for _ in 0..200 {
                let seen: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                team.run(count, |i| {
                    seen[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(seen.iter().all(|s| s.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn regions_nest_and_callers_take_turns() {
        let team = Team::new(3).unwrap();
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        team.run(5, |_| {
                            team.run(7, |_| {
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
    fn a_panic_reaches_the_caller_and_the_team_goes_on() {
        let team = Team::new(3).unwrap();
        for bad in 0..20 {
            let result = catch_unwind(AssertUnwindSafe(|| team.run(20, |i| assert!(i != bad, "task {bad}"))));
            assert!(result.is_err());
            let count = AtomicUsize::new(0);
            team.run(20, |_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(count.load(Ordering::Relaxed), 20);
        }
    }
}
