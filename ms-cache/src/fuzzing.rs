//! Provides entry points for fuzzers: any bytes are either an entry or a defect.

use crate::entry::{Contents, decode_header, encode};
use crate::{Digest, Secret};

/// Decodes bytes as the file of an entry. Returns whether it is valid. If so, encoding its contents must reproduce
/// them. The header is also tried with a corrected hash, to reach the code behind that check.
pub fn entry(bytes: &[u8]) -> bool {
    let secret = Secret::of(SECRET);
    let valid = [None, Some(&secret)].map(|secret| check(bytes, secret));
    let mut mended = bytes.to_vec();
    if let Some(len) = bytes.get(12..16).map(|it| u32::from_le_bytes([it[0], it[1], it[2], it[3]]) as usize)
        && let Some(header) = mended.get_mut(..len)
        && let Some((body, hash)) = header.split_last_chunk_mut::<{ Digest::LEN }>()
    {
        *hash = *Digest::of(body).as_bytes();
        check(&mended, None);
    }
    valid.contains(&true)
}

/// The bytes of the fuzzer's secret.
pub const SECRET: &[u8] = b"of the fuzzer";

fn check(bytes: &[u8], secret: Option<&Secret>) -> bool {
    let Ok(header) = decode_header(bytes, secret) else { return false };
    let _length = header.payload_len();
    let described = header.describe(bytes);
    let (Ok(described), Ok(())) = (described, header.check_payload(bytes, secret)) else { return false };
    let notes: Vec<(&str, &str)> = described.notes.iter().map(|(name, text)| (&**name, &**text)).collect();
    let contents = Contents { notes: &notes, data: &bytes[header.data()], code: &bytes[header.code()] };
    let again = encode(&described.key, &contents, header.created, secret);
    let header_again = decode_header(&again, secret).expect("what was just written");
    header_again.check_payload(&again, secret).expect("what was just written");
    assert_eq!(header_again.key, header.key);
    assert_eq!(&again[header_again.data()], contents.data);
    assert_eq!(&again[header_again.code()], contents.code);
    true
}

/// Mutates bytes at random, deterministically for a seed.
pub struct Mutator(u64);

impl Mutator {
    /// Creates the mutator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns the next pseudorandom number (xorshift).
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number below a bound, or zero if the bound is zero.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// Returns an item of `corpus` with a few mutations. They flip bits, change bytes, write boundary values, and
    /// remove, duplicate or splice pieces.
    pub fn mutate(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = corpus[self.below(corpus.len())].clone();
        let other = &corpus[self.below(corpus.len())];
        for _ in 0..1 + self.below(6) {
            let at = self.below(bytes.len());
            match self.below(8) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.next() as u8),
                2 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                3 if !bytes.is_empty() => bytes[at] = self.next() as u8,
                4 | 5 => {
                    let telling = [0, 1, 63, 64, 0xff, 0xffff, u64::from(u32::MAX), u64::MAX, u64::MAX / 2];
                    let (value, width) = (telling[self.below(telling.len())], [1, 2, 4, 8][self.below(4)]);
                    for (byte, new) in bytes[at..].iter_mut().zip(value.to_le_bytes()).take(width) {
                        *byte = new;
                    }
                }
                6 => {
                    let piece = bytes[at..].iter().take(1 + self.below(64)).copied().collect::<Vec<_>>();
                    bytes.extend(piece);
                }
                _ => {
                    let from = self.below(other.len());
                    for (byte, new) in bytes[at..].iter_mut().zip(&other[from..]).take(1 + self.below(64)) {
                        *byte = *new;
                    }
                }
            }
        }
        bytes
    }
}
