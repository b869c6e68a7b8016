//! Defines the precision of compiled arithmetic.

use super::kernel::ReductionOrder;
use std::fmt::{self, Display, Formatter};

/// The permitted deviations of compiled arithmetic from the bits of eager execution.
///
/// ```
/// use ms_core::session::Precision;
/// assert_eq!(Precision::from_name("Strict"), Some(Precision::Strict));
/// assert_eq!(Precision::default().name(), "highest");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Precision {
    /// Every op rounds as it does eagerly, and every sum has one fixed order ([`ReductionOrder::Blocks`] in
    /// reductions). Results are equal bit for bit, eager or compiled, on every instruction set and any number of
    /// threads.
    Strict,
    /// Arithmetic as accurate as f32. Products and sums may be contracted to fused multiply-adds. The f32 factors of
    /// contractions and convolutions may be split into three bf16 components. Sums are in the fastest order whose error
    /// does not grow with the number of terms. Results do not depend on the number of threads.
    #[default]
    Highest,
    /// The rules of [`Highest`](Self::Highest), but contractions and convolutions of f32 may multiply operands of about
    /// 16 bits of significand. These are the three largest component products of a bf16 split, or tf32. Targets without
    /// a matrix engine for that compute as for `Highest`.
    High,
    /// The rules of [`Highest`](Self::Highest), but contractions and convolutions of f32 may multiply operands rounded
    /// to bf16. Sums are in f32. Targets without a matrix engine for that compute as for `Highest`.
    Medium,
}

impl Precision {
    /// The longest accumulation chain in every precision. Longer reductions are partitioned into blocks, and their
    /// error grows with the logarithm of the number of blocks.
    pub const LONGEST_CHAIN: usize = 256;

    /// All precisions, from the most exact to the fastest.
    pub const ALL: [Self; 4] = [Self::Strict, Self::Highest, Self::High, Self::Medium];

    /// Returns the name: `strict`, `highest`, `high`, `medium`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Highest => "highest",
            Self::High => "high",
            Self::Medium => "medium",
        }
    }

    /// Returns the precision with a name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(name))
    }

    /// Returns whether arithmetic may be faster than the fixed order and rounding of [`Strict`](Self::Strict).
    pub const fn is_relaxed(self) -> bool {
        !matches!(self, Self::Strict)
    }

    /// Returns the order of reductions with accumulation chains of length `chain` in [`ReductionOrder::Lanes`], on a
    /// target that prefers an order in relaxed precisions.
    ///
    /// ```
    /// use ms_core::{ir::ReductionOrder, session::Precision};
    /// assert_eq!(Precision::Highest.order(ReductionOrder::Lanes, 100), ReductionOrder::Lanes);
    /// assert_eq!(Precision::Highest.order(ReductionOrder::Blocks, 100), ReductionOrder::Blocks);
    /// assert_eq!(Precision::Highest.order(ReductionOrder::Lanes, 1_000_000), ReductionOrder::Blocks);
    /// assert_eq!(Precision::Strict.order(ReductionOrder::Lanes, 100), ReductionOrder::Blocks);
    /// ```
    pub fn order(self, preferred: ReductionOrder, chain: usize) -> ReductionOrder {
        match self {
            Self::Highest | Self::High | Self::Medium if chain <= Self::LONGEST_CHAIN => preferred,
            _ => ReductionOrder::Blocks,
        }
    }
}

impl Display for Precision {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
