//! Randomness has one root: every stream is derived from (run seed, purpose, task key, replica, turn).
//!
//! Two streams with different paths are independent, and a stream depends on nothing but its path: not on the order of
//! work, the number of threads or whether the run was resumed.

use sha2::{Digest as _, Sha256};

/// A point in the tree of seeds. `Seed::root(run).with("rollout").with(task).at(replica).at(turn)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seed([u8; 32]);

impl Seed {
    pub fn root(run_seed: u64) -> Self {
        Self(Sha256::new().chain_update(b"hone seed\0").chain_update(run_seed.to_le_bytes()).finalize().into())
    }

    /// The child named by a text: a purpose or a task key.
    #[must_use]
    pub fn with(self, name: &str) -> Self {
        Self(Sha256::new().chain_update(self.0).chain_update(b"s").chain_update(name).finalize().into())
    }

    /// The child named by a number: a replica or a turn.
    #[must_use]
    pub fn at(self, number: u64) -> Self {
        Self(Sha256::new().chain_update(self.0).chain_update(b"n").chain_update(number.to_le_bytes()).finalize().into())
    }

    /// The seed as one number, for code that takes a `u64`.
    pub fn value(self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(first)
    }

    pub fn rng(self) -> Rng {
        Rng::new(self.value())
    }
}

/// SplitMix64: small, fast, the same on every machine and in every release of Hone.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1), 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in 0..n, without modulo bias. `n` = 0 gives 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// One of the items, or `None` of an empty slice.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }

    /// Fisher-Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
