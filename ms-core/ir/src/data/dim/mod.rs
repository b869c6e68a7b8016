//! Defines sizes of dimensions: constants, and expressions of symbols that a call determines.
//!
//! An expression is a polynomial in normal form with symbols and rounded quotients as atoms. So equal sizes in
//! different notation are identical: `2 * (batch + 1)` is `2 + 2 * batch`. Expressions are interned, and a [`Dim`] is
//! the number of one.

mod into;
mod polynomial;

pub use into::{IntoDims, NewShape};

use crate::error::{Code, Error, Result};
use polynomial::{Atom, Polynomial, symbol_name, symbol_number};
use smallvec::SmallVec;
use std::fmt;
use std::ops::{Add, Div, Mul, Sub};
use std::sync::Arc;

/// The size of one dimension: a constant, or an expression of symbols that a call fixes.
///
/// Arithmetic accepts other dimensions and `usize`. `/` rounds down, as for integers.
///
/// ```
/// # use ms_core::tensor::Dim;
/// let batch = Dim::symbol("batch");
/// assert_eq!((batch + 1) * 2 - 2, batch * 2);
/// assert_eq!((batch * 6) / 3, batch * 2);
/// assert_eq!((batch * 2 + 3).to_string(), "2*batch + 3");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dim(i64);

/// A factor of a [term](Dim::terms) of an expression.
///
/// See the example of [`Dim::terms`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Factor {
    /// A symbol.
    Symbol(Dim),
    /// The first divided by the second, rounded down.
    Quotient(Dim, Dim),
    /// The smaller of the two: [`Dim::smaller`].
    Smaller(Dim, Dim),
    /// The size to which the two broadcast: [`Dim::broadcast`].
    Broadcast(Dim, Dim),
    /// A sum that is not multiplied out, since the product would have too many terms.
    Sum(Dim),
}

/// The dimensions of a type, outermost first.
///
/// ```
/// use ms_core::{Tensor, tensor::{Dim, Dims}};
/// let dims: Dims = Tensor::zeros([2, 3]).dims();
/// assert_eq!(dims[..], [Dim::new(2), Dim::new(3)]);
/// ```
pub type Dims = SmallVec<[Dim; 4]>;

/// Raw numbers below this one refer to expressions. They exceed any size in memory.
const FIRST_CONSTANT: i64 = i64::MIN + (1 << 32);

impl Dim {
    /// The size of an axis that is known only when a loop has run. It equals itself. Only `scan` and ops that pass
    /// values on accept it.
    pub const DYNAMIC: Self = Self(i64::MIN);

    /// Creates a constant size. One above `i64::MAX`, which exceeds any memory, is clamped.
    pub const fn new(size: usize) -> Self {
        Self(if size > i64::MAX as usize { i64::MAX } else { size as i64 })
    }

    /// Returns the symbol with this name.
    pub fn symbol(name: &str) -> Self {
        Polynomial::atom(Atom::Symbol(symbol_number(name))).dim()
    }

    /// Returns the smaller of two sizes, such as the end of a range that is clamped to an axis.
    ///
    /// ```
    /// # use ms_core::tensor::Dim;
    /// let n = Dim::symbol("n");
    /// assert_eq!(n.smaller(n + 1), n);
    /// assert_eq!(n.smaller(Dim::new(3)).to_string(), "min(n, 3)");
    /// assert_eq!(n.smaller(Dim::new(0)), Dim::new(0));
    /// ```
    pub fn smaller(self, other: Self) -> Self {
        let difference = self - other;
        let (low, high) = if self <= other { (self, other) } else { (other, self) };
        let is_least = |a: Self, b: Self| Polynomial::of(b - a).has_no_negative_term();
        match difference.is_known() {
            true if difference.0 <= 0 => self,
            true => other,
            false if is_least(self, other) => self,
            false if is_least(other, self) => other,
            false => Polynomial::atom(Atom::Smaller(low, high)).dim(),
        }
    }

    /// Returns the size, or zero where it is negative.
    pub fn or_zero(self) -> Self {
        self - self.smaller(Self::new(0))
    }

