//! Parquet as data frames write it: columns of numbers, texts and lists of them.
//!
//! Supported: plain and dictionary pages of both versions, uncompressed, snappy or zstd. A column in another encoding is named
//! in [`Table::unread`]. Everything is bounds-checked: the file may come from anybody.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::snappy;
use crate::thrift::{self, Fields, Get, Value};

/// Maximum bytes of an unpacked page.
const PAGE: usize = 256 << 20;

/// Maximum values of a page, which bounds memory: empty texts take no bytes in the file.
const VALUES: usize = 1 << 22;
/// Maximum depth of a schema.
const DEPTH: usize = 16;

/// A table by column.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) rows: usize,
    /// One value a row, an array for a list, by path: `reward`, `prompt.list.element.content`.
    pub(crate) columns: BTreeMap<String, Vec<Json>>,
    /// Columns that could not be read.
    pub(crate) unread: Vec<String>,
}

/// Reads a whole file. `Err`: reason why the file cannot be read.
pub(crate) fn read(file: &[u8]) -> Result<Table, &'static str> {
    let tail = file.len().checked_sub(8).filter(|_| file.starts_with(b"PAR1") && file.ends_with(b"PAR1"));
    let tail = tail.ok_or("it does not begin and end as a parquet file does")?;
    let length = u32::from_le_bytes([file[tail], file[tail + 1], file[tail + 2], file[tail + 3]]) as usize;
    let footer =
        tail.checked_sub(length).map(|start| &file[start..tail]).ok_or("its footer is longer than the file")?;
    let (footer, _) = thrift::read(footer).ok_or("its footer cannot be read")?;
    let schema = footer.list(2).ok_or("it has no schema")?;
    let leaves = leaves(schema);
    let mut table = Table { rows: footer.int(3).unwrap_or(0) as usize, ..Table::default() };
    for group in footer.list(4).unwrap_or_default() {
        let Value::Struct(group) = group else { continue };
        for (chunk, leaf) in group.list(1).unwrap_or_default().iter().zip(&leaves) {
            let meta = if let Value::Struct(chunk) = chunk { chunk.inner(3) } else { None };
            match meta.and_then(|meta| column(file, meta, leaf)) {
                Some(values) => table.columns.entry(leaf.path.clone()).or_default().extend(values),
                None => table.unread.push(leaf.path.clone()),
            }
        }
    }
    table.columns.retain(|_, values| values.len() == table.rows);
    Ok(table)
}

/// A column of the schema, with the levels its values are written with.
struct Leaf {
    path: String,
    optional: u32,
    repeated: u32,
}

fn leaves(schema: &[Value]) -> Vec<Leaf> {
    let mut found = Vec::new();
    let mut at = 1;
    let children = |element: &Value| if let Value::Struct(fields) = element { fields.int(5).unwrap_or(0) } else { 0 };
    for _ in 0..schema.first().map_or(0, children) {
        walk(schema, &mut at, "", (0, 0), &mut found);
    }
    found
}

fn walk(schema: &[Value], at: &mut usize, path: &str, levels: (u32, u32), found: &mut Vec<Leaf>) {
    let Some(Value::Struct(element)) = schema.get(*at).filter(|_| path.matches('.').count() < DEPTH) else { return };
    *at += 1;
    let name = element.text(4).unwrap_or_default();
    let path = if path.is_empty() { name } else { format!("{path}.{name}") };
    let (optional, repeated) = match element.int(3) {
        Some(1) => (levels.0 + 1, levels.1),
        Some(2) => (levels.0 + 1, levels.1 + 1),
        _ => levels,
    };
    match element.int(5).filter(|count| *count > 0) {
        None => found.push(Leaf { path, optional, repeated }),
        Some(count) => {
            for _ in 0..count.min(4096) {
                walk(schema, at, &path, (optional, repeated), found);
            }
        }
    }
}

