//! Paged KV cache on the device.
//!
//! A page of the engine has 32 tokens, a block of the kernels 16: page p holds, for every layer, two blocks of keys and two of
//! values. Pages follow one another in one array, so that growing the array is one copy, and so is copying a page.

use std::sync::Arc;

use hone_cuda::decode::{Layer, PAGE as BLOCK};
use hone_cuda::{Buffer, Float};
use hone_engine::backend::PageStore;
use hone_engine::generate::step::{PAGE, PageId};
use hone_engine::{Config, Result};

use crate::cuda::{Shared, fault};

/// Number of blocks of keys in a page of one layer; as many hold its values.
const BLOCKS: usize = PAGE / BLOCK;
/// Initial number of pages.
const FIRST: usize = 256;

#[derive(Debug)]
pub struct Pages<T> {
    shared: Arc<Shared>,
    layers: usize,
    /// Elements of one block: 16 tokens of all key heads.
    block: usize,
    count: usize,
    /// Maximum number of pages to allocate ahead of need.
    most: usize,
    buffer: Option<Buffer<T>>,
    /// Pending copies of pages: (from, to).
    copies: Vec<(PageId, PageId)>,
}

impl<T: Float> Pages<T> {
    pub(crate) fn new(shared: &Arc<Shared>, config: &Config, wide: usize, most: usize) -> Self {
        let (shared, block) = (Arc::clone(shared), BLOCK * config.heads.keys * wide);
        Self { shared, layers: config.layers, block, count: 0, most, buffer: None, copies: Vec::new() }
    }

    /// Number of elements of a page.
    pub(crate) fn elements(config: &Config, wide: usize) -> usize {
        config.layers * 2 * PAGE * config.heads.keys * wide
    }

    fn page(&self) -> usize {
        self.layers * 2 * BLOCKS * self.block
    }

    /// Slot of a position in any layer, for a sequence with these pages: tokens are numbered from the layer's first block.
    pub(crate) fn slot(&self, path: &[PageId], position: usize) -> usize {
        path[position / PAGE] * self.layers * 2 * PAGE + position % PAGE
    }

    /// Allocates the pages added so far, and makes the pending copies.
    pub(crate) fn prepare(&mut self) -> Result<()> {
        let (page, count) = (self.page(), self.count.max(1));
        let there = self.buffer.as_ref().map_or(0, |b| b.len() / page);
        if there < count {
            let gpu = &self.shared.gpu;
            let sized = |pages: usize| match &self.buffer {
                Some(old) => old.grown(pages * page),
                None => Buffer::zeros(gpu, pages * page),
            };
            // Doubled up to the cache's limit, so that growing is rare; only what is needed if that does not fit.
            let ahead = (2 * there).max(FIRST).min(self.most);
            let larger = sized(count.max(ahead)).or_else(|_| sized(count)).map_err(fault)?;
            self.buffer = Some(larger);
        }
        if let Some(buffer) = &mut self.buffer {
            for (from, to) in self.copies.drain(..) {
                buffer.copy_within(from * page..(from + 1) * page, to * page).map_err(fault)?;
            }
        }
        Ok(())
    }

    /// Device address of the pages; 0 before the first.
    pub(crate) fn address(&self) -> u64 {
        self.buffer.as_ref().map_or(0, Buffer::address)
    }

    /// Keys and values of a layer, tokens numbered as [`Pages::slot`] says.
    pub(crate) fn layer(&self, layer: usize) -> Option<Layer<'_, T>> {
        let all = self.buffer.as_ref()?.view();
        let at = layer * 2 * BLOCKS * self.block;
        Some(Layer { k: all.slice(at..all.len()), v: all.slice(at + BLOCKS * self.block..all.len()) })
    }
}

impl<T: Float> PageStore for Pages<T> {
    fn grow(&mut self) {
        self.count += 1;
    }

    /// Nothing to do: no row reads past its own length, and everything within it was written.
    fn clear(&mut self, _page: PageId) {}

    fn copy(&mut self, from: PageId, to: PageId, _count: usize) {
        self.copies.push((from, to));
    }
}
