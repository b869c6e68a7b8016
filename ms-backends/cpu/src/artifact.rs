//! What a plan's kernels compile to, as bytes: a table of kernels, and their code one after
//! the other.
//!
//! ```text
//! magic      8 bytes   "ms-cpu" and the version of this format
//! isa        8 bytes   the name, padded with zeros
//! kernels    u64       their number
//! per kernel u64 x 3   hash of the kernel; offset and length of its code, both zero where the
//!                      interpreter runs it
//! code                 from the next multiple of 64 bytes on
//! ```
//!
//! Numbers are little-endian. Offsets count from the start of the code.

use crate::isa::Isa;
use ms_core::error::{Code, Error, Result};
use ms_core::ir::Kernel;
use std::hash::{Hash, Hasher};
use std::ops::Range;

const MAGIC: [u8; 8] = *b"ms-cpu\0\x01";

/// Functions start at a multiple of this many bytes.
const CODE_ALIGN: usize = 64;

/// The decoded table.
pub struct Artifact<'a> {
    /// The code of every kernel in `code`, or nothing for the interpreter.
    pub entries: Vec<Option<Range<usize>>>,
    /// All code.
    pub code: &'a [u8],
}

/// The bytes for kernels and their code.
pub fn encode<'a>(isa: Isa, kernels: impl ExactSizeIterator<Item = (&'a Kernel, Option<&'a [u8]>)>) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let mut name = [0; 8];
    name[..isa.name().len()].copy_from_slice(isa.name().as_bytes());
    out.extend(name);
    out.extend((kernels.len() as u64).to_le_bytes());
    let mut all = Vec::new();
    for (kernel, code) in kernels {
        let code = code.unwrap_or_default();
        let offset = if code.is_empty() { 0 } else { all.len() };
        for word in [hash(kernel), offset as u64, code.len() as u64] {
            out.extend(word.to_le_bytes());
        }
        all.extend(code);
        all.resize(all.len().next_multiple_of(CODE_ALIGN), 0);
    }
    out.resize(out.len().next_multiple_of(CODE_ALIGN), 0);
    out.extend(all);
    out
}

/// Reads the bytes of [`encode`] for the same kernels.
///
/// # Errors
/// [`Code::Backend`] when they are another format's, another instruction set's, or those of
/// other kernels, or cut off.
pub fn decode<'a>(isa: Isa, kernels: &[Kernel], bytes: &'a [u8]) -> Result<Artifact<'a>> {
    let mut rest = bytes;
    let mut take = |len: usize| rest.split_off(..len).ok_or_else(|| refuse("it is cut off"));
    if take(8)? != MAGIC {
        return Err(refuse("it is of another format"));
    }
    if take(8)?.split(|&it| it == 0).next() != Some(isa.name().as_bytes()) {
        return Err(refuse("it is for another instruction set"));
    }
    let mut word = || Ok(u64::from_le_bytes(take(8)?.try_into().expect("eight bytes were taken")));
    if word()? != kernels.len() as u64 {
        return Err(refuse("it has another number of kernels"));
    }
    let mut table = Vec::with_capacity(kernels.len());
    for kernel in kernels {
        if word()? != hash(kernel) {
            return Err(refuse("it is of other kernels"));
        }
        let (offset, len) = (word()? as usize, word()? as usize);
        table.push((len > 0).then(|| offset..offset.saturating_add(len)));
    }
    let start = (bytes.len() - rest.len()).next_multiple_of(CODE_ALIGN);
    let code = bytes.get(start..).ok_or_else(|| refuse("it is cut off"))?;
    if table.iter().flatten().any(|it| it.end > code.len()) {
        return Err(refuse("it is cut off"));
    }
    Ok(Artifact { entries: table, code })
}

fn refuse(why: &str) -> Error {
    Error::new(Code::Backend, format!("compiled code cannot be loaded: {why}"))
}

/// A hash of a kernel that is the same in every process of one build.
fn hash(kernel: &Kernel) -> u64 {
    /// FNV-1a.
    struct Fnv(u64);
    impl Hasher for Fnv {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            for &byte in bytes {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
    }
    let mut state = Fnv(0xcbf2_9ce4_8422_2325);
    kernel.hash(&mut state);
    state.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_core::ir::{KernelBuilder, Lanes};

    fn kernels() -> Vec<Kernel> {
        (0..3).map(|par| KernelBuilder::new(par, 0, Lanes::Parallel).finish()).collect()
    }

    fn bytes(isa: Isa) -> Vec<u8> {
        let codes: [Option<&[u8]>; 3] = [Some(&[1; 70]), None, Some(&[2; 3])];
        encode(isa, kernels().iter().zip(codes))
    }

    #[test]
    fn round_trip() {
        let bytes = bytes(Isa::Avx2);
        let artifact = decode(Isa::Avx2, &kernels(), &bytes).expect("it was just encoded");
        let codes: Vec<_> = artifact.entries.iter().map(|it| it.clone().map(|it| &artifact.code[it])).collect();
        assert_eq!(codes, [Some(&[1; 70][..]), None, Some(&[2; 3][..])]);
        assert_eq!(artifact.entries[2], Some(128..131));
    }

    #[test]
    fn damage_is_refused() {
        let whole = bytes(Isa::Avx2);
        assert!(decode(Isa::Avx512, &kernels(), &whole).is_err());
        assert!(decode(Isa::Avx2, &kernels()[1..], &whole).is_err());
        let mut other = kernels();
        other.swap(0, 1);
        assert!(decode(Isa::Avx2, &other, &whole).is_err());
        let last = whole.len() - CODE_ALIGN + 3;
        for len in 0..last {
            assert!(decode(Isa::Avx2, &kernels(), &whole[..len]).is_err(), "{len} bytes");
        }
        let mut magic = whole;
        magic[7] += 1;
        assert!(decode(Isa::Avx2, &kernels(), &magic).is_err());
    }
}
