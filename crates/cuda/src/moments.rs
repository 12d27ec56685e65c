//! Moments of AdamW on the device: f32, or eight bits each. Levels and layout: `kernels/adamw.cu`.

use crate::buffer::{Buffer, ViewMut};
use crate::error::{Result, ensure};
use crate::gpu::Gpu;

/// Block size of 8-bit moments, in parameters: the kernel's own constant.
pub(crate) const BLOCK: usize = 256;

/// Largest codes of first and second moments: those of the block's largest value.
const MOST: [u8; 2] = [120, 248];
/// Magnitude bits of codes; the remaining bit of first moments is the sign.
const BITS: [u8; 2] = [127, 255];

/// First and second moments of AdamW.
#[derive(Debug)]
pub enum Moments {
    /// 8 bytes per parameter.
    Full { m: Buffer<f32>, v: Buffer<f32> },
    /// 2 bytes per parameter, and 8 per block for its largest moments.
    Packed { m: Buffer<u8>, v: Buffer<u8>, tops: Buffer<f32> },
}

/// Mutable view of moments, or of a part of them.
#[derive(Debug)]
pub enum MomentsMut<'a> {
    Full { m: ViewMut<'a, f32>, v: ViewMut<'a, f32> },
    Packed { m: ViewMut<'a, u8>, v: ViewMut<'a, u8>, tops: ViewMut<'a, f32> },
}

impl MomentsMut<'_> {
    /// True if they are the moments of `len` parameters.
    pub(crate) fn fit(&self, len: usize) -> bool {
        match self {
            Self::Full { m, v } => m.len() == len && v.len() == len,
            Self::Packed { m, v, tops } => m.len() == len && v.len() == len && tops.len() == 2 * len.div_ceil(BLOCK),
        }
    }
}

impl Moments {
    /// Moments of `len` parameters before their first step.
    pub fn full(gpu: &Gpu, len: usize) -> Result<Self> {
        Ok(Self::Full { m: Buffer::zeros(gpu, len)?, v: Buffer::zeros(gpu, len)? })
    }

    /// Like [`Moments::full`], in eight bits.
    pub fn packed(gpu: &Gpu, len: usize) -> Result<Self> {
        let tops = Buffer::zeros(gpu, 2 * len.div_ceil(BLOCK))?;
        Ok(Self::Packed { m: Buffer::zeros(gpu, len)?, v: Buffer::zeros(gpu, len)?, tops })
    }

    pub fn views(&mut self) -> MomentsMut<'_> {
        match self {
            Self::Full { m, v } => MomentsMut::Full { m: m.view_mut(), v: v.view_mut() },
            Self::Packed { m, v, tops } => {
                MomentsMut::Packed { m: m.view_mut(), v: v.view_mut(), tops: tops.view_mut() }
            }
        }
    }

    /// First and second moments in f32.
    pub fn read(&self) -> Result<[Vec<f32>; 2]> {
        match self {
            Self::Full { m, v } => Ok([m.read()?, v.read()?]),
            Self::Packed { m, v, tops } => {
                let tops = tops.read()?;
                Ok([decoded(&m.read()?, &tops, 0), decoded(&v.read()?, &tops, 1)])
            }
        }
    }

    /// Overwrites both. Restores exactly what [`Moments::read`] returned; anything else is rounded to the nearest level.
    pub fn write(&mut self, values: [&[f32]; 2]) -> Result<()> {
        match self {
            Self::Full { m, v } => {
                m.write(values[0])?;
                v.write(values[1])
            }
            Self::Packed { m, v, tops } => {
                let fit = values[0].len() == values[1].len();
                ensure(fit, "moments", || format!("{} and {}", values[0].len(), values[1].len()))?;
                let mut largest = vec![0.0; tops.len()];
                m.write(&encoded(values[0], &mut largest, 0))?;
                v.write(&encoded(values[1], &mut largest, 1))?;
                tops.write(&largest)
            }
        }
    }
}

