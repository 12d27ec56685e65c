//! Cache of work shared by episodes.

use std::collections::HashMap;
use std::sync::Mutex;

use hone_trace::Digest;

/// Cache keyed by the digest of a value's source, emptied when full. Tasks may each have their own tools, so the cache
/// must be bounded in entries and in bytes.
pub(super) struct Cache<T>(Mutex<Kept<T>>);

struct Kept<T> {
    values: HashMap<Digest, T>,
    /// Bytes of the source texts. A compiled schema is about fifty times as large.
    bytes: usize,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(Mutex::new(Kept { values: HashMap::new(), bytes: 0 }))
    }
}

impl<T: Clone> Cache<T> {
    const CAPACITY: usize = 256;
    const BYTES: usize = 1 << 20;

    pub(super) fn get(&self, key: &Digest) -> Option<T> {
        self.0.lock().ok()?.values.get(key).cloned()
    }

    /// Inserts a value made from a text of `bytes` bytes, unless it alone exceeds the limit.
    pub(super) fn insert(&self, key: Digest, value: T, bytes: usize) {
        let Ok(mut kept) = self.0.lock() else { return };
        if bytes > Self::BYTES {
            return;
        }
        if kept.values.len() >= Self::CAPACITY || kept.bytes + bytes > Self::BYTES {
            kept.values.clear();
            kept.bytes = 0;
        }
        kept.bytes += bytes;
        kept.values.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_in_number_and_in_size() {
        let key = |n: usize| Digest::of(&n.to_le_bytes());
        for (count, bytes) in [(10_000, 1), (10_000, 100_000), (10, Cache::<usize>::BYTES + 1)] {
            let cache = Cache::default();
            for n in 0..count {
                cache.insert(key(n), n, bytes);
            }
            let kept = (0..count).filter(|n| cache.get(&key(*n)).is_some()).count();
            assert!(
                kept <= Cache::<usize>::CAPACITY && kept * bytes <= Cache::<usize>::BYTES,
                "{kept} of {bytes} bytes"
            );
        }
        let cache = Cache::default();
        cache.insert(key(0), 7, 100_000);
        cache.insert(key(1), 8, 100_000);
        assert_eq!((cache.get(&key(0)), cache.get(&key(1))), (Some(7), Some(8)));
    }
}
