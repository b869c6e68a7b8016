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
    /// are in the fastest order. Results do not depend on the number of threads.
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
    /// Rows of at least this many elements are reduced in blocks in every precision, so that they can be
    /// divided among threads.
    pub const LONG_ROW: usize = 1 << 18;

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

    /// The order of reductions along rows of `row` elements; zero if lanes are an axis of the result.
    pub fn order(self, row: usize) -> ReductionOrder {
        match self {
            Self::Highest | Self::High | Self::Medium if row < Self::LONG_ROW => ReductionOrder::Lanes,
            _ => ReductionOrder::Blocks,
        }
    }
}

impl Display for Precision {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
