//! Formats and parses elements of constant data exactly.

use crate::data::{DType, Kind, Literal, Scalar};
use std::fmt::{self, Write};

/// Literals with more elements are written as bytes.
const LONGEST_LIST: usize = 16;

/// Writes a literal: `f32[2](1.0, 2.0)`.
pub(super) fn write_literal(literal: &Literal, f: &mut impl Write) -> fmt::Result {
    let dtype = literal.dtype();
    write!(f, "{dtype}{:?}(", literal.shape())?;
    let mut elements = literal.bytes().chunks_exact(dtype.size()).map(element_bits);
    let count = elements.len();
    if count > 1 && literal.splat().is_some() {
        write_element(elements.next().unwrap_or(0), dtype, f)?;
        f.write_str(", ..")?;
    } else if count > LONGEST_LIST {
        f.write_str("0x")?;
        for byte in literal.bytes() {
            write!(f, "{byte:02x}")?;
        }
    } else {
        for (i, bits) in elements.enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write_element(bits, dtype, f)?;
        }
    }
    f.write_str(")")
}

fn element_bits(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}

/// Writes one element, passed as bits, with enough digits to read them back.
///
/// # Errors
/// The errors of `f`.
pub fn write_element(bits: u64, dtype: DType, f: &mut impl Write) -> fmt::Result {
    let scalar = Scalar::from_bits(bits, dtype);
    match scalar {
        Scalar::Float(it) if it.is_nan() => {
            f.write_str("nan")?;
            if bits == Scalar::Float(f64::NAN).to_bits(dtype) { Ok(()) } else { write!(f, ":{bits:#x}") }
        }
        // Uses the shortest digits of the narrow dtype, not the digits of its value as f64.
        Scalar::Float(it) if dtype != DType::F64 => write!(f, "{:?}", it as f32),
        Scalar::Float(it) => write!(f, "{it:?}"),
        other => write!(f, "{other}"),
    }
}

/// Parses the bits of an element; `None` if the text is not an element of `dtype`.
pub fn element_from_text(text: &str, dtype: DType) -> Option<u64> {
    match dtype.kind() {
        Kind::Bool => text.parse().ok().map(|it: bool| it as u64),
        Kind::Int => {
            let value: i128 = text.parse().ok()?;
            let bits = value as u64 & (u64::MAX >> (64 - 8 * dtype.size()));
            let held = match Scalar::from_bits(bits, dtype) {
                Scalar::UInt(it) => i128::from(it),
                other => i128::from(other.as_i64()),
            };
            (held == value).then_some(bits)
        }
        Kind::Float if text == "nan" => Some(Scalar::Float(f64::NAN).to_bits(dtype)),
        // Rust accepts additional words: `infinity`, `NaN`.
        Kind::Float if !matches!(text, "inf" | "-inf") && text.contains(['i', 'n', 'N', 'I']) => None,
        Kind::Float => {
            let bits = match dtype {
                DType::F32 => u64::from(text.parse::<f32>().ok()?.to_bits()),
                _ => Scalar::Float(text.parse().ok()?).to_bits(dtype),
            };
            let finite = Scalar::from_bits(bits, dtype).as_f64().is_finite();
            (finite || text.ends_with("inf")).then_some(bits)
        }
    }
}

/// Parses the bits after `nan:0x`; `None` if they are not a NaN of `dtype`.
pub(super) fn nan_from_hex(digits: &str, dtype: DType) -> Option<u64> {
    let bits = u64::from_str_radix(digits, 16).ok()?;
    let fits = bits <= u64::MAX >> (64 - 8 * dtype.size());
    let nan = matches!(Scalar::from_bits(bits, dtype), Scalar::Float(it) if it.is_nan());
    (fits && nan).then_some(bits)
}

/// Parses bytes from pairs of hexadecimal digits.
pub(super) fn bytes_from_hex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|it| u8::from_str_radix(it, 16).ok());
    pairs.map(|pair| if pair.len() == 2 { byte(pair) } else { None }).collect()
}
