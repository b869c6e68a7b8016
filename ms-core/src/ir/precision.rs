//! Precision of compiled arithmetic.

use super::kernel::ReductionOrder;
use std::fmt::{self, Display, Formatter};

/// What compiled arithmetic may do to the bits of a result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Precision {
    /// Every op rounds as it does eagerly, and every sum has one fixed order
    /// ([`ReductionOrder::Blocks`] in reductions): results are equal bit for bit, eager or compiled,
    /// on every instruction set and any number of threads.
    Strict,
    /// As accurate as f32 arithmetic: products and sums may be contracted to fused
    /// multiply-adds, and sums are in the fastest order. Results do not depend on the number of
    /// threads.
    #[default]
    Highest,
}

impl Precision {
    /// Rows of at least this many elements are reduced in blocks in every precision, so that they can be
    /// divided among threads.
    pub const LONG_ROW: usize = 1 << 18;

    /// The order of reductions along rows of `row` elements; zero if lanes are an axis of the result.
    pub fn order(self, row: usize) -> ReductionOrder {
        match self {
            Self::Highest if row < Self::LONG_ROW => ReductionOrder::Lanes,
            Self::Strict | Self::Highest => ReductionOrder::Blocks,
        }
    }
}

impl Display for Precision {
    /// The name: `strict`, `highest`.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Strict => "strict",
            Self::Highest => "highest",
        })
    }
}
