//! TensorBoard's event file: records with masked CRC-32C, each an `Event` in protobuf.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::{ExportError, failed, file};
use crate::run::Run;

pub(super) fn write(run: &Run, into: &Path) -> Result<Vec<PathBuf>, ExportError> {
    let path = into.join("events.out.tfevents.0.hone");
    let names: Vec<&str> = run.metrics.names().collect();
    let written = file(&path, |out| {
        let mut send = |event: &[u8]| record(event, out).map_err(failed(&path));
        send(&event(0.0, 0, Some("brain.Event:2"), &[]))?;
        let mut clock = 0.0;
        for step in run.metrics.steps() {
            // Seconds since the run began: no wall clock is recorded.
            clock += run.metrics.at(*step, "timing/step").unwrap_or(1.0);
            let values: Vec<(String, f64)> =
                names.iter().filter_map(|name| Some(((*name).to_owned(), run.metrics.at(*step, name)?))).collect();
            send(&event(clock, *step, None, &values))?;
            for played in run.events.played.iter().filter(|played| played.event == "eval" && played.step == *step) {
                if let Some(success) = played.success {
                    send(&event(clock, *step, None, &[(format!("eval/{}/success", played.kind), success)]))?;
                }
            }
        }
        Ok(())
    })?;
    Ok(vec![written])
}

/// Length, its checksum, the bytes, their checksum.
fn record(bytes: &[u8], out: &mut dyn Write) -> std::io::Result<()> {
    let length = (bytes.len() as u64).to_le_bytes();
    out.write_all(&length)?;
    out.write_all(&masked(&length).to_le_bytes())?;
    out.write_all(bytes)?;
    out.write_all(&masked(bytes).to_le_bytes())
}

/// wall_time = 1 (double), step = 2 (int64), file_version = 3, summary = 5 { value = 1 { tag = 1, simple_value = 2 } }.
fn event(time: f64, step: u64, version: Option<&str>, values: &[(String, f64)]) -> Vec<u8> {
    let mut out = vec![1 << 3 | 1];
    out.extend(time.to_le_bytes());
    out.push(2 << 3);
    varint(step, &mut out);
    if let Some(version) = version {
        bytes(3, version.as_bytes(), &mut out);
    }
    let mut summary = Vec::new();
    for (tag, value) in values {
        let mut one = Vec::new();
        bytes(1, tag.as_bytes(), &mut one);
        one.push(2 << 3 | 5);
        one.extend((*value as f32).to_le_bytes());
        bytes(1, &one, &mut summary);
    }
    if !summary.is_empty() {
        bytes(5, &summary, &mut out);
    }
    out
}

fn bytes(field: u8, value: &[u8], out: &mut Vec<u8>) {
    out.push(field << 3 | 2);
    varint(value.len() as u64, out);
    out.extend(value);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
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

    /// The check value of the catalogue of CRCs, and a vector of RFC 3720.
    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }
}
