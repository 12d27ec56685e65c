//! Log framing, as in LevelDB: blocks of 32 kB, and records in one fragment or several, none of which crosses a block.

const BLOCK: usize = 32 * 1024;
/// CRC-32 of kind and bytes, length (16 bits), kind.
const HEADER: usize = 7;

const WHOLE: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

fn checksum(kind: u8, bytes: &[u8]) -> [u8; 4] {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[kind]);
    crc.update(bytes);
    crc.finalize().to_le_bytes()
}

/// A record as written into a file after `at` bytes.
pub(super) fn framed(at: u64, mut record: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(record.len() + HEADER);
    let mut left = BLOCK - (at % BLOCK as u64) as usize;
    let mut begun = false;
    loop {
        if left < HEADER {
            out.resize(out.len() + left, 0);
            left = BLOCK;
        }
        let (bytes, rest) = record.split_at(record.len().min(left - HEADER));
        let kind = match (begun, rest.is_empty()) {
            (false, true) => WHOLE,
            (false, false) => FIRST,
            (true, false) => MIDDLE,
            (true, true) => LAST,
        };
        out.extend(checksum(kind, bytes));
        out.extend((bytes.len() as u16).to_le_bytes());
        out.push(kind);
        out.extend(bytes);
        if rest.is_empty() {
            return out;
        }
        (record, left, begun) = (rest, left - HEADER - bytes.len(), true);
    }
}

/// Records from an offset on, up to the first that is damaged or cut off: each with its end offset.
pub(super) fn read(bytes: &[u8], from: usize) -> Vec<(usize, Vec<u8>)> {
    let (mut at, mut record, mut found) = (from, Vec::new(), Vec::new());
    // A first fragment is empty if only its header fits into the block.
    let mut begun = false;
    while let Some((kind, part, end)) = fragment(bytes, at) {
        // A first fragment begins a record, and nothing else does.
        if matches!(kind, WHOLE | FIRST) == begun {
            break;
        }
        record.extend(part);
        at = end;
        begun = matches!(kind, FIRST | MIDDLE);
        if !begun {
            found.push((at, std::mem::take(&mut record)));
        }
    }
    found
}

fn fragment(bytes: &[u8], at: usize) -> Option<(u8, &[u8], usize)> {
    let left = BLOCK - at % BLOCK;
    let at = if left < HEADER { at + left } else { at };
    let header = bytes.get(at..at + HEADER)?;
    let (length, kind) = (usize::from(u16::from_le_bytes([header[4], header[5]])), header[6]);
    let end = at + HEADER + length;
    let part = bytes.get(at + HEADER..end)?;
    (matches!(kind, WHOLE..=LAST) && checksum(kind, part) == header[..4]).then_some((kind, part, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of sizes around the ends of blocks, one after another.
    fn log(sizes: &[usize]) -> (Vec<u8>, Vec<Vec<u8>>) {
        let mut bytes = vec![0; 7];
        let record = |(index, size): (usize, &usize)| vec![index as u8 + 1; *size];
        let records: Vec<Vec<u8>> = sizes.iter().enumerate().map(record).collect();
        for record in &records {
            bytes.extend(framed(bytes.len() as u64, record));
        }
        (bytes, records)
    }

    #[test]
    fn records_read_back_wherever_blocks_end() {
        for short in 0..20 {
            let (bytes, records) = log(&[BLOCK - 7 - 7 - short, 1, 40, 3 * BLOCK, BLOCK - 7, 2]);
            let read: Vec<Vec<u8>> = read(&bytes, 7).into_iter().map(|(_, record)| record).collect();
            assert!(read == records, "{short} bytes before the end of a block");
        }
    }

    #[test]
    fn a_file_cut_or_damaged_anywhere_reads_up_to_there() {
        let (bytes, records) = log(&[30, BLOCK, 10]);
        let whole = read(&bytes, 7);
        for length in (7..bytes.len()).step_by(11) {
            let kept = read(&bytes[..length], 7);
            assert!(kept == whole[..kept.len()], "{length}");
            assert!(kept.len() < records.len() && whole[kept.len()].0 > length);
        }
        let mut damaged = bytes;
        damaged[60] ^= 1;
        assert_eq!(read(&damaged, 7).len(), 1);
    }
}