    /// Returns the size to which two axes broadcast: where one of them is one, the other. [`Dim::evaluate`] fails where
    /// they differ and neither is one.
    ///
    /// ```
    /// # use ms_core::tensor::Dim;
    /// let (n, m) = (Dim::symbol("n"), Dim::symbol("m"));
    /// assert_eq!(n.broadcast(Dim::new(1)), n);
    /// assert_eq!(n.broadcast(Dim::new(4)), Dim::new(4));
    /// assert_eq!(n.broadcast(m).broadcast(n), m.broadcast(n));
    /// assert!(n.broadcast(m).evaluate(&|name| Some(if name == "n" { 2 } else { 3 })).is_err());
    /// ```
    pub fn broadcast(self, other: Self) -> Self {
        let mut all: SmallVec<[Self; 4]> = SmallVec::new();
        self.broadcast_parts(&mut all);
        other.broadcast_parts(&mut all);
        all.sort_unstable();
        all.dedup();
        // Sizes that broadcast to a constant other than one are that constant or one.
        if let Some(known) = all.iter().find(|it| it.is_known() && **it != 1) {
            return *known;
        }
        all.retain(|it| *it != 1);
        let pair = |a: Self, b: Self| Polynomial::atom(Atom::Broadcast(a, b)).dim();
        all.into_iter().rev().reduce(|rest, it| pair(it, rest)).unwrap_or(Self::new(1))
    }

    fn broadcast_parts(self, to: &mut SmallVec<[Self; 4]>) {
        let of = self.symbolic().map(Polynomial::of);
        match of.as_ref().map(|it| &it.0[..]) {
            Some([(factors, 1)]) => match factors[..] {
                [Atom::Broadcast(a, b)] => {
                    to.push(a);
                    b.broadcast_parts(to);
                }
                _ => to.push(self),
            },
            _ => to.push(self),
        }
    }

    /// Returns this size as one factor of products, which is not multiplied out.
    #[doc(hidden)]
    pub fn as_factor(self) -> Self {
        match self.symbolic().map(Polynomial::of) {
            Some(sum) if sum.0.len() > 1 => Polynomial::atom(Atom::Sum(self)).dim(),
            _ => self,
        }
    }

    /// The size, if it is a constant.
    pub const fn as_const(self) -> Option<usize> {
        if self.0 >= 0 { Some(self.0 as usize) } else { None }
    }

    /// Returns whether this is an expression of symbols.
    pub const fn is_symbolic(self) -> bool {
        self.0 < FIRST_CONSTANT && self.0 != Self::DYNAMIC.0
    }

    /// Returns the name if this is a single symbol.
    pub fn as_symbol(self) -> Option<Arc<str>> {
        match &Polynomial::of(self.symbolic()?).0[..] {
            [(factors, 1)] => match factors[..] {
                [Atom::Symbol(number)] => Some(symbol_name(number)),
                _ => None,
            },
            _ => None,
        }
    }

    fn symbolic(self) -> Option<Self> {
        self.is_symbolic().then_some(self)
    }

    /// Returns the number, which may be negative; `None` for an expression.
    ///
    /// ```
    /// # use ms_core::tensor::Dim;
    /// assert_eq!((Dim::new(2) - 3).as_known(), Some(-1));
    /// assert_eq!(Dim::symbol("n").as_known(), None);
    /// ```
    pub const fn as_known(self) -> Option<i64> {
        if self.is_known() { Some(self.0) } else { None }
    }

    /// Returns the number that plans store for a size that is not symbolic.
    #[doc(hidden)]
    pub const fn stored(self) -> i64 {
        self.0
    }

    /// Returns the size that plans store as this number; `None` for the handle of an expression.
    #[doc(hidden)]
    pub fn from_stored(number: i64) -> Option<Self> {
        Some(Self(number)).filter(|it| !it.is_symbolic())
    }

    /// Returns whether two sizes may be equal: their difference is not a nonzero constant.
    pub fn may_equal(self, other: Self) -> bool {
        if self == other || !(self.is_symbolic() || other.is_symbolic()) {
            return self == other;
        }
        if self == Self::DYNAMIC || other == Self::DYNAMIC {
            return false;
        }
        !(self - other).is_known()
    }

    /// Creates an integer as it is written in a shape, where `-1` means the remaining size.
    pub const fn signed(number: i64) -> Self {
        Self(if number < FIRST_CONSTANT { FIRST_CONSTANT } else { number })
    }

    /// Returns whether this is a negative number, which is not a size: `-1` means the remaining size.
    pub const fn is_negative(self) -> bool {
        self.is_known() && self.0 < 0
    }

    /// Returns whether this is a number, possibly negative, rather than an expression.
    const fn is_known(self) -> bool {
        self.0 >= FIRST_CONSTANT
    }

    /// Evaluates the size, with `value` returning the sizes of symbols.
    ///
    /// # Errors
    /// [`Code::Shape`] when a symbol has no size, or the result is negative.
    pub fn evaluate(self, value: &impl Fn(&str) -> Option<usize>) -> Result<usize> {
        match self.as_const() {
            Some(size) => Ok(size),
            None => {
                let size = self.number(value)?;
                let refuse = || Error::new(Code::Shape, format!("the size {self} is {size}"));
                usize::try_from(size).map_err(|_| refuse())
            }
        }
    }

