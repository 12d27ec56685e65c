//! Token sampling: one token per row of logits by given random numbers, with each request's own parameters and mask. Formulas
//! and layout: `kernels/draw.cu`.

#![expect(unsafe_code, reason = "launches a kernel; shapes are checked first")]

use crate::buffer::{Buffer, View};
use crate::error::{Result, ensure};
use crate::gpu::{Arg, Gpu, Launch};

/// Parameters of one draw.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// Temperature; 0: greedy.
    pub temperature: f32,
    /// Uniform random number in [0, 1).
    pub unit: f64,
    /// Top-k; 0: off.
    pub top_k: u32,
    /// Top-p (nucleus); 1: off.
    pub top_p: f32,
    /// Min-p; 0: off.
    pub min_p: f32,
    /// Row of the masks; `None` allows every token.
    pub mask: Option<usize>,
}

/// Token masks of some of the draws, one bit per token.
#[derive(Clone, Debug, Default)]
pub struct Masks {
    words: Vec<i32>,
    rows: usize,
}

impl Masks {
    pub fn clear(&mut self) {
        self.words.clear();
        self.rows = 0;
    }

    /// Adds a mask and returns its row. Tokens past the end of `allowed` are masked.
    pub fn push(&mut self, allowed: &[bool], vocab: usize) -> usize {
        let width = vocab.div_ceil(32);
        let word = |at: usize| {
            let flags = allowed.get(at * 32..vocab.min(allowed.len()).min(at * 32 + 32)).unwrap_or_default();
            flags.iter().enumerate().fold(0u32, |word, (bit, &on)| word | u32::from(on) << bit).cast_signed()
        };
        self.words.extend((0..width).map(word));
        self.rows += 1;
        self.rows - 1
    }
}

/// A drawn token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Drawn {
    Token {
        token: u32,
        /// Log-probability over the whole vocabulary at the ticket's temperature.
        logprob: f32,
        /// Log-probability among the tokens left to choose from.
        sampling_logprob: f32,
    },
    /// The logits are not finite.
    NotFinite,
    /// The mask allows no token.
    NothingAllowed,
}

/// Samples a token for each of the first rows of `logits` ([rows, vocabulary rounded up to 8]). Waits for the device.
pub fn draw(gpu: &Gpu, logits: View<'_, f32>, vocab: usize, tickets: &[Ticket], masks: &Masks) -> Result<Vec<Drawn>> {
    let (rows, stride, width) = (tickets.len(), vocab.next_multiple_of(8), vocab.div_ceil(32));
    let known = tickets.iter().all(|t| t.mask.is_none_or(|row| row < masks.rows));
    ensure(
        vocab > 0 && logits.len >= rows * stride && known && masks.words.len() == masks.rows * width,
        "draw",
        || format!("{} logits for {rows} rows, {} masks", logits.len, masks.rows),
    )?;
    let settings = |t: &Ticket| {
        let (k, mask) = (t.top_k.min(i32::MAX.cast_unsigned()), t.mask.map_or(-1.0, |row| row as f64));
        [f64::from(t.temperature), t.unit, f64::from(t.top_p), f64::from(t.min_p), f64::from(k), mask]
    };
    let settings = sent(gpu, &tickets.iter().flat_map(settings).collect::<Vec<f64>>())?;
    let masks = if masks.rows > 0 { Some(sent(gpu, &masks.words)?) } else { None };
    // Tokens and both log-probabilities in one array: one copy brings them back.
    let mut out = Buffer::<i32>::uninit(gpu, 3 * rows)?;
    let launch = Launch { module: "draw", kernel: "draw", grid: (rows as u32, 1), block: 1024, shared: 0 };
    let mut part = |at: usize| Arg::Pointer(out.part_mut(at * rows..(at + 1) * rows).pointer);
    let args = [
        logits.into(),
        vocab.into(),
        stride.into(),
        settings.view().into(),
        masks.as_ref().map(Buffer::view).into(),
        width.into(),
        part(0),
        part(1),
        part(2),
    ];
    // SAFETY: as draw.cu declares; lengths checked above.
    unsafe { gpu.launch(launch, &args) }?;
    let out = out.read()?;
    let float = |at: usize| f32::from_bits(out[at].cast_unsigned());
    let drawn = |row: usize| match u32::try_from(out[row]) {
        Ok(token) => Drawn::Token { token, logprob: float(rows + row), sampling_logprob: float(2 * rows + row) },
        Err(_) if out[row] == -2 => Drawn::NothingAllowed,
        Err(_) => Drawn::NotFinite,
    };
    Ok((0..rows).map(drawn).collect())
}

/// A copy on the device.
fn sent<E: crate::buffer::Element>(gpu: &Gpu, values: &[E]) -> Result<Buffer<E>> {
    let mut buffer = Buffer::uninit(gpu, values.len())?;
    buffer.put(0, values)?;
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_bits_and_what_they_do_not_cover_is_off() {
        let mut masks = Masks::default();
        let mut allowed = vec![false; 70];
        [0, 31, 32, 69].iter().for_each(|&at| allowed[at] = true);
        assert_eq!(masks.push(&allowed, 80), 0);
        assert_eq!(masks.push(&[true; 100], 80), 1);
        assert_eq!(masks.push(&[], 80), 2);
        let words: Vec<u32> = masks.words.iter().map(|w| w.cast_unsigned()).collect();
        assert_eq!(words, [1 | 1 << 31, 1, 1 << 5, u32::MAX, u32::MAX, 0xffff, 0, 0, 0]);
    }
}
