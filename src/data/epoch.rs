//! Epochs: passes over a dataset, and their random seeds.

/// One pass over a dataset. Everything random in a dataset depends only on the seed, the epoch number and the sample
/// index. The thread that computes a sample does not matter, nor does the order of computation.
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

/// The odd constant that spreads consecutive numbers over all words: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection that decorrelates nearby words: the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", OOPSLA 2014).
const fn mixed(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Epoch {
    /// Creates the epoch with a number, for passes with this seed.
    pub const fn new(seed: u64, number: u64) -> Self {
        Self { seed, number }
    }

    /// Returns the seed.
    pub const fn seed(self) -> u64 {
        self.seed
    }

    /// Returns the number.
    pub const fn number(self) -> u64 {
        self.number
    }

    /// Derives the epoch for a stage of a pipeline: different stages draw independent random numbers.
    pub const fn part(self, part: u64) -> Self {
        Self { seed: mixed(self.seed.wrapping_add((part + 1).wrapping_mul(SPREAD))), number: self.number }
    }

    /// Derives the epoch for one of `times` repetitions of a dataset within this epoch.
    pub const fn repetition(self, repetition: u64, times: u64) -> Self {
        Self { seed: self.seed, number: self.number.wrapping_mul(times).wrapping_add(repetition) }
    }

    /// Returns the seed of a generator for this epoch.
    pub const fn stream(self) -> u64 {
        self.seed.wrapping_add(self.number.wrapping_mul(SPREAD))
    }

    /// Returns the seed of a generator for one sample of this epoch.
    pub const fn stream_of(self, index: usize) -> u64 {
        mixed(self.stream()).wrapping_add((index as u64).wrapping_mul(SPREAD))
    }
}
