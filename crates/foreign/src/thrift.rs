//! Thrift's compact protocol, for reading: structs as fields by number. Parquet's footer and page headers are written in it.

use std::collections::BTreeMap;

/// A value of a struct that was read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    Int(i64),
    Double(f64),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Struct(Fields),
}

pub(crate) type Fields = BTreeMap<i16, Value>;

/// Maximum nesting; deeper input is rejected as malformed.
const DEPTH: usize = 24;

/// Reads one struct; the rest of the bytes comes with it.
pub(crate) fn read(bytes: &[u8]) -> Option<(Fields, usize)> {
    let mut input = Input { bytes, at: 0 };
    let fields = input.fields(0)?;
    Some((fields, input.at))
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some(((value >> 1) as i64) ^ -((value & 1) as i64))
    }

    fn fields(&mut self, depth: usize) -> Option<Fields> {
        if depth > DEPTH {
            return None;
        }
        let (mut fields, mut last) = (Fields::new(), 0i16);
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(fields);
            }
            let id = match head >> 4 {
                0 => i16::try_from(self.zigzag()?).ok()?,
                delta => last.checked_add(i16::from(delta))?,
            };
            last = id;
            let value = match head & 15 {
                1 => Value::Bool(true),
                2 => Value::Bool(false),
                kind => self.value(kind, depth)?,
            };
            fields.insert(id, value);
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Option<Value> {
        Some(match kind {
            1 | 2 => Value::Bool(self.byte()? == 1),
            3 => Value::Int(i64::from(self.byte()? as i8)),
            4..=6 => Value::Int(self.zigzag()?),
            7 => {
                let bytes: [u8; 8] = self.bytes.get(self.at..self.at + 8)?.try_into().ok()?;
                self.at += 8;
                Value::Double(f64::from_le_bytes(bytes))
            }
            8 => {
                let count = usize::try_from(self.varint()?).ok()?;
                let bytes = self.bytes.get(self.at..self.at.checked_add(count)?)?.to_vec();
                self.at += count;
                Value::Bytes(bytes)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count =
                    if head >> 4 == 15 { usize::try_from(self.varint()?).ok()? } else { usize::from(head >> 4) };
                let mut items = Vec::new();
                for _ in 0..count {
                    items.push(self.value(head & 15, depth + 1)?);
                }
                Value::List(items)
            }
            12 => Value::Struct(self.fields(depth + 1)?),
            // Maps occur in no struct that is read here.
            _ => return None,
        })
    }
}

/// Fields by number, as the kinds they should have.
pub(crate) trait Get {
    fn int(&self, id: i16) -> Option<i64>;
    fn text(&self, id: i16) -> Option<String>;
    fn list(&self, id: i16) -> Option<&[Value]>;
    fn inner(&self, id: i16) -> Option<&Fields>;
}

impl Get for Fields {
    fn int(&self, id: i16) -> Option<i64> {
        if let Some(Value::Int(value)) = self.get(&id) { Some(*value) } else { None }
    }

    fn text(&self, id: i16) -> Option<String> {
        if let Some(Value::Bytes(bytes)) = self.get(&id) { String::from_utf8(bytes.clone()).ok() } else { None }
    }

    fn list(&self, id: i16) -> Option<&[Value]> {
        if let Some(Value::List(items)) = self.get(&id) { Some(items) } else { None }
    }

    fn inner(&self, id: i16) -> Option<&Fields> {
        if let Some(Value::Struct(fields)) = self.get(&id) { Some(fields) } else { None }
    }
}
