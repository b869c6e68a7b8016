//! Encodes the machine code of a plan's kernels, with a table of their offsets.
//!
//! ```text
//! magic      8 bytes   "ms-cpu" and the version of this format
//! isa        8 bytes   the name of the vector instructions, padded with zeros
//! kernels    u64       number of kernels
//! per kernel u64 x 3   hash of the kernel; offset and length of its code, both zero if it is
//!                      interpreted
//! ```
//!
//! Numbers are little-endian. Offsets are relative to the start of the code.

use crate::isa::Isa;
use ms_ir::error::{Code, Error, Result};
use std::ops::Range;

const MAGIC: [u8; 8] = *b"ms-cpu\0\x01";

/// The alignment of functions in the code, in bytes.
const CODE_ALIGN: usize = 64;

/// Encodes kernels, given by their hashes and machine code. Returns the table and the concatenated code.
pub fn encode<'a>(isa: Isa, kernels: impl ExactSizeIterator<Item = (u64, Option<&'a [u8]>)>) -> (Vec<u8>, Vec<u8>) {
    let mut out = MAGIC.to_vec();
    let mut name = [0; 8];
    let vectors = isa.without_engine().name();
    name[..vectors.len()].copy_from_slice(vectors.as_bytes());
    out.extend(name);
    out.extend((kernels.len() as u64).to_le_bytes());
    let mut all = Vec::new();
    for (hash, code) in kernels {
        let code = code.unwrap_or_default();
        let offset = if code.is_empty() { 0 } else { all.len() };
        for word in [hash, offset as u64, code.len() as u64] {
            out.extend(word.to_le_bytes());
        }
        all.extend(code);
        all.resize(all.len().next_multiple_of(CODE_ALIGN), 0);
    }
    (out, all)
}

/// Decodes the result of [`encode`] for the same kernels. Returns the code range of each kernel, or `None` if it is
/// interpreted.
///
/// # Errors
/// [`Code::Backend`] if the table is truncated, has another format, or is for another instruction set or other kernels.
pub fn decode(isa: Isa, kernels: &[u64], mut rest: &[u8], code: &[u8]) -> Result<Vec<Option<Range<usize>>>> {
    let mut take = |len: usize| rest.split_off(..len).ok_or_else(|| refuse("it is cut off"));
    if take(8)? != MAGIC {
        return Err(refuse("it is of another format"));
    }
    if take(8)?.split(|&it| it == 0).next() != Some(isa.without_engine().name().as_bytes()) {
        return Err(refuse("it is for another instruction set"));
    }
    let mut word = || Ok(u64::from_le_bytes(take(8)?.try_into().expect("eight bytes were taken")));
    if word()? != kernels.len() as u64 {
        return Err(refuse("it has another number of kernels"));
    }
    let mut table = Vec::with_capacity(kernels.len());
    for &hash in kernels {
        if word()? != hash {
            return Err(refuse("it is of other kernels"));
        }
        let (offset, len) = (word()? as usize, word()? as usize);
        table.push((len > 0).then(|| offset..offset.saturating_add(len)));
    }
    if !rest.is_empty() || table.iter().flatten().any(|it: &Range<usize>| it.end > code.len()) {
        return Err(refuse("its table does not fit its code"));
    }
    Ok(table)
}

fn refuse(why: &str) -> Error {
    Error::new(Code::Backend, format!("compiled code cannot be loaded: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNELS: [u64; 3] = [5, 0, u64::MAX];

    fn encoded() -> (Vec<u8>, Vec<u8>) {
        let codes: [Option<&[u8]>; 3] = [Some(&[1; 70]), None, Some(&[2; 3])];
        encode(Isa::Avx2, KERNELS.into_iter().zip(codes))
    }

    #[test]
    fn round_trip() {
        let (table, code) = encoded();
        let entries = decode(Isa::Avx2, &KERNELS, &table, &code).expect("it was just encoded");
        let codes: Vec<_> = entries.iter().map(|it| it.clone().map(|it| &code[it])).collect();
        assert_eq!(codes, [Some(&[1; 70][..]), None, Some(&[2; 3][..])]);
        assert_eq!(entries[2], Some(128..131));
    }

    #[test]
    fn damage_is_refused() {
        let whole = encoded();
        assert!(decode(Isa::Avx512, &KERNELS, &whole.0, &whole.1).is_err());
        assert!(decode(Isa::Avx2, &KERNELS[1..], &whole.0, &whole.1).is_err());
        let mut other = KERNELS;
        other.swap(0, 1);
        assert!(decode(Isa::Avx2, &other, &whole.0, &whole.1).is_err());
        let check = |change: &dyn Fn(&mut Vec<u8>, &mut Vec<u8>)| {
            let (mut table, mut code) = whole.clone();
            change(&mut table, &mut code);
            assert!(decode(Isa::Avx2, &KERNELS, &table, &code).is_err());
        };
        for len in 0..whole.0.len() {
            check(&|table, _| table.truncate(len));
        }
        check(&|table, _| table.push(0));
        check(&|table, _| table[7] += 1);
        check(&|_, code| code.truncate(130));
    }
}
