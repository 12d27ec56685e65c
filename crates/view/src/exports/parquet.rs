//! Minimal Parquet writer for these tables: optional columns of three types, plain encoding, no compression, one row
//! group per part. Written by hand because the format is small and the libraries are not.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::proto::varint;
use super::table::{Column, Table, metrics, rollouts};
use super::{ExportError, failed, file};
use crate::run::Run;

const MAGIC: &[u8; 4] = b"PAR1";

pub(super) fn write(run: &Run, into: &Path) -> Result<Vec<PathBuf>, ExportError> {
    let paths = ["metrics.parquet", "rollouts.parquet", "rewards.parquet"].map(|name| into.join(name));
    let [metrics_path, rollouts_path, rewards_path] = &paths;
    file(metrics_path, |out| {
        let mut parquet = Parquet::default();
        parquet.group(out, &metrics(run)).map_err(failed(metrics_path))?;
        parquet.finish(out).map_err(failed(metrics_path))
    })?;
    file(rewards_path, |rewards_out| {
        file(rollouts_path, |out| {
            let (mut of_rollouts, mut of_rewards) = (Parquet::default(), Parquet::default());
            rollouts(run, |rollouts, rewards| {
                of_rollouts.group(out, &rollouts).map_err(failed(rollouts_path))?;
                of_rewards.group(rewards_out, &rewards).map_err(failed(rewards_path))
            })?;
            of_rewards.finish(rewards_out).map_err(failed(rewards_path))?;
            of_rollouts.finish(out).map_err(failed(rollouts_path))
        })?;
        Ok(())
    })?;
    Ok(paths.to_vec())
}

/// A file being written: the positions of its columns.
#[derive(Debug, Default)]
struct Parquet {
    at: u64,
    schema: Vec<(String, Kind)>,
    groups: Vec<RowGroup>,
}

#[derive(Debug)]
struct RowGroup {
    rows: u64,
    /// Offset and length of each column, header included.
    columns: Vec<(u64, u64)>,
}

/// A column's type: physical number, and whether it is text.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Int,
    Float,
    Text,
}

impl Kind {
    fn of(column: &Column) -> Self {
        match column {
            Column::Int(_) => Self::Int,
            Column::Float(_) => Self::Float,
            Column::Text(_) => Self::Text,
        }
    }

    /// INT64, DOUBLE, BYTE_ARRAY.
    fn physical(self) -> i32 {
        match self {
            Self::Int => 2,
            Self::Float => 5,
            Self::Text => 6,
        }
    }
}

impl Parquet {
    fn send(&mut self, out: &mut dyn Write, bytes: &[u8]) -> std::io::Result<()> {
        self.at += bytes.len() as u64;
        out.write_all(bytes)
    }

    /// Writes a row group. Every part of a table has the same columns.
    fn group(&mut self, out: &mut dyn Write, table: &Table) -> std::io::Result<()> {
        if self.at == 0 {
            self.send(out, MAGIC)?;
            self.schema = table.iter().map(|(name, column)| (name.clone(), Kind::of(column))).collect();
        }
        let rows = table.first().map_or(0, |(_, column)| column.len()) as u64;
        let mut columns = Vec::new();
        for (_, column) in table {
            let page = page(column);
            let mut header = Thrift::default();
            header.int(1, 0); // DATA_PAGE
            header.int(2, page.len() as i64);
            header.int(3, page.len() as i64);
            header.open(5); // data_page_header
            header.int(1, rows as i64);
            header.int(2, 0); // PLAIN
            header.int(3, 3); // definition levels: RLE
            header.int(4, 3); // repetition levels: RLE (none)
            header.close();
            header.stop();
            let begun = self.at;
            self.send(out, &header.bytes)?;
            self.send(out, &page)?;
            columns.push((begun, self.at - begun));
        }
        self.groups.push(RowGroup { rows, columns });
        Ok(())
    }

    fn finish(mut self, out: &mut dyn Write) -> std::io::Result<()> {
        let footer = self.footer();
        self.send(out, &footer)?;
        self.send(out, &(footer.len() as u32).to_le_bytes())?;
        self.send(out, MAGIC)
    }

    /// FileMetaData.
    fn footer(&self) -> Vec<u8> {
        let mut out = Thrift::default();
        out.int(1, 1);
        out.list(2, self.schema.len() + 1);
        out.text(4, "schema");
        out.int(5, self.schema.len() as i64);
        out.end_element();
        for (name, kind) in &self.schema {
            out.int(1, i64::from(kind.physical()));
            out.int(3, 1); // OPTIONAL
            out.text(4, name);
            if *kind == Kind::Text {
                out.int(6, 0); // UTF8
            }
            out.end_element();
        }
        out.end_list();
        out.long(3, self.groups.iter().map(|group| group.rows as i64).sum());
        out.list(4, self.groups.len());
        for group in &self.groups {
            self.row_group(group, &mut out);
        }
        out.end_list();
        out.text(6, "hone");
        out.stop();
        out.bytes
    }

