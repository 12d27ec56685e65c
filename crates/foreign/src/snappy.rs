//! Snappy's block format, for reading: a length, then literals and copies of what came before.

/// The text of a block; `None` where it is damaged or would be longer than it says.
pub(crate) fn decompress(block: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut input = Input { bytes: block, at: 0 };
    let length = usize::try_from(input.varint()?).ok().filter(|length| *length <= limit)?;
    let mut out = Vec::with_capacity(length);
    while input.at < block.len() {
        let tag = input.byte()?;
        match tag & 3 {
            0 => {
                let short = usize::from(tag >> 2);
                let count = if short < 60 { short } else { input.little(short - 59)? } + 1;
                out.extend_from_slice(input.take(count)?);
            }
            1 => {
                let offset = (usize::from(tag >> 5) << 8) | usize::from(input.byte()?);
                copy(&mut out, offset, usize::from((tag >> 2) & 7) + 4)?;
            }
            kind => {
                let offset = input.little(if kind == 2 { 2 } else { 4 })?;
                copy(&mut out, offset, usize::from(tag >> 2) + 1)?;
            }
        }
        if out.len() > length {
            return None;
        }
    }
    (out.len() == length).then_some(out)
}

/// Copies may overlap what they write.
fn copy(out: &mut Vec<u8>, offset: usize, count: usize) -> Option<()> {
    let start = out.len().checked_sub(offset).filter(|_| offset > 0)?;
    for at in start..start + count {
        out.push(*out.get(at)?);
    }
    Some(())
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn little(&mut self, count: usize) -> Option<usize> {
        let bytes = self.take(count)?;
        Some(bytes.iter().rev().fold(0, |value, byte| (value << 8) | usize::from(*byte)))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_overlapping_copies() {
        // "ab", then eight more by copying from two before.
        assert_eq!(decompress(&[10, 1 << 2, b'a', b'b', (4 << 2) | 1, 2], 100).unwrap(), b"ababababab");
        assert_eq!(decompress(&[2, 1 << 2, b'a', b'b'], 1), None, "over the limit");
        assert_eq!(decompress(&[3, 1 << 2, b'a', b'b'], 100), None, "shorter than it says");
        assert_eq!(decompress(&[5, 0, b'a', 1, 9], 100), None, "a copy from before the beginning");
        assert_eq!(decompress(&[], 100), None);
    }
}
