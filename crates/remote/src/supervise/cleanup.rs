//! Cleanup of rented resources when Hone ends, however it ends.
//!
//! Code that rents a remote resource registers a [`Release`]. Dropping its [`Registered`] releases it, which covers an
//! orderly end and a panic that unwinds; [`release_all`] is for an exit that unwinds nothing. Either way it runs once,
//! on a separate thread and runtime: the one that rented it may be gone. After a kill the TTL ends the resource.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak, mpsc};
use std::time::Duration;

/// Releases everything. Called once.
pub(crate) trait Release: Send + Sync + 'static {
    fn release(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Longest time that a release may take.
const PATIENCE: Duration = Duration::from_secs(30);

struct Held {
    what: Arc<dyn Release>,
    released: AtomicBool,
}

impl Held {
    fn release(&self) {
        if self.released.swap(true, Ordering::SeqCst) {
            return;
        }
        let what = Arc::clone(&self.what);
        // If the thread does not finish in time, the rented instances end by their TTL.
        let _ = on_a_thread(PATIENCE, async move { what.release().await });
    }
}

// Std mutex: held to copy a few pointers.
static HELD: Mutex<Vec<Weak<Held>>> = Mutex::new(Vec::new());

/// The program's signal watch, and whether it has started.
static WATCH: OnceLock<fn()> = OnceLock::new();
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Registers a function to call before the first resource is rented: there the program starts to wait for signals that
/// would end it.
pub fn watch_with(watch: fn()) {
    let _ = WATCH.set(watch);
}

/// Something that is released when this is dropped.
pub(crate) struct Registered(Arc<Held>);

impl std::fmt::Debug for Registered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Registered")
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.0.release();
    }
}

pub(crate) fn register(what: Arc<dyn Release>) -> Registered {
    if let Some(watch) = WATCH.get()
        && !WATCHED.swap(true, Ordering::SeqCst)
    {
        watch();
    }
    let held = Arc::new(Held { what, released: AtomicBool::new(false) });
    let mut all = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|held| held.strong_count() > 0);
    all.push(Arc::downgrade(&held));
    Registered(held)
}

/// Releases everything that is registered; for an exit that runs no destructors.
pub fn release_all() {
    let all = std::mem::take(&mut *HELD.lock().unwrap_or_else(PoisonError::into_inner));
    for held in all.iter().filter_map(Weak::upgrade) {
        held.release();
    }
}

/// Runs a future to completion from anywhere, inside another runtime or without one. `None`: not within the deadline.
pub(crate) fn on_a_thread<T: Send + 'static>(
    deadline: Duration,
    future: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        let done = runtime.block_on(async { tokio::time::timeout(deadline, future).await.ok() });
        let _ = sender.send(done);
    });
    receiver.recv_timeout(deadline + Duration::from_secs(1)).ok().flatten()
}
