//! Implements expressions in normal form and the table that interns them.

use super::{Dim, FIRST_CONSTANT};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// A factor of a term.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Atom {
    /// A symbol, by its number in the table.
    Symbol(u32),
    /// The first divided by the second, rounded down.
    Quotient(Dim, Dim),
    /// The smaller of two, in ascending order of their numbers.
    Smaller(Dim, Dim),
    /// The size to which two broadcast, in ascending order of their numbers.
    Broadcast(Dim, Dim),
    /// A sum whose product with other factors would have too many terms.
    Sum(Dim),
}

/// The maximum number of pairs of terms up to which a product is expanded.
const TERMS: usize = 256;

pub(super) type Factors = SmallVec<[Atom; 2]>;

/// A sum of products, in ascending order of their factors; no coefficient is zero.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Polynomial(pub(super) SmallVec<[(Factors, i64); 2]>);

/// The minimum coefficient: its negation is an integer too.
const LEAST: i64 = -i64::MAX;

/// Every expression and symbol of the process. There are few, since only annotated functions declare symbols.
#[derive(Default)]
struct Table {
    expressions: Vec<Arc<Polynomial>>,
    numbers: FxHashMap<Arc<Polynomial>, i64>,
    symbols: Vec<Arc<str>>,
}

static TABLE: RwLock<Option<Table>> = RwLock::new(None);

/// Runs `read` on the table, if there is one.
fn read<R>(read: impl FnOnce(&Table) -> R) -> Option<R> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(read)
}

