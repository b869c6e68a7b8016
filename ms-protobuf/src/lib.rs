//! Encodes and decodes protocol buffer messages (<https://protobuf.dev/programming-guides/encoding/>): fields, and
//! nothing of the messages that consist of them.
//!
//! The crate `prost` is not used. It copies every field of bytes, and aborts the process when memory runs out.
//!
//! **Invariant:** this crate depends on no other crate of the workspace. Test: `crates_depend_downwards` in
//! `tests/architecture/main.rs`.
//!
//! **Invariant:** a damaged message is an error. Test: `damage_is_refused`.

/// Encodes a double field.
pub fn double(field: u8, value: f64) -> Vec<u8> {
    [&key(field, 1)[..], &value.to_le_bytes()].concat()
}

/// Encodes a float field.
pub fn float(field: u8, value: f32) -> Vec<u8> {
    [&key(field, 5)[..], &value.to_le_bytes()].concat()
}

/// Encodes an integer field; zero is omitted.
pub fn number(field: u8, value: u64) -> Vec<u8> {
    if value == 0 { Vec::new() } else { integer(field, value) }
}

/// Encodes an integer field, also if it is zero: an element of a list, or a `oneof` member.
pub fn integer(field: u8, value: u64) -> Vec<u8> {
    [key(field, 0), varint(value)].concat()
}

/// Encodes a field number and a wire type.
fn key(field: u8, kind: u64) -> Vec<u8> {
    varint(u64::from(field) << 3 | kind)
}

/// Encodes a field of bytes, text or a message.
pub fn bytes(field: u8, value: &[u8]) -> Vec<u8> {
    [&header(field, value.len())[..], value].concat()
}

/// Encodes the header of a length-delimited field.
pub fn header(field: u8, bytes: usize) -> Vec<u8> {
    [key(field, 2), varint(bytes as u64)].concat()
}

/// Encodes a varint: seven bits per byte, lowest first; all bytes but the last have the eighth bit set.
pub fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// The value of a field.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value<'a> {
    /// A varint.
    Number(u64),
    /// Bytes, text or a message.
    Bytes(&'a [u8]),
    /// A fixed-size number of eight or four bytes: a double, a float or an integer.
    Fixed(&'a [u8]),
}

/// Splits off the next field of a message; returns `None` at its end.
///
/// # Errors
/// A description of the defect.
pub fn field<'a>(message: &mut &'a [u8]) -> Result<Option<(u64, Value<'a>)>, String> {
    if message.is_empty() {
        return Ok(None);
    }
    let key = take_varint(message)?;
    let value = match key & 7 {
        0 => Value::Number(take_varint(message)?),
        2 => {
            let length = take_varint(message)?;
            Value::Bytes(take(message, length)?)
        }
        1 => Value::Fixed(take(message, 8)?),
        5 => Value::Fixed(take(message, 4)?),
        kind => return Err(format!("a field is of kind {kind}, which does not exist")),
    };
    Ok(Some((key >> 3, value)))
}

fn take<'a>(message: &mut &'a [u8], bytes: u64) -> Result<&'a [u8], String> {
    let taken = usize::try_from(bytes).ok().and_then(|it| message.split_off(..it));
    taken.ok_or_else(|| format!("a field of {bytes} bytes is longer than its message"))
}

/// Splits off a varint.
///
/// # Errors
/// A description of the defect.
pub fn take_varint(message: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *message.split_off_first().ok_or("a number is cut off")?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err("a number has more than 64 bits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back() {
        let message = [number(1, 300), bytes(2, b"text"), double(3, 1.0), float(4, 1.0), number(20, u64::MAX)].concat();
        let (mut rest, mut all) = (&message[..], Vec::new());
        while let Some(it) = field(&mut rest).expect("the message is whole") {
            all.push(it);
        }
        let (double, float) = (1f64.to_le_bytes(), 1f32.to_le_bytes());
        let want = [
            Value::Number(300),
            Value::Bytes(b"text"),
            Value::Fixed(&double),
            Value::Fixed(&float),
            Value::Number(u64::MAX),
        ];
        assert!(all.into_iter().eq([1, 2, 3, 4, 20].into_iter().zip(want)));
    }

    #[test]
    fn damage_is_refused() {
        for message in [&[0x80][..], &[0x0a, 5, 1], &[0x0b], &[0x08; 1], &[0x09, 1], &[0x08, 0xff], &[0xff; 11]] {
            assert!(field(&mut &*message).is_err(), "{message:?}");
        }
    }
}
