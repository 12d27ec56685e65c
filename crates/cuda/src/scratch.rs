//! Scratch memory for the results of a recorded step.
//!
//! A CUDA graph keeps the addresses it was recorded with, so buffers of a recorded step cannot come from the device's pool. They
//! are allocated from blocks kept here: first fit, by address, so that the same requests in the same order get the same
//! places. All graphs of one stream may share a scratch, because they run one after the other and keep nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use crate::buffer::{ALIGNMENT, Buffer};
use crate::error::{CudaError, Result};
use crate::gpu::Gpu;

/// Minimum size of a block taken from the device, in bytes.
const BLOCK: usize = 64 << 20;

/// Blocks of device memory and the buffers allocated from them.
#[derive(Debug)]
pub struct Scratch {
    gpu: Gpu,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    blocks: Vec<Buffer<u8>>,
    places: Places,
}

impl Scratch {
    pub fn new(gpu: &Gpu) -> Self {
        Self { gpu: gpu.clone(), state: Mutex::default() }
    }

    /// Address of `bytes` bytes. A recording allocates no new blocks: an earlier run of the same step has already
    /// allocated them.
    pub(crate) fn take(&self, gpu: &Gpu, bytes: usize) -> Result<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = state.places.take(bytes) {
            return Ok(place);
        }
        if gpu.is_recording() {
            return Err(CudaError::Shape {
                kernel: "recording",
                what: format!("{bytes} bytes more than the run before it"),
            });
        }
        let block = Buffer::<u8>::uninit(&self.gpu, bytes.next_multiple_of(ALIGNMENT).max(BLOCK))?;
        state.places.add(block.address(), block.len());
        state.blocks.push(block);
        state
            .places
            .take(bytes)
            .ok_or(CudaError::Shape { kernel: "scratch", what: format!("{bytes} bytes in a new block") })
    }

    pub(crate) fn give(&self, address: u64) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).places.give(address);
    }
}

/// Free and taken runs of addresses.
#[derive(Debug, Default)]
struct Places {
    free: BTreeMap<u64, usize>,
    taken: HashMap<u64, usize>,
}

impl Places {
    fn add(&mut self, address: u64, len: usize) {
        self.free.insert(address, len);
    }

    /// First fit: takes the first run that is long enough.
    fn take(&mut self, bytes: usize) -> Option<u64> {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        let (&address, &len) = self.free.iter().find(|&(_, &len)| len >= bytes)?;
        self.free.remove(&address);
        if len > bytes {
            self.free.insert(address + bytes as u64, len - bytes);
        }
        self.taken.insert(address, bytes);
        Some(address)
    }

    /// Merges a returned block with its free neighbours.
    fn give(&mut self, address: u64) {
        let Some(mut len) = self.taken.remove(&address) else { return };
        let mut start = address;
        if let Some(next) = self.free.remove(&(address + len as u64)) {
            len += next;
        }
        if let Some((&before, &run)) = self.free.range(..address).next_back()
            && before + run as u64 == address
        {
            self.free.remove(&before);
            (start, len) = (before, len + run);
        }
        self.free.insert(start, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_requests_get_the_same_places_and_everything_comes_back() {
        let mut places = Places::default();
        places.add(1 << 20, 1 << 16);
        places.add(1 << 30, 1 << 12);
        let round = |places: &mut Places| {
            let a = places.take(1000).unwrap();
            let b = places.take(256).unwrap();
            places.give(a);
            let c = places.take(513).unwrap();
            let d = places.take(1 << 12).unwrap();
            let all = [a, b, c, d];
            assert!(all.iter().all(|p| p % ALIGNMENT as u64 == 0), "{all:?}");
            [b, d, c].into_iter().for_each(|p| places.give(p));
            all
        };
        let first = round(&mut places);
        assert_eq!(first, round(&mut places));
        assert_eq!(first[0], first[2], "what was given back is taken again");
        assert_eq!(places.free, BTreeMap::from([(1 << 20, 1 << 16), (1 << 30, 1 << 12)]));
        assert_eq!(places.take(1 << 17), None);
        places.give(77);
        assert_eq!(places.free.len(), 2, "an address that was not taken changes nothing");
    }

    #[test]
    fn what_is_taken_never_overlaps() {
        let mut places = Places::default();
        places.add(4096, 1 << 20);
        let mut rng = xorshift(7);
        let mut held: Vec<(u64, usize)> = Vec::new();
        for _ in 0..4000 {
            if rng().is_multiple_of(3) && !held.is_empty() {
                let (address, _) = held.swap_remove(rng() as usize % held.len());
                places.give(address);
            } else {
                let bytes = 1 + rng() as usize % 20_000;
                let Some(address) = places.take(bytes) else { continue };
                let apart = |&(at, len): &(u64, usize)| at + len as u64 <= address || address + bytes as u64 <= at;
                assert!(held.iter().all(apart), "{address} + {bytes} in {held:?}");
                held.push((address, bytes));
            }
        }
        held.into_iter().for_each(|(address, _)| places.give(address));
        assert_eq!(places.free, BTreeMap::from([(4096, 1 << 20)]));
    }

    fn xorshift(mut x: u64) -> impl FnMut() -> u64 {
        move || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        }
    }
}