/// The values of one column chunk, one a row.
fn column(file: &[u8], meta: &Fields, leaf: &Leaf) -> Option<Vec<Json>> {
    if leaf.repeated > 1 {
        return None;
    }
    let (kind, codec, wanted) = (meta.int(1)?, meta.int(4)?, usize::try_from(meta.int(5)?).ok()?);
    let start = meta.int(11).filter(|at| *at > 0).unwrap_or(i64::MAX).min(meta.int(9)?);
    let mut at = usize::try_from(start).ok()?;
    let (mut dictionary, mut rows, mut seen) = (Vec::new(), Rows::default(), 0);
    while seen < wanted {
        let (header, length) = thrift::read(file.get(at..)?)?;
        at += length;
        let packed = file.get(at..at.checked_add(usize::try_from(header.int(3)?).ok()?)?)?;
        at += packed.len();
        let size = usize::try_from(header.int(2)?).ok().filter(|size| *size <= PAGE)?;
        match header.int(1)? {
            2 => {
                let page = unpack(codec, packed, size)?;
                dictionary = plain(
                    kind,
                    &page,
                    usize::try_from(header.inner(7)?.int(1)?).ok().filter(|count| *count <= VALUES)?,
                )?
                .0;
            }
            0 => {
                let page = unpack(codec, packed, size)?;
                let about = header.inner(5)?;
                let count = usize::try_from(about.int(1)?).ok().filter(|count| *count <= VALUES)?;
                let mut rest = page.as_slice();
                let repeats = levels_v1(&mut rest, leaf.repeated, count)?;
                let defined = levels_v1(&mut rest, leaf.optional, count)?;
                rows.add(leaf, &repeats, &defined, values(kind, about.int(2)?, rest, &defined, leaf, &dictionary)?)?;
                seen += count;
            }
            3 => {
                let about = header.inner(8)?;
                let count = usize::try_from(about.int(1)?).ok().filter(|count| *count <= VALUES)?;
                let bytes = |id| usize::try_from(about.int(id)?).ok();
                let (defined_bytes, repeat_bytes) = (bytes(5)?, bytes(6)?);
                let repeats = hybrid(packed.get(..repeat_bytes)?, width(leaf.repeated), count)?;
                let levels = packed.get(repeat_bytes..repeat_bytes + defined_bytes)?;
                let defined = hybrid(levels, width(leaf.optional), count)?;
                let rest = packed.get(repeat_bytes + defined_bytes..)?;
                let is_packed = !matches!(about.get(&7), Some(Value::Bool(false)));
                let left = size.checked_sub(repeat_bytes + defined_bytes)?;
                let page = if is_packed { unpack(codec, rest, left)? } else { rest.to_vec() };
                rows.add(leaf, &repeats, &defined, values(kind, about.int(4)?, &page, &defined, leaf, &dictionary)?)?;
                seen += count;
            }
            // Index pages hold no values.
            _ => {}
        }
    }
    Some(rows.finish())
}

/// Row under construction: one value, or a list.
#[derive(Default)]
struct Rows {
    rows: Vec<Json>,
}

impl Rows {
    fn add(&mut self, leaf: &Leaf, repeats: &[u32], defined: &[u32], values: Vec<Json>) -> Option<()> {
        let mut values = values.into_iter();
        for (at, level) in defined.iter().enumerate() {
            let value = if *level == leaf.optional { values.next()? } else { Json::Null };
            if leaf.repeated == 0 {
                self.rows.push(value);
                continue;
            }
            if repeats.get(at).copied().unwrap_or(0) == 0 {
                self.rows.push(Json::Array(Vec::new()));
            }
            if let (Some(Json::Array(list)), false) = (self.rows.last_mut(), value.is_null()) {
                list.push(value);
            }
        }
        Some(())
    }

    fn finish(self) -> Vec<Json> {
        self.rows
    }
}

fn unpack(codec: i64, packed: &[u8], size: usize) -> Option<Vec<u8>> {
    match codec {
        0 => Some(packed.to_vec()),
        1 => snappy::decompress(packed, size),
        6 => zstd::bulk::decompress(packed, size).ok(),
        _ => None,
    }
}

