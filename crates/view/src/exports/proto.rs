//! Protobuf by hand: the few wire types that event files and W&B's records need, written and read.

/// A message being written.
#[derive(Debug, Clone, Default)]
pub(super) struct Message(pub Vec<u8>);

impl Message {
    #[must_use]
    pub(super) fn number(mut self, field: u32, value: u64) -> Self {
        varint(u64::from(field) << 3, &mut self.0);
        varint(value, &mut self.0);
        self
    }

    #[must_use]
    pub(super) fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        varint(u64::from(field) << 3 | 2, &mut self.0);
        varint(value.len() as u64, &mut self.0);
        self.0.extend(value);
        self
    }

    #[must_use]
    pub(super) fn text(self, field: u32, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    #[must_use]
    pub(super) fn message(self, field: u32, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }

    #[must_use]
    pub(super) fn double(mut self, field: u32, value: f64) -> Self {
        varint(u64::from(field) << 3 | 1, &mut self.0);
        self.0.extend(value.to_le_bytes());
        self
    }

    #[must_use]
    pub(super) fn float(mut self, field: u32, value: f32) -> Self {
        varint(u64::from(field) << 3 | 5, &mut self.0);
        self.0.extend(value.to_le_bytes());
        self
    }
}

/// A variable-length number, seven bits per byte, the same in protobuf and Thrift.
pub(super) fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A value of a field that was read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Fixed(&'a [u8]),
}

impl<'a> Field<'a> {
    pub(super) fn as_number(self) -> Option<u64> {
        if let Self::Number(value) = self { Some(value) } else { None }
    }

    pub(super) fn as_bytes(self) -> Option<&'a [u8]> {
        if let Self::Bytes(value) = self { Some(value) } else { None }
    }
}

/// Fields of a message with their numbers, up to the first that cannot be read.
pub(super) fn fields(mut bytes: &[u8]) -> impl Iterator<Item = (u64, Field<'_>)> {
    std::iter::from_fn(move || {
        let key = take_varint(&mut bytes)?;
        let value = match key & 7 {
            0 => Field::Number(take_varint(&mut bytes)?),
            1 => Field::Fixed(take(&mut bytes, 8)?),
            2 => {
                let length = usize::try_from(take_varint(&mut bytes)?).ok()?;
                Field::Bytes(take(&mut bytes, length)?)
            }
            5 => Field::Fixed(take(&mut bytes, 4)?),
            _ => return None,
        };
        Some((key >> 3, value))
    })
}

/// The first field of a number.
pub(super) fn field(bytes: &[u8], number: u64) -> Option<Field<'_>> {
    fields(bytes).find(|(found, _)| *found == number).map(|(_, value)| value)
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *take(bytes, 1)?.first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_back() {
        let inner = Message::default().number(1, u64::MAX).double(2, 0.5);
        let message = Message::default().text(1, "über").message(200, &inner).float(3, 1.0).number(4, 300);
        let read: Vec<(u64, Field<'_>)> = fields(&message.0).collect();
        assert_eq!(read[0], (1, Field::Bytes("über".as_bytes())));
        assert_eq!(read[1], (200, Field::Bytes(&inner.0)));
        assert_eq!(read[3], (4, Field::Number(300)));
        assert_eq!(field(&inner.0, 1), Some(Field::Number(u64::MAX)));
        // Truncated at any byte.
        for length in 0..message.0.len() {
            assert!(fields(&message.0[..length]).count() < 4);
        }
    }
}