    /// Evaluates an expression that may be negative, such as the start of a slice.
    ///
    /// # Errors
    /// [`Code::Shape`] when a symbol has no value or a divisor is zero.
    pub fn number(self, value: &impl Fn(&str) -> Option<usize>) -> Result<i64> {
        if self.is_known() {
            return Ok(self.0);
        }
        if self == Self::DYNAMIC {
            return Err(Error::new(Code::Shape, "a size that only running decides has no number"));
        }
        let refuse = |message: String| Error::new(Code::Shape, message);
        let mut sum = 0i64;
        for (factors, coefficient) in &Polynomial::of(self).0 {
            let mut product = *coefficient;
            for atom in factors {
                let factor = match *atom {
                    Atom::Symbol(number) => {
                        let name = symbol_name(number);
                        let size = value(&name).ok_or_else(|| refuse(format!("the size `{name}` is not known")))?;
                        i64::try_from(size).unwrap_or(i64::MAX)
                    }
                    Atom::Quotient(a, b) => {
                        let (a, b) = (a.number(value)?, b.number(value)?);
                        a.checked_div_euclid(b).ok_or_else(|| refuse(format!("{self} divides by zero")))?
                    }
                    Atom::Smaller(a, b) => a.number(value)?.min(b.number(value)?),
                    Atom::Sum(a) => a.number(value)?,
                    Atom::Broadcast(a, b) => match (a.number(value)?, b.number(value)?) {
                        (1, size) | (size, 1) => size,
                        (a, b) if a == b => a,
                        (size, other) => {
                            let message = format!("{a} is {size} and {b} is {other}, which do not broadcast");
                            return Err(refuse(message).help("sizes must be equal or one"));
                        }
                    },
                };
                product = product.saturating_mul(factor);
            }
            sum = sum.saturating_add(product);
        }
        Ok(sum)
    }

    /// Returns the expression as a sum of terms: the factors and the coefficient of each. A constant is one term
    /// without factors, and zero has no terms.
    ///
    /// ```
    /// # use ms_core::tensor::{Dim, Factor};
    /// let batch = Dim::symbol("batch");
    /// assert_eq!((batch * 2 + 3).terms(), [(vec![], 3), (vec![Factor::Symbol(batch)], 2)]);
    /// assert_eq!((batch / 2).terms(), [(vec![Factor::Quotient(batch, Dim::new(2))], 1)]);
    /// ```
    pub fn terms(self) -> Vec<(Vec<Factor>, i64)> {
        let factor = |atom: &Atom| match *atom {
            Atom::Symbol(number) => Factor::Symbol(Self::symbol(&symbol_name(number))),
            Atom::Quotient(a, b) => Factor::Quotient(a, b),
            Atom::Smaller(a, b) => Factor::Smaller(a, b),
            Atom::Broadcast(a, b) => Factor::Broadcast(a, b),
            Atom::Sum(a) => Factor::Sum(a),
        };
        let term =
            |(factors, coefficient): &(polynomial::Factors, i64)| (factors.iter().map(factor).collect(), *coefficient);
        Polynomial::of(self).0.iter().map(term).collect()
    }

    /// Solves for a symbol: if this dimension is linear in one symbol, returns its name and its value for which the
    /// dimension is `size`.
    pub fn solve(self, size: usize) -> Option<(Arc<str>, usize)> {
        let expression = Polynomial::of(self.symbolic()?);
        let (mut constant, mut linear) = (0, None);
        for (factors, coefficient) in &expression.0 {
            match factors[..] {
                [] => constant = *coefficient,
                [Atom::Symbol(number)] if linear.is_none() => linear = Some((number, *coefficient)),
                _ => return None,
            }
        }
        let (number, coefficient) = linear?;
        let rest = i64::try_from(size).ok()?.checked_sub(constant)?;
        let value = usize::try_from(rest.checked_div(coefficient)?).ok()?;
        (rest % coefficient == 0).then_some(())?;
        Some((symbol_name(number), value))
    }

    /// Returns whether this is linear in the symbol `name`.
    pub fn is_linear_in(self, name: &str) -> bool {
        // Two values determine a linear form: the constant, and one multiple of the factor.
        let zero = self.number(&|it: &str| (it == name).then_some(0)).ok();
        zero.and_then(|it| usize::try_from(it).ok())
            .is_some_and(|it| self.solve(it).is_some_and(|(it, _)| *it == *name))
    }

