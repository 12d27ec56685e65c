//! TensorBoard's event file: records with masked CRC-32C, each an `Event` in protobuf.

use std::path::{Path, PathBuf};

use super::proto::{Field, Message, field};
use super::rows::{Origin, Row};
use super::stream::{self, Stream};
use super::{ExportError, file_name};
use crate::run::Run;

pub(super) fn write(run: &Run, into: &Path) -> Result<Vec<PathBuf>, ExportError> {
    stream::write(run, &into.join("events.out.tfevents.0.hone"), Box::new(TensorBoard))
}

/// The file of a run in a directory that many runs log to.
pub(super) fn place(run: &Run, origin: &Origin, directory: &Path) -> PathBuf {
    let name = format!("{}-{}", file_name(&run.name), origin.id);
    directory.join(name).join(format!("events.out.tfevents.{}.hone", origin.began))
}

/// wall_time = 1 (double), step = 2, file_version = 3, summary = 5 { value = 1 { tag = 1, simple_value = 2 } }.
#[derive(Debug)]
pub(super) struct TensorBoard;

/// Length and its checksum before a record, the record's checksum after it.
const FRAME: (usize, usize) = (12, 4);

impl Stream for TensorBoard {
    fn magic(&self) -> &'static [u8] {
        &[]
    }

    fn head(&self, _: &Run, origin: &Origin) -> Vec<Message> {
        vec![Message::default().double(1, origin.began as f64).number(2, 0).text(3, "brain.Event:2")]
    }

    fn row(&self, origin: &Origin, row: &Row) -> Vec<Message> {
        let value = |(tag, value): &(String, f64)| Message::default().text(1, tag).float(2, *value as f32);
        let summary = row.values.iter().map(value).fold(Message::default(), |all, value| all.message(1, &value));
        let time = origin.began as f64 + row.seconds;
        vec![Message::default().double(1, time).number(2, row.step).message(5, &summary)]
    }

    fn end(&self, _: f64) -> Vec<Message> {
        Vec::new()
    }

    fn frame(&self, _at: u64, _number: u64, record: &Message) -> Vec<u8> {
        let bytes = &record.0;
        let mut out = (bytes.len() as u64).to_le_bytes().to_vec();
        out.extend(masked(&out).to_le_bytes());
        out.extend(bytes);
        out.extend(masked(bytes).to_le_bytes());
        out
    }

    fn read(&self, bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let one = |at: usize| {
            let head = bytes.get(at..at + FRAME.0)?;
            let length = u64::from_le_bytes(head[..8].try_into().ok()?);
            let from = at + FRAME.0;
            let to = from.checked_add(usize::try_from(length).ok()?)?;
            let end = to.checked_add(FRAME.1)?;
            let (record, sum) = (bytes.get(from..to)?, bytes.get(to..end)?);
            (masked(&head[..8]).to_le_bytes() == head[8..] && masked(record).to_le_bytes() == sum)
                .then(|| (end, record.to_vec()))
        };
        std::iter::successors(one(0), |(end, _)| one(*end)).collect()
    }

    fn step(&self, record: &[u8]) -> Option<u64> {
        field(record, 5)?;
        field(record, 2).and_then(Field::as_number)
    }
}

fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), bit by bit: files of metrics are small.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value from the CRC catalogue, and a test vector of RFC 3720.
    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn records_read_back_up_to_the_damage() {
        let record = Message::default().number(2, 7).message(5, &Message::default());
        let mut bytes = TensorBoard.frame(0, 1, &record);
        let end = bytes.len();
        bytes.extend(TensorBoard.frame(0, 2, &record));
        assert_eq!(TensorBoard.read(&bytes).len(), 2);
        assert_eq!(TensorBoard.step(&TensorBoard.read(&bytes)[0].1), Some(7));
        assert_eq!(TensorBoard.read(&bytes[..bytes.len() - 1]), [(end, record.0.clone())]);
        bytes[end + 14] ^= 1;
        assert_eq!(TensorBoard.read(&bytes).len(), 1);
    }
}