/// Scale, a power of two, that maps a share of the block's largest to a float whose leading bits are its code.
fn shift(which: usize) -> f32 {
    f32::from_bits(u32::from(MOST[which]) << 20)
}

/// Decoded code without its sign, as a share of the block's largest.
fn level(code: u8, which: usize) -> f32 {
    f32::from_bits(u32::from(code) << 20) / shift(which)
}

/// Decodes first (0) or second (1) moments; `tops` has the largest of both for each block.
fn decoded(codes: &[u8], tops: &[f32], which: usize) -> Vec<f32> {
    let bits = BITS[which];
    let blocks = codes.chunks(BLOCK).zip(tops.chunks_exact(2));
    let value = |&code: &u8, top: f32| {
        let size = top * level(code & bits, which);
        if code & !bits != 0 { -size } else { size }
    };
    blocks.flat_map(|(codes, tops)| codes.iter().map(move |code| value(code, tops[which]))).collect()
}

/// Encodes values by their nearest codes; the largest of each block goes to `tops`.
fn encoded(values: &[f32], tops: &mut [f32], which: usize) -> Vec<u8> {
    let mut codes = Vec::with_capacity(values.len());
    for (values, tops) in values.chunks(BLOCK).zip(tops.chunks_exact_mut(2)) {
        let top = values.iter().fold(0.0f32, |top, x| top.max(x.abs()));
        tops[which] = top;
        codes.extend(values.iter().map(|&x| code(x, top, which)));
    }
    codes
}

fn code(x: f32, top: f32, which: usize) -> u8 {
    let size = x.abs();
    let sign = if x.is_sign_negative() { !BITS[which] } else { 0 };
    if size == 0.0 {
        return sign;
    }
    let nearest = ((size / top * shift(which)).to_bits() + (1 << 19)) >> 20;
    // A second moment that is not zero never becomes zero.
    let code = if size >= top { u32::from(MOST[which]) } else { nearest };
    code.clamp(which as u32, u32::from(MOST[which])) as u8 | sign
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn what_was_decoded_is_encoded_to_the_same_codes() {
        let mut random = Random(3);
        for which in [0, 1] {
            let mut code = || random.below(usize::from(MOST[which]) + 1) as u8 | (random.below(2) as u8 * !BITS[which]);
            let mut codes: Vec<u8> = (0..3000).map(|_| code()).collect();
            // A step leaves the largest of each block at its last code; one block has not moved yet.
            codes.iter_mut().step_by(BLOCK).for_each(|c| *c = MOST[which]);
            codes[512..768].fill(0);
            let tops: Vec<f32> = (0..24).map(|_| 10f32.powf(-8.0 * random.uniform() as f32)).collect();
            let values = decoded(&codes, &tops, which);
            let mut found = vec![0.0; 24];
            assert_eq!(encoded(&values, &mut found, which), codes);
            let moved = (0..12).filter(|block| *block != 2);
            assert!(moved.map(|b| 2 * b + which).all(|at| found[at] == tops[at]));
            assert_eq!(decoded(&codes, &found, which), values);
        }
    }

    #[test]
    fn other_values_are_rounded_to_the_nearest_level() {
        let mut random = Random(4);
        let values: Vec<f32> = (0..1000).map(|_| random.uniform() as f32 - 0.5).collect();
        let mut tops = vec![0.0; 8];
        let found = decoded(&encoded(&values, &mut tops, 0), &tops, 0);
        for (x, y) in values.iter().zip(found) {
            assert!((x - y).abs() <= x.abs() / 15.9 + 1e-5, "{x} became {y}");
        }
        let squares: Vec<f32> = values.iter().map(|x| x * x * 1e-9 * if *x > 0.2 { 1.0 } else { 1e-12 }).collect();
        let found = decoded(&encoded(&squares, &mut tops, 1), &tops, 1);
        assert!(found.iter().all(|v| *v > 0.0), "a second moment that is not zero stays so");
    }
}