    /// Calls `visit` with every symbol in the expression.
    pub fn symbols(self, visit: &mut impl FnMut(&str)) {
        let Some(dim) = self.symbolic() else { return };
        for (factors, _) in &Polynomial::of(dim).0 {
            for atom in factors {
                match *atom {
                    Atom::Symbol(number) => {
                        let name = symbol_name(number);
                        visit(&name)
                    }
                    Atom::Sum(a) => a.symbols(visit),
                    Atom::Quotient(a, b) | Atom::Smaller(a, b) | Atom::Broadcast(a, b) => {
                        a.symbols(visit);
                        b.symbols(visit);
                    }
                }
            }
        }
    }
}

impl From<usize> for Dim {
    fn from(size: usize) -> Self {
        Self::new(size)
    }
}

impl From<i32> for Dim {
    fn from(size: i32) -> Self {
        Self(size.into())
    }
}

impl PartialEq<usize> for Dim {
    fn eq(&self, other: &usize) -> bool {
        self.as_const() == Some(*other)
    }
}

fn add(a: Dim, b: Dim) -> Dim {
    match (a.is_known(), b.is_known()) {
        (true, true) => Dim(a.0.saturating_add(b.0).max(FIRST_CONSTANT)),
        _ => Polynomial::of(a).plus(&Polynomial::of(b), 1).dim(),
    }
}

fn sub(a: Dim, b: Dim) -> Dim {
    match (a.is_known(), b.is_known()) {
        (true, true) => Dim(a.0.saturating_sub(b.0).max(FIRST_CONSTANT)),
        _ => Polynomial::of(a).plus(&Polynomial::of(b), -1).dim(),
    }
}

fn mul(a: Dim, b: Dim) -> Dim {
    match (a.is_known(), b.is_known()) {
        (true, true) => Dim(a.0.saturating_mul(b.0).max(FIRST_CONSTANT)),
        _ => Polynomial::of(a).times(&Polynomial::of(b)).dim(),
    }
}

fn div(a: Dim, b: Dim) -> Dim {
    assert!(b != 0, "a dimension is divided by zero");
    match (a.is_known(), b.is_known()) {
        (true, true) => Dim(a.0.div_euclid(b.0)),
        _ => Polynomial::of(a).over(&Polynomial::of(b)).dim(),
    }
}

macro_rules! arithmetic {
    ($($trait:ident $method:ident $of:ident),*) => {$(
        impl<T: Into<Dim>> $trait<T> for Dim {
            type Output = Self;

            fn $method(self, other: T) -> Self {
                $of(self, other.into())
            }
        }

        impl $trait<Dim> for usize {
            type Output = Dim;

            fn $method(self, other: Dim) -> Dim {
                $of(self.into(), other)
            }
        }
    )*};
}

arithmetic! { Add add add, Sub sub sub, Mul mul mul, Div div div }

impl std::iter::Product for Dim {
    fn product<I: Iterator<Item = Self>>(dims: I) -> Self {
        dims.fold(Self::new(1), mul)
    }
}