fn write<R>(write: impl FnOnce(&mut Table) -> R) -> R {
    write(TABLE.write().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// Returns the number of the symbol with this name.
pub(super) fn symbol_number(name: &str) -> u32 {
    let known = |table: &Table| table.symbols.iter().position(|it| &**it == name);
    let number = read(known).flatten().unwrap_or_else(|| {
        write(|table| {
            known(table).unwrap_or_else(|| {
                table.symbols.push(name.into());
                table.symbols.len() - 1
            })
        })
    });
    number as u32
}

/// The name of a symbol.
pub(super) fn symbol_name(number: u32) -> Arc<str> {
    read(|table| table.symbols[number as usize].clone()).expect("a symbol is kept from when it was named")
}

impl Polynomial {
    pub(super) fn of(dim: Dim) -> Arc<Self> {
        if dim.0 >= FIRST_CONSTANT {
            return Arc::new(Self::constant(dim.0));
        }
        let number = (dim.0 - Dim::DYNAMIC.0 - 1) as usize;
        read(|table| table.expressions[number].clone()).expect("an expression was interned when it was made")
    }

    fn constant(value: i64) -> Self {
        Self(if value == 0 { SmallVec::new() } else { smallvec![(Factors::new(), value)] })
    }

    fn as_constant(&self) -> Option<i64> {
        match &self.0[..] {
            [] => Some(0),
            [(factors, value)] if factors.is_empty() => Some(*value),
            _ => None,
        }
    }

    /// Returns the polynomial of a single factor.
    pub(super) fn atom(atom: Atom) -> Self {
        Self(smallvec![(smallvec![atom], 1)])
    }

    /// Returns whether no term can be negative for nonnegative sizes.
    pub(super) fn has_no_negative_term(&self) -> bool {
        let fits = |dim: &Dim| Self::of(*dim).has_no_negative_term();
        let factor = |atom: &Atom| match atom {
            Atom::Symbol(_) => true,
            Atom::Sum(a) => fits(a),
            Atom::Quotient(a, b) | Atom::Smaller(a, b) | Atom::Broadcast(a, b) => fits(a) && fits(b),
        };
        self.0.iter().all(|(factors, coefficient)| *coefficient >= 0 && factors.iter().all(factor))
    }

    /// Interns this polynomial as a dimension.
    pub(super) fn dim(mut self) -> Dim {
        self.0.retain(|(_, coefficient)| *coefficient != 0);
        if let Some(value) = self.as_constant() {
            return Dim(value.max(FIRST_CONSTANT));
        }
        self.0.sort_unstable();
        if let Some(known) = read(|table| table.numbers.get(&self).copied()).flatten() {
            return Dim(known);
        }
        write(|table| {
            let expression = Arc::new(self);
            Dim(*table.numbers.entry(expression.clone()).or_insert_with(|| {
                table.expressions.push(expression);
                Dim::DYNAMIC.0 + table.expressions.len() as i64
            }))
        })
    }

    fn add(&mut self, factors: Factors, coefficient: i64) {
        match self.0.iter_mut().find(|it| it.0 == factors) {
            Some((_, sum)) => *sum = sum.saturating_add(coefficient).max(LEAST),
            None => self.0.push((factors, coefficient.max(LEAST))),
        }
    }

    /// Returns the sum with `scale` times another polynomial.
    pub(super) fn plus(&self, other: &Self, scale: i64) -> Self {
        let mut sum = self.clone();
        other.0.iter().for_each(|(factors, it)| sum.add(factors.clone(), it.saturating_mul(scale)));
        sum
    }

    /// Returns the product. It is multiplied out up to a number of pairs of terms, and remains one product of sums
    /// beyond that. Otherwise the number of terms would grow exponentially with the number of sums.
    pub(super) fn times(&self, other: &Self) -> Self {
        let (few, many) = if self.0.len() <= other.0.len() { (self, other) } else { (other, self) };
        let has_sums = few.has_sums() || many.has_sums();
        let is_kept = match few.0.len() {
            0 => false,
            1 => has_sums && many.0.len() > 1 && !few.0[0].0.is_empty(),
            _ => has_sums || few.0.len().saturating_mul(many.0.len()) > TERMS,
        };
        if is_kept {
            let ([mut factors, more], [x, y]) = ([few, many].map(Self::factors), [few, many].map(Self::coefficient));
            factors.extend(more);
            factors.sort_unstable();
            return Self(smallvec![(factors, x.saturating_mul(y))]);
        }
        let mut product = Self::default();
        for (a, x) in &self.0 {
            for (b, y) in &other.0 {
                let mut factors: Factors = a.iter().chain(b).copied().collect();
                factors.sort_unstable();
                product.add(factors, x.saturating_mul(*y));
            }
        }
        product
    }

    /// Returns whether a factor of a term is a sum.
    fn has_sums(&self) -> bool {
        self.0.iter().any(|(factors, _)| factors.iter().any(|it| matches!(it, Atom::Sum(_))))
    }

    /// Returns the factors of the only term, or the whole sum as one factor.
    fn factors(&self) -> Factors {
        match &self.0[..] {
            [(factors, _)] => factors.clone(),
            _ => smallvec![Atom::Sum(self.clone().dim())],
        }
    }

    /// Returns the coefficient that belongs to [`Self::factors`].
    fn coefficient(&self) -> i64 {
        if let [(_, coefficient)] = &self.0[..] { *coefficient } else { 1 }
    }

    /// Returns the quotient of two terms, if there is no remainder.
    fn term_over(term: &(Factors, i64), divisor: &(Factors, i64)) -> Option<(Factors, i64)> {
        let mut factors = term.0.clone();
        for atom in &divisor.0 {
            let at = factors.iter().position(|it| it == atom)?;
            factors.remove(at);
        }
        (term.1 % divisor.1 == 0).then(|| (factors, term.1 / divisor.1))
    }

    /// Returns the quotient, rounded down: divisible terms are divided one by one, and an atom represents the rest.
    pub(super) fn over(&self, divisor: &Self) -> Self {
        let (mut whole, mut rest) = (Self::default(), Self::default());
        let [single] = &divisor.0[..] else {
            if self == divisor {
                return Self::constant(1);
            }
            whole.add(smallvec![Atom::Quotient(self.clone().dim(), divisor.clone().dim())], 1);
            return whole;
        };
        for term in &self.0 {
            match Self::term_over(term, single) {
                Some((factors, coefficient)) => whole.add(factors, coefficient),
                None => rest.add(term.0.clone(), term.1),
            }
        }
        match (rest.as_constant(), divisor.as_constant()) {
            (Some(0), _) => {}
            (Some(rest), Some(divisor)) => whole.add(Factors::new(), rest.div_euclid(divisor)),
            _ => whole.add(smallvec![Atom::Quotient(rest.dim(), divisor.clone().dim())], 1),
        }
        whole
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Symbol(number) => f.write_str(&symbol_name(*number)),
            Self::Quotient(a, b) => write!(f, "({a})/({b})"),
            Self::Smaller(a, b) => write!(f, "min({a}, {b})"),
            Self::Broadcast(a, b) => write!(f, "broadcast({a}, {b})"),
            Self::Sum(a) => write!(f, "({a})"),
        }
    }
}
