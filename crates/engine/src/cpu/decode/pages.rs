//! Paged KV cache, storage: pages of [`KEYS`] positions, for all layers and key heads.
//!
//! A page is laid out as attention reads it: per layer and key head a block of keys `[dim][KEYS]` and a block of values
//! `[KEYS][padded]`. The cache decides which tokens a page holds and who may write it.

#![expect(unsafe_code, reason = "tasks read shared pages while others write their own")]

use crate::config::Config;
use crate::cpu::buffer::Buffer;
use crate::cpu::kernels::attention::{Heads, KEYS};

/// Shape of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageShape {
    pub(crate) layers: usize,
    pub(crate) heads: Heads,
}

impl PageShape {
    pub(crate) fn new(config: &Config) -> Self {
        Self { layers: config.layers, heads: config.heads }
    }

    fn keys(self) -> usize {
        self.heads.dim * KEYS
    }

    fn block(self) -> usize {
        (self.heads.dim + self.heads.padded()) * KEYS
    }

    fn floats(self) -> usize {
        self.layers * self.heads.keys * self.block()
    }

    pub(crate) fn bytes(self) -> u64 {
        self.floats() as u64 * 4
    }
}

/// Bytes of one allocation, if a page is not larger.
const PIECE: u64 = 32 << 20;

/// All pages made so far.
#[derive(Debug)]
pub struct Pages {
    shape: PageShape,
    starts: Vec<*mut f32>,
    /// Allocated but unused pages, the next one last.
    spare: Vec<*mut f32>,
    /// The memory, accessed only through the pointers taken from it.
    pieces: Vec<Buffer>,
}

// SAFETY: the pages' memory is theirs; access from several threads is governed by the contracts below.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    pub(crate) fn new(shape: PageShape) -> Self {
        Self { shape, starts: Vec::new(), spare: Vec::new(), pieces: Vec::new() }
    }

    pub(crate) fn shape(&self) -> PageShape {
        self.shape
    }

    /// Adds a page of zeros.
    pub(crate) fn grow(&mut self) {
        if self.spare.is_empty() {
            let (len, count) = (self.shape.floats(), (PIECE / self.shape.bytes()).max(1) as usize);
            let mut piece = Buffer::zeros(count * len);
            let start = piece.as_mut_ptr();
            // SAFETY: the piece has `count` pages.
            self.spare.extend((0..count).rev().map(|page| unsafe { start.add(page * len) }));
            self.pieces.push(piece);
        }
        self.starts.extend(self.spare.pop());
    }

    /// Zeros a page: attention multiplies positions without a token by 0, and values left by a previous owner may be
    /// non-finite.
    pub(crate) fn clear(&mut self, page: usize) {
        // SAFETY: `&mut self`: nobody else holds any part of the page.
        unsafe { std::slice::from_raw_parts_mut(self.starts[page], self.shape.floats()) }.fill(0.0);
    }

    /// Copies the first `count` positions of a page into another, cleared one.
    pub(crate) fn copy(&mut self, from: usize, to: usize, count: usize) {
        assert!(from != to && count <= KEYS);
        let (dim, padded) = (self.shape.heads.dim, self.shape.heads.padded());
        for layer in 0..self.shape.layers {
            for head in 0..self.shape.heads.keys {
                // SAFETY: `&mut self`, and the pages differ.
                let ((keys, values), (to_keys, to_values)) =
                    unsafe { (self.read(from, layer, head), self.write(to, layer, head)) };
                for row in 0..dim {
                    to_keys[row * KEYS..][..count].copy_from_slice(&keys[row * KEYS..][..count]);
                }
                to_values[..count * padded].copy_from_slice(&values[..count * padded]);
            }
        }
    }

    /// Keys and values of one layer and key head.
    ///
    /// # Safety
    /// Nobody may write these blocks while the slices live.
    pub(crate) unsafe fn read(&self, page: usize, layer: usize, head: usize) -> (&[f32], &[f32]) {
        // SAFETY: `place` is inside the page; unwritten by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.place(page, layer, head), self.shape.block()) }
            .split_at(self.shape.keys())
    }

    /// Like [`Pages::read`], but mutable.
    ///
    /// # Safety
    /// Nobody else may touch these blocks while the slices live.
    #[expect(clippy::mut_from_ref, reason = "disjoint blocks are written from several threads; see the contract")]
    pub(crate) unsafe fn write(&self, page: usize, layer: usize, head: usize) -> (&mut [f32], &mut [f32]) {
        // SAFETY: `place` is inside the page; unaliased by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.place(page, layer, head), self.shape.block()) }
            .split_at_mut(self.shape.keys())
    }

    /// Addresses of the keys and values of one layer and key head.
    pub(crate) fn address(&self, page: usize, layer: usize, head: usize) -> [*const f32; 2] {
        let keys = self.place(page, layer, head).cast_const();
        [keys, keys.wrapping_add(self.shape.keys())]
    }

    fn place(&self, page: usize, layer: usize, head: usize) -> *mut f32 {
        assert!(layer < self.shape.layers && head < self.shape.heads.keys);
        // SAFETY: the assertion keeps the offset inside the page.
        unsafe { self.starts[page].add((layer * self.shape.heads.keys + head) * self.shape.block()) }
    }
}
