//! Float buffers aligned to cache lines.

use std::ops::{Deref, DerefMut};

/// One cache line of floats.
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// A slice of floats that starts on a cache line: a 64-byte vector load that straddles two lines costs double, and the
/// matrix kernel does little else than load.
#[derive(Debug, Clone, Default)]
pub struct Buffer {
    lines: Vec<Line>,
    len: usize,
}

impl Buffer {
    pub fn zeros(len: usize) -> Self {
        Self { lines: vec![Line([0.0; 16]); len.div_ceil(16)], len }
    }

    /// Grows to at least `len` floats; what it held before is not kept in order.
    pub fn grow(&mut self, len: usize) {
        if len > self.len {
            // Dropped first: the old and the new buffer need not exist together.
            *self = Self::default();
            *self = Self::zeros(len);
        }
    }
}

impl Deref for Buffer {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }
}