/// Present values, in order.
fn values(
    kind: i64,
    encoding: i64,
    page: &[u8],
    defined: &[u32],
    leaf: &Leaf,
    dictionary: &[Json],
) -> Option<Vec<Json>> {
    let count = defined.iter().filter(|level| **level == leaf.optional).count();
    match encoding {
        0 => Some(plain(kind, page, count)?.0),
        2 | 8 => {
            let (width, rest) = page.split_first().map_or((0, page), |(width, rest)| (u32::from(*width), rest));
            let places = if count == 0 { Vec::new() } else { hybrid(rest, width, count)? };
            places.into_iter().map(|place| dictionary.get(place as usize).cloned()).collect()
        }
        // Run lengths of booleans.
        3 if kind == 0 => {
            let bits = hybrid(page.get(4..)?, 1, count)?;
            Some(bits.into_iter().map(|bit| Json::Bool(bit == 1)).collect())
        }
        _ => None,
    }
}

/// Plain encoding: values one after the other.
fn plain(kind: i64, bytes: &[u8], count: usize) -> Option<(Vec<Json>, usize)> {
    let (mut at, mut values) = (0, Vec::new());
    for number in 0..count {
        let mut take = |length: usize| {
            let taken = bytes.get(at..at + length)?;
            at += length;
            Some(taken)
        };
        values.push(match kind {
            0 => Json::Bool((bytes.get(number / 8)? >> (number % 8)) & 1 == 1),
            1 => Json::from(i32::from_le_bytes(take(4)?.try_into().ok()?)),
            2 => Json::from(i64::from_le_bytes(take(8)?.try_into().ok()?)),
            4 => Json::from(f32::from_le_bytes(take(4)?.try_into().ok()?)),
            5 => Json::from(f64::from_le_bytes(take(8)?.try_into().ok()?)),
            6 => {
                let length = u32::from_le_bytes(take(4)?.try_into().ok()?) as usize;
                Json::from(String::from_utf8_lossy(take(length)?).into_owned())
            }
            _ => return None,
        });
    }
    Some((values, at))
}

fn width(level: u32) -> u32 {
    u32::BITS - level.leading_zeros()
}

/// Levels of a page of version 1: a length, then runs. A level that cannot vary is not written.
fn levels_v1(rest: &mut &[u8], most: u32, count: usize) -> Option<Vec<u32>> {
    if most == 0 {
        return Some(vec![0; count]);
    }
    let (head, body) = rest.split_at_checked(4)?;
    let (levels, after) = body.split_at_checked(u32::from_le_bytes(head.try_into().ok()?) as usize)?;
    *rest = after;
    hybrid(levels, width(most), count)
}

/// Runs of one value, and runs of packed bits.
fn hybrid(bytes: &[u8], width: u32, count: usize) -> Option<Vec<u32>> {
    if width == 0 {
        return Some(vec![0; count]);
    }
    if width > u32::BITS {
        return None;
    }
    let (mut at, mut values) = (0, Vec::new());
    let byte = |at: &mut usize| {
        let byte = bytes.get(*at).copied()?;
        *at += 1;
        Some(byte)
    };
    while values.len() < count {
        let (mut head, mut shift) = (0u64, 0);
        loop {
            let next = byte(&mut at)?;
            head |= u64::from(next & 0x7f).checked_shl(shift)?;
            shift += 7;
            if next < 0x80 {
                break;
            }
        }
        if head & 1 == 0 {
            let mut value = 0u32;
            for place in 0..width.div_ceil(8) {
                value |= u32::from(byte(&mut at)?) << (8 * place);
            }
            let run = usize::try_from(head >> 1).ok()?.min(count - values.len());
            values.extend(std::iter::repeat_n(value, run));
        } else {
            let packed = usize::try_from(head >> 1).ok()?.checked_mul(width as usize)?;
            let group = bytes.get(at..at.saturating_add(packed).min(bytes.len()))?;
            at += group.len();
            let bit = |place: usize| u32::from(group.get(place / 8).is_some_and(|byte| (byte >> (place % 8)) & 1 == 1));
            let wide = width as usize;
            for number in 0..(group.len() * 8 / wide).min(count - values.len()) {
                values.push((0..wide).map(|place| bit(number * wide + place) << place).sum());
            }
            if group.is_empty() {
                return None;
            }
        }
    }
    Some(values)
}
