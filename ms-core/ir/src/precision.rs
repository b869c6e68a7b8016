//! Precision of compiled arithmetic.

use super::kernel::ReductionOrder;
use std::fmt::{self, Display, Formatter};

/// What compiled arithmetic may do to the bits of a result.
///
/// ```
/// use ms_core::session::Precision;
/// assert_eq!(Precision::from_name("Strict"), Some(Precision::Strict));
/// assert_eq!(Precision::default().name(), "highest");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Precision {
    /// Every op rounds as it does eagerly, and every sum has one fixed order
    /// ([`ReductionOrder::Blocks`] in reductions): results are equal bit for bit, eager or compiled,
    /// on every instruction set and any number of threads.
    Strict,
    /// As accurate as f32 arithmetic: products and sums may be contracted to fused
    /// multiply-adds, factors of contractions and convolutions of f32 may be split into three of bf16, and sums
    /// are in the fastest order whose error does not grow with
    /// the number of terms. Results do not depend on the number of threads.
    #[default]
    Highest,
    /// As [`Highest`](Self::Highest), but contractions and convolutions of f32 may multiply operands of about
    /// 16 bits of significand: the three largest products of bf16 halves, or tf32. Targets without units for that
    /// compute as for `Highest`.
    High,
    /// As [`Highest`](Self::Highest), but contractions and convolutions of f32 may multiply operands that are
    /// rounded to bf16. Sums are in f32. Targets without units for that compute as for `Highest`.
    Medium,
}

impl Precision {
    /// The longest chain of terms that are added one after the other to an accumulator, in every precision:
    /// reductions with longer ones are in blocks, whose error grows with the logarithm of their number.
    pub const LONGEST_CHAIN: usize = 256;

    /// All, from the most exact to the fastest.
    pub const ALL: [Self; 4] = [Self::Strict, Self::Highest, Self::High, Self::Medium];

    /// The name: `strict`, `highest`, `high`, `medium`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Highest => "highest",
            Self::High => "high",
            Self::Medium => "medium",
        }
    }

    /// The precision of a name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(name))
    }

    /// Whether arithmetic may be faster than the fixed order and rounding of [`Strict`](Self::Strict).
    pub const fn is_relaxed(self) -> bool {
        !matches!(self, Self::Strict)
    }

    /// The order of reductions that add `chain` terms to each accumulator in [`ReductionOrder::Lanes`].
    ///
    /// ```
    /// use ms_core::{ir::ReductionOrder, session::Precision};
    /// assert_eq!(Precision::Highest.order(100), ReductionOrder::Lanes);
    /// assert_eq!(Precision::Highest.order(1_000_000), ReductionOrder::Blocks);
    /// ```
    pub fn order(self, chain: usize) -> ReductionOrder {
        match self {
            Self::Highest | Self::High | Self::Medium if chain <= Self::LONGEST_CHAIN => ReductionOrder::Lanes,
            _ => ReductionOrder::Blocks,
        }
    }
}

impl Display for Precision {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
