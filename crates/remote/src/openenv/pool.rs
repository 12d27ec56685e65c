//! Session pool: bounded by the recipe, and by the capacity the server turned out to have.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A bounded number of places, which can shrink.
#[derive(Debug)]
pub(super) struct Pool {
    places: Arc<Semaphore>,
    // Std mutex: held for a subtraction.
    size: Mutex<Size>,
}

#[derive(Debug)]
struct Size {
    limit: usize,
    /// Places to remove that were in use when the pool shrank.
    owed: usize,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    pool: Arc<Pool>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Pool {
    pub(super) fn new(limit: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(limit)), size: Mutex::new(Size { limit, owed: 0 }) }
    }

    /// Waits for a place.
    pub(super) async fn place(self: &Arc<Self>) -> Place {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.places).acquire_owned().await.ok();
        Place { pool: Arc::clone(self), permit }
    }

    /// Places that are taken.
    pub(super) fn in_use(&self) -> usize {
        let size = self.size.lock().unwrap_or_else(PoisonError::into_inner);
        (size.limit + size.owed).saturating_sub(self.places.available_permits())
    }

    /// Limits the pool to the server's capacity.
    pub(super) fn shrink(&self, most: usize) {
        let mut size = self.size.lock().unwrap_or_else(PoisonError::into_inner);
        let most = most.max(1);
        if most < size.limit {
            let surplus = size.limit - most;
            size.owed += surplus - self.places.forget_permits(surplus);
            size.limit = most;
        }
    }

    #[cfg(test)]
    fn free(&self) -> usize {
        self.places.available_permits()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut size = self.pool.size.lock().unwrap_or_else(PoisonError::into_inner);
        if size.owed > 0 {
            size.owed -= 1;
            if let Some(permit) = self.permit.take() {
                permit.forget();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_pool_shrinks_below_what_is_in_use_as_places_come_back() {
        let pool = Arc::new(Pool::new(4));
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(pool.place().await);
        }
        pool.shrink(2);
        assert_eq!(pool.free(), 0);
        drop(held.pop());
        assert_eq!(pool.free(), 0, "that place is gone");
        held.clear();
        assert_eq!(pool.free(), 2);
        pool.shrink(0);
        assert_eq!(pool.free(), 1, "one place is left, whatever a server says");
    }
}
