//! Float buffers aligned to cache lines, the large ones in huge pages.

use std::ops::{Deref, DerefMut};

/// One cache line of floats.
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// Bytes of a huge page. From here on a buffer asks for them: decoding walks through all weights, keys and values for
/// every token, and with pages of 4 KiB looking up addresses takes a good part of the time.
const HUGE: usize = 2 << 20;

/// A slice of floats that starts on a cache line: a 64-byte vector load that straddles two lines costs double, and the
/// matrix kernel mostly loads.
#[derive(Debug, Clone, Default)]
pub struct Buffer {
    memory: Memory,
    len: usize,
}

#[derive(Debug)]
enum Memory {
    Heap(Vec<Line>),
    /// Mapped from the system, in whole pages.
    Mapped(memmap2::MmapMut),
}

impl Memory {
    fn zeros(len: usize) -> Self {
        let bytes = len * size_of::<f32>();
        if bytes >= HUGE
            && let Ok(map) = memmap2::MmapMut::map_anon(bytes.next_multiple_of(HUGE))
        {
            // Without huge pages it is slower but still correct.
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            return Self::Mapped(map);
        }
        Self::Heap(vec![Line([0.0; 16]); len.div_ceil(16)])
    }

    fn floats(&self) -> &[f32] {
        match self {
            Self::Heap(lines) => bytemuck::cast_slice(lines),
            Self::Mapped(map) => bytemuck::cast_slice(map),
        }
    }

    fn floats_mut(&mut self) -> &mut [f32] {
        match self {
            Self::Heap(lines) => bytemuck::cast_slice_mut(lines),
            Self::Mapped(map) => bytemuck::cast_slice_mut(map),
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::Heap(Vec::new())
    }
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        let floats = self.floats();
        let mut copy = Self::zeros(floats.len());
        copy.floats_mut()[..floats.len()].copy_from_slice(floats);
        copy
    }
}

impl Buffer {
    pub fn zeros(len: usize) -> Self {
        Self { memory: Memory::zeros(len), len }
    }

    /// Grows to at least `len` floats; previous contents are not preserved.
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
        &self.memory.floats()[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.memory.floats_mut()[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small ones come from the heap, large ones from the system.
    #[test]
    fn buffers_of_any_size_are_zeros_on_a_cache_line() {
        for len in [0, 1, 17, HUGE / 4 - 1, HUGE / 4, HUGE + 5] {
            let mut buffer = Buffer::zeros(len);
            assert_eq!((buffer.len(), buffer.as_ptr() as usize % 64), (len, 0));
            assert!(buffer.iter().all(|x| *x == 0.0));
            for (at, x) in buffer.iter_mut().enumerate() {
                *x = at as f32;
            }
            let copy = buffer.clone();
            assert!(copy[..] == buffer[..] && (len == 0 || copy.as_ptr() != buffer.as_ptr()));
            buffer.grow(len / 2);
            assert!(copy[..] == buffer[..], "it is large enough");
            buffer.grow(2 * len + 1);
            assert_eq!(buffer.len(), 2 * len + 1);
        }
    }
}
