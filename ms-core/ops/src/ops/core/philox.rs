//! The counter-based generator Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random
//! numbers: as easy as 1, 2, 3", SC 2011.

use crate::tensor::DType;
use ms_ir::body::Expr;

/// Multipliers of the two halves of a round (table 2 of the paper).
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// Increments of the key per round: the fractional parts of the golden ratio and of the square root of three.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
/// The number of rounds; seven pass the statistical tests.
const ROUNDS: usize = 10;

/// Returns the four random words of a counter under a key.
#[inline]
pub(in crate::ops) fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let (mut c, mut k) = (counter, key);
    for _ in 0..ROUNDS {
        let [left, right] = [MULTIPLIERS[0] as u64 * c[0] as u64, MULTIPLIERS[1] as u64 * c[2] as u64];
        c = [(right >> 32) as u32 ^ c[1] ^ k[0], right as u32, (left >> 32) as u32 ^ c[3] ^ k[1], left as u32];
        k = [k[0].wrapping_add(WEYL[0]), k[1].wrapping_add(WEYL[1])];
    }
    c
}

/// The words of one draw; word `i` depends only on seed, counter and `i`.
#[derive(Clone, Copy)]
pub(in crate::ops) struct Stream {
    key: [u32; 2],
    counter: [u32; 2],
}

impl Stream {
    /// Creates the stream of a state.
    pub fn new(seed: u64, counter: u64) -> Self {
        let halves = |it: u64| [it as u32, (it >> 32) as u32];
        Self { key: halves(seed), counter: halves(counter) }
    }

    /// Returns words `4 * block` to `4 * block + 3`.
    #[inline]
    pub fn block(&self, block: u64) -> [u32; 4] {
        philox4x32([block as u32, (block >> 32) as u32, self.counter[0], self.counter[1]], self.key)
    }

    /// Returns all words in order, an infinite sequence.
    pub fn words(self) -> impl Iterator<Item = u32> {
        (0..).flat_map(move |block| self.block(block))
    }

    /// Returns all pairs of words in order, as 64-bit integers.
    pub fn wide_words(self) -> impl Iterator<Item = u64> {
        let join = |low: u32, high: u32| low as u64 | (high as u64) << 32;
        (0..).flat_map(move |block| {
            let words = self.block(block);
            [join(words[0], words[1]), join(words[2], words[3])]
        })
    }
}

/// Builds the word of a stream at a position, as a u64 below 2^32. The arguments are the values of a
/// [`Lowering::Position`](crate::ops::Lowering) whose operand is the state.
pub(in crate::ops) fn word([at, seed, counter]: [Expr<'_>; 3]) -> Expr<'_> {
    let at = at.cast(DType::U64);
    let [a, b, c, d] = block_words(at >> 2, [seed, counter]);
    let (even, first) = ((at & 1).eq(0), (at & 2).eq(0));
    low_half(first.select(even.select(a, b), even.select(c, d)))
}

/// Builds the pair of words at a position, as a u64.
pub(in crate::ops) fn wide_word([at, seed, counter]: [Expr<'_>; 3]) -> Expr<'_> {
    let at = at.cast(DType::U64);
    let [a, b, c, d] = block_words(at >> 1, [seed, counter]);
    let even = (at & 1).eq(0);
    low_half(even.select(a, c)) | even.select(b, d) << 32
}

/// Builds the two words of the aligned pair of positions that contains a position, as u64 below 2^32.
pub(in crate::ops) fn word_pair([at, seed, counter]: [Expr<'_>; 3]) -> [Expr<'_>; 2] {
    let at = at.cast(DType::U64);
    let [a, b, c, d] = block_words(at >> 2, [seed, counter]);
    let first = (at & 2).eq(0);
    [first.select(a, c), first.select(b, d)].map(low_half)
}

/// Builds the four words of the aligned pair of positions of [`wide_word`]s that contains a position, as u64 below
/// 2^32.
pub(in crate::ops) fn wide_word_pair([at, seed, counter]: [Expr<'_>; 3]) -> [Expr<'_>; 4] {
    block_words(at.cast(DType::U64) >> 1, [seed, counter]).map(low_half)
}

/// Builds the words of [`Stream::block`], as u64 whose low halves are significant.
fn block_words<'s>(block: Expr<'s>, [seed, counter]: [Expr<'s>; 2]) -> [Expr<'s>; 4] {
    let [m, n] = MULTIPLIERS.map(i64::from);
    let mut c = [block, block >> 32, counter, counter >> 32];
    let mut k = [seed, seed >> 32];
    for round in 0..ROUNDS {
        if round > 0 {
            k = [k[0] + i64::from(WEYL[0]), k[1] + i64::from(WEYL[1])];
        }
        let (left, right) = (c[0].mul_wide(m), c[2].mul_wide(n));
        c = [(c[1] ^ k[0]) ^ (right >> 32), right, (c[3] ^ k[1]) ^ (left >> 32), left];
    }
    c
}

fn low_half(value: Expr<'_>) -> Expr<'_> {
    value & i64::from(u32::MAX)
}

/// Builds the high half of the product of a u64 and a 64-bit number.
pub(in crate::ops) fn high_product(a: Expr<'_>, b: u64) -> Expr<'_> {
    let [low, high] = [b as u32, (b >> 32) as u32].map(i64::from);
    let upper = a >> 32;
    let middle = upper.mul_wide(low) + (a.mul_wide(low) >> 32);
    if high == 0 {
        return middle >> 32;
    }
    let other = a.mul_wide(high) + low_half(middle);
    upper.mul_wide(high) + (middle >> 32) + (other >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_of_random123() {
        // The `philox4x32 10` lines of `kat_vectors` in Random123 1.14.
        let cases = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, want) in cases {
            assert_eq!(philox4x32(counter, key), want);
        }
    }
}
