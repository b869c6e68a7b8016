//! Passes over a dataset.

/// One pass over a dataset. Everything that is random in a dataset depends on the seed and the number
/// of the epoch and on the index of the sample, and on nothing else: not on which thread computes a
/// sample, nor on which samples were computed before.
///
/// ```
/// use ms::data::Epoch;
/// let epoch = Epoch::new(7, 0);
/// assert_ne!(epoch.stream(), Epoch::new(7, 1).stream());
/// assert_ne!(epoch.part(0).stream(), epoch.part(1).stream());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Epoch {
    seed: u64,
    number: u64,
}

/// An odd number that spreads consecutive numbers over all words: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection that makes close words unlike: the finaliser of SplitMix64 (Steele, Lea and Flood,
/// "Fast splittable pseudorandom number generators", OOPSLA 2014).
const fn mixed(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Epoch {
    /// The epoch with a number, of the passes that belong to a seed.
    pub const fn new(seed: u64, number: u64) -> Self {
        Self { seed, number }
    }

    /// The seed.
    pub const fn seed(self) -> u64 {
        self.seed
    }

    /// The number.
    pub const fn number(self) -> u64 {
        self.number
    }

    /// The epoch as a part of a pipeline sees it: what different parts draw is independent.
    pub const fn part(self, part: u64) -> Self {
        Self { seed: mixed(self.seed.wrapping_add((part + 1).wrapping_mul(SPREAD))), number: self.number }
    }

    /// One of `times` passes over a dataset that is repeated within this epoch.
    pub const fn repetition(self, repetition: u64, times: u64) -> Self {
        Self { seed: self.seed, number: self.number.wrapping_mul(times).wrapping_add(repetition) }
    }

    /// The seed of a generator for this epoch.
    pub const fn stream(self) -> u64 {
        self.seed.wrapping_add(self.number.wrapping_mul(SPREAD))
    }

    /// The seed of a generator for one sample of this epoch.
    pub const fn stream_of(self, index: usize) -> u64 {
        mixed(self.stream()).wrapping_add((index as u64).wrapping_mul(SPREAD))
    }
}
