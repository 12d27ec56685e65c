//! Paged KV cache on the device.
//!
//! A page of the engine has 32 tokens, a block of the kernels 16: page p holds, for every layer, two blocks of keys and two of
//! values. Pages follow one another in one array, so that growing is one copy and so is the copy of a page.

use std::sync::Arc;

use hone_cuda::decode::{Layer, PAGE as BLOCK};
use hone_cuda::{Buffer, Float};
use hone_engine::backend::PageStore;
use hone_engine::generate::step::{PAGE, PageId};
use hone_engine::{Config, Result};

use crate::cuda::{Shared, fault};

/// Blocks of keys in a page of one layer; the same number holds its values.
const BLOCKS: usize = PAGE / BLOCK;
/// Pages at first.
const FIRST: usize = 256;

#[derive(Debug)]
pub struct Pages<T> {
    shared: Arc<Shared>,
    layers: usize,
    /// Elements of one block: 16 tokens of all key heads.
    block: usize,
    count: usize,
    buffer: Option<Buffer<T>>,
    /// Copies that were asked for and not made yet: (from, to).
    copies: Vec<(PageId, PageId)>,
}

impl<T: Float> Pages<T> {
    pub(crate) fn new(shared: &Arc<Shared>, config: &Config, wide: usize) -> Self {
        let block = BLOCK * config.heads.keys * wide;
        Self { shared: Arc::clone(shared), layers: config.layers, block, count: 0, buffer: None, copies: Vec::new() }
    }

    /// Elements of a page.
    pub(crate) fn elements(config: &Config, wide: usize) -> usize {
        config.layers * 2 * PAGE * config.heads.keys * wide
    }

    fn page(&self) -> usize {
        self.layers * 2 * BLOCKS * self.block
    }

    /// Number of a page's first block in any layer; its second is the next.
    pub(crate) fn first_block(&self, page: PageId) -> usize {
        page * self.layers * 2 * BLOCKS
    }

    /// Makes room for the pages there are, and the copies that were asked for.
    pub(crate) fn prepare(&mut self) -> Result<()> {
        let (page, count) = (self.page(), self.count.max(1));
        let there = self.buffer.as_ref().map_or(0, |b| b.len() / page);
        if there < count {
            let gpu = &self.shared.gpu;
            let sized = |pages: usize| match &self.buffer {
                Some(old) => old.grown(pages * page),
                None => Buffer::zeros(gpu, pages * page),
            };
            // Doubled, so that growing is rare; only what is needed if that does not fit.
            let larger = sized(count.max(2 * there).max(FIRST)).or_else(|_| sized(count)).map_err(fault)?;
            self.buffer = Some(larger);
        }
        if let Some(buffer) = &mut self.buffer {
            for (from, to) in self.copies.drain(..) {
                buffer.copy_within(from * page..(from + 1) * page, to * page).map_err(fault)?;
            }
        }
        Ok(())
    }

    /// Device address of the pages; 0 before there are any.
    pub(crate) fn address(&self) -> u64 {
        self.buffer.as_ref().map_or(0, Buffer::address)
    }

    /// Keys and values of a layer, blocks numbered as [`Pages::first_block`] says.
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