impl std::iter::Sum for Dim {
    fn sum<I: Iterator<Item = Self>>(dims: I) -> Self {
        dims.fold(Self::new(0), add)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::DYNAMIC {
            return f.write_str("?");
        }
        if self.is_known() {
            return self.0.fmt(f);
        }
        let expression = Polynomial::of(*self);
        // Constants, which have no factors, come first in order and last in print.
        let constant = usize::from(expression.0[0].0.is_empty());
        let terms = expression.0[constant..].iter().chain(&expression.0[..constant]);
        for (i, (factors, coefficient)) in terms.enumerate() {
            match (i, *coefficient < 0) {
                (0, true) => f.write_str("-")?,
                (0, false) => {}
                (_, true) => f.write_str(" - ")?,
                (_, false) => f.write_str(" + ")?,
            }
            if coefficient.unsigned_abs() != 1 || factors.is_empty() {
                write!(f, "{}", coefficient.unsigned_abs())?;
            }
            for (j, atom) in factors.iter().enumerate() {
                if j > 0 || coefficient.unsigned_abs() != 1 {
                    f.write_str("*")?;
                }
                atom.fmt(f)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sizes_are_one_expression() {
        let (b, s) = (Dim::symbol("b"), Dim::symbol("s"));
        let cases = [
            (b + 1 - 1, b, "b"),
            ((b + 1) * 2, b * 2 + 2, "2*b + 2"),
            (b * s, s * b, "b*s"),
            (b - b, Dim::new(0), "0"),
            ((b + s) * (b - s), b * b - s * s, "b*b - s*s"),
            (b * 12 / 4, b * 3, "3*b"),
            ((b * 4 + 7) / 4, b + 1, "b + 1"),
            ((b + 1) / 2, (b + 1) / 2, "(b + 1)/(2)"),
            ((b * 2 + s + 3) / 2, b + (s + 3) / 2, "b + (s + 3)/(2)"),
            (b * s / s, b, "b"),
            ((b + s) / (b + s), Dim::new(1), "1"),
            (5 - b, 5 - b, "-b + 5"),
            (Dim::new(7) / 2, Dim::new(3), "3"),
        ];
        for (left, right, text) in cases {
            assert_eq!(left, right, "{text}");
            assert_eq!(left.to_string(), text);
        }
    }

    #[test]
    fn numbers_at_the_ends_do_not_overflow() {
        let n = Dim::symbol("n");
        let ends = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX].map(Dim::signed);
        for a in ends {
            for b in ends {
                let all =
                    [n * a + b, (n + a) * b, n * a - n * b, (n * a * b - a) * b, n.smaller(a) + b, n.broadcast(a)];
                for size in all {
                    let divisors = [Dim::signed(-1), n * -1, Dim::new(2), n * a + 1];
                    let quotients = divisors.into_iter().filter(|it| *it != 0).map(|it| size / it);
                    for it in quotients.chain([size - 1, size * -1, size * size]) {
                        let _ = (it.to_string(), it.number(&|_| Some(3)), it.solve(usize::MAX), it.or_zero());
                    }
                }
            }
        }
    }

    #[test]
    fn sizes_are_evaluated_and_solved() {
        let (b, s) = (Dim::symbol("b"), Dim::symbol("s"));
        let value = |name: &str| [("b", 5), ("s", 3)].into_iter().find(|it| it.0 == name).map(|it| it.1);
        let cases = [(b * 2 + s, 13), ((b + 1) / 2, 3), (b * s - 15, 0), ((b * 7 + s) / 4, 9), (Dim::new(4), 4)];
        for (dim, want) in cases {
            assert_eq!(dim.evaluate(&value).expect("both symbols are known"), want, "{dim}");
        }
        assert!((s - b).evaluate(&value).is_err());
        assert!(Dim::symbol("other").evaluate(&value).is_err());
        assert_eq!((b * 2 + 3).solve(9), Some(("b".into(), 3)));
        for (dim, size) in [(b * 2 + 3, 8), (b + 5, 3), (b * s, 6), (b / 2, 2), (Dim::new(4), 4)] {
            assert_eq!(dim.solve(size), None, "{dim} = {size}");
        }
    }

    /// Without the limit, the number of terms would grow exponentially.
    #[test]
    fn products_of_sums_have_few_terms() {
        let symbols: Vec<Dim> = (0..48).map(|it| Dim::symbol(&format!("product{it}"))).collect();
        let sums = |count: usize| symbols.chunks(4).cycle().take(count).map(|it| it.iter().copied().sum::<Dim>());
        let value = |name: &str| name.strip_prefix("product")?.parse::<usize>().ok().map(|it| it % 3 + 1);
        for count in [2, 4, 5, 12, 40] {
            let product: Dim = sums(count).product();
            let want = sums(count).map(|it| it.number(&value).expect("all have values")).fold(1, i64::saturating_mul);
            assert_eq!(product.number(&value).expect("all have values"), want, "{count}");
            assert!(product.terms().len() <= 256, "{count}: {} terms", product.terms().len());
            assert_eq!(product, sums(count).product::<Dim>(), "{count}");
            let mut seen = 0;
            product.symbols(&mut |_| seen += 1);
            assert!(seen >= symbols.len().min(4 * count), "{count}");
            assert!(product.to_string().len() < 1 << 16, "{count}");
            assert!(product.solve(7).is_none() && product.may_equal(Dim::new(9)), "{count}");
        }
        // Products with few terms are expanded.
        let (a, b) = (symbols[0], symbols[1]);
        assert_eq!((a + b) * (a + b), a * a + a * b * 2 + b * b);
    }

    #[test]
    fn sizes_that_cannot_be_equal_are_known() {
        let (b, s) = (Dim::symbol("b"), Dim::symbol("s"));
        for (a, b, want) in [
            (b, s, true),
            (b, b + 1, false),
            (b, Dim::new(3), true),
            (b * 2, b + 4, true),
            (Dim::new(3), Dim::new(4), false),
            (Dim::DYNAMIC, b, false),
            (Dim::DYNAMIC, Dim::DYNAMIC, true),
        ] {
            assert_eq!(a.may_equal(b), want, "{a} {b}");
        }
    }
}