    fn row_group(&self, group: &RowGroup, out: &mut Thrift) {
        out.list(1, self.schema.len());
        for ((name, kind), (offset, length)) in self.schema.iter().zip(&group.columns) {
            out.long(2, *offset as i64);
            out.open(3); // meta_data
            out.int(1, i64::from(kind.physical()));
            out.ints(2, &[0, 3]);
            out.texts(3, &[name]);
            out.int(4, 0); // UNCOMPRESSED
            out.long(5, group.rows as i64);
            out.long(6, *length as i64);
            out.long(7, *length as i64);
            out.long(9, *offset as i64);
            out.close();
            out.end_element();
        }
        out.end_list();
        out.long(2, group.columns.iter().map(|(_, length)| *length as i64).sum());
        out.long(3, group.rows as i64);
        out.end_element();
    }
}

/// Definition levels, then the values present.
fn page(column: &Column) -> Vec<u8> {
    let mut values = Vec::new();
    let mut there = Vec::with_capacity(column.len());
    match column {
        Column::Int(all) => all.iter().for_each(|value| {
            there.push(value.is_some());
            values.extend(value.iter().flat_map(|value| value.to_le_bytes()));
        }),
        Column::Float(all) => all.iter().for_each(|value| {
            there.push(value.is_some());
            values.extend(value.iter().flat_map(|value| value.to_le_bytes()));
        }),
        Column::Text(all) => all.iter().for_each(|value| {
            there.push(value.is_some());
            if let Some(text) = value {
                values.extend((text.len() as u32).to_le_bytes());
                values.extend(text.as_bytes());
            }
        }),
    }
    let levels = levels(&there);
    let mut page = (levels.len() as u32).to_le_bytes().to_vec();
    page.extend(levels);
    page.extend(values);
    page
}

/// Runs of equal bits: the length times two as a varint, then the bit.
fn levels(there: &[bool]) -> Vec<u8> {
    let mut out = Vec::new();
    for run in there.chunk_by(|a, b| a == b) {
        varint((run.len() as u64) << 1, &mut out);
        out.push(u8::from(run[0]));
    }
    out
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Thrift's compact protocol. Field numbers rise within a struct.
#[derive(Debug, Default)]
struct Thrift {
    bytes: Vec<u8>,
    /// The last field of the struct that is being written, and of those around it.
    last: i16,
    around: Vec<i16>,
}

impl Thrift {
    fn field(&mut self, number: i16, kind: u8) {
        let step = number - self.last;
        debug_assert!((1..=15).contains(&step));
        self.bytes.push((step as u8) << 4 | kind);
        self.last = number;
    }

    fn int(&mut self, number: i16, value: i64) {
        self.field(number, 5);
        varint(zigzag(value), &mut self.bytes);
    }

    fn long(&mut self, number: i16, value: i64) {
        self.field(number, 6);
        varint(zigzag(value), &mut self.bytes);
    }

    fn text(&mut self, number: i16, text: &str) {
        self.field(number, 8);
        self.raw_text(text);
    }

    fn raw_text(&mut self, text: &str) {
        varint(text.len() as u64, &mut self.bytes);
        self.bytes.extend(text.as_bytes());
    }

    fn header(&mut self, number: i16, length: usize, kind: u8) {
        self.field(number, 9);
        if length < 15 {
            self.bytes.push((length as u8) << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            varint(length as u64, &mut self.bytes);
        }
    }

    fn ints(&mut self, number: i16, values: &[i64]) {
        self.header(number, values.len(), 5);
        values.iter().for_each(|value| varint(zigzag(*value), &mut self.bytes));
    }

    fn texts(&mut self, number: i16, texts: &[&str]) {
        self.header(number, texts.len(), 8);
        texts.iter().for_each(|text| self.raw_text(text));
    }

    /// A list of structs, whose elements follow, each with `end_element`, and then `end_list`.
    fn list(&mut self, number: i16, length: usize) {
        self.header(number, length, 12);
        self.around.push(self.last);
        self.last = 0;
    }

    fn end_element(&mut self) {
        self.bytes.push(0);
        self.last = 0;
    }

    fn end_list(&mut self) {
        self.last = self.around.pop().unwrap_or(0);
    }

    fn open(&mut self, number: i16) {
        self.field(number, 12);
        self.around.push(self.last);
        self.last = 0;
    }

    fn close(&mut self) {
        self.bytes.push(0);
        self.last = self.around.pop().unwrap_or(0);
    }

    fn stop(&mut self) {
        self.bytes.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_runs() {
        assert_eq!(levels(&[true, true, true, false]), [6, 1, 2, 0]);
        assert_eq!(levels(&[true; 100]), [0xc8, 1, 1]);
        assert!(levels(&[]).is_empty());
    }

    #[test]
    fn a_file_begins_and_ends_as_one() {
        let table: Table = vec![
            ("n".into(), Column::Int(vec![Some(1), None])),
            ("t".into(), Column::Text(vec![None, Some("é".into())])),
        ];
        let (mut parquet, mut out) = (Parquet::default(), Vec::new());
        parquet.group(&mut out, &table).unwrap();
        parquet.finish(&mut out).unwrap();
        assert_eq!((&out[..4], &out[out.len() - 4..]), (&b"PAR1"[..], &b"PAR1"[..]));
        let length = u32::from_le_bytes(out[out.len() - 8..out.len() - 4].try_into().unwrap()) as usize;
        assert!(length < out.len() - 12);
    }
}
